"""What numpy's and SciPy's functions are assumed to be off by, against ball arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.special
from definitions import POINTS
from flint import arb, ctx

from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.networks.activations.rounding import EXACT, TINY, error, outwards

Function = Callable[[np.ndarray], np.ndarray]
RNG = np.random.default_rng(14)


def spread(low: float, high: float) -> np.ndarray:
    """Numbers of both signs with exponents (to base 10) in a range."""
    return 10.0 ** RNG.uniform(low, high, POINTS) * RNG.choice([-1, 1], POINTS)


NEAR_ONE = 1.0 - 10.0 ** RNG.uniform(-16, 0, POINTS)

ASSUMED: list[tuple[Function, str, np.ndarray, Callable[[float], float]]] = [
    (np.exp, "exp", -np.abs(spread(-20, 2.85)), lambda z: 8),
    (np.expm1, "expm1", -np.abs(spread(-300, 2.85)), lambda z: 8),
    (np.log1p, "log1p", np.abs(spread(-300, 0)), lambda z: 8),
    (np.tanh, "tanh", spread(-300, 1.5), lambda z: 8),
    (np.arctanh, "atanh", np.concatenate([spread(-300, -0.01), NEAR_ONE]), lambda z: 8),
    (scipy.special.erf, "erf", spread(-300, 1), lambda z: 8),
    (scipy.special.erfc, "erfc", spread(-3, 1.41), lambda z: 16 + 4 * z * z),
]


@pytest.mark.parametrize(("computed", "true", "points", "units"), ASSUMED, ids=lambda x: str(x)[:9])
def test_relative_errors(
    computed: Function, true: str, points: np.ndarray, units: Callable[[float], float]
) -> None:
    for z, got in zip(points.tolist(), computed(points).tolist(), strict=True):
        value = exactly(true, z)
        assert abs(value - got) <= abs(value) * (units(z) * UNIT_ROUNDOFF) + TINY, z


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_absolute_errors_of_waves(name: str) -> None:
    points = np.concatenate([spread(-10, 6.02), np.arange(1, 500) * (np.pi / 2)])
    for z, got in zip(points.tolist(), getattr(np, name)(points).tolist(), strict=True):
        assert abs(exactly(name, z) - got) <= 8 * UNIT_ROUNDOFF, z


def exactly(name: str, z: float) -> arb:
    """A function at a number, with bits to spare."""
    kept = ctx.prec
    try:
        ctx.prec = 2200 if abs(z) < 1e-8 else 200
        return getattr(arb(z), name)()
    finally:
        ctx.prec = kept


def test_ends_move_outwards_by_their_error() -> None:
    low, high = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 0.0, 3.0])
    below, above = outwards(low, high, error(8, 4))
    room = 8 * UNIT_ROUNDOFF * np.abs([low, high]) + 4 * UNIT_ROUNDOFF
    assert np.all(low - below >= room[0] * 0.9)
    assert np.all(above - high >= room[1] * 0.9)
    assert np.all(above - below <= high - low + 3 * room.sum(axis=0))
    same = outwards(low, high, EXACT)
    np.testing.assert_array_equal(same, (low, high))
