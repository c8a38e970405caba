"""Bands hold what they should, and are narrow."""

from __future__ import annotations

import numpy as np
import pytest
from definitions import DEFINITIONS, POINTS, Definition, derivatives, hard_points, name
from flint import arb

from lipyomo.networks.activations import Activation, HardSwish, Sigmoid, Tanh, TwoSlope, tanh

Intervals = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def hostile(definition: Definition, count: int, seed: int) -> Intervals:
    """A, c, low, high: mixed sizes, zeros, points, neighbours, wide ones, ends at breaks."""
    rng = np.random.default_rng(seed)
    z = hard_points(definition, count, seed)
    z = z[np.abs(z) <= 1e4]
    n = z.size
    kind = rng.integers(0, 6, n)
    other = np.choose(
        kind,
        [
            z,
            np.nextafter(z, np.inf),
            z + 10.0 ** rng.uniform(-14, -4, n),
            z + 10.0 ** rng.uniform(-4, 1.5, n),
            z - 10.0 ** rng.uniform(-4, 1.5, n),
            rng.permutation(z),
        ],
    )
    places = np.array([0.0, *definition.breaks])
    other = np.where(rng.random(n) < 0.1, rng.choice(places, n), other)
    low, high = np.minimum(z, other), np.maximum(z, other)
    A, c = (
        rng.normal(size=n) * rng.choice([0.0, 1.0, 1.0, 1e-8, 1e8, 1e150, 1e-200, 1e-310], n)
        for _ in range(2)
    )
    return A, c, low, high


def worst_points(
    made: Activation, given: Intervals, s: np.ndarray, samples: int = 33, rounds: int = 5
) -> np.ndarray:
    """Both ends, and where ``F - s z`` is least and greatest, ever closer; shape (k, n)."""
    A, c, low, high = given
    columns, picked = np.arange(low.size), [low, high]
    for sign in (1.0, -1.0):
        first, last = low, high
        for _ in range(rounds):
            z = np.clip(first + np.linspace(0, 1, samples)[:, None] * (last - first), low, high)
            with np.errstate(all="ignore"):
                off = sign * (A * made.value(z) + c * made.slope(z) - s * z)
            best = np.nan_to_num(off).argmax(axis=0)
            first, last = (z[np.clip(best + step, 0, samples - 1), columns] for step in (-1, 1))
        picked.append(z[best, columns])
    return np.array([*picked, np.clip(low + 0.3 * (high - low), low, high)])


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_bands_hold_what_is_inside(definition: Definition) -> None:
    given = A, c, low, high = hostile(definition, POINTS, seed=8)
    check_bands(definition, given)
    rng = np.random.default_rng(8)
    chords = np.asarray(definition.made.lines(*given)[0])
    turned = rng.choice([0.0, 0.5, 1.0, -3.0], chords.size) * chords
    turned += rng.choice([0.0, 1e-9, 1.0, 10.0], chords.size)
    check_bands(definition, given, turned)
    few = slice(0, POINTS, 8)
    check_bands(definition, (A[few], 0.0 * c[few], low[few], high[few]))


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_bands_hold_what_underflows(definition: Definition) -> None:
    """Nothing less a steep line, between zero and the least number: products of both round to 0."""
    slope = np.array([4.0, -4.0, 0.5, 1e8])
    nothing, least = np.zeros(4), np.full(4, 5e-324)
    check_bands(definition, (nothing, nothing, nothing, least), slope)
    check_bands(definition, (nothing, nothing, -least, nothing), slope)
    check_bands(definition, (least, least, nothing, least), slope)
    check_bands(definition, (least, nothing, slope - 1e-9, slope))
    check_bands(definition, (-least, least, slope - 1e-9, slope))


