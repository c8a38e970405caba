"""Ranges of values and slopes, and the turning points that they rest on."""

from __future__ import annotations

import numpy as np
import pytest
from definitions import DEFINITIONS, POINTS, Definition, derivatives, hard_points, name
from flint import arb

from lipyomo.networks.activations import Gelu, Mish, Sin, Softplus, Tanh, TwoSlope
from lipyomo.networks.activations.branch import Branch
from lipyomo.networks.activations.scaled import Scaled

SPAN = {"gelu": 12.0, "gelu(tanh)": 12.0, "erf": 12.0}
"""How far out turning points are looked for; 40 times the width of the others.  Derivatives are
below 1e-15 beyond."""


def intervals(definition: Definition, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of hard points, close ones, single points and half-lines."""
    rng = np.random.default_rng(seed)
    z = hard_points(definition, count, seed)
    z = z[np.abs(z) <= 1e4]
    other = np.where(rng.random(z.size) < 0.3, rng.permutation(z), z)
    other = np.where(rng.random(z.size) < 0.4, z + 10.0 ** rng.uniform(-12, 1.5, z.size), other)
    low, high = np.minimum(z, other), np.maximum(z, other)
    low = np.where(rng.random(z.size) < 0.05, -np.inf, low)
    high = np.where(rng.random(z.size) < 0.05, np.inf, high)
    return low, high


def inner_points(low: np.ndarray, high: np.ndarray, seed: int) -> np.ndarray:
    """Some numbers in each interval, shape (k, n): the ends, and between."""
    rng = np.random.default_rng(seed)
    first, last = np.clip(low, -1e4, 1e4), np.clip(high, -1e4, 1e4)
    between = first + (last - first) * rng.random((2, low.size))
    return np.array([first, last, *np.clip(between, first, last)])


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_ranges_hold_what_is_inside(definition: Definition) -> None:
    low, high = intervals(definition, POINTS // 4, seed=5)
    made = definition.made
    ranges = made.enclose(low, high), made.slope_range(low, high)
    for row in inner_points(low, high, seed=6):
        for k, at in enumerate(row.tolist()):
            formulas = definition.formulas_at(at)
            if low[k] < high[k]:  # an end counts from inside only
                formulas = (
                    formulas[-1:] if at == low[k] else formulas[:1] if at == high[k] else formulas
                )
            for formula in formulas:
                for true, (least, greatest) in zip(
                    derivatives(formula, at, 1), ranges, strict=True
                ):
                    assert not true < arb(least[k]), (low[k], high[k], at)
                    assert not true > arb(greatest[k]), (low[k], high[k], at)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_ranges_are_tight(definition: Definition) -> None:
    rng = np.random.default_rng(7)
    low = rng.uniform(-6, 6, 200)
    high = low + 10.0 ** rng.uniform(-3, 1, 200)
    made = definition.made
    share = np.linspace(0.0, 1.0, 2001)[:, None]
    z = low + share * (high - low)
    for found, sampled in ((made.enclose, made.value(z)), (made.slope_range, made.slope(z))):
        least, greatest = found(low, high)
        width = sampled.max(axis=0) - sampled.min(axis=0)
        room = 0.01 * width + 1e-13
        assert np.all(least >= sampled.min(axis=0) - room)
        assert np.all(greatest <= sampled.max(axis=0) + room)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_limits_are_the_range_of_all_slopes(definition: Definition) -> None:
    made = definition.made
    least, greatest = made.limits
    breaks = np.array(definition.breaks)
    spread = np.linspace(-30, 30, 60001) / definition.scale
    sampled = made.slope(np.concatenate([spread, [-1e9, 1e9], breaks, np.nextafter(breaks, -9)]))
    assert least <= sampled.min() + 1e-14
    assert greatest >= sampled.max() - 1e-14
    assert greatest - least <= (sampled.max() - sampled.min()) * (1 + 1e-6)
    np.testing.assert_array_equal(made.slope_range(-np.inf, np.inf), made.limits)


def curves() -> list[tuple[str, Branch, object]]:
    """Every branch with turning points of a table, and its formula."""
    return [
        (definition.made.name, branch, formula)
        for definition in DEFINITIONS
        for branch, formula in zip(definition.made.branches, definition.formulas, strict=True)
        if definition.made.name not in ("sin", "cos")
    ]


@pytest.mark.parametrize(("title", "branch", "formula"), curves())
@pytest.mark.parametrize("order", range(4))
def test_tables_hold_all_turning_points(title: str, branch, formula, order: int) -> None:
    """The next derivative crosses zero at each of them once, and keeps its sign between."""
    scale = branch.beta if isinstance(branch, Scaled) else 1.0
    span = SPAN.get(title.rstrip("'"), 40.0 / scale)
    ends = max(branch.low, -span), min(branch.high, span)
    high_order = order + title.count("'") > 3  # balls say little of so many derivatives
    if high_order:
        z = np.linspace(*ends, 801) + 1e-3
        signs = [derivatives(formula, at, order + 1, 400)[-1] > 0 for at in z.tolist()]
        assert np.count_nonzero(np.diff(signs)) == len(branch.turns[order])
    gaps, start = [], ends[0]
    for turn in branch.turns[order]:
        first, last = turn.ends if turn.at * turn.slack else (turn.at - 1e-9, turn.at + 1e-9)
        left, right = (derivatives(formula, z, order + 1)[-1] for z in (first, last))
        assert left * right < 0, (title, turn)
        beside = turn.at - 1e-3 / scale, turn.at + 1e-3 / scale
        if not high_order:
            assert keeps_sign(formula, order + 2, *beside), (title, turn)  # so there is just one
        value = derivatives(formula, turn.at, order)[-1]
        assert value.overlaps(arb(turn.value, abs(turn.value) * 1e-15)), (title, turn)
        assert not value > arb(turn.values[1])
        assert not value < arb(turn.values[0])
        gaps.append((start, beside[0]))
        start = beside[1]
    for gap in () if high_order else (*gaps, (start, ends[1])):
        assert keeps_sign(formula, order + 1, *gap), (title, order, gap)


def keeps_sign(formula, order: int, low: float, high: float) -> bool:
    """Whether a derivative has no two signs on [low, high], by halving in ball arithmetic.

    Where the ball says nothing, the mean value theorem may: what balls lose is of second order.
    """
    signs, waiting = set(), [(arb(low), arb(high), 0)]
    while waiting:
        first, last, depth = waiting.pop()
        middle, radius = (first + last) / 2, (last - first) / 2
        try:
            ball = arb(middle.mid(), radius.upper())
            *_, here, steep = derivatives(formula, ball, order + 1, 128)
            if here.contains(0):
                here = derivatives(formula, middle.mid(), order, 128)[-1]
                here += steep * arb(0, radius.upper())
        except ValueError:  # a denominator that may be zero on so wide a ball
            here = arb(0, 1)
        if here > 0:
            signs.add(1)
        elif here < 0:
            signs.add(-1)
        elif here == 0:
            continue  # of straight lines
        elif depth < 60:
            waiting += [(first, middle.mid(), depth + 1), (middle.mid(), last, depth + 1)]
        else:
            return False
    return len(signs) <= 1


def test_extreme_slopes_that_are_known() -> None:
    np.testing.assert_allclose(Gelu().limits, (-0.128904145185, 1.128904145185), rtol=1e-11)
    np.testing.assert_allclose(Gelu("tanh").limits, (-0.128993068659, 1.128993068659), rtol=1e-11)
    np.testing.assert_allclose(Mish().limits, (-0.112526122389, 1.088498161252), rtol=1e-11)
    assert Tanh().limits == (0.0, 1.0)
    assert Softplus(5.0).limits == (0.0, 1.0)


def test_slopes_at_breaks_count_from_inside() -> None:
    relu = TwoSlope(0.0, 1.0)
    low, high = np.array([-1.0, 0.0, 0.0, -1.0]), np.array([0.0, 1.0, 0.0, 1.0])
    least, greatest = relu.slope_range(low, high)
    assert least.tolist() == [0.0, 1.0, 0.0, 0.0]
    assert greatest.tolist() == [0.0, 1.0, 1.0, 1.0]


def test_waves_turn_in_every_period() -> None:
    wave = Sin()
    least, greatest = wave.enclose(
        np.array([0.0, 0.0, 0.0, 1e6, 1e8]), np.array([1.5, 2.0, 7.0, 1e6 + 7, 1e8])
    )
    np.testing.assert_allclose(least, [0.0, 0.0, -1.0, -1.0, -1.0], atol=1e-14)
    np.testing.assert_allclose(greatest, [np.sin(1.5), 1.0, 1.0, 1.0, 1.0], atol=1e-14)


def test_scaled_bases_move_little_when_their_arguments_are_rounded() -> None:
    """|y f'(y)| <= 2 + |f(y)| for values and derivatives of all bases that are scaled."""
    y = np.concatenate([np.linspace(-60, 60, 60001), [-1e5, 1e5]])
    bases = {
        branch.base: definition.formulas[0]
        for definition in DEFINITIONS
        for branch in definition.made.branches
        if isinstance(branch, Scaled)
    }
    assert bases
    for base in bases:
        jets = base.jet(y, 3)
        fourth = np.gradient(jets[3], y, edge_order=2)
        for here, following in zip(jets, (*jets[1:], fourth), strict=True):
            assert np.all(np.abs(y * following) <= 2 + np.abs(here) * (1 + 1e-12))
