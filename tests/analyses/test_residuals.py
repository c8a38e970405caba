"""Ranges of residuals of differential equations, against grids and closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, Network, networks

Expression = Callable[..., object]

EQUATIONS: dict[str, Expression] = {
    "Burgers": lambda u, x: u.dt + u * u.dx - 0.01 / math.pi * u.dxx,
    "heat, with a source": lambda u, x: u.dt - u.dxx - np.sin(x.x) * np.exp(-x.t),
    "Klein-Gordon": lambda u, x: u.dtt - u.dxx + u**3,
    "eikonal": lambda u, x: u.dt**2 + u.dx**2 - 1,
}


def solution(seed: int, kind: str = "tanh") -> Network:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise((2, 4, 4, 1)))
    weights = [rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairs]
    biases = [0.3 * rng.normal(size=b) for _, b in pairs]
    found = Network.from_arrays(weights, biases, activation=kind)
    found.input_names = ["t", "x"]
    return found


@pytest.mark.parametrize(
    ("equation", "kind"),
    [
        *zip(EQUATIONS, ["tanh", "sin"] * 2, strict=True),
        ("Klein-Gordon", "sin"),
        ("eikonal", "tanh"),
    ],
)
def test_ranges_of_residuals_are_those_of_a_fine_grid(equation: str, kind: str) -> None:
    left = networks.residual(solution(1, kind), EQUATIONS[equation])
    domain = Box([0.2, -0.3], [0.35, -0.1])
    found = lipyomo.value_range(left, domain, time_limit=60)
    sides = [
        np.linspace(low, high, 81) for low, high in zip(domain.lower, domain.upper, strict=True)
    ]
    values = left.forward(np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2))
    size = np.ptp(values)
    assert found.is_exact
    assert found.low[0] <= values.min() + 1e-12
    assert found.high[1] >= values.max() - 1e-12
    assert found.low[0] == pytest.approx(values.min(), abs=0.01 * size)
    assert found.high[1] == pytest.approx(values.max(), abs=0.01 * size)


def test_a_boundary_condition_is_a_domain_that_cannot_move_everywhere() -> None:
    """u - sin(pi x) at t = 0, for u = sin(3 x): the number pi is a float64 one on both sides."""
    u = Network.from_arrays([[[0.0, 3.0]], [[1.0]]], activation="sin")
    u.input_names = ["t", "x"]
    start = networks.residual(u, lambda u, x: u - np.sin(np.pi * x.x))
    found = lipyomo.value_range(start, Box([0.0, -0.5], [0.0, 0.5]), time_limit=30)
    x = np.linspace(-0.5, 0.5, 10_001)
    values = np.sin(3 * x) - np.sin(np.pi * x)
    assert found.low[0] == pytest.approx(values.min(), abs=1e-6)
    assert found.high[1] == pytest.approx(values.max(), abs=1e-6)
