"""Bounds hold without any tolerance: compared with exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipyomo.networks.network import Layer, Network
from lipyomo.problems.domains import Box, ball
from lipyomo.problems.norms import InputNorm, maximiser
from lipyomo.relaxations.linear import adjoint_limits, preactivation_bounds, tangent_limits
from lipyomo.relaxations.linear.gradient import entry_norms
from lipyomo.relaxations.linear.preactivation import within
from lipyomo.relaxations.linear.relax import Triangle
from networks import mixed_network, random_network

Vector = list[Fraction]


def exact(values: np.ndarray) -> Vector:
    return [Fraction(float(v)) for v in values]


def product(matrix: np.ndarray, vector: Vector) -> Vector:
    return [
        sum((Fraction(float(w)) * v for w, v in zip(row, vector, strict=True)), Fraction(0))
        for row in matrix
    ]


def exact_pass(network: Network, x: np.ndarray) -> tuple[list[Vector], list[Vector]]:
    """Pre-activations and the slopes of the units at x."""
    h, zs, slopes = exact(x), [], []
    for layer in network.hidden:
        z = [a + b for a, b in zip(product(layer.dense_weight, h), exact(layer.bias), strict=True)]
        pair = zip(z, exact(layer.left), exact(layer.right), strict=True)
        slope = [left if value < 0 else right for value, left, right in pair]
        zs.append(z)
        slopes.append(slope)
        h = [s * value for s, value in zip(slope, z, strict=True)]
    return zs, slopes


def inside(values: Vector, low: np.ndarray, high: np.ndarray) -> bool:
    return all(
        Fraction(float(a)) <= v <= Fraction(float(b))
        for v, a, b in zip(values, low, high, strict=True)
    )


@pytest.mark.parametrize("relaxation", ["interval", "linear", "lp"])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), corner=st.integers(0, 7), scale=st.sampled_from([1e-8, 1, 1e6]))
def test_preactivations_of_corners_and_points(
    relaxation: str, seed: int, corner: int, scale: float
) -> None:
    make = mixed_network if seed % 2 else random_network
    network = make(seed, (3, 4, 4, 3, 1))
    rng = np.random.default_rng(seed)
    middle = rng.standard_normal(3)
    width = scale * rng.random(3)
    # A tiny box gives bounds that are off by rounding only; corners attain the first layer's.
    domain = Box(middle - width, middle + width)
    bounds = preactivation_bounds(network, domain, relaxation=relaxation)
    picks = [(corner >> k) & 1 for k in range(3)]
    for x in (np.where(picks, domain.upper, domain.lower), domain.center):
        zs, _ = exact_pass(network, x)
        for z, low, high in zip(zs, bounds.lower, bounds.upper, strict=True):
            assert inside(z, low, high)


@pytest.mark.parametrize("relaxation", ["interval", "linear"])
@pytest.mark.parametrize("norm", ["linf", "l1"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_derivatives_of_decided_networks(relaxation: str, norm: InputNorm, seed: int) -> None:
    # On a tiny box nearly all units are decided, so that the bounds are the value up to rounding.
    network = mixed_network(seed, (3, 4, 4, 2))
    x = np.random.default_rng(seed).standard_normal(3)
    domain = Box(x - 1e-9, x + 1e-9)
    bounds = preactivation_bounds(network, domain)
    _, slopes = exact_pass(network, x)
    c = np.array([1.0, -0.7])
    found = adjoint_limits(network, bounds, c, relaxation)
    t = product(network.head.dense_weight.T, exact(c))
    for i in reversed(range(len(network.hidden))):
        assert inside(t, found.lower[i], found.upper[i])
        s = [a * b for a, b in zip(slopes[i], t, strict=True)]
        t = product(network.hidden[i].dense_weight.T, s)
    assert inside(t, found.end_lower, found.end_upper)
    v = maximiser(network.jacobian(network.pattern(x))[0], norm)
    tangents = tangent_limits(network, bounds, norm, relaxation=relaxation)
    u = exact(v)
    for i, layer in enumerate(network.hidden):
        u = product(layer.dense_weight, u)
        assert inside(u, tangents.lower[i], tangents.upper[i])
        u = [a * b for a, b in zip(slopes[i], u, strict=True)]
    u = product(network.head.dense_weight, u)
    assert inside(u, tangents.end_lower, tangents.end_upper)


@pytest.mark.parametrize("seed", range(20))
def test_constants_that_cancel_are_off_by_their_own_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one = Layer(rng.standard_normal((6, 3)), 1e6 * rng.uniform(1.0, 2.0, 6), 0.0, 1.0)
    weight = rng.standard_normal((5, 6))
    two = Layer(weight, -weight @ one.bias + rng.standard_normal(5), 0.0, 1.0)
    network = Network([one, two, Layer(rng.standard_normal((1, 5)), [0.0])])
    bounds = preactivation_bounds(network, Box(-1, 1, 3))
    rows = weight @ one.dense_weight
    for k, row in enumerate(rows):  # all units of the first layer are on: corners are attained
        for x in (np.sign(row), -np.sign(row)):
            zs, _ = exact_pass(network, x)
            assert inside(zs[1], bounds.lower[1], bounds.upper[1])
        assert bounds.upper[1][k] - bounds.lower[1][k] <= 2.0 * np.abs(row).sum() + 1e-6


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("far", [1.0, 1e6])
def test_the_reach_of_a_ball_is_rounded_up(seed: int, far: float) -> None:
    rng = np.random.default_rng(seed)
    domain = ball(far * rng.standard_normal(4), float(rng.uniform(0.1, 1.0)), "l1")
    rows = rng.standard_normal((50, 4))
    over = within(domain, domain.lower[None], domain.upper[None])
    found = over.support(rows[None])[0]
    center = exact(domain.ball.point)
    for row, top in zip(rows, found.tolist(), strict=True):
        c = exact(row)
        at = sum(a * b for a, b in zip(c, center, strict=True))
        assert Fraction(top) >= at + Fraction(domain.ball.radius) * max(map(abs, c))


def test_chords_lie_beyond_their_units() -> None:
    """Without tolerance, at both ends; between them a two-slope unit is on their inner side."""
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-8.0, 8.0, (2, 3000))
    lower, upper = -sizes[0] * rng.uniform(0.5, 1.0, 3000), sizes[1]
    left, right = rng.choice([0.0, 0.1, 1.0, -1.0, 0.3], (2, 3000))
    found = Triangle.of(lower, upper, left, right)
    numbers = (values.tolist() for values in (lower, upper, left, right, *found))
    for a, b, low, high, chord, offset, bend in zip(*numbers, strict=True):
        for z, slope in ((a, low), (b, high)):
            gap = Fraction(chord) * Fraction(z) + Fraction(offset) - Fraction(slope) * Fraction(z)
            assert gap * int(bend) >= 0
            assert bend == np.sign(high - low)


@pytest.mark.parametrize("norm", ["linf", "l1", "l2"])
def test_norms_of_entries_are_rounded_up(norm: InputNorm) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        low, high = np.sort(rng.standard_normal((2, 7)), axis=0)
        sizes = [max(abs(a), abs(b)) for a, b in zip(exact(low), exact(high), strict=True)]
        bound = Fraction(float(entry_norms(low, high, norm)))
        if norm == "l2":
            assert bound**2 >= sum(size**2 for size in sizes)
        else:
            assert bound >= (sum(sizes) if norm == "linf" else max(sizes))