@pytest.mark.parametrize("definition", DEFINITIONS[:2], ids=name)
@pytest.mark.parametrize("wrong", [0.0, 0.3, 1.0, 1e9, np.nan])
def test_bands_do_not_rest_on_the_roots_that_are_found(
    definition: Definition, wrong: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert definition.made in (Tanh(), Sigmoid())
    monkeypatch.setattr(tanh, "_far_root", lambda A, c, constant: np.full_like(A, wrong))
    check_bands(definition, hostile(definition, 500, seed=12))


def check_bands(definition: Definition, given: Intervals, slope: np.ndarray | None = None) -> None:
    """Compare with ball arithmetic where ``F - s z`` seems to be extreme."""
    A, c, low, high = given
    s, least, greatest = definition.made.lines(A, c, low, high, slope)
    assert slope is None or np.array_equal(s, slope)
    assert not np.isnan(s).any()
    assert not np.isnan(least).any()
    assert not np.isnan(greatest).any()
    for row in worst_points(definition.made, given, s):
        for k, at in enumerate(row.tolist()):
            formulas = definition.formulas_at(at)
            if low[k] < high[k]:  # an end counts from inside only
                formulas = (
                    formulas[-1:] if at == low[k] else formulas[:1] if at == high[k] else formulas
                )
            for formula in formulas:
                value, slope = derivatives(formula, at, 1, 400)
                off = arb(A[k]) * value + arb(c[k]) * slope - arb(s[k]) * arb(at)
                assert not off < arb(least[k]), (A[k], c[k], low[k], high[k], at)
                assert not off > arb(greatest[k]), (A[k], c[k], low[k], high[k], at)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
@pytest.mark.parametrize(("width", "ratio"), [(1e-3, 1.01), (0.03, 1.03), (0.3, 1.15), (1.0, 1.3)])
def test_bands_are_as_narrow_as_around_the_chord(
    definition: Definition, width: float, ratio: float
) -> None:
    """On one branch, in all: the band is hardly wider than what F - s z really does."""
    rng = np.random.default_rng(9)
    n = 2000
    low = rng.uniform(-4, 4, n) / definition.scale
    high = low + width * rng.uniform(0.5, 1.0, n) / definition.scale
    inside = np.ones(n, dtype=bool)
    for at in definition.breaks:
        inside &= (high <= at) | (low >= at)
    A, c, low, high = (array[inside] for array in (*rng.normal(size=(2, n)), low, high))
    s, least, greatest = definition.made.lines(A, c, low, high)
    z = low + np.linspace(1e-6, 1 - 1e-6, 101)[:, None] * (high - low)
    off = A * definition.made.value(z) + c * definition.made.slope(z) - s * z
    needed = off.max(axis=0) - off.min(axis=0)
    assert np.sum(greatest - least) <= ratio * np.sum(needed) + n * 2e-14


@pytest.mark.parametrize("definition", DEFINITIONS[:2], ids=name)
@pytest.mark.parametrize("alone", [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0)])
def test_bands_of_tanh_and_sigmoid_are_those_of_the_chord(
    definition: Definition, alone: tuple[float, float]
) -> None:
    rng = np.random.default_rng(13)
    n = 5000
    low = rng.normal(size=n) * 4
    high = low + 10.0 ** rng.uniform(-3, 1.5, n)
    A, c = rng.normal(size=(2, n)) * rng.choice([1e-6, 1.0], size=(2, n)) * np.array(alone)[:, None]
    s, least, greatest = definition.made.lines(A, c, low, high)
    z = low + np.linspace(0, 1, 401)[:, None] * (high - low)
    off = A * definition.made.value(z) + c * definition.made.slope(z) - s * z
    needed = off.max(axis=0) - off.min(axis=0)
    size = np.abs(A) + np.abs(c)
    assert np.all(greatest - least <= 1.02 * needed + 1e-11 * size)
    assert np.sum((greatest - least) / size) <= 1.001 * np.sum(needed / size)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_bands_shrink_with_the_square_of_the_width(definition: Definition) -> None:
    rng = np.random.default_rng(10)
    low = rng.uniform(0.1, 2.5, 500) / definition.scale
    A, c = rng.normal(size=(2, 500))
    wide, narrow = (
        np.subtract(*definition.made.lines(A, c, low, low + width)[:0:-1]) for width in (0.04, 0.01)
    )
    assert np.sum(narrow) <= np.sum(wide) / 14.5 + 500 * 1e-13


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_wide_bands_are_bounded_by_what_is_inside(definition: Definition) -> None:
    """On very wide intervals, the value alone: a few times what sigma less its chord does."""
    low, high = np.array([-1e6, -50.0, -1e6, 3.5]), np.array([1e6, 60.0, 2.0, 1e5])
    s, least, greatest = definition.made.lines(np.ones(4), np.zeros(4), low, high)
    z = np.concatenate([np.linspace(-1e6, 1e6, 1001), np.linspace(-100, 100, 20001)])[:, None]
    z = np.clip(z, low, high)
    off = definition.made.value(z) - s * z
    needed = off.max(axis=0) - off.min(axis=0)
    assert np.all(greatest - least <= 4.0 * needed + 1e-8)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_extreme_factors_and_ends_give_no_nan(definition: Definition) -> None:
    sizes = np.array([0.0, 1e-320, 1.0, -1e150, 1e150])
    ends = np.array([-1e300, -1e6, -1.0, -5e-324, 0.0, 5e-324, 1e-308, 1.0, 1e6, 1e300])
    A, c, low, high = (
        array.reshape(-1) for array in np.meshgrid(sizes, sizes, ends, ends, indexing="ij")
    )
    A, c, low, high = (array[low <= high] for array in (A, c, low, high))
    s, least, greatest = definition.made.lines(A, c, low, high)
    assert np.isfinite(s).all()
    assert np.all(least <= greatest)
    assert np.all(least < np.inf)
    assert np.all(greatest > -np.inf)
    tame = (np.abs(low) <= 1e6) & (np.abs(high) <= 1e6)
    assert np.isfinite(least[tame]).all()
    assert np.isfinite(greatest[tame]).all()
    nothing = (A == 0.0) & (c == 0.0)
    assert np.all(s[nothing & tame] == 0.0)
    assert np.all(least[nothing & tame] == 0.0)
    assert np.all(greatest[nothing & tame] == 0.0)


