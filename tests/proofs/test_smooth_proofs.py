"""Proofs of smooth networks: written, checked, and refused where they are false."""

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
from fuzz.fuzz_proofs import damaged
from lipyomo import Box, LipschitzProblem, Polytope, Result, ball
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer, Network
from lipyomo.proofs import write_proof
from lipyomo_check import ProofError, check_proof
from lipyomo_check.smooth import kinds
from lipyomo_check.smooth.bound import Chain
from lipyomo_check.smooth.bounded import Bounded
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.cases import Cases
from lipyomo_check.smooth.kinds import kind_of, two_slopes
from lipyomo_check.smooth.levels import Group, Level
from lipyomo_check.smooth.tree import Question
from lipyomo_check.statement import read_statement

MIXES = [
    ["tanh"],
    ["sigmoid", "relu"],
    ["elu"],
    ["elu", "softplus", "relu"],
    ["selu"],
    ["hard_swish"],
    ["softsign"],
    ["silu", "gelu"],
    ["mish", "erf"],
    ["sin", "cos"],
]


def random_network(sizes: list[int], mix: list[str], seed: int) -> Network:
    """A random network whose layers' units are shared among some activations."""
    rng = np.random.default_rng(seed)
    layers = []
    for k, (inputs, units) in enumerate(itertools.pairwise(sizes)):
        weight = rng.standard_normal((units, inputs)) * 1.3 / np.sqrt(inputs)
        bias, left, curves = rng.standard_normal(units) * 0.5, np.ones(units), []
        if k < len(sizes) - 2:
            for part, name in zip(np.array_split(np.arange(units), len(mix)), mix, strict=True):
                if name == "relu":
                    left[part] = 0.0
                elif part.size:
                    curves.append(Curve(activation(name), part))
        layers.append(Layer(weight, bias, left, 1.0, curves))
    return Network(layers)


def proved(path: Path, problem: LipschitzProblem, gap: float = 1e-2) -> Result:
    """The result of a problem whose proof holds."""
    result = lipyomo.solve(problem, gap=gap, time_limit=60)
    written = write_proof(path, problem, result)
    verdict = check_proof(path)
    assert written.cases == verdict.nodes > 0, verdict.basis
    assert verdict.upper_proved
    assert verdict.statement.lower == result.lower
    assert verdict.statement.upper >= result.upper
    assert verdict.statement.upper <= max(result.upper, result.lower * (1 + 1e-6)) * (1 + 2e-9)
    return result


@pytest.mark.parametrize("mix", MIXES, ids="-".join)
def test_proofs_hold(mix: list[str], tmp_path: Path) -> None:
    network = random_network([2, 3, 3, 2], mix, seed=3)
    proved(tmp_path / "a.proof", LipschitzProblem(network, Box(-1, 1, 2)), gap=0.3)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("elu", {"alpha": 0.0}),
        ("elu", {"alpha": -0.0}),
        ("elu", {"alpha": -1e-6}),
        ("selu", {"alpha": 0.0, "gamma": 0.0}),
        ("selu", {"alpha": 0.0, "gamma": 1.0}),
        ("selu", {"alpha": 1.5, "gamma": 0.0}),
        ("two_slope", {"left": 0.0, "right": 0.0}),
        ("two_slope", {"left": 0.5, "right": 0.5}),
        ("two_slope", {"left": 0.0, "right": 1.0}),
    ],
)
def test_units_that_degenerate_to_lines_are_proved(
    name: str, parameters: dict[str, float], tmp_path: Path
) -> None:
    curves = [Curve(activation(name, **parameters), [0]), Curve(activation("tanh"), [1])]
    first = Layer([[1.0], [0.5]], [0.1, -0.2], curves=curves)
    network = Network([first, Layer([[1.0, 1.0]], [0.0])])
    proved(tmp_path / "a.proof", LipschitzProblem(network, Box(-1, 1, 1)))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("elu", {"alpha": 1e-9}), ("selu", {"gamma": 1e9}), ("softplus", {"beta": 1e7})],
)
def test_parameters_that_the_checker_does_not_take_are_refused_when_it_is_written(
    name: str, parameters: dict[str, float], tmp_path: Path
) -> None:
    first = Layer([[1.0]], [0.1], curves=[Curve(activation(name, **parameters), [0])])
    problem = LipschitzProblem(Network([first, Layer([[1.0]], [0.0])]), Box(-1, 1, 1))
    with pytest.raises(lipyomo.LipyomoError, match="in size, which those of"):
        write_proof(tmp_path / "a.proof", problem, lipyomo.solve(problem))
    assert not (tmp_path / "a.proof").exists()


