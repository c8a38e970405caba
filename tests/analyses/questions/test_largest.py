"""The largest value of a network, and of the difference of two."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import linprog

import lipyomo
from lipyomo import Box, LipschitzProblem, Network, networks
from lipyomo.analyses.questions import values
from lipyomo.analyses.questions.several import LargestValue, largest_value
from lipyomo.base.clock import Clock
from lipyomo.base.errors import LipyomoError, NormError
from lipyomo.problems.ranges import Range
from lipyomo.problems.result import Status
from networks import integer_network, mixed_network, random_network
from oracle import regions


def brute_force(problem: LipschitzProblem) -> float:
    """The largest |y . f| over the vertices of all regions and of the dual ball, by programs."""
    network, box, best = problem.network, problem.domain, 0.0
    vertices = problem.dual_vertices
    assert vertices is not None
    for pattern, _ in regions(network, box):
        gain, offset = np.eye(network.input_dim), np.zeros(network.input_dim)
        rows, right = [], []
        for layer, on in zip(network.hidden, pattern, strict=True):
            gain, offset = layer.dense_weight @ gain, layer.dense_weight @ offset + layer.bias
            sign = np.where(on, -1.0, 1.0) * layer.kinked
            rows.append(sign[:, None] * gain)
            right.append(-sign * offset)
            slope = np.where(on, layer.right, layer.left)
            gain, offset = slope[:, None] * gain, slope * offset
        gain, offset = network.head.dense_weight @ gain, network.head.dense_weight @ offset
        offset = offset + network.head.bias
        bounds = list(zip(box.lower, box.upper, strict=True))
        for y in np.concatenate([vertices, -vertices]):
            found = linprog(-(y @ gain), np.vstack(rows), np.concatenate(right), bounds=bounds)
            if found.x is not None:
                best = max(best, float(y @ (gain @ found.x + offset)))
    return best


@pytest.mark.parametrize("norm", ["linf", "l1", "cross"])
@pytest.mark.parametrize("seed", range(2))
def test_differences_of_values_by_brute_force(seed: int, norm: str) -> None:
    f, g = mixed_network(seed, (2, 3, 2)), integer_network(seed, (2, 3, 2))
    problem = LipschitzProblem(networks.difference(f, g), Box(-1, 1, 2), output_norm=norm)
    found = largest_value(problem)
    assert found.is_exact
    assert found.lower == pytest.approx(brute_force(problem), rel=1e-5, abs=1e-7)
    assert found.lower <= found.upper
    assert found.x is not None
    assert found.functional is not None
    attained = abs(found.functional @ (f(found.x) - g(found.x)))
    assert attained == pytest.approx(found.lower, rel=1e-9, abs=1e-12)


def test_a_network_is_not_off_from_itself() -> None:
    f = random_network(0, (3, 5, 4, 2))
    problem = LipschitzProblem(networks.difference(f, f), Box(-1, 1, 3), output_norm="linf")
    found = largest_value(problem)
    assert (found.lower, found.upper, found.status) == (0.0, 0.0, Status.EXACT)


def test_constants_are_off_by_their_difference() -> None:
    rng = np.random.default_rng(0)
    f = random_network(1, (2, 4, 2))
    shift = rng.normal(size=2)
    moved = networks.affine_after(f, np.eye(2), shift)
    problem = LipschitzProblem(networks.difference(moved, f), Box(-1, 1, 2), output_norm="linf")
    found = largest_value(problem)
    assert found.lower == pytest.approx(np.abs(shift).max(), rel=1e-12)
    assert found.is_exact


def test_several_domains_have_one_largest_value() -> None:
    f = random_network(2, (2, 5, 1))
    parts = [LipschitzProblem(f, Box([k, -1], [k + 1, 1])) for k in (-1, 0)]
    whole = largest_value(LipschitzProblem(f, Box(-1, 1, 2)))
    assert largest_value(parts).upper == pytest.approx(whole.upper, rel=1e-5)


@pytest.mark.parametrize("bits", [8, 20, 40])
def test_rounded_networks_are_off_by_little(bits: int) -> None:
    f = random_network(3, (2, 4, 3, 1))
    step = 2.0**-bits
    layers = [layer.with_map(np.rint(layer.weight / step) * step, layer.bias) for layer in f.layers]
    problem = LipschitzProblem(networks.difference(f, Network(layers)), Box(-1, 1, 2))
    found = largest_value(problem, time_limit=60)
    assert found.status is not Status.TIME_LIMIT
    x = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
    most = np.abs(problem.network(x)).max()
    assert 0.8 * found.lower <= most <= found.upper
    assert found.upper < 1.01 * found.lower + 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_twins_bound_what_a_search_leaves_open(seed: int) -> None:
    f = mixed_network(seed, (4, 12, 12, 2))
    rng = np.random.default_rng(seed)
    layers = [
        v.with_map(v.weight + 1e-7 * rng.normal(size=v.weight.shape), v.bias) for v in f.layers
    ]
    g = Network(layers)
    problem = LipschitzProblem(networks.difference(f, g), Box(-2, 1, 4), output_norm="l1")
    found = largest_value(problem, should_stop=lambda: True)
    x = np.concatenate([rng.uniform(-2, 1, (2000, 4)), rng.choice([-2.0, 1.0], (16, 4))])
    most = np.abs(f(x) - g(x)).sum(axis=1).max()
    assert most <= found.upper < 1e-2
    assert found.lower <= found.upper


def test_limits_bind() -> None:
    f = random_network(4, (10, 60, 60, 3))
    problem = LipschitzProblem(f, Box(-1, 1, 10), output_norm="linf")
    found = largest_value(problem, time_limit=0.4)
    assert found.seconds < 8.0
    assert found.status is Status.TIME_LIMIT
    assert found.lower < found.upper
    assert json.loads(json.dumps(found.to_dict()))["status"] == "time_limit"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda f: LipschitzProblem(f, Box(-1, 1, 2), output_norm="l2"), NormError),
        (lambda f: LipschitzProblem(f, lipyomo.AllSpace(2), output_norm="l1"), LipyomoError),
        (lambda f: [], LipyomoError),
        (lambda f: f, LipyomoError),
    ],
)
def test_what_is_not_known_is_refused(make: object, error: type[LipyomoError]) -> None:
    with pytest.raises(error):
        largest_value(make(random_network(0, (2, 3, 2))))  # type: ignore[operator]


def test_intervals_are_plain_data() -> None:
    found = LargestValue(1.0, np.inf, None, None, Status.TIME_LIMIT, 1.0, 3)
    assert found.to_dict()["upper"] is None
    assert not found.is_exact


def test_a_range_whose_ends_contradict_each_other_is_not_exact() -> None:
    fine = Range((0.0, 0.0), (1.0, 1.0 + 1e-9))
    crossed = Range((0.0, 0.0), (1.0, np.nextafter(1.0, 0.0)))
    assert fine.ended(Clock()).status is Status.EXACT
    assert crossed.ended(Clock()).status is Status.CONTRADICTION
    assert not crossed.is_exact


def test_a_network_is_reduced_once_for_all_of_its_outputs(monkeypatch) -> None:
    calls, before = [], values.exactly
    monkeypatch.setattr(values, "exactly", lambda *case: calls.append(case) or before(*case))
    problem = LipschitzProblem(random_network(1, (2, 4, 3)), Box(-1, 1, 2))
    found = largest_value(problem)
    assert len(calls) == 1
    points = problem.domain.sample(np.random.default_rng(0), 1000)
    assert found.upper >= np.abs(problem.network.forward(points)).max()
    assert largest_value(problem).upper == found.upper
    assert len(calls) == 1
