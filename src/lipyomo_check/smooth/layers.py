"""What is known of a hidden layer's units over boxes: ranges, lines, and planes above products."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lipyomo_check.smooth.boxes import Ball, Ends, Rows
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.factors import (
    Above,
    Factors,
    Left,
    Scope,
    above,
    left_of,
    times,
)
from lipyomo_check.smooth.kind import Bools
from lipyomo_check.smooth.levels import Group, Indices, Level
from lipyomo_check.smooth.lines import Samples

Line = tuple[Array, Array, Array]
"""A slope, and the middle and the radius of what is left."""


class Planes(NamedTuple):
    """Planes above what a layer's outputs add, ``A h + B t``, on N boxes.

    That of a unit, ``A sigma(z) + B sigma'(z) u``, is ``s z + B r u + most``.

    Attributes
    ----------
    s, rates : ndarray, shape (N, branches)
        Coefficients of z and u of each branch's row; rates of units are B r.
    r : ndarray, shape (N, units)
    most : ndarray, shape (N, outputs)
    size : ndarray, shape (N, outputs)
        At least the sum of absolute values of the terms that all of it is made of, without rates'.
    gap, product_gap : ndarray, shape (N, n)
        What a row's z, and its u, add to the distance between the objective and its bound, on
        average: half of that between lines of ``A sigma + c sigma'``, and products of radii.  Who
        writes a proof chooses splits by them.
    points : ndarray, shape (N, 3, 2, P)
        Of products, see `factors.Above`.
    """

    s: Array
    rates: Array
    r: Array
    most: Array
    size: Array
    gap: Array
    product_gap: Array
    points: Array

    def where(self, which: Bools, other: Planes) -> Planes:
        """These, and the others' on boxes that are not among `which`."""
        both = zip(self, other, strict=True)
        return Planes(*(np.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in both))


class Change(NamedTuple):
    """Outputs' tangents, ``rate u + tilt z + middle +- reach``, rates being the middles `d`.

    `weight` are at least the sums of absolute values of all terms but reach's.
    """

    tilt: Array
    middle: Array
    reach: Array
    weight: Array


class Mode(NamedTuple):
    """What a layer needs: lines of slopes, the bounds of earlier formats, ranges of outputs."""

    inner: bool
    plain: bool
    narrow: bool