def test_norms_and_domains(tmp_path: Path) -> None:
    network = random_network([3, 3, 3, 2], ["tanh", "relu"], seed=5)
    triangle = Polytope([[1.0, 1.0, 1.0]], [0.5], -1, 1)
    frozen = Box([-1, 0.25, -1], [1, 0.25, 1])
    for k, problem in enumerate(
        [
            LipschitzProblem(network, Box(-1, 1, 3), "l1", "l1"),
            LipschitzProblem(network, Box(-1, 1, 3), "linf", "cross"),
            LipschitzProblem(network, frozen, functional=[1.0, -2.0]),
            LipschitzProblem(network, triangle, "linf", "linf"),
            LipschitzProblem(network, ball([0.1, 0.2, 0.3], 0.25, "l2"), "linf", "linf"),
        ]
    ):
        proved(tmp_path / f"{k}.proof", problem, gap=0.3)


@pytest.mark.parametrize("mix", [["tanh"], ["elu", "softplus", "relu"], ["hard_swish", "selu"]])
def test_ball_arithmetic_confirms_every_bound(mix: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.proof"
    triangle = Polytope([[1.0, 1.0]], [0.5], -1, 1)
    network = random_network([2, 3, 3, 1], mix, seed=4)
    for domain in (Box(-1, 1, 2), triangle, ball([0.1, 0.2], 0.25, "l2")):
        result = proved(path, LipschitzProblem(network, domain), gap=0.3)
        assert check_proof(path, strict=True).upper_proved
        path.unlink()
    assert result.upper > 0


def test_ball_arithmetic_finds_what_float64_had_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.proof"
    problem = LipschitzProblem(random_network([2, 4, 3, 1], ["tanh"], 4), Box(-1, 1, 2))
    result = lipyomo.solve(problem)
    plain = Chain.bound

    exponential = kinds.exp_minus

    def low(
        chain: Chain, functionals: np.ndarray, boxes: Boxes, *more: Any, **known: Any
    ) -> Bounded:
        found = plain(chain, functionals, boxes, *more, **known)
        share = 0.98 if isinstance(chain.head, np.ndarray) else 1.0  # not in balls
        return replace(found, upper=found.upper * share)

    for place, name, wrong in (  # as a defect of the processor would
        (Chain, "bound", low),
        (kinds, "exp_minus", lambda y: 0.98 * exponential(y)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, wrong)
            write_proof(path, problem, result)
            assert check_proof(path).upper_proved
            with pytest.raises(ProofError, match="ball arithmetic"):
                check_proof(path, strict=True)


def test_affine_networks(tmp_path: Path) -> None:
    network = Network(
        [Layer([[1.0, -2.0]], [0.5], curves=[Curve(activation("sin"), [0])]), Layer([[3.0]], [0.0])]
    )
    result = proved(tmp_path / "a.proof", LipschitzProblem(network, Box(-1, 1, 2)), gap=1e-6)
    assert result.upper == pytest.approx(9.0, rel=1e-5)


EUCLIDEAN = [("l2", "linf"), ("l2", "l2"), ("linf", "l2"), ("l1", "l2")]


def test_without_time_only_the_lower_end_is_proved(tmp_path: Path) -> None:
    problem = LipschitzProblem(random_network([2, 8, 8, 1], ["tanh"], 0), Box(-2, 2, 2))
    result = lipyomo.solve(problem)
    path = tmp_path / "a.proof"
    assert write_proof(path, problem, result, time_limit=0.0).cases == 0
    verdict = check_proof(path)
    assert not verdict.upper_proved
    assert "end" in verdict.basis


BENT = [["tanh"], ["elu", "relu"], ["hard_swish"]]


@pytest.mark.parametrize("norms", EUCLIDEAN, ids="-".join)
@pytest.mark.parametrize("mix", BENT, ids="-".join)
def test_euclidean_norms(mix: list[str], norms: tuple[str, str], tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    network = random_network([2, 3, 3, 2], mix, seed=6)
    along = rng.standard_normal((2, 3))
    frozen = Box([-1, 0.25], [1, 0.25])
    cases = (
        LipschitzProblem(network, Box(-1, 1, 2), *norms),
        LipschitzProblem(network, Box(-0.5, 0.5, 2), *norms, directions=along),
        LipschitzProblem(network, frozen, *norms),
        LipschitzProblem(network, ball([0.1, 0.2], 0.25, "l2"), *norms),
    )
    problem = cases[(EUCLIDEAN.index(norms) + BENT.index(mix)) % 4]  # all pairs with activations
    path = tmp_path / "a.proof"
    proved(path, problem, gap=0.3)
    first, payload = _parts(path)
    _write(path, first | {"upper": first["lower"] * (1 - 1e-6), "lower": 0.0}, payload)
    with pytest.raises(ProofError):
        check_proof(path)


@pytest.mark.parametrize(("norm", "output"), EUCLIDEAN[:3])
def test_ball_arithmetic_confirms_euclidean_norms(norm: str, output: str, tmp_path: Path) -> None:
    path = tmp_path / "a.proof"
    network = random_network([2, 4, 3, 2], ["tanh", "relu"], seed=6)
    proved(path, LipschitzProblem(network, ball([0.1, 0.2], 0.25, "l2"), norm, output), gap=0.3)
    assert check_proof(path, strict=True).upper_proved
    first, payload = _parts(path)
    wrong = first | {"upper": first["lower"] * 0.99, "lower": 0.0}
    _write(path, wrong, bytes(len(payload)))
    with pytest.raises(ProofError):
        check_proof(path, strict=True)


@pytest.mark.filterwarnings("error")
def test_large_numbers_beside_breaks_do_not_overflow(tmp_path: Path) -> None:
    layers = random_network([2, 3, 2], ["elu"], 0).layers
    network = Network([layers[0], Layer(1e12 * layers[1].dense_weight, layers[1].bias)])
    problem = LipschitzProblem(network, Box(-3, 3, 2), "l2", "l2")
    write_proof(tmp_path / "p", problem, lipyomo.solve(problem, gap=1e-3))
    assert check_proof(tmp_path / "p").upper_proved


def test_affine_networks_with_euclidean_norms(tmp_path: Path) -> None:
    rows = [[3.0, 0.0], [4.0, 5.0]]
    network = Network([Layer([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]), Layer(rows, [0.0, 0.0])])
    curved = Network(
        [
            Layer(np.eye(2), [9.0, 9.0], curves=[Curve(activation("softplus"), [0, 1])]),
            Layer(rows, [0.0, 0.0]),
        ]
    )
    for k, (one, norm) in enumerate(itertools.product((network, curved), ("l2", "linf", "l1"))):
        problem = LipschitzProblem(one, Box(-1, 1, 2), norm, "l2")
        result = lipyomo.solve(problem)
        write_proof(tmp_path / f"{k}.proof", problem, result)
        assert check_proof(tmp_path / f"{k}.proof").upper_proved


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("names", [["tanh"], ["gelu", "relu", "elu"], ["hard_swish", "relu"]])
def test_goals_hold_at_sampled_points(names: list[str], single: bool) -> None:
    """Wherever a bound is at most its goal, the Jacobian's norm is at most the upper end."""
    rng = np.random.default_rng(11)
    network = random_network([3, 6, 5, 2], names, seed=8)
    norm = "l2" if single else "linf"
    some = 0
    for output in ("l2", "linf") if single else ("l2",):
        problem = LipschitzProblem(network, Box(-2, 2, 3), norm, output)
        first = _statement(problem, 0.0, 1.0, np.zeros(3))
        question = Question.of(read_statement(first))
        for width in (2.0, 0.3, 1e-2, 1e-6, 0.0):
            count = 40
            centre = rng.uniform(-1, 1, (count, 3))
            low, high = centre - width / 2, centre + width / 2
            breaks = len(question.chain.broken)
            v_low, v_high = np.sort(rng.choice([-1.0, 1.0], (2, count, 3)), axis=0)
            v_high[:, 1:] = v_low[:, 1:] = np.where(width > 1, v_low, v_high)[:, 1:]
            anywhere = np.full((count, breaks), np.inf)
            ends = (low[:, :0], low[:, :0]) if single else (v_low, v_high)
            boxes = Boxes.whole(low, high, *ends, -anywhere, anywhere)
            target = rng.integers(0, 1 if output == "l2" else 2, count)
            points = [low + rng.random((count, 3)) * (high - low) for _ in range(20)]
            jacobians = np.stack(
                [[network.gradients(x, row) for row in np.eye(2)] for x in points]
            ).transpose(0, 2, 1, 3)
            if output == "linf":
                jacobians = jacobians[:, np.arange(count), target][:, :, None]
            if single:
                norms = np.linalg.norm(jacobians, 2, axis=(2, 3))
            else:
                corners = [np.where(rng.random(v_low.shape) < 0.5, v_low, v_high) for _ in points]
                outputs = np.matmul(jacobians, np.stack(corners)[..., None])[..., 0]
                norms = np.linalg.norm(outputs, axis=2)
            largest = norms.max(axis=0)
            for upper in np.quantile(largest, [0.2, 0.5, 0.8]) * (1 + 1e-9 + width):
                asked = replace(question, upper=float(upper))
                taken = asked.bounded(Cases(boxes, target))
                assert (largest <= upper * (1 + 1e-12))[taken.may_end].all()
                some += taken.may_end.sum()
    assert some > 100


@pytest.mark.parametrize(
    ("factor", "norm"), [(1.0, "linf"), (-1.0, "l2"), (-2.0, "linf"), (1.0, "l2")]
)
def test_kinks_of_equal_and_opposite_rows_are_split_together(
    factor: float, norm: str, tmp_path: Path
) -> None:
    """Behind smooth units: where one is at its kink, so is the other, on the same or other side."""
    rng = np.random.default_rng(0)
    rows, bias = rng.standard_normal((2, 4)), 0.3 * rng.standard_normal(2)
    network = Network(
        [
            Layer(
                rng.standard_normal((4, 2)),
                0.3 * rng.standard_normal(4),
                curves=[Curve(activation("tanh"), range(4))],
            ),
            Layer(np.vstack([rows, factor * rows]), np.concatenate([bias, factor * bias]), 0.0),
            Layer(rng.standard_normal((1, 4)), [0.0]),
        ]
    )
    problem = LipschitzProblem(network, Box(-1, 1, 2), norm)
    path = tmp_path / "a.proof"
    proved(path, problem, gap=0.1)
    if norm == "linf":
        assert check_proof(path, strict=True).upper_proved


def test_only_exact_multiples_are_split_together() -> None:
    row = np.array([0.1, -0.3])
    almost = np.nextafter(-2.0 * row, np.inf)
    rows = np.stack([row, -2.0 * row, almost, 0.0 * row, 3.0 * row])
    bias = np.array([0.7, -1.4, -1.4, 0.0, 0.7])
    units = [Curve(activation("hard_swish"), [1])]
    network = Network([Layer(rows, bias, 0.0, 1.0, units), Layer(np.ones((1, 5)), [0.0])])
    problem = LipschitzProblem(network, Box(-1, 1, 2))
    question = Question.of(read_statement(_statement(problem, 0.0, 9.0, np.zeros(2))))
    unit = {n: k for n, (_, k) in enumerate(question.chain.broken)}
    found = {
        (unit[n], b): [(unit[twin.unit], twin.place, twin.opposite) for twin in twins]
        for (n, b), twins in zip(question.breaks, question.twins, strict=True)
    }
    assert found == {
        (0, 0.0): [(1, 0.0, True)],
        (1, -3.0): [(0, 1.5, True)],
        (1, 3.0): [(0, -1.5, True)],
        **{(k, 0.0): [] for k in (2, 3, 4)},
    }


def test_balls_and_faces_need_few_boxes(tmp_path: Path) -> None:
    """Where the maximum lies on a ball or an oblique face, its tangents enter the bound."""
    network = random_network([3, 6, 4, 1], ["tanh"], 1)
    for k, domain in enumerate(
        [
            ball([0.1, 0.2, 0.3], 0.5, "l2"),
            ball([0.1, 0.2, 0.3], 0.5, "l1"),
            Polytope([[1.0, 1.0, 1.0], [1.0, -1.0, 0.5]], [0.5, 0.3], -1, 1),
        ]
    ):
        path = tmp_path / f"{k}.proof"
        proved(path, LipschitzProblem(network, domain), gap=1e-6)
        assert check_proof(path).nodes < 5000  # 700,000 on the first domain without its tangents


def test_trees_are_about_as_large_as_those_of_the_search(tmp_path: Path) -> None:
    problem = LipschitzProblem(random_network([4, 8, 8, 1], ["tanh"], 1), Box(-1, 1, 4))
    path = tmp_path / "a.proof"
    result = proved(path, problem, gap=1e-6)
    assert check_proof(path).nodes <= 2 * (2 * result.nodes + 1)  # it counts boxes that are split


def test_witnesses_at_jumps_and_outside_are_refused(tmp_path: Path) -> None:
    network = Network(
        [
            Layer([[1.0]], [0.0], left=0.0, curves=()),
            Layer([[1.0]], [0.0], curves=[Curve(activation("tanh"), [0])]),
            Layer([[1.0]], [0.0]),
        ]
    )
    problem = LipschitzProblem(network, Box(-1, 1, 1))
    path = tmp_path / "a.proof"
    for x, words in ((0.0, "jumps"), (2.0, "outside")):
        first = _statement(problem, 0.5, 2.0, np.array([x])) | {"basis": "a test"}
        _write(path, first, b"")
        with pytest.raises(ProofError, match=words):
            check_proof(path)


def test_files_that_claim_too_much_are_refused(tmp_path: Path) -> None:
    """Claims below the truth with the steps of the proof, damaged in all sorts of ways."""
    rng = np.random.default_rng(0)
    for seed, mix in enumerate([["tanh"], ["relu", "silu"], ["elu"]]):
        path = tmp_path / f"{seed}.proof"
        problem = LipschitzProblem(random_network([2, 4, 3, 1], mix, seed), Box(-1, 1, 2))
        result = proved(path, problem)
        line, _, payload = gzip.decompress(path.read_bytes()).partition(b"\n")
        first = json.loads(line)
        for _ in range(12):
            false = first | {"upper": result.lower * (1 - rng.choice([1e-9, 1e-3, 0.3]))}
            false["lower"] = min(first["lower"], false["upper"])
            _write(path, false, damaged(payload, rng))
            with pytest.raises(ProofError):
                check_proof(path)


def test_shorter_and_longer_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.proof"
    problem = LipschitzProblem(random_network([2, 5, 4, 1], ["tanh"], 1), Box(-1, 1, 2))
    proved(path, problem)
    line, _, payload = gzip.decompress(path.read_bytes()).partition(b"\n")
    first = json.loads(line)
    for wrong, words in (
        (payload[:-1], "ends before"),
        (payload + b"\0", "goes on"),
        (b"", "ends before"),
    ):
        _write(path, first, wrong)
        with pytest.raises(ProofError, match=words):
            check_proof(path)
    _write(path, first, b"\xff" + payload[1:])
    with pytest.raises(ProofError, match="axis"):
        check_proof(path)
    for curves, words in (
        ([["relu7", [0]]], "kind"),
        ([["tanh", [0]], ["tanh", [0]]], "two"),
        ([["tanh", [99]]], "unit"),
    ):
        layers = [first["network"][0] | {"curves": curves}, *first["network"][1:]]
        _write(path, first | {"network": layers}, payload)
        with pytest.raises(ProofError, match=words):
            check_proof(path)
    _write(path, first | {"format": "lipyomo-proof-4"}, payload)
    with pytest.raises(ProofError):
        check_proof(path)


@pytest.mark.parametrize(
    ("names", "two_lines"),
    [
        (["tanh"], False),
        (["gelu", "relu", "elu"], False),
        (["hard_swish", "relu"], False),
        (["cos"], False),
        (["relu"], True),
        (["bent", "relu"], True),
        (["elu", "bent", "relu"], True),
    ],
)
def test_bounds_hold_at_sampled_points(names: list[str], two_lines: bool) -> None:
    """Of wide boxes, of ones smaller than rounding, within phases and half-spaces, some empty.

    Affine functions hold as well.
    """
    rng = np.random.default_rng(7)
    slopes = {"relu": (0.0, 1.0), "bent": (0.3, -0.5)}
    kinds = [two_slopes(*slopes[name]) if name in slopes else kind_of(name) for name in names]
    levels = []
    for inputs, units in ((3, 6), (6, 5)):
        weight = rng.standard_normal((units, inputs))
        parts = np.array_split(np.arange(units), len(kinds))
        groups = tuple(Group(p, k) for p, k in zip(parts, kinds, strict=True))
        sizes = np.abs(weight)
        bias = rng.standard_normal(units)
        levels.append(Level(weight, sizes, bias, groups, weight, sizes))
    chain = Chain(levels, rng.standard_normal((2, 5)), 10.0, two_lines=two_lines)
    functional, less = rng.standard_normal(2), 0
    for width in (4.0, 0.5, 1e-2, 1e-5, 1e-9, 0.0):
        count = 40
        centre = rng.uniform(-2, 2, (count, 3))
        low, high = centre - width / 2, centre + width / 2
        v_low, v_high = np.sort(rng.choice([-1.0, 1.0], (2, count, 3)), axis=0)
        side = rng.choice([-1, 0, 1], (count, len(chain.broken)))
        z_low, z_high = np.where(side > 0, 0.0, -np.inf), np.where(side < 0, 0.0, np.inf)
        boxes = Boxes.whole(low, high, v_low, v_high, z_low, z_high)
        whole = chain.bound(np.tile(functional, (count, 1)), boxes)
        rise = rng.standard_normal((count, 3)) * rng.choice([0.0, 1e-3, 1.0], (count, 3))
        least = (rise * (centre + rng.uniform(-0.6, 0.6, (count, 3)) * width)).sum(axis=1)
        least[: count // 4] = -np.inf
        boxes = boxes._replace(rise=rise, least=least)
        found = chain.bound(np.tile(functional, (count, 1)), boxes)
        less += int((found.upper < whole.upper).sum())
        for _ in range(60):
            x = low + rng.choice([0.0, 1.0, rng.random()], low.shape) * (high - low)
            x = np.clip(x, low, high)
            v = np.where(rng.random(low.shape) < 0.5, v_low, v_high)
            h, t, inside, ranges = x, v, (rise * x).sum(axis=1) > least + 1e-12, []
            for i, level in enumerate(levels):
                z, u = h @ level.weight.T + level.bias, t @ level.weight.T
                for n, (layer, k) in enumerate(chain.broken):
                    if layer == i:
                        inside &= (z_low[:, n] < z[:, k]) & (z[:, k] < z_high[:, n])
                ranges.append((z, found.layers[i].low, found.layers[i].high))
                h, t = np.empty_like(z), np.empty_like(u)
                for units, kind in level.groups:
                    at = z[:, units]
                    value, slope, *_ = kind.derivatives(at, tuple(at > b for b in kind.breaks))
                    h[:, units], t[:, units] = value, slope * u[:, units]
            truth = t @ chain.head.T @ functional
            plane = found.upper + ((x - low - (high - low) / 2) * found.x).sum(axis=1)
            plane = plane - (np.abs(found.x) * (high - low)).sum(axis=1) / 2
            plane = plane + ((v - (v_low + v_high) / 2) * found.v).sum(axis=1)
            plane = plane - (np.abs(found.v) * (v_high - v_low)).sum(axis=1) / 2
            room = 1e-11 * (1 + np.abs(truth))
            assert (truth <= found.upper + room)[inside].all()
            assert (truth <= plane + room)[inside].all()
            for z, least_z, most_z in ranges:
                room_z = 1e-12 * (1 + np.abs(z))
                assert ((least_z <= z + room_z) & (z <= most_z + room_z))[inside].all()
    assert less > 0


def _statement(
    problem: LipschitzProblem, lower: float, upper: float, x: np.ndarray
) -> dict[str, Any]:
    from lipyomo.proofs.records import domain_record, layer_record, output_norm_record

    return {
        "format": "lipyomo-proof-7",
        "network": [layer_record(layer) for layer in problem.network.layers],
        "domain": domain_record(problem.domain),
        "input_norm": problem.norm,
        "output_norm": output_norm_record(problem),
        "lower": lower,
        "upper": upper,
        "onnx": None,
        "witness": {"x": x.tolist(), "functional": [1.0]},
        "basis": None,
    }


def _parts(path: Path) -> tuple[dict[str, Any], bytes]:
    """The first line of a proof, and its bytes."""
    line, _, payload = gzip.decompress(path.read_bytes()).partition(b"\n")
    return json.loads(line), payload


def _write(path: Path, first: dict[str, Any], payload: bytes) -> None:
    path.write_bytes(gzip.compress(json.dumps(first).encode() + b"\n" + payload))