def test_lines_broadcast_and_refuse_infinite_ends() -> None:
    s, least, greatest = Tanh().lines(np.ones((3, 1)), 0.5, np.zeros(4), np.ones(4))
    assert s.shape == least.shape == greatest.shape == (3, 4)
    alone = Tanh().lines(1.0, 0.5, 0.0, 1.0)
    np.testing.assert_array_equal(np.array(alone), [s[0, 0], least[0, 0], greatest[0, 0]])
    with pytest.raises(AssertionError):
        Tanh().lines(1.0, 0.0, -np.inf, 1.0)


def test_many_entries_are_treated_one_by_one() -> None:
    """Entries do not depend on what they are beside, nor on the size of the whole."""
    rng = np.random.default_rng(11)
    n = 20_011
    low = rng.normal(size=n) * 3
    high = low + 10.0 ** rng.uniform(-3, 1.5, n)
    A, c = rng.normal(size=(2, n))
    for made in (Tanh(), Sigmoid(), HardSwish()):
        whole = np.array(made.lines(A, c, low, high))
        part = np.array(made.lines(A[::7], c[::7], low[::7], high[::7]))
        assert np.all(part[1] <= part[2])
        np.testing.assert_allclose(part[0], whole[0][::7], rtol=1e-9, atol=1e-12)


def test_a_relu_between_its_ends_is_the_triangle() -> None:
    s, least, greatest = TwoSlope(0.0, 1.0).lines(1.0, 0.0, -1.0, 3.0)
    np.testing.assert_allclose((s, least, greatest), (0.75, 0.0, 0.75), atol=1e-13)


def test_slopes_that_jump_are_in_the_band_from_both_sides() -> None:
    step = TwoSlope(-0.5, 1.0)
    s, least, greatest = step.lines(0.0, 1.0, -1.0, 2.0)
    for z, slope in ((-1.0, -0.5), (0.0, -0.5), (0.0, 1.0), (2.0, 1.0)):
        assert s * z + least <= slope <= s * z + greatest
    s, least, greatest = step.lines(0.0, 1.0, 0.0, 2.0)
    np.testing.assert_allclose((s, least, greatest), (0.0, 1.0, 1.0), atol=1e-13)
