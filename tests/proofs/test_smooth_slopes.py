"""Proofs of smooth networks by the ranges of all slopes: on unbounded domains, with many inputs."""

from __future__ import annotations

import gzip
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipyomo
from fuzz.fuzz_proofs import damaged, damaged_steps
from lipyomo import AllSpace, Box, LipschitzProblem, Polytope
from lipyomo.base.clock import Clock
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer, Network
from lipyomo.proofs import write_proof, writing
from lipyomo.proofs.pairs import UnfinishedError
from lipyomo.proofs.undivided import slope_steps
from lipyomo_check import ProofError, check_proof
from lipyomo_check.smooth.bound import Chain
from lipyomo_check.smooth.bounded import Bounded
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.slopes import between
from lipyomo_check.statement import read_statement


def network_of(names: list[str], sizes: tuple[int, ...], seed: int) -> Network:
    """A random network whose layers' units are of kinds in turn."""
    rng = np.random.default_rng(seed)
    layers = []
    for k, (inputs, units) in enumerate(itertools.pairwise(sizes)):
        left, curves = np.ones(units), []
        if k < len(sizes) - 2:
            kinds = np.resize(np.array(names), units)
            left[kinds == "relu"] = 0.0
            curves = [
                Curve(activation(name), np.flatnonzero(kinds == name))
                for name in names
                if name != "relu"
            ]
        weight = rng.standard_normal((units, inputs)) * 1.3 / np.sqrt(inputs)
        layers.append(Layer(weight, rng.standard_normal(units), left, 1.0, curves))
    return Network(layers)


def parts_of(path: Path) -> tuple[dict[str, Any], bytes]:
    line, _, payload = gzip.decompress(path.read_bytes()).partition(b"\n")
    return json.loads(line), payload


def write(path: Path, first: dict[str, Any], payload: bytes) -> None:
    path.write_bytes(gzip.compress(json.dumps(first).encode() + b"\n" + payload))


DOMAINS = [
    AllSpace(2),
    Box([-np.inf, 0.0], [np.inf, np.inf]),
    Box([-np.inf, 0.5], [np.inf, 0.5]),
    Polytope([[1.0, 1.0]], [0.5], -np.inf, np.inf),
]


