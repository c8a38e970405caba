"""Powers, exponentials and logarithms on the intervals that they are confined to."""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Iterator

import numpy as np
import pytest
from flint import arb, ctx

from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations import Confined, Exp, Log, Power, Unbounded

CASES = [
    (Power(2.0), -1.5, 2.0),
    (Power(2.0), 0.25, 3.0),
    (Power(3.0), -1.0, 2.0),
    (Power(4.0), -2.0, 0.5),
    (Power(1.5), 0.01, 4.0),
    (Power(0.5), 1e-4, 9.0),
    (Power(-0.5), 1e-3, 2.0),
    (Power(-1.0), 0.02, 5.0),
    (Power(-1.0), -3.0, -0.1),
    (Power(-2.0), -3.0, -0.1),
    (Power(-2.5), 0.3, 40.0),
    (Exp(), -30.0, 4.0),
    (Exp(), 1.0, 1.5),
    (Log(), 1e-3, 7.0),
    (Log(), 0.4, 0.6),
]
IDS = [f"{kind.name} on {low}, {high}" for kind, low, high in CASES]


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """More digits than float64 numbers have."""
    before, ctx.prec = ctx.prec, 200
    yield
    ctx.prec = before


def derivatives(kind: Unbounded, z: arb) -> list[arb]:
    """Value and three derivatives, by formulas of this file."""
    if isinstance(kind, Exp):
        return [z.exp()] * 4
    if isinstance(kind, Log):
        return [z.log(), 1 / z, -1 / z**2, 2 / z**3]
    assert isinstance(kind, Power)
    found, factor = [], arb(1)
    for k in range(4):
        p = kind.exponent - k
        half = int(2 * p)
        base = z ** (half // 2) if half % 2 == 0 else z.sqrt() ** half
        found.append(factor * (base if factor != 0 else 0))
        factor *= p
    return found


def some(low: float, high: float, rng: np.random.Generator, count: int) -> np.ndarray:
    """Points of an interval: even ones, and more near its lower end and near zero."""
    even = rng.uniform(low, high, count)
    near = low + (high - low) * 10.0 ** rng.uniform(-8, 0, count)
    tiny = np.clip(rng.standard_normal(count) * 1e-6, low, high)
    return np.concatenate([even, near, tiny, [low, high]])


@pytest.mark.parametrize(("kind", "low", "high"), CASES, ids=IDS)
def test_derivatives_are_off_by_their_errors_at_most(kind, low, high) -> None:
    branch = kind.on(low, high).branches[0]
    z = np.unique(np.clip(some(low, high, np.random.default_rng(0), 60), low, high))
    jets = branch.jet(z, 3)
    for k, at in enumerate(z.tolist()):
        for order, true in enumerate(derivatives(kind, arb(at))):
            found = float(jets[order][k])
            room = branch.errors[order].relative * abs(found) + branch.errors[order].absolute
            assert abs(arb(found) - true) <= room, (at, order)
    value, slope = kind.exact(arb(float(z[3])))
    true = derivatives(kind, arb(float(z[3])))
    assert value.overlaps(true[0])
    assert slope.overlaps(true[1])


@pytest.mark.parametrize(("kind", "low", "high"), CASES, ids=IDS)
def test_ranges_and_bands_hold_all_values_that_an_interval_shares(kind, low, high) -> None:
    """Some intervals reach beyond the one that arguments are confined to."""
    rng = np.random.default_rng(1)
    confined = kind.on(low, high)
    count = 40
    centres = some(low, high, rng, count)[:count]
    widths = (high - low) * 10.0 ** rng.uniform(-6, 0.3, count)
    first, last = centres - widths, centres + widths
    A, c = rng.standard_normal(count), rng.standard_normal(count)
    A[:10], c[10:20] = 0.0, 0.0
    slopes = confined.slope_range(first, last)
    values = confined.enclose(first, last)
    s, under, over = confined.lines(A, c, first, last)
    assert (confined.limits[0] <= slopes[0]).all()
    assert (confined.limits[1] >= slopes[1]).all()
    for k in range(count):
        a, b = max(low, first[k]), min(high, last[k])
        for z in np.unique(np.clip(some(a, b, rng, 8), a, b)).tolist():
            value, slope, *_ = derivatives(kind, arb(z))
            assert values[0][k] <= value <= values[1][k]
            assert slopes[0][k] <= slope <= slopes[1][k]
            rest = arb(A[k]) * value + arb(c[k]) * slope - arb(s[k]) * arb(z)
            assert under[k] <= rest <= over[k]


def test_bands_are_narrow() -> None:
    """The width is of second order; that of a square is the least there is."""
    square = Power(2.0).on(-4.0, 4.0)
    _, low, high = square.lines(1.0, 0.0, 1.0, 1.5)
    assert high - low == pytest.approx(0.25**2, rel=1e-9)
    for kind in (Power(-1.0), Power(-0.5), Exp(), Log()):
        on = kind.on(0.5, 2.0)
        widths = []
        for h in (0.1, 0.01):
            _, low, high = on.lines(1.0, 1.0, 1.0, 1.0 + h)
            widths.append(float(high - low))
        assert widths[1] < widths[0] / 60


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (Log(), 0.0, 1.0),
        (Log(), -1.0, 1.0),
        (Power(0.5), 0.0, 1.0),
        (Power(-1.0), -1.0, 1.0),
        (Power(-1.0), 0.0, 1.0),
        (Power(-2.0), -1.0, 0.0),
        (Power(2.0), -math.inf, 1.0),
        (Exp(), 0.0, 1000.0),
        (Power(-1.0), 1e-60, 1.0),
        (Exp(), math.nan, 1.0),
    ],
)
def test_singular_and_steep_ranges_are_refused_with_the_range(kind, low, high) -> None:
    with pytest.raises(NetworkError, match=re.escape(kind.name)) as caught:
        kind.on(low, high)
    assert f"[{low:.6g}, {high:.6g}]" in str(caught.value)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 0.3, 9.0, math.nan, math.inf])
def test_exponents_that_are_none(exponent: float) -> None:
    with pytest.raises((NetworkError, ValueError)):
        Power(exponent)


def test_nothing_is_bounded_before_a_range_is_known() -> None:
    assert Power(2.0).limits == (-math.inf, math.inf)
    with pytest.raises(NetworkError, match="square"):
        Power(2.0).lines(1.0, 0.0, 0.0, 1.0)
    low, high = Power(-1.0).slope_range(np.array([-1.0, 1.0]), np.array([1.0, 2.0]))
    assert low[0] == -math.inf
    assert high[0] == math.inf
    assert low[1] <= -1.0
    assert high[1] >= -0.25
    low, high = Power(-1.0).enclose(np.array([-math.inf]), np.array([-2.0]))
    assert low[0] <= -0.5
    assert high[0] >= 0.0


def test_confined_functions_are_values() -> None:
    one = Power(-1.0).on(0.5, 2.0)
    assert one == Confined(Power(-1.0), 0.5, 2.0)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.true == Power(-1.0)
    assert one.name == "reciprocal on [0.5, 2.0]"
