"""Interior margins: positive exactly for the patterns that brute force finds, and true."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lipyomo.base.arrays import Pattern
from lipyomo.networks.network import Layer, Network
from lipyomo.primal.regions import examine, interior_point
from lipyomo.primal.regions.euclidean import nearest_point
from lipyomo.problems.domains import AllSpace, Box, Domain, NormBall, Polytope, ball
from networks import DEGENERATE, domains, mixed_network, random_network
from oracle import regions


def interior_margin(network: Network, domain: Domain, pattern: Pattern) -> tuple[np.ndarray, float]:
    found = interior_point(network, domain, pattern)
    return found.x, found.margin


def all_patterns(network: Network) -> list[Pattern]:
    """Every pattern, units without a kink on the right."""
    choices = []
    for layer in network.hidden:
        options = [(False, True) if kinked else (True,) for kinked in layer.kinked]
        choices.append([np.array(row, dtype=bool) for row in product(*options)])
    return list(product(*choices))


def check_point(
    network: Network, domain: Domain, pattern: Pattern, x: np.ndarray, margin: float
) -> None:
    """A cube of that half-width around x stays in the domain and keeps the pattern's Jacobian."""
    assert domain.contains(x)
    rng = np.random.default_rng(0)
    move = ~domain.frozen
    corners = x + 0.99 * margin * move * rng.choice([-1.0, 1.0], (64, x.size))
    assert domain.contains(corners, tolerance=1e-12 * (1 + np.abs(x).max())).all()
    jacobian = network.jacobian(pattern)
    patterns = np.hstack([np.ones((64, 1)), *network.pattern(corners)])
    _, each = np.unique(patterns, axis=0, return_index=True)
    for corner in corners[each]:  # one of each pattern
        here = network.jacobian(network.pattern(corner))
        np.testing.assert_allclose(here[:, move], jacobian[:, move], atol=1e-12)


@pytest.mark.parametrize(("seed", "kind"), [(k % 2, kind) for k, kind in enumerate(domains(2))])
def test_exactly_the_regions_have_a_margin(kind: str, seed: int) -> None:
    network, domain = random_network(seed, (2, 3, 2, 1)), domains(2)[kind]
    true = {tuple(map(bytes, pattern)) for pattern, _ in regions(network, domain)}
    found = set()
    for pattern in all_patterns(network):
        point, answer = interior_point(network, domain, pattern), examine(network, domain, pattern)
        assert point.ceiling >= point.margin - 1e-12
        assert answer.empty == (answer.point is None)
        if answer.point is not None:
            found.add(tuple(map(bytes, pattern)))
            check_point(network, domain, pattern, point.x, point.margin)
    assert found == true


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_regions(name: str) -> None:
    case = DEGENERATE[name]()
    for pattern, _ in regions(case.network, case.domain):
        x, margin = interior_margin(case.network, case.domain, pattern)
        assert margin > 1e-7
        check_point(case.network, case.domain, pattern, x, margin)


def test_dead_and_duplicate_units_do_not_shrink_margins() -> None:
    plain = Network.from_arrays([[[1.0]], [[1.0]]])
    heavy = Network.from_arrays(
        [
            [[1.0], [1.0], [0.0], [1.0]],
            [[1.0, 0, 0, 0], [1.0, -1.0, 0, 0], [0, 0, 0, 1.0]],
            [[1.0] * 3],
        ],
        [[0.0, 0.0, -1.0, -50.0], [0.0, 0.0, 0.0], [0.0]],
    )
    on = (np.array([True]),)
    x, margin = interior_margin(plain, Box(-1, 1, 1), on)
    assert margin == pytest.approx(0.5)
    assert x == pytest.approx(0.5)
    pattern = heavy.pattern(np.array([0.5]))
    assert interior_margin(heavy, Box(-1, 1, 1), pattern)[1] == pytest.approx(0.5)


def test_constants_of_the_wrong_sign_contradict() -> None:
    network = Network.from_arrays([[[0.0], [1.0]], [[1.0, 1.0]]], [[-1.0, 0.0], [0.0]])
    wrong = (np.array([True, True]),)
    assert interior_point(network, Box(-1, 1, 1), wrong).margin == -np.inf
    assert examine(network, Box(-1, 1, 1), wrong).empty
    right = (np.array([False, True]),)
    assert interior_margin(network, Box(-1, 1, 1), right)[1] == pytest.approx(0.5)


