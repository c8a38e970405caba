"""Pre-activation bounds hold at every point, shrink along the cascade, and obey given phases."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from lipyomo.base.arrays import Pattern
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import LEFT, OPEN, RIGHT, open_phases
from lipyomo.problems.domains import AllSpace, Box, Domain
from lipyomo.relaxations.linear import LayerBounds, preactivation_bounds
from networks import (
    DEGENERATE,
    Case,
    boxes,
    domains,
    from_pattern,
    mixed_network,
    random_network,
    small_networks,
)
from oracle import regions

RELAXATIONS = ("interval", "linear", "lp", "auto")


def contains_all(network: Network, bounds: LayerBounds, points: np.ndarray) -> None:
    """Every pre-activation at the points lies within the bounds, up to its own rounding."""
    for z, low, high in zip(
        network.preactivations(points), bounds.lower, bounds.upper, strict=True
    ):
        room = 1e-13 * (1.0 + np.abs(z))
        assert (z >= low - room).all()
        assert (z <= high + room).all()


@settings(max_examples=30, deadline=None)
@given(data=st.data(), network=small_networks(), relaxation=st.sampled_from(RELAXATIONS))
def test_bounds_hold_at_random_points(
    data: st.DataObject, network: Network, relaxation: str
) -> None:
    domain = data.draw(boxes(network.input_dim))
    bounds = preactivation_bounds(network, domain, relaxation=relaxation)
    corners = np.where(
        np.random.default_rng(0).random((50, domain.dimension)) < 0.5, domain.lower, domain.upper
    )
    points = np.vstack([domain.sample(np.random.default_rng(1), 200), corners])
    assert not bounds.empty
    contains_all(network, bounds, points)


@pytest.mark.parametrize("kind", list(domains(3)))
@pytest.mark.parametrize("relaxation", RELAXATIONS)
def test_bounds_hold_on_every_kind_of_domain(kind: str, relaxation: str) -> None:
    domain, network = domains(3)[kind], mixed_network(2, (3, 6, 5, 2))
    bounds = preactivation_bounds(network, domain, relaxation=relaxation)
    assert not any(np.isnan(side).any() for side in (*bounds.lower, *bounds.upper))
    contains_all(network, bounds, domain.sample(np.random.default_rng(0), 300))


@pytest.mark.parametrize("seed", range(5))
def test_each_relaxation_is_at_least_as_tight(seed: int) -> None:
    network, domain = mixed_network(seed, (3, 6, 6, 4, 1)), Box(-1, 1, 3)
    cascade = [
        preactivation_bounds(network, domain, relaxation=relaxation)
        for relaxation in RELAXATIONS[:3]
    ]
    for loose, tight in pairwise(cascade):
        for i in range(len(loose.lower)):
            assert (tight.lower[i] >= loose.lower[i] - 1e-9).all()
            assert (tight.upper[i] <= loose.upper[i] + 1e-9).all()
        assert tight.unstable <= loose.unstable
    assert [bounds.relaxation for bounds in cascade] == ["interval", "linear", "lp"]


@cache
def case_with_regions(name: str) -> tuple[Case, list[Pattern]]:
    case = DEGENERATE[name]()
    return case, [pattern for pattern, _ in regions(case.network, case.domain)]


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("relaxation", RELAXATIONS)
def test_no_region_is_lost(name: str, relaxation: str) -> None:
    case, patterns = case_with_regions(name)
    bounds = preactivation_bounds(case.network, case.domain, relaxation=relaxation)
    for pattern in patterns:
        jacobian = case.network.jacobian(pattern)
        for unit, phase in enumerate(bounds.phases):
            decided = phase != OPEN
            on = np.where(decided, phase == RIGHT, pattern[unit])
            pattern = (*pattern[:unit], on, *pattern[unit + 1 :])
        # A unit that is decided against the pattern must not matter for the Jacobian.
        np.testing.assert_allclose(case.network.jacobian(pattern), jacobian, atol=1e-12)


def test_touching_the_kink_decides_a_unit() -> None:
    network = Network.from_arrays([[[1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]], [[1.0, 1.0, 1.0]]])
    phases = preactivation_bounds(network, Box(0, 1, 2)).phases[0]
    assert phases.tolist() == [RIGHT, LEFT, RIGHT]


def test_rounding_never_decides_wrongly() -> None:
    # The true range of x1 + x2 + x3 - 0.6 on [0.1, 0.2] x [0.2, 0.3] x [0.3, 0.4] begins at
    # an amount of the order of the rounding error, which exact arithmetic knows.
    low = [0.1, 0.2, 0.3]
    exact = sum(map(Fraction, low), Fraction(0)) - Fraction(0.6)
    network = Network.from_arrays([[[1.0, 1.0, 1.0]], [[1.0]]], [[-0.6], [0.0]])
    for relaxation in RELAXATIONS:
        bounds = preactivation_bounds(network, Box(low, [0.2, 0.3, 0.4]), relaxation=relaxation)
        assert Fraction(bounds.lower[0][0]) <= exact
        assert bounds.phases[0][0] == (RIGHT if bounds.lower[0][0] >= 0 else OPEN)


@settings(max_examples=20, deadline=None)
@given(data=st.data(), network=small_networks(), relaxation=st.sampled_from(RELAXATIONS))
def test_given_phases_hold_the_points_that_have_them(
    data: st.DataObject, network: Network, relaxation: str
) -> None:
    domain = data.draw(boxes(network.input_dim))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    points = domain.sample(rng, 300)
    chosen = from_pattern(network, tuple(on[0] for on in network.pattern(points)))
    start = open_phases(network)
    given_phases = tuple(
        np.where(rng.random(phase.size) < 0.5, pick, phase).astype(np.int8)
        for phase, pick in zip(start, chosen, strict=True)
    )
    bounds = preactivation_bounds(network, domain, given_phases, relaxation=relaxation)
    assert not bounds.empty
    patterns = network.pattern(points)
    has = np.ones(len(points), dtype=bool)
    for layer, on, phase in zip(network.hidden, patterns, given_phases, strict=True):
        forced = layer.kinked & (phase != OPEN)
        has &= ((on == (phase == RIGHT)) | ~forced).all(axis=1)
    assert has[0]
    contains_all(network, bounds, points[has])
    for phase, found in zip(given_phases, bounds.phases, strict=True):
        assert (found[phase != OPEN] == phase[phase != OPEN]).all()


@pytest.mark.parametrize("relaxation", RELAXATIONS)
def test_contradictions_are_empty(relaxation: str) -> None:
    network = Network.from_arrays([[[1.0]], [[1.0]], [[1.0]]], [[2.0], [-5.0], [0.0]])
    off = (np.array([LEFT], dtype=np.int8), np.array([OPEN], dtype=np.int8))
    on_second = (np.array([OPEN], dtype=np.int8), np.array([RIGHT], dtype=np.int8))
    assert preactivation_bounds(network, Box(-1, 1, 1), off, relaxation=relaxation).empty
    assert preactivation_bounds(network, Box(-1, 1, 1), on_second, relaxation=relaxation).empty
    assert not preactivation_bounds(network, Box(-1, 1, 1), relaxation=relaxation).empty


def test_sparse_layers_give_the_bounds_of_dense_ones() -> None:
    dense = random_network(3, (6, 8, 5, 1))
    weight = np.where(np.abs(dense.hidden[0].weight) > 0.4, dense.hidden[0].weight, 0.0)
    layers = [Layer(weight, dense.layers[0].bias, 0.0, 1.0), *dense.layers[1:]]
    sparse = [Layer(sp.csr_array(weight), dense.layers[0].bias, 0.0, 1.0), *dense.layers[1:]]
    for domain in domains(6).values():
        for relaxation in RELAXATIONS:
            one = preactivation_bounds(Network(layers), domain, relaxation=relaxation)
            two = preactivation_bounds(Network(sparse), domain, relaxation=relaxation)
            for a, b in zip(one.lower + one.upper, two.lower + two.upper, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_unbounded_domains_give_infinite_bounds_and_phases_cut_them() -> None:
    network = random_network(1, (2, 3, 2, 1))
    bounds = preactivation_bounds(network, AllSpace(2))
    assert np.isneginf(bounds.lower[0]).all()
    assert np.isposinf(bounds.upper[0]).all()
    assert all(np.isinf(high).any() for high in bounds.upper)
    phases = open_phases(network)
    phases[0][:] = RIGHT
    cut = preactivation_bounds(network, AllSpace(2), phases)
    assert (cut.lower[0] == 0).all()
    assert np.isposinf(cut.upper[0]).all()


def test_half_unbounded_box_keeps_what_is_known() -> None:
    network = Network.from_arrays([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [[1.0, 1.0, 1.0]]])
    bounds = preactivation_bounds(network, Box([0.0, -1.0], [np.inf, 1.0]))
    assert bounds.lower[0].tolist() == pytest.approx([0.0, -1.0, -1.0])
    assert bounds.upper[0].tolist() == pytest.approx([np.inf, 1.0, np.inf])


def test_polytopes_tighten() -> None:
    network = random_network(9, (3, 6, 4, 1))
    inner: Domain = domains(3)["polytope"]
    outer = Box(inner.lower, inner.upper)
    tight, loose = (preactivation_bounds(network, domain) for domain in (inner, outer))
    assert sum((u - low).sum() for low, u in zip(tight.lower, tight.upper, strict=True)) < sum(
        (u - low).sum() for low, u in zip(loose.lower, loose.upper, strict=True)
    )
