"""Ranges of values: against all regions one by one, and what holds for any of them."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

import lipyomo
from lipyomo import Box, Layer, LipyomoError, Network, Polytope, Status, ball, value_range
from lipyomo.primal.regions.value import value_at
from lipyomo.problems.affine.signal import affine_pieces
from lipyomo.problems.domains import Domain
from lipyomo.problems.ranges import Range
from networks import (
    DEGENERATE,
    domains,
    integer_network,
    mixed_network,
    random_network,
    small_networks,
)
from oracle import regions


def true_range(network: Network, domain: Domain, row: np.ndarray) -> tuple[float, float]:
    """The range by a program for each region."""
    ends = [np.inf, -np.inf]
    for pattern, _ in regions(network, domain):
        *pieces, (J, g) = affine_pieces(network, pattern)
        rows, right = [domain.rows.A.toarray()], [domain.rows.b]
        for layer, on, (G, h) in zip(network.hidden, pattern, pieces, strict=True):
            sign = np.where(on, -1.0, 1.0)[layer.kinked]
            rows.append(sign[:, None] * G[layer.kinked])
            right.append(-sign * h[layer.kinked])
        A, b = np.vstack(rows), np.concatenate(right) + 1e-12
        for place, way in enumerate((1.0, -1.0)):
            value = way * best_of(way * (row @ J), A, b, domain) + float(row @ g)
            ends[place] = min(ends[place], value) if place == 0 else max(ends[place], value)
    return ends[0], ends[1]


def best_of(cost: np.ndarray, A: np.ndarray, b: np.ndarray, domain: Domain) -> float:
    """The least value of a linear function on a region of a domain."""
    bounds = list(zip(domain.lower, domain.upper, strict=True))
    found = linprog(cost, A, b, bounds=bounds)
    circle = domain.ball
    if circle is None or circle.contains(found.x):
        return float(found.fun)
    rows = [{"type": "ineq", "fun": lambda x: b - A @ x}] if len(b) else []
    inside = {
        "type": "ineq",
        "fun": lambda x: circle.radius**2 - np.square(x - circle.point).sum(),
    }
    start = np.clip(circle.point, domain.lower, domain.upper)
    better = minimize(
        lambda x: cost @ x, start, bounds=bounds, constraints=[*rows, inside], tol=1e-14
    )
    return float(better.fun)


def check(found: Range, truth: tuple[float, float], room: float = 1e-9) -> None:
    size = max(map(abs, truth))
    assert found.status is Status.EXACT
    assert found.is_exact
    assert found.low[0] - room * size - 1e-12 <= truth[0] <= found.low[1] + room * size + 1e-12
    assert found.high[0] - room * size - 1e-12 <= truth[1] <= found.high[1] + room * size + 1e-12


def check_witnesses(
    found: Range, network: Network, domain: Domain, row: np.ndarray | None = None
) -> None:
    row = np.ones(1) if row is None else row
    for x, end, place in zip(found.witnesses, (found.low[1], found.high[0]), (1, 0), strict=True):
        assert x is not None
        assert domain.holds(x.point)
        assert value_at(network, row, x.point)[place] == end


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        *(("box", seed) for seed in range(3)),
        *(("polytope", seed) for seed in (2, 3, 0)),
        *(("clipped l2 ball", seed) for seed in (1, 3)),
    ],
)
def test_ranges_are_those_of_all_regions(name: str, seed: int) -> None:
    network = mixed_network(seed, (2, 4, 3, 2))
    domain = domains(2)[name]
    row = np.random.default_rng(seed).standard_normal(2)
    found = value_range(network, domain, row)
    check(found, true_range(network, domain, row), 1e-6 if "l2" in name else 1e-9)
    check_witnesses(found, network, domain, row)


@pytest.mark.parametrize("seed", range(2))
def test_a_ball_of_l1_is_its_polytope(seed: int) -> None:
    network = random_network(seed, (3, 6, 5, 1))
    diamond = ball([0.1, 0.1, 0.1], 0.7, "l1", (-0.5, 0.6))
    truth = diamond.polyhedron()
    assert truth is not None
    found, other = value_range(network, diamond), value_range(network, truth)
    check(found, (other.low[1], other.high[0]), 1e-6)
    check_witnesses(found, network, diamond)


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_networks_have_ranges(name: str) -> None:
    case = DEGENERATE[name]()
    network, domain = case.network, case.domain
    row = np.ones(network.output_dim)
    found = value_range(network, domain, row)
    check(found, true_range(network, domain, row))
    check_witnesses(found, network, domain, row)


@settings(max_examples=12, deadline=None)
@given(small_networks(), st.integers(0, 1000))
def test_no_value_is_outside(network: Network, seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, row = network.input_dim, rng.integers(-2, 3, network.output_dim).astype(float)
    domain = Box(-1, 1, d)
    found = value_range(network, domain, row)
    values = network.forward(rng.uniform(-1, 1, (300, d))) @ row
    room = 1e-12 * (1.0 + np.abs(values).max())
    assert found.low[0] - room <= values.min()
    assert values.max() <= found.high[1] + room
    assert found.low[0] <= found.low[1] <= np.nextafter(found.high[0], np.inf)
    assert found.high[0] <= found.high[1]
    halves = [Box([-1.0] * d, [0.0, *[1.0] * (d - 1)]), Box([0.0, *[-1.0] * (d - 1)], [1.0] * d)]
    parts = [value_range(network, half, row) for half in halves]
    assert max(part.high[0] for part in parts) <= found.high[1]
    assert min(part.low[1] for part in parts) >= found.low[0]


@pytest.mark.parametrize("seed", range(6))
def test_the_value_at_a_point(seed: int) -> None:
    network = integer_network(seed, (2, 4, 3, 3, 1))
    x = np.random.default_rng(seed).normal(size=2).round(1)
    found = value_range(network, Box(x, x))
    assert found.status == "exact"
    for ends in (found.low, found.high):
        assert ends == pytest.approx([network.forward(x).item()] * 2, abs=1e-9)


def test_the_values_of_one_point_are_exact() -> None:
    network = random_network(3, (2, 5, 1))
    x = np.array([0.3, -0.7])
    found = value_range(network, Box(x, x))
    assert found.low == found.high == value_at(network, np.ones(1), x)


def test_inputs_that_cannot_move_keep_their_values() -> None:
    network = random_network(5, (3, 6, 1))
    domain = Box([-1.0, 0.25, -1.0], [1.0, 0.25, 1.0])
    found = value_range(network, domain)
    check(found, true_range(network, domain, np.ones(1)))
    check_witnesses(found, network, domain)


def test_limits_bind_and_what_is_known_is_stated() -> None:
    network = random_network(0, (12, 40, 40, 40, 1))
    found = value_range(network, Box(-1, 1, 12), time_limit=0.5)
    assert found.seconds < 6.0
    assert found.status in (Status.TIME_LIMIT, Status.EXACT)
    values = network.forward(np.random.default_rng(0).uniform(-1, 1, (2000, 12)))
    assert found.low[0] <= values.min() <= values.max() <= found.high[1]
    check_witnesses(found, network, Box(-1, 1, 12))


def test_ctrl_c_ends_it_with_what_is_known() -> None:
    network = random_network(0, (12, 40, 40, 40, 1))
    timer = threading.Timer(1.0, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    found = value_range(network, Box(-1, 1, 12), time_limit=60.0)
    timer.join()
    assert found.seconds < 30.0
    assert found.status in (Status.INTERRUPTED, Status.EXACT)
    assert found.low[0] <= found.low[1] <= np.nextafter(found.high[0], np.inf)
    assert found.high[0] <= found.high[1]


def test_workers_find_the_same() -> None:
    network = random_network(1, (6, 16, 16, 1))
    alone, together = (value_range(network, Box(-1, 1, 6), workers=n) for n in (1, 2))
    assert together.status is Status.EXACT
    np.testing.assert_allclose(together.high, alone.high, rtol=1e-6)
    np.testing.assert_allclose(together.low, alone.low, rtol=1e-6)


def test_wrong_parts_are_one_sentence() -> None:
    network = random_network(1, (2, 3, 2))
    for wrong in (
        lambda: value_range(network, Box(-1, 1, 2)),
        lambda: value_range(network, Box(-1, 1, 3), [1.0, 0.0]),
        lambda: value_range(network, lipyomo.AllSpace(2), [1.0, 0.0]),
        lambda: value_range(network, Box(-1, 1, 2), [1.0, np.nan]),
    ):
        with pytest.raises(LipyomoError, match=r"\w"):
            wrong()


def test_ends_that_touch_zero_are_not_negative_zeros() -> None:
    network = Network([Layer([[1.0]], [-2.0], 0.0, 1.0), Layer([[1.0]], [0.0])])
    found = value_range(network, Box(-1, 1, 1))
    assert str(found.low[1]) == str(found.high[0]) == "0.0"


def test_a_thin_polytope_has_its_range() -> None:
    rows = np.array([[1.0, 1.0], [-1.0, -1.0]])
    domain = Polytope(rows, np.array([1e-6, 0.0]), [-1.0, -1.0], [1.0, 1.0])
    network = random_network(2, (2, 6, 1))
    check(value_range(network, domain), true_range(network, domain, np.ones(1)), 1e-6)


def test_programs_of_large_networks_end_with_the_time() -> None:
    began = time.process_time()
    found = value_range(random_network(0, (200, 300, 300, 300, 1)), Box(-1, 1, 200), time_limit=1.0)
    assert time.process_time() - began < 2.5
    assert found.status == "time_limit"
    assert found.low[0] < found.low[1] < found.high[0] < found.high[1] < np.inf