class Relaxed(NamedTuple):
    """A layer's rows and outputs over N boxes (`levels`).

    Attributes
    ----------
    low, high : ndarray, shape (N, n)
        Ends of z; where they are in the wrong order, no point is left of a box.
    line : tuple of ndarray
        Holds the outputs: slopes of branches, middles and radii of outputs.
    slope_line : tuple of ndarray, or None
        Holds the branches' slopes, sigma'(z) or the other factor's z: in inner layers, and in the
        last one if Jacobians are enclosed.
    change : Change, or None
        Holds the outputs' tangents, likewise.
    d, d_reach : ndarray, shape (N, branches)
        Middle and radius of the branches' slopes.
    m, m_reach : ndarray, shape (N, n)
        Of u.
    size, tangent_size : ndarray, shape (N, n)
        At least the sums of absolute values of the terms that z and u are made of.
    samples : tuple of (Group, Samples)
        The units' groups.
    left : Left, or None
        What is left of products.
    ranges : tuple of ndarray, or None
        Ends of the units' sigma(z), where these are narrower than what lines say.
    """

    low: Array
    high: Array
    line: Line
    slope_line: Line | None
    change: Change | None
    d: Array
    d_reach: Array
    m: Array
    m_reach: Array
    size: Array
    tangent_size: Array
    samples: tuple[tuple[Group, Samples], ...]
    left: Left | None
    ranges: Ends | None

    @classmethod
    def of(
        cls,
        level: Level,
        z: Ends,
        u: Ends,
        sizes: tuple[Array, Array],
        rows: tuple[Rows, Rows],
        scope: Scope,
        mode: Mode,
    ) -> Relaxed:
        """The outputs of a layer whose pre-activations and tangents have these ends.

        Parameters
        ----------
        level : Level
        z, u : (ndarray, ndarray)
        sizes : (ndarray, ndarray)
            `size` and `tangent_size`.
        rows : (Rows, Rows)
            The same as affine functions.
        scope : Scope
        mode : Mode
        """
        low, high = z
        top = np.maximum(low, high)
        samples = tuple(
            (group, Samples.of(group.kind, low[:, group.units], top[:, group.units], mode.plain))
            for group in level.groups
        )
        shape = low.shape if level.products is None else (len(low), level.products.units)
        ends = _by_group(samples, shape, lambda _, one: one.extremes(0.0, 1.0))
        line, slope_line = _line(samples, shape, 1.0, 0.0), None
        d, (m, m_reach) = ball_around(*ends), ball_around(*u)
        if mode.inner:
            slope_line = _line(samples, shape, 0.0, 1.0)
        ranges = None
        if mode.narrow:
            ranges = _by_group(samples, shape, lambda _, one: one.outputs())
        left, change = None, None
        if level.products is not None:
            ball = ball_around(low, top)
            others = (ball[0][:, level.others], ball[1][:, level.others])
            d = _behind(d[0], others[0]), _behind(d[1], others[1])
            left = left_of(level.products, (rows[0], ball), (rows[1], (m, m_reach)), scope)
        found = cls(
            *(low, high, line, slope_line, change, *d, m, m_reach, *sizes, samples, left),
            None if ranges is None else (ranges[0], ranges[1]),
        )
        if slope_line is not None:
            found = found._replace(change=found._change(level))
        if level.products is None:
            return found
        return found._with_lines(level)

    def _change(self, level: Level) -> Change:
        """That of the units."""
        assert self.slope_line is not None
        s, middle, reach = self.slope_line
        n = s.shape[1]
        m, size, outer = self.m[:, :n], self.size[:, :n], self.tangent_size[:, :n]
        d, large = self.d[:, :n], np.abs(m)
        weight = large * (np.abs(middle) + np.abs(s) * size) + np.abs(m * d) + np.abs(d) * outer
        spread = large * reach + self.d_reach[:, :n] * self.m_reach[:, :n]
        return Change(m * s, m * middle - m * d, spread, weight)

    def _with_lines(self, level: Level) -> Relaxed:
        """With lines of products behind those of units."""
        products, left = level.products, self.left
        assert products is not None
        assert left is not None
        n, i, j = products.units, products.left, products.right
        count = i.size
        m_j, m_i = self.d[:, n : n + count], self.d[:, n + count :]
        n_i, n_j = self.m[:, i], self.m[:, j]
        error, away = ball_around(left.low, left.high)
        s = np.concatenate([m_j, m_i], axis=1)
        middle = error[0] - m_i * m_j
        line = _lines_behind(self.line, (s, middle, away[0]))
        if self.slope_line is None or self.change is None:
            return self._replace(line=line)
        one, nothing = np.ones_like(s), np.zeros_like(s)
        slope_line = _lines_behind(self.slope_line, (one, nothing, nothing))
        drift = error[1] + error[2] - n_i * m_j - m_i * n_j
        weight = np.abs(error[1]) + np.abs(error[2]) + np.abs(n_i * m_j) + np.abs(m_i * n_j)
        weight = weight + np.abs(n_j) * self.size[:, i] + np.abs(n_i) * self.size[:, j]
        weight = weight + np.abs(m_j) * self.tangent_size[:, i]
        weight = weight + np.abs(m_i) * self.tangent_size[:, j]
        tilt = np.concatenate([n_j, n_i], axis=1)
        more = tilt, drift, away[1] + away[2], weight
        change = Change(*map(_behind, self.change, more))
        return self._replace(line=line, slope_line=slope_line, change=change)

    def outputs(self, level: Level) -> Ball:
        """Ranges of the outputs."""
        s, middle, reach = self.line
        n = self.low.shape[1] if level.products is None else level.products.units
        s, middle, reach = s[:, :n], middle[:, :n], reach[:, :n]
        z, z_reach = ball_around(self.low[:, :n], self.high[:, :n])
        centre = s * z + middle
        slack = np.abs(s) * z_reach
        rounding = 8.0 * ULP * (np.abs(s * z) + np.abs(middle) + slack + reach)
        found = centre, slack + reach + rounding
        if self.ranges is not None:
            low = np.maximum(self.ranges[0], found[0] - found[1])
            high = np.minimum(self.ranges[1], found[0] + found[1])
            found = _wider(*ball_around(np.minimum(low, high), np.maximum(low, high)))
        if level.products is None:
            return found
        products = level.products
        low, high = times(*(self._ends(rows) for rows in (products.left, products.right)))
        more = _wider(*ball_around(low, high))
        return _behind(found[0], more[0]), _behind(found[1], more[1])

    def tangents(self, level: Level) -> Ball:
        """Ranges of the outputs' tangents."""
        n = self.low.shape[1] if level.products is None else level.products.units
        d, d_reach = self.d[:, :n], self.d_reach[:, :n]
        m, m_reach = self.m[:, :n], self.m_reach[:, :n]
        centre = d * m
        reach = np.abs(d) * m_reach + d_reach * (np.abs(m) + m_reach)
        found = centre, reach + 8.0 * ULP * (np.abs(centre) + reach)
        if level.products is None:
            return found
        i, j = level.products.left, level.products.right
        one = times(self._tangent_ends(i), self._ends(j))
        other = times(self._ends(i), self._tangent_ends(j))
        more = _wider(*ball_around(one[0] + other[0], one[1] + other[1]))
        return _behind(found[0], more[0]), _behind(found[1], more[1])

    def _ends(self, rows: Indices) -> Ends:
        low, high = self.low[:, rows], self.high[:, rows]
        return low, np.maximum(low, high)

    def _tangent_ends(self, rows: Indices) -> Ends:
        m, reach = self.m[:, rows], self.m_reach[:, rows]
        return np.nextafter(m - reach, -np.inf), np.nextafter(m + reach, np.inf)

    def planes(
        self, level: Level, A: Array, B: Array, plain: bool, there: tuple[Array, Array] | None
    ) -> Planes:
        """Planes above what the outputs add.

        Parameters
        ----------
        level : Level
        A, B : ndarray, shape (N, outputs)
        plain : bool
        there : (ndarray, ndarray), optional
            z and u (N, n) of a point at which planes above products are to be low.
        """
        products = level.products
        if products is None:
            return self._of_units(A, B, plain)
        n = products.units
        units = self._of_units(A[:, :n], B[:, :n], plain)
        own = self._of_products(level, A[:, n:], B[:, n:], there)
        gap, product_gap = (
            level.rows_of(_behind(*pair))
            for pair in ((units.gap, own.gaps), (units.product_gap, own.tangent_gaps))
        )
        return Planes(
            _behind(units.s, own.slopes),
            _behind(units.rates, own.rates),
            units.r,
            _behind(units.most, own.most),
            _behind(units.size, own.size),
            gap,
            product_gap,
            own.points,
        )

    def _of_products(
        self, level: Level, a: Array, b: Array, there: tuple[Array, Array] | None
    ) -> Above:
        products = level.products
        assert products is not None
        assert self.left is not None
        n, i, j = products.units, products.left, products.right
        m_j, m_i = self.d[:, n : n + i.size], self.d[:, n + i.size :]
        r_j, r_i = self.d_reach[:, n : n + i.size], self.d_reach[:, n + i.size :]
        factors = Factors(
            ((m_i, r_i), (m_j, r_j)),
            ((self.m[:, i], self.m_reach[:, i]), (self.m[:, j], self.m_reach[:, j])),
            ((self._ends(i), self._ends(j)), (self._tangent_ends(i), self._tangent_ends(j))),
            (self.size[:, i], self.size[:, j]),
            (self.tangent_size[:, i], self.tangent_size[:, j]),
        )
        point = None
        if there is not None:
            point = there[0][:, i], there[0][:, j], there[1][:, i], there[1][:, j]
        return above(factors, self.left, a, b, point)

    def _of_units(self, A: Array, B: Array, plain: bool) -> Planes:
        """Planes above the units, the same at both ends of u's range."""
        n = A.shape[1]
        d, d_reach = self.d[:, :n], self.d_reach[:, :n]
        C, half = B * self.m[:, :n], B * self.m_reach[:, :n]
        ends = C - half, C + half

        def of(group: Group, one: Samples) -> tuple[Array, ...]:
            k = group.units if len(self.samples) > 1 else slice(None)
            s = one.chord(A[:, k], C[:, k])
            first, second = (one.extremes(A[:, k], end[:, k], s) for end in ends)
            return s, *first, *second

        s, low, high, other_low, other_high = _by_group(self.samples, A.shape, of, 5)
        r = d if plain else _meeting(d, d_reach, half, high, other_high)
        most = np.maximum(high - ends[0] * r, other_high - ends[1] * r)
        size = np.maximum(np.abs(high), np.abs(other_high)) + np.abs(s) * self.size[:, :n]
        size = size + (np.abs(C) + np.abs(half)) * (np.abs(d) + d_reach)
        lines = ((high - low) + (other_high - other_low)) / 4.0
        product = np.abs(half) * d_reach
        none = np.zeros((len(A), 3, 2, 0))
        return Planes(s, B * r, r, most, size, lines + product, product, none)


