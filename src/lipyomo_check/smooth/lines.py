"""Lines below and above ``A sigma + c sigma'`` on intervals, for many units of a kind at once.

An interval is divided into pieces (at the kind's breaks and between them).  On a piece of width h a
function G lies at most a parabola above its chord, whose height is ``h^2 / 8`` times what bounds
its second derivative on that side.  So with G = A sigma + c sigma' - s z it is at most the largest
value of chord and parabola together:

    G <= max(G(start), G(end)) + height max(0, 1 - |G(start) - G(end)| / (4 height))^2,
    height = h^2 / 8 max(0, sup(-G'')),    G'' = A sigma'' + c sigma''',

and likewise below.  (That is a maximum of means of both ends, so what these err by is all that it
errs by for them.)  sigma'' and sigma''' on a piece follow from their values in its middle and the
kind's bounds of the next derivatives.  The slope s may be any number.  At a break values are those
from the inside of the piece, so an interval that ends at a break knows one side of it only.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from lipyomo_check.smooth.balls import alike, plain
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.kind import Bools, Kind

PIECES = 4
"""Number of pieces of an interval of a kind without breaks."""

CHORD = 1e-3
"""From this width on s is a chord's slope, else that in the middle, as rounding would dominate."""

TINY = float(np.finfo(np.float64).tiny)
"""Replaces zero in denominators."""


@dataclass(frozen=True, eq=False)
class Samples:
    """A kind's functions on the pieces of intervals; arrays have shape (pieces, *intervals).

    Attributes
    ----------
    kind : Kind
    ends : ndarray
        Both ends of each piece in turn; each knot once if the kind has no breaks.
    values, slopes : ndarray
        sigma and sigma' there, from inside the piece.
    share : ndarray
        A little more than an eighth of each piece's squared width.
    second, third : pair of ndarray
        Middle and radius of what holds sigma'' and sigma''' on a piece.
    middle : pair of ndarray
        sigma' and sigma'' in the middle of one of the middle pieces, (*intervals).
    right : tuple of ndarray of bool
        Whether each piece lies right of each break.
    size : tuple of ndarray
        Largest absolute values of ends, values and slopes, (*intervals).
    flat : bool
        Whether slopes of lines are those of sigma alone: where sigma' is constant but for jumps, no
        line is closer to it than a flat one.
    """

    kind: Kind
    ends: Array
    values: Array
    slopes: Array
    share: Array
    second: tuple[Array, Array]
    third: tuple[Array, Array]
    middle: tuple[Array, Array]
    right: tuple[Bools, ...]
    size: tuple[Array, Array, Array]
    flat: bool = False

    @classmethod
    def of(cls, kind: Kind, low: Array, high: Array, flat: bool = False) -> Samples:
        """Sample the intervals [low, high]."""
        ends = _knots(kind, plain(low), plain(high))
        start, end = ends[:-1], ends[1:]
        middle = start + (end - start) / 2.0
        right = _sides(kind, middle, plain(low), plain(high))
        twice = right
        if kind.breaks:
            ends = np.stack([start, end], axis=1).reshape(-1, *low.shape)
            twice = tuple(np.repeat(side, 2, axis=0) for side in right)
        start, middle, end, ends = (alike(part, low) for part in (start, middle, end, ends))
        values, slopes = kind.derivatives(ends, twice)[:2]
        second, third, one, two = kind.bends(start, middle, end, right)
        width, inner = end - start, len(middle) // 2
        sizes = np.abs(values).max(axis=0), np.abs(slopes).max(axis=0)
        return cls(
            kind,
            ends,
            values,
            slopes,
            width * width * (0.125 * (1.0 + 8.0 * ULP)),
            second,
            third,
            (one[inner], two[inner]),
            right,
            (np.maximum(np.abs(low), np.abs(high)), *sizes),
            flat,
        )

    def lines(self, A: Array | float, c: Array | float) -> tuple[Array, Array, Array]:
        """Return (s, low, high): ``s z + low <= A sigma(z) + c sigma'(z) <= s z + high``."""
        s = self.chord(A, c)
        return s, *self.extremes(A, c, s)

    def chord(self, A: Array | float, c: Array | float) -> Array:
        """Return the slope of ``A sigma + c sigma'`` from end to end, or in the middle."""
        c = 0.0 if self.flat else c
        width = self.ends[-1] - self.ends[0]
        rise = A * (self.values[-1] - self.values[0]) + c * (self.slopes[-1] - self.slopes[0])
        slope = A * self.middle[0] + c * self.middle[1]
        least = CHORD
        if self.kind.geometric:
            least = CHORD * np.minimum(np.abs(self.ends[0]), np.abs(self.ends[-1]))
        wide = width > least
        return np.where(wide, rise / np.where(wide, width, 1.0), slope)

    def extremes(
        self, A: Array | float, c: Array | float, s: Array | float = 0.0
    ) -> tuple[Array, Array]:
        """Return bounds of ``A sigma(z) + c sigma'(z) - s z`` on the intervals."""
        size_A, size_c = np.abs(A), np.abs(c)
        z, value, slope = self.size
        of_value, of_slope = self.kind.rooms(z, value, slope)
        room = self.kind.error * (size_A * of_value + size_c * of_slope)
        room = room + 8.0 * ULP * (size_A * value + size_c * slope + np.abs(s) * z)
        at = _sum((A, self.values), (c, self.slopes), (-s, self.ends))
        step = 2 if self.kind.breaks else 1
        starts, ends = at[:-1:step], at[1::step]
        bend = _sum((A, self.second[0]), (c, self.third[0]))
        spread = _sum((size_A, self.second[1]), (size_c, self.third[1]))
        heights = [self.share * np.maximum(spread + side, 0.0) for side in (bend, -bend)]
        apart = 0.25 * np.abs(starts - ends)
        heights = [_beyond(apart, height) for height in heights]
        below, above = np.minimum(starts, ends) - heights[0], np.maximum(starts, ends) + heights[1]
        return below.min(axis=0) - room, above.max(axis=0) + room

    def outputs(self) -> tuple[Array, Array]:
        """Return bounds of sigma on the intervals: values at the ends where it does not turn."""
        least, most = self.extremes(1.0, 0.0)
        z, value, slope = self.size
        room = self.kind.error * self.kind.rooms(z, value, slope)[0] + 8.0 * ULP * value
        low, high = self.extremes(0.0, 1.0)
        ends = self.values[0], self.values[-1]
        one_way = (low >= 0.0) | (high <= 0.0)
        if self.kind.inside is not None:  # on either side of zero it is monotone
            first, last = self.ends[0], self.ends[-1]
            one_way |= self.kind.inside(first, last) & ((first >= 0.0) | (last <= 0.0))
        return (
            np.where(one_way, np.minimum(*ends) - room, least),
            np.where(one_way, np.maximum(*ends) + room, most),
        )


