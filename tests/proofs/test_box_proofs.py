"""Proofs of piecewise-linear networks in boxes."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Network, Polytope
from lipyomo.base.errors import ProofError as RefusedError
from lipyomo.networks.network import Layer
from lipyomo.proofs import write_proof, writing
from lipyomo_check import ProofError, check_proof


def random_network(sizes: list[int], seed: int, left: float = 0.0, right: float = 1.0) -> Network:
    """With biases, in the units' scale."""
    rng, layers = np.random.default_rng(seed), []
    for k, (inputs, units) in enumerate(itertools.pairwise(sizes)):
        weight = rng.standard_normal((units, inputs)) * np.sqrt(2 / inputs)
        slopes = (left, right) if k < len(sizes) - 2 else (1.0, 1.0)
        layers.append(Layer(weight, 0.3 * rng.standard_normal(units), *slopes))
    return Network(layers)


def first_line(path: Path) -> dict[str, Any]:
    """What a proof states."""
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()).split(b"\n")[0])
    return found


def without_biases(network: Network) -> Network:
    """All kinks of which meet in the origin."""
    return Network([Layer(own.weight, 0.0, own.left, own.right) for own in network.layers])


def small(name: str) -> LipschitzProblem:
    """A problem, degenerate ones among them."""
    box, plain = Box(-1, 1, 2), random_network([2, 6, 5, 2], 0)
    if name == "leaky":
        return LipschitzProblem(random_network([2, 6, 5, 2], 1, 0.1), box)
    if name == "concave":
        return LipschitzProblem(random_network([2, 6, 5, 1], 2, 0.7, -0.4), box)
    if name == "without biases":
        return LipschitzProblem(without_biases(plain), Box([0.5, -1.0], [1.0, 1.0]))
    if name == "dead and twice":
        weight = np.array([[1.0, 1.0], [1.0, 1.0], [-2.0, -2.0], [1.0, 0.0], [0.0, 0.0]])
        head = Layer([[1.0, -0.5, 0.25, 1.0, 3.0]], [0.0])
        return LipschitzProblem(Network([Layer(weight, [0, 0, 0, -5, 0], 0.0), head]), box)
    if name == "frozen":
        return LipschitzProblem(plain, Box([-1.0, 0.25], [1.0, 0.25]))
    if name == "no hidden layer":
        return LipschitzProblem(Network([Layer([[1.0, -2.0]], [0.0])]), box)
    if name == "one input":
        return LipschitzProblem(random_network([1, 4, 4, 1], 3), Box(-1, 1, 1), "l2")
    if name == "directions":
        return LipschitzProblem(plain, box, directions=[[1.0, 0.5], [0.0, 2.0]])
    if name == "polytope":
        return LipschitzProblem(plain, Polytope([[1.0, 1.0]], [0.5], -1, 1), "l1", "l2")
    return LipschitzProblem(plain, box, "l2", "l1")


SMALL = [
    *("leaky", "concave", "without biases", "dead and twice", "frozen"),
    *("no hidden layer", "one input", "directions", "polytope", "Euclidean"),
]


@pytest.mark.parametrize("name", SMALL)
def test_they_hold_once_more_in_ball_arithmetic(name: str, tmp_path: Path) -> None:
    problem, path = small(name), tmp_path / "a.proof"
    result = lipyomo.solve(problem, gap=0.4)
    written = write_proof(path, problem, result, boxes=True)
    verdict = check_proof(path, strict=True)
    assert verdict.upper_proved
    assert verdict.nodes == written.cases
    assert verdict.statement.lower <= result.lower
    assert result.upper <= verdict.statement.upper <= max(result.upper, result.lower) * (1 + 2e-6)
    first, _, payload = gzip.decompress(path.read_bytes()).partition(b"\n")
    false = json.loads(first) | {"lower": 0.0, "upper": result.lower * (1 - 1e-6)}
    path.write_bytes(gzip.compress(json.dumps(false).encode() + b"\n" + payload))
    with pytest.raises(ProofError):
        check_proof(path)


def test_networks_whose_whole_domain_says_nothing_are_proved_in_boxes(tmp_path: Path) -> None:
    """And others by splits of units, in whole numbers."""
    deep, path = random_network([2, *[12] * 9, 1], 5), tmp_path / "a.proof"
    formats = []
    for network in (deep, random_network([2, 6, 5, 1], 0)):
        problem = LipschitzProblem(network, Box(-1, 1, 2))
        write_proof(path, problem, lipyomo.solve(problem, gap=1e-3), time_limit=30)
        assert check_proof(path).upper_proved
        formats.append(first_line(path)["format"])
    assert formats == ["lipyomo-proof-9", "lipyomo-proof-4"]


@pytest.mark.parametrize("far", [True, False])
def test_where_boxes_do_not_end_units_are_split(
    far: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units that touch zero on the boundary are open in each box there."""
    first = Layer([[1.0, 0.0], [1.0, 1.0]], [1.0, -2.0], 0.0)
    problem = LipschitzProblem(Network([first, Layer([[2.0, 1.0]], [0.0])]), Box(-1, 1, 2))
    result, path = lipyomo.solve(problem), tmp_path / "a.proof"
    with monkeypatch.context() as patch:
        patch.setattr(writing, "calls_for_boxes", lambda *_: far)
        write_proof(path, problem, result)
    assert check_proof(path).upper_proved
    assert first_line(path)["format"] == "lipyomo-proof-4"
    assert write_proof(path, problem, result, boxes=True).upper is None
    assert "boxes are as small" in check_proof(path).basis


def test_a_witness_that_boxes_do_not_take_is_said_before(tmp_path: Path) -> None:
    """A unit that is zero everywhere is at its kink, but only where it is known not to move."""
    dead = Layer([[1.0, 0.0], [1.0, -1.0]], [-5.0, 0.3], 0.0)
    zero = Layer([[1.0, 0.0], [0.0, 2.0]], [0.0, 0.1], 0.0)
    network = Network([dead, zero, Layer([[1.0, 1.0]], [0.0])])
    problem, path = LipschitzProblem(network, Box(-1, 1, 2)), tmp_path / "a.proof"
    result = lipyomo.solve(problem)
    with pytest.raises(RefusedError, match="boxes="):
        write_proof(path, problem, result, boxes=True)
    write_proof(path, problem, result)
    assert check_proof(path).upper_proved


def test_two_lines_of_a_unit_leave_fewer_boxes(tmp_path: Path) -> None:
    """Than those of the format before, which knew no proofs of constants without smooth units."""
    network, path = random_network([2, 12, 12, 12, 1], 1), tmp_path / "a.proof"
    problem = LipschitzProblem(network, Box(-1, 1, 2), "l2")
    written = write_proof(path, problem, lipyomo.solve(problem, gap=1e-3), boxes=True)
    first, _, payload = gzip.decompress(path.read_bytes()).partition(b"\n")
    earlier = json.loads(first) | {"format": "lipyomo-proof-7"}
    path.write_bytes(gzip.compress(json.dumps(earlier).encode() + b"\n" + payload))
    with pytest.raises(ProofError, match=r"larger than the upper end|a cut takes more"):
        check_proof(path)
    assert written.cases < 2000
