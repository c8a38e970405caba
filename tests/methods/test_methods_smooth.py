"""Methods on networks with smooth units: some know them and are sound, the others refuse."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import lipyomo
from lipyomo.base.errors import MethodError
from lipyomo.methods import methods
from lipyomo.methods.registry import Method
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer, Network
from lipyomo.problems.domains import AllSpace, Box, Domain, ball
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.linear.layers import with_slopes
from samples import steepest

NAMES = (
    *("tanh", "sigmoid", "softplus", "elu", "gelu", "silu", "mish", "softsign", "hard_swish"),
    *("erf", "sin", "cos", "selu", "celu"),
)
KNOWING = [name for name, method in methods().items() if method.smooth]
OTHERS = [name for name, method in methods().items() if not method.smooth]
UPPER = [name for name in KNOWING if methods()[name].guarantee is Guarantee.UPPER]


def mixed(seed: int, inputs: int = 3, outputs: int = 2) -> Network:
    """Two hidden layers with units of several kinds; weights of all sizes."""
    rng = np.random.default_rng(seed)
    layers, before = [], inputs
    for units in (7, 5):
        kinds = rng.integers(0, 3, size=units)
        chosen = rng.choice(NAMES, 2, replace=False)
        curves = [
            Curve(activation(str(name)), np.flatnonzero(kinds == k))
            for k, name in enumerate(chosen)
        ]
        weight = rng.normal(size=(units, before)) * rng.choice([0.1, 1.0, 5.0])
        layers.append(Layer(weight, rng.normal(size=units), rng.uniform(-1, 1), 1.0, curves))
        before = units
    return Network([*layers, Layer(rng.normal(size=(outputs, before)), np.zeros(outputs))])


def domain(seed: int, inputs: int = 3) -> Domain:
    rng = np.random.default_rng(seed)
    center, radius = rng.normal(size=inputs), 10.0 ** rng.uniform(-2, 0.7)
    return ball(center, radius, ["linf", "l2", "l1"][seed % 3])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("relaxation", ["interval", "linear"])
def test_preactivation_bounds_hold(seed: int, relaxation: str) -> None:
    network, where = mixed(seed), domain(seed)
    found = preactivation_bounds(network, where, relaxation=relaxation)  # type: ignore[arg-type]
    points = where.sample(np.random.default_rng(seed), 3000)
    for z, low, high in zip(network.preactivations(points), found.lower, found.upper, strict=True):
        room = 1e-12 * (1.0 + np.abs(z))
        assert (z >= low - room).all()
        assert (z <= high + room).all()


@pytest.mark.parametrize("seed", range(12))
def test_slopes_stay_in_their_ranges(seed: int) -> None:
    network, where = mixed(seed), domain(seed)
    small = with_slopes(network, preactivation_bounds(network, where))
    points = where.sample(np.random.default_rng(seed), 3000)
    found = zip(network.hidden, small.hidden, network.preactivations(points), strict=True)
    for layer, ranges, z in found:
        slopes = layer.slopes_at(z)[:, layer.curved]
        least = np.minimum(ranges.left, ranges.right)[layer.curved]
        assert (slopes >= least - 1e-12).all()
        assert (slopes <= np.maximum(ranges.left, ranges.right)[layer.curved] + 1e-12).all()


@cache
def seen(seed: int) -> tuple[LipschitzProblem, float]:
    """A problem, and the largest norm at points of its domain."""
    norms = [("linf", "linf"), ("l2", "l2"), ("l1", "l1"), ("linf", "cross"), ("l2", "linf")]
    problem = LipschitzProblem(mixed(seed), domain(seed), *norms[seed % len(norms)])
    points = problem.domain.sample(np.random.default_rng(seed), 500)
    return problem, max(problem.value_at(x).value for x in points)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", UPPER)
def test_upper_ends_hold(name: str, seed: int) -> None:
    problem, sampled = seen(seed)
    # points are looked for by the same searches, whatever bounds from above
    result = lipyomo.solve(problem, name, time_limit=20, attain=seed == 0)
    assert result.upper >= sampled * (1.0 - 1e-12)
    assert result.lower <= result.upper


@cache
def seen_in_space() -> tuple[LipschitzProblem, float]:
    """A problem on all of space, and the largest norm at points around zero."""
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=(6, 2)), rng.normal(size=(5, 6)), rng.normal(size=(1, 5))]
    network = Network.from_arrays(
        weights, [rng.normal(size=w.shape[0]) for w in weights], activation="tanh"
    )
    problem = LipschitzProblem(network, AllSpace(2))
    return problem, max(problem.value_at(x).value for x in rng.normal(scale=2.0, size=(2000, 2)))


@pytest.mark.parametrize("name", UPPER)
def test_upper_ends_hold_on_all_of_space(name: str) -> None:
    problem, sampled = seen_in_space()
    assert lipyomo.solve(problem, name, attain=False).upper >= sampled


@pytest.mark.parametrize("slopes", ["global", "local"])
def test_seqlip_over_all_slopes_is_an_upper_bound(slopes: str) -> None:
    problem = LipschitzProblem(mixed(3), Box(-0.5, 0.5, 3), "l2", "l2")
    points = problem.domain.sample(np.random.default_rng(0), 500)
    sampled = max(problem.value_at(x).value for x in steepest(problem, points))
    options = {"search": "exact", "slopes": slopes}
    assert lipyomo.solve(problem, "seqlip", options=options).upper >= sampled


def test_bounds_know_the_domain() -> None:
    """Far out sigmoid units are nearly flat: semidefinite bounds see that, the product does not."""
    network = Network.from_arrays([4.0 * np.eye(2), np.ones((1, 2))], activation="sigmoid")
    problem = LipschitzProblem(network, Box(3.0, 4.0, 2))
    uppers = {
        name: lipyomo.solve(problem, name, attain=False).upper
        for name in ("naive", "fastlip", "sdp")
    }
    largest = 2 * 4 * float(activation("sigmoid").slope(np.array(12.0)))
    assert uppers["naive"] == pytest.approx(2.0, rel=1e-6)
    assert uppers["fastlip"] == pytest.approx(largest, rel=1e-6)
    assert uppers["sdp"] >= largest


def test_a_tighter_method_is_not_looser() -> None:
    network = mixed(4, outputs=1)
    problem = LipschitzProblem(network, Box(-0.3, 0.3, 3))
    uppers = [
        lipyomo.solve(problem, name, attain=False).upper
        for name in ("bnb", "sdp", "crown", "fastlip", "naive")
    ]
    assert all(a <= b * (1 + 1e-6) for a, b in pairwise(uppers))


@pytest.mark.parametrize("name", ["random_lb", "clever", "local_search"])
@pytest.mark.parametrize("norms", [("linf", "linf"), ("l2", "l2"), ("l1", "l1"), ("linf", "l2")])
def test_lower_ends_are_attained(name: str, norms: tuple[str, str]) -> None:
    problem = LipschitzProblem(mixed(2), Box([-1.0, 0.2, -1.0], [1.0, 0.2, 1.0]), *norms)
    options = {"batches": 5, "batch_size": 64} if name == "clever" else {}
    result = lipyomo.solve(problem, name, options=options)
    assert result.witness is not None
    at = problem.value_at(result.witness.point)
    assert result.lower == pytest.approx(at.value, rel=1e-9)


@pytest.mark.parametrize("name", OTHERS)
def test_the_others_refuse_by_name(name: str) -> None:
    network = Network.from_arrays([np.eye(2), np.ones((1, 2))], activation="gelu")
    norm = methods()[name].input_norms[0]
    outputs = "l2" if methods()[name].output_norms == ("l2",) else None
    with pytest.raises(MethodError) as caught:
        lipyomo.solve(LipschitzProblem(network, Box(-1, 1, 2), norm, outputs), name)
    message = str(caught.value)
    assert name in message
    assert "gelu" in message
    assert "crown" in message.split("Remedy")[1]


def test_every_method_says_whether_it_knows_smooth_units() -> None:
    assert {"bnb", "interval", "fastlip", "crown", "eclipse", "lipsdp", "naive"} <= set(KNOWING)
    assert {"mip", "lp", "lipopt", "shor"} <= set(OTHERS)
    assert not Method("new", "New", Guarantee.UPPER, "", lambda run: run.result()).smooth


@pytest.mark.parametrize("name", ["interval", "crown", "fastlip"])
def test_linear_programs_are_for_piecewise_linear_networks(name: str) -> None:
    problem = LipschitzProblem(mixed(0), Box(-1, 1, 3))
    with pytest.raises(MethodError, match=r"bounds=lp.*Remedy: bounds=linear"):
        lipyomo.solve(problem, name, bounds="lp")