def _meeting(d: Array, reach: Array, half: Array, high: Array, other: Array) -> Array:
    """The r for which both ends give the same, or the nearest one in the range of sigma'."""
    r = np.divide(other - high, 2.0 * half, out=d.copy(), where=half != 0.0)
    r = np.where(np.isfinite(r), r, d)
    return np.clip(r, d - reach, d + reach)


def _behind(units: Array, products: Array) -> Array:
    """Numbers of units, and those of products behind them."""
    return np.concatenate([units, products], axis=1)


def _lines_behind(units: Line, products: Line) -> Line:
    s, middle, reach = (_behind(*pair) for pair in zip(units, products, strict=True))
    return s, middle, reach


def _wider(middle: Array, radius: Array) -> Ball:
    """Ranges with room for what they have lost by a few operations."""
    return middle, radius + 8.0 * ULP * (np.abs(middle) + radius)


def ball_around(low: Array, high: Array) -> Ball:
    """Middle of an interval, and a radius that holds it."""
    middle = low + (high - low) / 2.0
    reach = np.maximum(high - middle, middle - low)
    return middle, np.maximum(np.nextafter(reach, np.inf), 0.0)


def _line(
    samples: tuple[tuple[Group, Samples], ...], shape: tuple[int, ...], A: float, c: float
) -> Line:
    """Lines around ``A sigma + c sigma'``."""
    s, low, high = _by_group(samples, shape, lambda _, one: one.lines(A, c), 3)
    return s, *ball_around(low, high)


def _by_group(
    samples: tuple[tuple[Group, Samples], ...],
    shape: tuple[int, ...],
    of: Callable[[Group, Samples], tuple[Array, ...]],
    count: int = 2,
) -> tuple[Array, ...]:
    """Values of a layer's groups, each unit's in its place; `count` arrays if there are none."""
    if not samples:
        return tuple(np.zeros(shape) for _ in range(count))
    if len(samples) == 1 and samples[0][0].units.size == shape[1]:
        return of(*samples[0])
    found: tuple[Array, ...] = ()
    for group, one in samples:
        values = of(group, one)
        found = found or tuple(np.empty(shape) for _ in values)
        for into, value in zip(found, values, strict=True):
            into[:, group.units] = value
    return found
