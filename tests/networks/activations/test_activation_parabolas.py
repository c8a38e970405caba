"""Parabolas hold what they should, and are one order closer than bands."""

from __future__ import annotations

import numpy as np
import pytest
from definitions import DEFINITIONS, POINTS, Definition, derivatives, name
from flint import arb
from test_activation_bands import hostile

from lipyomo.networks.activations import Confined, Exp, Log, Power, Tanh

CONFINED = [
    Confined(Power(2.0), -3.0, 4.0),
    Confined(Power(-0.5), 1e-3, 50.0),
    Confined(Power(-1.0), -9.0, -0.1),
    Confined(Power(3.0), -2.0, 2.0),
    Confined(Exp(), -20.0, 5.0),
    Confined(Log(), 1e-4, 10.0),
]


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_parabolas_hold_what_is_inside(definition: Definition) -> None:
    A, c, low, high = hostile(definition, POINTS // 10, seed=21)
    rng = np.random.default_rng(21)
    f = low + rng.choice([-1.0, 0.0, 0.5, 0.5, 1.0, 3.0], low.size) * (high - low)
    s, k, under, over = definition.made.parabolas(A, c, low, high, f)
    assert np.isfinite(s).all()
    assert np.isfinite(k).all()
    assert not np.isnan([under, over]).any()
    shares = np.array([0.0, 1.0])[:, None]
    z = low + np.linspace(0.0, 1.0, 65)[:, None] * (high - low)
    with np.errstate(all="ignore"):
        excess = A * definition.made.value(z) + c * definition.made.slope(z)
        excess = excess - s * z - 0.5 * k * (z - f) ** 2
    excess = np.nan_to_num(excess)
    places = np.array([excess.argmax(axis=0), excess.argmin(axis=0)])
    worst = np.take_along_axis(z, places, axis=0)
    for row in np.concatenate([low + shares * (high - low), worst]):
        for n, at in enumerate(np.clip(row, low, high).tolist()):
            formulas = definition.formulas_at(at)
            if low[n] < high[n]:  # an end counts from inside only
                formulas = (
                    formulas[-1:] if at == low[n] else formulas[:1] if at == high[n] else formulas
                )
            for formula in formulas:
                value, slope = derivatives(formula, at, 1, 400)
                away = arb(at) - arb(f[n])
                off = arb(A[n]) * value + arb(c[n]) * slope
                off = off - arb(s[n]) * arb(at) - arb(k[n]) * away * away / 2
                assert not off > arb(over[n]), (A[n], c[n], low[n], high[n], at)
                assert not off < arb(under[n]), (A[n], c[n], low[n], high[n], at)


@pytest.mark.parametrize("made", CONFINED, ids=lambda made: made.of.name)
def test_parabolas_hold_confined_functions(made: Confined) -> None:
    """On what an interval shares with the one that they are confined to."""
    rng = np.random.default_rng(3)
    ends = np.sort(rng.uniform(made.low - 1.0, made.high + 1.0, (2, 400)), axis=0)
    ends[1, ::2] = ends[0, ::2] + rng.choice([0.0, 1e-9, 1e-3], 200)
    low, high = ends
    A, c = rng.normal(size=(2, 400)) * rng.choice([0.0, 1.0, 1e3], (2, 400))
    f = 0.5 * (low + high)
    s, k, under, over = made.parabolas(A, c, low, high, f)
    z = np.clip(low + np.linspace(0.0, 1.0, 101)[:, None] * (high - low), made.low, made.high)
    found = A * made.value(z) + c * made.slope(z) - 0.5 * k * (z - f) ** 2 - s * z
    size = np.abs(A * made.value(z)) + np.abs(c * made.slope(z)) + np.abs(s * z)
    room = 1e-14 * (size + np.abs(k) * (z - f) ** 2)
    assert (found <= over + room).all()
    assert (found >= under - room).all()


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_parabolas_shrink_with_the_third_power_of_the_width(definition: Definition) -> None:
    rng = np.random.default_rng(10)
    low = rng.uniform(0.1, 2.5, 300) / definition.scale
    A, c = rng.normal(size=(2, 300))
    gaps = []
    for width in (0.08 / definition.scale, 0.02 / definition.scale):
        inside = np.ones(low.size, dtype=bool)
        for at in definition.breaks:
            inside &= (low + 0.08 / definition.scale <= at) | (low >= at)
        f = low + 0.5 * width
        s, k, under, over = definition.made.parabolas(A, c, low, low + width, f)
        z = low + np.linspace(0.0, 1.0, 65)[:, None] * width
        found = A * definition.made.value(z) + c * definition.made.slope(z)
        curve = s * z + 0.5 * k * (z - f) ** 2
        apart = np.maximum(over + curve - found, found - curve - under)
        gaps.append(np.sum(apart.max(axis=0)[inside]))
    assert gaps[1] <= gaps[0] / 50.0 + 300 * 1e-12


def test_extreme_factors_and_ends_give_no_nan() -> None:
    sizes = np.array([0.0, 1e-320, 1.0, -1e150, 1e150])
    ends = np.array([-1e300, -1e6, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1e6, 1e300])
    grid = np.meshgrid(sizes, sizes, ends, ends, np.array([-1e300, 0.0, 1.0]), indexing="ij")
    A, c, low, high, f = (array.reshape(-1) for array in grid)
    A, c, low, high, f = (array[low <= high] for array in (A, c, low, high, f))
    s, k, under, over = Tanh().parabolas(A, c, low, high, f)
    assert np.isfinite(s).all()
    assert np.isfinite(k).all()
    assert (over > -np.inf).all()
    assert (under <= over).all()
    nothing = (A == 0.0) & (c == 0.0) & (np.abs(low) <= 1e6) & (np.abs(high) <= 1e6)
    assert (over[nothing] == 0.0).all()
    assert (under[nothing] == 0.0).all()
