"""What is known of a hidden layer's units over boxes: ranges, lines, and planes above products."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.levels import Group, Level
from lipyomo_check.smooth.lines import Samples

Ends = tuple[Array, Array]
"""Lower and upper ends of ranges."""

Ball = tuple[Array, Array]
"""Middles and radii of ranges."""

Line = tuple[Array, Array, Array]
"""A slope, and the middle and the radius of what is left."""


class Planes(NamedTuple):
    """Planes ``s z + B r u + most`` above ``A sigma(z) + B sigma'(z) u``, arrays of shape (N, n).

    Attributes
    ----------
    s, r, most : ndarray
    size : ndarray
        At least the sum of absolute values of the terms that all of it is made of, without r's.
    line_gap, product_gap : ndarray
        What a unit adds to the distance between the objective and its bound, on average: half of
        that between lines of ``A sigma + c sigma'``, and the product of radii.  Who writes a proof
        chooses splits by them.
    """

    s: Array
    r: Array
    most: Array
    size: Array
    line_gap: Array
    product_gap: Array


class Relaxed(NamedTuple):
    """A layer's units over N boxes, arrays of shape (N, n).

    Attributes
    ----------
    low, high : ndarray
        Ends of z; where they are in the wrong order, no point is left of a box.
    line : tuple of ndarray
        Holds sigma(z).
    slope_line : tuple of ndarray, or None
        Holds sigma'(z): in inner layers, and in the last one if Jacobians are enclosed.
    d, d_reach : ndarray
        Middle and radius of sigma'(z).
    m, m_reach : ndarray
        Of u.
    size, tangent_size : ndarray
        At least the sums of absolute values of the terms that z and u are made of.
    samples : tuple of (Group, Samples)
        The units' groups.
    """

    low: Array
    high: Array
    line: Line
    slope_line: Line | None
    d: Array
    d_reach: Array
    m: Array
    m_reach: Array
    size: Array
    tangent_size: Array
    samples: tuple[tuple[Group, Samples], ...]

    @classmethod
    def of(
        cls, level: Level, z: Ends, u: Ends, sizes: tuple[Array, Array], inner: bool, plain: bool
    ) -> Relaxed:
        """The units of a layer whose pre-activations and tangents have these ends.

        Parameters
        ----------
        level : Level
        z, u : (ndarray, ndarray)
        sizes : (ndarray, ndarray)
            `size` and `tangent_size`.
        inner : bool
            Whether sigma'(z) needs lines.
        plain : bool
            Whether bounds are those of earlier formats.
        """
        low, high = z
        top = np.maximum(low, high)
        samples = tuple(
            (group, Samples.of(group.kind, low[:, group.units], top[:, group.units], plain))
            for group in level.groups
        )
        d = ball_around(*_by_group(samples, low.shape, lambda _, one: one.extremes(0.0, 1.0)))
        line = _line(samples, low.shape, 1.0, 0.0)
        slope_line = _line(samples, low.shape, 0.0, 1.0) if inner else None
        return cls(low, high, line, slope_line, *d, *ball_around(*u), *sizes, samples)

    @property
    def outputs(self) -> Ball:
        """Ranges of sigma(z)."""
        s, middle, reach = self.line
        z, z_reach = ball_around(self.low, self.high)
        centre = s * z + middle
        slack = np.abs(s) * z_reach
        rounding = 8.0 * ULP * (np.abs(s * z) + np.abs(middle) + slack + reach)
        return centre, slack + reach + rounding

    @property
    def tangents(self) -> Ball:
        """Ranges of ``sigma'(z) u``."""
        centre = self.d * self.m
        reach = np.abs(self.d) * self.m_reach + self.d_reach * (np.abs(self.m) + self.m_reach)
        return centre, reach + 8.0 * ULP * (np.abs(centre) + reach)

    def planes(self, A: Array, B: Array, plain: bool) -> Planes:
        """Planes above products, the same at both ends of u's range."""
        C, half = B * self.m, B * self.m_reach
        ends = C - half, C + half

        def of(group: Group, one: Samples) -> tuple[Array, ...]:
            k = group.units if len(self.samples) > 1 else slice(None)
            s = one.chord(A[:, k], C[:, k])
            first, second = (one.extremes(A[:, k], end[:, k], s) for end in ends)
            return s, *first, *second

        s, low, high, other_low, other_high = _by_group(self.samples, A.shape, of)
        r = self.d if plain else self._meeting(half, high, other_high)
        most = np.maximum(high - ends[0] * r, other_high - ends[1] * r)
        size = np.maximum(np.abs(high), np.abs(other_high)) + np.abs(s) * self.size
        size = size + (np.abs(C) + np.abs(half)) * (np.abs(self.d) + self.d_reach)
        lines = (high - low) + (other_high - other_low)
        return Planes(s, r, most, size, lines / 4.0, np.abs(half) * self.d_reach)

    def _meeting(self, half: Array, high: Array, other: Array) -> Array:
        """The r for which both ends give the same, or the nearest one in the range of sigma'."""
        r = np.divide(other - high, 2.0 * half, out=self.d.copy(), where=half != 0.0)
        r = np.where(np.isfinite(r), r, self.d)
        return np.clip(r, self.d - self.d_reach, self.d + self.d_reach)


def ball_around(low: Array, high: Array) -> Ball:
    """Middle of an interval, and a radius that holds it."""
    middle = low + (high - low) / 2.0
    reach = np.maximum(high - middle, middle - low)
    return middle, np.maximum(np.nextafter(reach, np.inf), 0.0)


def _line(
    samples: tuple[tuple[Group, Samples], ...], shape: tuple[int, ...], A: float, c: float
) -> Line:
    """Lines around ``A sigma + c sigma'``."""
    s, low, high = _by_group(samples, shape, lambda _, one: one.lines(A, c))
    return s, *ball_around(low, high)


def _by_group(
    samples: tuple[tuple[Group, Samples], ...],
    shape: tuple[int, ...],
    of: Callable[[Group, Samples], tuple[Array, ...]],
) -> tuple[Array, ...]:
    """Values of a layer's groups, each unit's in its place."""
    if len(samples) == 1 and samples[0][0].units.size == shape[1]:
        return of(*samples[0])
    found: tuple[Array, ...] = ()
    for group, one in samples:
        values = of(group, one)
        found = found or tuple(np.empty(shape) for _ in values)
        for into, value in zip(found, values, strict=True):
            into[:, group.units] = value
    return found
