"""Bounds hold without any tolerance: compared with exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipyomo.bounds import adjoint_bounds, preactivation_bounds, tangent_bounds
from lipyomo.domains import Box
from lipyomo.network import Network
from lipyomo.norms import InputNorm, maximiser
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
    found = adjoint_bounds(network, None, bounds, c, relaxation)
    t = product(network.head.dense_weight.T, exact(c))
    for i in reversed(range(len(network.hidden))):
        assert inside(t, found.lower[i], found.upper[i])
        s = [a * b for a, b in zip(slopes[i], t, strict=True)]
        assert inside(s, found.switched_lower[i], found.switched_upper[i])
        t = product(network.hidden[i].dense_weight.T, s)
    assert inside(t, found.end_lower, found.end_upper)
    v = maximiser(network.jacobian(network.pattern(x))[0], norm)
    tangents = tangent_bounds(network, None, bounds, norm, relaxation)
    u = exact(v)
    for i, layer in enumerate(network.hidden):
        u = product(layer.dense_weight, u)
        assert inside(u, tangents.lower[i], tangents.upper[i])
        u = [a * b for a, b in zip(slopes[i], u, strict=True)]
    u = product(network.head.dense_weight, u)
    assert inside(u, tangents.end_lower, tangents.end_upper)