NAMES = [["tanh"], ["silu", "relu"], ["elu", "sin", "mish"]]
NORMS = ["linf", "l1", "l2"]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("names", NAMES)
def test_proofs_hold(names: list[str], norm: str, tmp_path: Path) -> None:
    """All pairs of activations, norms of inputs and of outputs, and domains; not all triples."""
    path = tmp_path / "a.proof"
    i, j = NAMES.index(names), NORMS.index(norm)
    output = NORMS[(i + 2 * j) % 3]
    network = network_of(names, (2, 5, 4, 2), 3)
    along = np.random.default_rng(1).standard_normal((2, 3))
    problems = [LipschitzProblem(network, domain, norm, output) for domain in DOMAINS]
    problems.append(LipschitzProblem(network, AllSpace(2), norm, output, directions=along))
    for k in (0, 2):
        problem = problems[(i + j + k) % 5]
        result = lipyomo.solve(problem, time_limit=20)
        written = write_proof(path, problem, result)
        for strict in (False, True)[: 1 + (k == 0)]:  # each of the problems in two cases
            verdict = check_proof(path, strict=strict)
            assert verdict.upper_proved
            assert verdict.nodes == written.cases == 1
        assert verdict.statement.upper == written.upper
        # in one input the answer may be that of intervals, which no multipliers prove
        assert result.upper <= verdict.statement.upper <= 1.05 * result.upper


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_a_looser_end_is_left_of_a_tree_that_does_not_end(
    norm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unfinished(*_: object) -> int:
        raise UnfinishedError("its tree of boxes was not written to its end")

    path = tmp_path / "a.proof"
    network = network_of(["tanh", "relu", "silu"], (12, 8, 6, 2), 2)
    box = Box(np.full(12, -0.1), np.array([0.1] * 11 + [-0.1]))
    directions = np.eye(12)[:, :3] / 3.0  # whose product with the first weight rounds
    for along in (None, directions):
        problem = LipschitzProblem(network, box, norm, "linf", directions=along)
        result = lipyomo.solve(problem, time_limit=0.5)
        with monkeypatch.context() as patch:
            patch.setattr(writing, "write_boxes", unfinished)
            written = write_proof(path, problem, result)
        for strict in (False, True):
            assert check_proof(path, strict=strict).upper_proved
        assert written.cases == 1
        assert result.lower < written.upper <= 3.0 * result.upper
        first, payload = parts_of(path)
        everywhere = first["domain"] | {"lower": ["-inf"] * 12, "upper": ["inf"] * 12}
        for false in (
            first | {"upper": 0.9 * first["upper"]},
            first | {"domain": everywhere},  # where slopes have larger ranges
            first | {"slopes": False},
            first | {"format": "lipyomo-proof-8"},
        ):
            write(path, false, payload)
            with pytest.raises(ProofError):
                check_proof(path)
        path.unlink()


def test_ball_arithmetic_finds_wrong_ranges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.proof"
    problem = LipschitzProblem(network_of(["tanh"], (10, 5, 1), 0), Box(-0.2, 0.2, 10))
    write_proof(path, problem, lipyomo.solve(problem, time_limit=0.5), time_limit=0.5)
    first, _ = parts_of(path)
    steps = slope_steps(problem, read_statement(first), Clock())
    assert steps is not None
    first = first | {"upper": steps[0], "slopes": True, "basis": None}
    write(path, first, json.dumps(steps[1]).encode() + b"\n")
    assert check_proof(path, strict=True).upper_proved
    plain = Chain.bound

    def narrow(chain: Chain, functionals: np.ndarray, boxes: Boxes, **known: Any) -> Bounded:
        found = plain(chain, functionals, boxes, **known)
        if not isinstance(chain.head, np.ndarray):  # in balls
            return found
        layers = [layer._replace(d_reach=0.999 * layer.d_reach) for layer in found.layers]
        return replace(found, layers=tuple(layers))

    monkeypatch.setattr(Chain, "bound", narrow)  # as a defect of the processor would
    assert check_proof(path).upper_proved
    with pytest.raises(ProofError, match="ball arithmetic"):
        check_proof(path, strict=True)


def test_all_slopes_between_the_ends_are_meant(tmp_path: Path) -> None:
    """No product of weights and slopes in their ranges is above what is proved."""
    rng = np.random.default_rng(0)
    network = network_of(["gelu", "erf", "relu"], (3, 6, 5, 1), 1)
    problem = LipschitzProblem(network, AllSpace(3), "l2")
    path = tmp_path / "a.proof"
    write_proof(path, problem, lipyomo.solve(problem, time_limit=20))
    statement = check_proof(path).statement
    ranges = [(np.array(v.left), np.array(v.right)) for v in between(statement).hidden]
    top = 0.0
    for _ in range(2000):
        jacobian = np.eye(3)
        for layer, (low, high) in zip(network.hidden, ranges, strict=True):
            share = rng.random(low.size).round(rng.integers(2))  # corners, or anywhere
            slopes = low + share * (high - low)
            jacobian = slopes[:, None] * (layer.dense_weight @ jacobian)
        top = max(top, float(np.linalg.norm(network.head.dense_weight @ jacobian)))
    assert 0.3 * statement.upper < top <= statement.upper


def test_what_pre_activations_say_is_refused(tmp_path: Path) -> None:
    """Slopes of smooth units say nothing of where a point is: no phase, no bound, no cut."""
    path = tmp_path / "a.proof"
    problem = LipschitzProblem(network_of(["tanh"], (2, 3, 1), 0), AllSpace(2))
    write_proof(path, problem, lipyomo.solve(problem, time_limit=20))
    first, payload = parts_of(path)
    steps = json.loads(payload)
    nothing = [0, [[], []], [[], []], [[], []]]
    wrong: list[list[Any]]
    for wrong in (
        [["bound", [[0, "R", -1.0, nothing]]], *steps],
        [["exclude", *steps[0][2:], [[0, "L", 1.0]]], *steps],
        [["split", 0]],
        [["cut", 0, 0.0]],
        [["empty", nothing]],
    ):
        write(path, first, json.dumps(wrong).encode() + b"\n")
        with pytest.raises(ProofError, match="slopes alone"):
            check_proof(path)
    for text, words in (
        (b"", "not a list"),
        (b"[]\n", "no end"),
        (b'[["end"]]\n', "not closed"),
        (payload + payload, "goes on"),
    ):
        write(path, first, text)
        with pytest.raises(ProofError, match=words):
            check_proof(path)


def test_false_claims_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "a.proof"
    for seed, names in enumerate([["tanh"], ["selu", "relu"], ["softplus"]]):
        problem = LipschitzProblem(network_of(names, (2, 4, 3, 2), seed), AllSpace(2))
        result = lipyomo.solve(problem, time_limit=20)
        write_proof(path, problem, result)
        first, payload = parts_of(path)
        for n in range(30):
            upper = result.lower * (1 - rng.choice([1e-9, 1e-3, 0.3]))
            false = first | {"upper": upper, "lower": min(first["lower"], upper)}
            steps = damaged(payload, rng) if n % 2 else damaged_steps(payload, rng)
            write(path, false, steps)
            with pytest.raises(ProofError):
                check_proof(path)
        write(path, first | {"upper": 0.999 * result.upper}, payload)
        with pytest.raises(ProofError, match="multipliers"):
            check_proof(path)
        path.unlink()


def test_without_time_only_the_lower_end_is_proved(tmp_path: Path) -> None:
    path = tmp_path / "a.proof"
    problem = LipschitzProblem(network_of(["tanh"], (2, 8, 8, 1), 0), AllSpace(2))
    result = lipyomo.solve(problem, time_limit=20)
    written = write_proof(path, problem, result, stop=lambda: True)
    verdict = check_proof(path)
    assert written.cases == verdict.nodes
    assert verdict.upper_proved or "time" in verdict.basis


def test_ranges_are_those_of_the_file_s_units() -> None:
    layers = [
        {
            "inputs": 1,
            "weight": [[1.0], [2.0], [3.0]],
            "bias": [5.0, 5.0, 5.0],
            "left": [0.5, -7.0, 0.0],
            "right": [0.25, 7.0, 1.0],
            "curves": [["sigmoid", [1]]],
        },
        {
            "inputs": 3,
            "weight": [[1.0, 1.0, 1.0]],
            "bias": [0.0],
            "left": [1.0],
            "right": [1.0],
        },
    ]
    statement = read_statement(
        {
            "format": "lipyomo-proof-7",
            "network": layers,
            "domain": {"lower": ["-inf"], "upper": ["inf"], "A": [], "b": [], "ball": None},
            "input_norm": "linf",
            "output_norm": "linf",
            "lower": 0.0,
            "upper": 1.0,
        }
    )
    found = between(statement).hidden[0]
    assert (found.left, found.right) == ([0.25, 0.0, 0.0], [0.5, 0.25, 1.0])
    assert found.offset == [0.0] * 3