def _beyond(apart: Array, height: Array) -> Array:
    """Return how far chord plus parabola exceed both ends, which are ``4 apart`` apart.

    That is ``height (1 - q)^2`` with ``q = apart / height``, or nothing.  These operations err by
    less than ``5 u / (1 - q)`` of it, u being 2^-53.  But the height is too large by ``10 u`` of it
    at least (`Samples.share` is), which adds ``10 u (1 + q) / (1 - q)``.
    """
    left = np.fmin(1.0 - apart / np.maximum(np.maximum(apart, height), TINY), 1.0)
    left = np.maximum(left, 0.0)
    beyond: Array = height * (left * left)
    return beyond


def _sum(*terms: tuple[Array | float | np.float64, Array]) -> Array:
    """Return a sum of products, without those that are zero."""
    first, *others = (a * b for a, b in terms if not (isinstance(a, float) and a == 0.0))
    total: Array = sum(others, first)
    return total


def _knots(kind: Kind, low: Array, high: Array) -> Array:
    """Return ends of pieces, in order, the first and last being the interval's own."""
    if kind.geometric:
        return _by_ratios(low, high)
    if not kind.breaks:
        steps = [low + (high - low) * (k / PIECES) for k in range(1, PIECES)]
        return np.stack([low, *(np.clip(z, low, high) for z in steps), high])
    fixed = [low, *(np.clip(b, low, high) for b in sorted(kind.breaks)), high]
    knots = [low]
    for a, b in itertools.pairwise(fixed):
        knots += [np.clip(a + (b - a) / 2.0, a, b), b]
    return np.stack(knots)


def _by_ratios(low: Array, high: Array) -> Array:
    """Do the same for intervals on one side of zero, in pieces of about equal ratios of ends."""
    sign = np.where(high < 0.0, -1.0, 1.0)
    roots = np.sqrt(np.abs(low)), np.sqrt(np.abs(high))
    apart = (low > 0.0) | (high < 0.0)
    middle = np.where(apart, sign * (roots[0] * roots[1]), low + (high - low) / 2.0)
    knots = [low]
    for start, end in ((low, middle), (middle, high)):
        root = np.sqrt(np.abs(start)) * np.sqrt(np.abs(end))
        between = np.where(apart, sign * root, start + (end - start) / 2.0)
        knots += [between, end]
    return np.stack([low, *(np.clip(knot, low, high) for knot in knots[1:-1]), high])


def _sides(kind: Kind, middle: Array, low: Array, high: Array) -> tuple[Bools, ...]:
    """Return whether each piece lies right of each break.

    A piece without width at a break belongs to the side on which its interval is; if that has no
    width either, pieces before the break's place in their order lie left of it, the others right.
    """
    count = len(middle)
    order = sorted(range(len(kind.breaks)), key=kind.breaks.__getitem__)
    sides: list[Bools] = [np.zeros(0, bool)] * len(order)
    for place, which in enumerate(order):
        b = kind.breaks[which]
        piece = np.arange(count).reshape(-1, *[1] * low.ndim) >= 2 * (place + 1)
        on_it = np.where(low < high, low >= b, piece)
        sides[which] = np.where(middle == b, on_it, middle > b)
    return tuple(sides)
