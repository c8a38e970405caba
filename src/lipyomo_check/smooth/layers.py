"""Ranges and lines of a hidden layer's units and products on boxes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo_check.smooth.boxes import Ball, Ends, Rows
from lipyomo_check.smooth.common import Common
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.factors import Form, Left, Scope, left_of, times
from lipyomo_check.smooth.grouped import (
    Line,
    Sampled,
    ball_around,
    behind,
    by_group,
    line_around,
    lines_behind,
    wider,
)
from lipyomo_check.smooth.levels import Group, Indices, Level
from lipyomo_check.smooth.lines import Samples
from lipyomo_check.smooth.ratios import tangents
from lipyomo_check.smooth.together import Together
from lipyomo_check.smooth.whole import Sum, Whole


class Change(NamedTuple):
    """Outputs' tangents, ``rate u + tilt z + middle +- reach``, rates being the middles `d`.

    `weight` are at least the sums of absolute values of all terms but reach's.
    """

    tilt: Array
    middle: Array
    reach: Array
    weight: Array


class Mode(NamedTuple):
    """What is to be computed for a layer.

    Lines of slopes, ranges of outputs, two lines of two-slope units, which products are bounded
    together, and which rows of the next layer are sums of several.
    """

    inner: bool
    narrow: bool
    two_lines: bool
    common: Common | None = None
    sums: tuple[Sum, ...] = ()


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
    together : Together, or None
        What is known of products with a factor in common.
    whole : Whole, or None
        What is known of rows, where squares and products add up in the next layer.
    ratios : tuple of (ndarray, (ndarray, ndarray))
        Units that are powers, and ends of their tangents (`ratios`).
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
    samples: Sampled
    left: Left | None
    ranges: Ends | None
    together: Together | None = None
    whole: Whole | None = None
    ratios: tuple[tuple[Indices, Ends], ...] = ()

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
        """Return the outputs of a layer whose pre-activations and tangents have these ends.

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
            (group, _samples(group, low[:, group.units], top[:, group.units], mode))
            for group in level.groups
        )
        shape = low.shape if level.products is None else (len(low), level.products.units)
        ends = by_group(samples, shape, lambda _, one: one.extremes(0.0, 1.0))
        line, slope_line = line_around(samples, shape, 1.0, 0.0), None
        d, (m, m_reach) = ball_around(*ends), ball_around(*u)
        if mode.inner:
            slope_line = line_around(samples, shape, 0.0, 1.0)
        ranges = None
        if mode.narrow:
            ranges = by_group(samples, shape, lambda _, one: one.outputs())
        left, change, common, whole = None, None, None, None
        ratios: tuple[tuple[Indices, Ends], ...] = ()
        if ranges is not None or mode.sums or level.products is not None:
            ball = ball_around(low, top)
            both = (rows[0], ball), (rows[1], (m, m_reach))
            if ranges is not None:
                ratios = _ratios(level, *both, (ranges[0], ranges[1]), scope)
            if mode.sums:
                whole = Whole.of(mode.sums, *both, scope)
            if level.products is not None:
                others = (ball[0][:, level.others], ball[1][:, level.others])
                d = behind(d[0], others[0]), behind(d[1], others[1])
                left = left_of(level.products, *both, scope)
                if mode.common is not None:
                    common = Together.of(mode.common, *both, scope)
        found = cls(
            *(low, high, line, slope_line, change, *d, m, m_reach, *sizes, samples, left),
            None if ranges is None else (ranges[0], ranges[1]),
            common,
            whole,
            ratios,
        )
        if slope_line is not None:
            found = found._replace(change=found._change())
        if level.products is None:
            return found
        return found._with_lines(level)

    def _change(self) -> Change:
        """Return the change of the units."""
        assert self.slope_line is not None
        s, middle, reach = self.slope_line
        n = s.shape[1]
        m, size, outer = self.m[:, :n], self.size[:, :n], self.tangent_size[:, :n]
        d, large = self.d[:, :n], np.abs(m)
        weight = large * (np.abs(middle) + np.abs(s) * size) + np.abs(m * d) + np.abs(d) * outer
        spread = large * reach + self.d_reach[:, :n] * self.m_reach[:, :n]
        return Change(m * s, m * middle - m * d, spread, weight)

    def _with_lines(self, level: Level) -> Relaxed:
        """Return with lines of products behind those of units."""
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
        line = lines_behind(self.line, (s, middle, away[0]))
        if self.slope_line is None or self.change is None:
            return self._replace(line=line)
        one, nothing = np.ones_like(s), np.zeros_like(s)
        slope_line = lines_behind(self.slope_line, (one, nothing, nothing))
        drift = error[1] + error[2] - n_i * m_j - m_i * n_j
        weight = np.abs(error[1]) + np.abs(error[2]) + np.abs(n_i * m_j) + np.abs(m_i * n_j)
        weight = weight + np.abs(n_j) * self.size[:, i] + np.abs(n_i) * self.size[:, j]
        weight = weight + np.abs(m_j) * self.tangent_size[:, i]
        weight = weight + np.abs(m_i) * self.tangent_size[:, j]
        tilt = np.concatenate([n_j, n_i], axis=1)
        more = tilt, drift, away[1] + away[2], weight
        change = Change(*map(behind, self.change, more))
        return self._replace(line=line, slope_line=slope_line, change=change)

    def outputs(self, level: Level) -> Ball:
        """Return ranges of the outputs."""
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
            found = wider(*ball_around(np.minimum(low, high), np.maximum(low, high)))
        if level.products is None:
            return found
        products = level.products
        low, high = times(*(self.ends(rows) for rows in (products.left, products.right)))
        more = wider(*ball_around(low, high))
        return behind(found[0], more[0]), behind(found[1], more[1])

    def tangents(self, level: Level) -> Ball:
        """Return ranges of the outputs' tangents."""
        n = self.low.shape[1] if level.products is None else level.products.units
        d, d_reach = self.d[:, :n], self.d_reach[:, :n]
        m, m_reach = self.m[:, :n], self.m_reach[:, :n]
        centre = d * m
        reach = np.abs(d) * m_reach + d_reach * (np.abs(m) + m_reach)
        found = centre, reach + 8.0 * ULP * (np.abs(centre) + reach)
        for units, ends in self.ratios:
            low = np.fmax(ends[0], (found[0] - found[1])[:, units])
            high = np.fmin(ends[1], (found[0] + found[1])[:, units])
            narrow = wider(*ball_around(low, np.maximum(low, high)))
            for into, part in zip(found, narrow, strict=True):
                into[:, units] = part
        if level.products is None:
            return found
        i, j = level.products.left, level.products.right
        one = times(self.tangent_ends(i), self.ends(j))
        other = times(self.ends(i), self.tangent_ends(j))
        more = wider(*ball_around(one[0] + other[0], one[1] + other[1]))
        return behind(found[0], more[0]), behind(found[1], more[1])

    def ends(self, rows: Indices) -> Ends:
        """Return ends of z of some rows."""
        low, high = self.low[:, rows], self.high[:, rows]
        return low, np.maximum(low, high)

    def tangent_ends(self, rows: Indices) -> Ends:
        """Return the ends of u, widened for rounding."""
        m, reach = self.m[:, rows], self.m_reach[:, rows]
        return np.nextafter(m - reach, -np.inf), np.nextafter(m + reach, np.inf)


def _ratios(
    level: Level, z: tuple[Rows, Ball], u: tuple[Rows, Ball], values: Ends, scope: Scope
) -> tuple[tuple[Indices, Ends], ...]:
    """Return units that are powers, and ends of their tangents."""
    found = []
    for group in level.groups:
        p, own = group.kind.power, group.units
        if p is not None:
            of_z, of_u = (Form.of(rows, own, ball, scope) for rows, ball in (z, u))
            powers = values[0][:, own], values[1][:, own]
            found.append((own, tangents(p, powers, of_z, of_u, scope.gamma)))
    return tuple(found)


def _samples(group: Group, low: Array, high: Array, mode: Mode) -> Samples:
    """Return a group's functions on intervals."""
    flat = mode.two_lines and group.kind.kinked
    return Samples.of(group.kind, low, high, flat)