def test_closed_patterns_of_the_trap_are_empty() -> None:
    case = DEGENERATE["trap_scalar"]()
    both_on = (np.array([True, False, False]),)  # holds at x = 0 only, and would give 2
    assert interior_point(case.network, case.domain, both_on).margin <= 1e-12
    assert examine(case.network, case.domain, both_on).empty


@pytest.mark.parametrize("kind", ["box", "l2 ball", "clipped l2 ball", "l1 ball", "all space"])
def test_wide_inputs(kind: str) -> None:
    network, domain = random_network(3, (60, 6, 5, 1)), domains(60)[kind]
    for x in domain.sample(np.random.default_rng(1), 4):
        pattern = network.pattern(x)
        point = interior_point(network, domain, pattern)
        assert point.margin > 0
        check_point(network, domain, pattern, point.x, point.margin)


def test_moved_faces_agree_with_written_ones() -> None:
    # 50 inputs take the path of wide networks; repeating a narrow network must not change margins.
    narrow = random_network(5, (5, 6, 4, 1))
    first = narrow.layers[0]
    wide_weight = np.repeat(first.dense_weight, 10, axis=1) / 10.0
    wide = Network.from_arrays(
        [wide_weight, *(layer.dense_weight for layer in narrow.layers[1:])],
        [layer.bias for layer in narrow.layers],
    )
    for x in Box(-1, 1, 5).sample(np.random.default_rng(2), 5):
        pattern = narrow.pattern(x)
        one = interior_point(narrow, Box(-1, 1, 5), pattern)
        two = interior_point(wide, Box(-1, 1, 50), pattern)
        assert two.margin >= 0.85 * one.margin
        assert two.margin <= one.ceiling * (1 + 1e-6)


def test_a_region_outside_the_ball_but_inside_its_box_is_empty() -> None:
    # relu(x1 + x2 - 1.6): the corner (1, 1) of the box has it on, the unit disc does not.
    network = Network.from_arrays([[[1.0, 1.0]], [[1.0]]], [[-1.6], [0.0]])
    on = (np.array([True]),)
    assert interior_margin(network, Box(-1, 1, 2), on)[1] == pytest.approx(0.1)
    for norm in ("l1", "l2"):
        disc = ball(np.zeros(2), 1.0, norm)
        assert interior_point(network, disc, on).margin <= 0
        assert examine(network, disc, on).empty


def test_infinite_regions_have_points() -> None:
    network = mixed_network(4, (3, 5, 3, 1))
    for pattern, _ in regions(network, AllSpace(3)):
        x, margin = interior_margin(network, AllSpace(3), pattern)
        assert 0 < margin <= 1 + 1e-9
        check_point(network, AllSpace(3), pattern, x, margin)


def test_nearest_points_and_their_bounds() -> None:
    A, b = np.array([[-1.0, -1.0]]), np.array([-1.6])
    found = nearest_point(A, b, np.full(2, -1.0), np.full(2, 1.0), np.zeros(2))
    np.testing.assert_allclose(found.x, [0.8, 0.8], atol=1e-6)
    assert found.bound == pytest.approx(0.8 * np.sqrt(2), rel=1e-9)


@pytest.mark.parametrize("kind", ["box", "l1 ball", "l2 ball", "polytope"])
@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1e-7), (100.0, 1e-4), (0.0, 1e5)])
def test_margins_scale_with_the_domain(kind: str, shift: float, scale: float) -> None:
    # g(x) = f((x - shift) / scale) on the scaled domain has the regions of f, scaled.
    network, domain = random_network(7, (2, 4, 3, 1)), domains(2)[kind]
    first = network.layers[0]
    weight = first.dense_weight / scale
    bias = first.bias - shift * weight.sum(axis=1)
    scaled = Network([Layer(weight, bias, 0.0, 1.0), *network.layers[1:]])
    if isinstance(domain, NormBall):
        there: Domain = ball(domain.point * scale + shift, domain.radius * scale, domain.norm)
    elif domain.rows.count:
        A, b = domain.rows.A.toarray(), domain.rows.b
        there = Polytope(A, b * scale + shift * A.sum(axis=1))
    else:
        there = Box(domain.lower * scale + shift, domain.upper * scale + shift)
    for pattern, _ in regions(network, domain):
        one = interior_point(network, domain, pattern)
        two = interior_point(scaled, there, pattern)
        assert two.margin > 0
        assert two.margin >= 0.25 * scale * one.margin
        assert two.ceiling >= 0.999 * scale * one.margin
        check_point(scaled, there, pattern, two.x, two.margin)
