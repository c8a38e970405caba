"""Ends of the values of cells, their updates while boxes are bounded, and how many at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, middles
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.rounding import CLOSED, gamma
from lipyomo.problems.result import Point

LEVELS = 32
"""Most consecutive bisections of a cell, or of an edge of a refined one.

Where kinks meet in a point, bisection would not end.
"""

SHARE = 0.05
"""Largest share of the time left that the next slice may be expected to take."""


@dataclass(frozen=True, eq=False)
class Ends:
    """Intervals of the values of n cells.

    Attributes
    ----------
    lower, upper : ndarray, shape (n,)
    points : ndarray, shape (n, d)
        Points that attain the lower ends; the midpoint if nothing is attained.
    rests : ndarray, shape (n, d)
        Added to `points` in exact arithmetic if no float64 point attains a lower end; else zeros.
    """

    lower: FloatArray
    upper: FloatArray
    points: FloatArray
    rests: FloatArray

    @classmethod
    def at(cls, lower: FloatArray, upper: FloatArray, points: FloatArray) -> Ends:
        """Make ends with float64 points."""
        return cls(lower, upper, points, np.zeros(points.shape))

    @classmethod
    def of_one(cls, lower: float, upper: float, place: Point) -> Ends:
        """Make the ends of one cell."""
        rest = np.zeros(place.x.shape) if place.rest is None else place.rest
        return cls(np.array([lower]), np.array([upper]), place.x[None], rest[None])

    def take(self, which: IntArray) -> Ends:
        """Select the ends of some cells."""
        return Ends(self.lower[which], self.upper[which], self.points[which], self.rests[which])


def joined_ends(parts: Sequence[Ends]) -> Ends:
    """Concatenate ends."""
    arrays = (
        [getattr(part, name) for part in parts] for name in ("lower", "upper", "points", "rests")
    )
    return Ends(*map(np.concatenate, arrays))


class Narrowing:
    """The ends of cells while boxes, which are parts of cells, are bounded.

    Parameters
    ----------
    low, high : ndarray, shape (n, d)
    gap : float
        Relative gap that closes a cell; a little below the tolerance of `exact` if it is less.
    enough : float, optional
        If given, boxes are closed by bounds up to this alone, whatever value is attained.
    scale : float, optional
        Gaps are relative to this if a smaller value is attained.

    Attributes
    ----------
    spent : ndarray of int, shape (n,)
        Number of boxes bounded for each cell.
    """

    def __init__(
        self,
        low: FloatArray,
        high: FloatArray,
        gap: float,
        enough: float | None = None,
        scale: float = 0.0,
    ) -> None:
        count = len(low)
        self._slack, self._enough, self._scale = max(gap, CLOSED), enough, scale
        self._lower, self._closed = np.zeros(count), np.zeros(count)
        self._points = middles(low, high)
        self.spent = np.zeros(count, dtype=np.intp)

    def attain(self, cell: IntArray, values: FloatArray, points: FloatArray) -> None:
        """Enter values (N,) that are attained at points (N, d) of cells (N,)."""
        order = np.argsort(values, kind="stable")
        cell, values, points = cell[order], values[order], points[order]
        better = values > self._lower[cell]
        self._lower[cell[better]] = values[better]  # the last one of a cell is its largest
        self._points[cell[better]] = points[better]

    def close(self, cell: IntArray, bounds: FloatArray) -> None:
        """Enter bounds (N,) of boxes of cells (N,) that will not be bounded again."""
        np.maximum.at(self._closed, cell, bounds)

    def cutoff(self, cell: IntArray) -> FloatArray:
        """Return the bounds (N,) at or below which boxes of cells (N,) are closed."""
        if self._enough is not None:
            return np.full(cell.shape, self._enough)
        # slightly lower, so that a cell closed by its cutoff also counts as closed after rounding
        lower = self._lower[cell]
        own = np.maximum(lower / (1.0 - self._slack), lower + self._slack * self._scale)
        return np.asarray(own * (1.0 - gamma(0)))

    def leave(self, cell: IntArray, bounds: FloatArray) -> BoolArray:
        """Close boxes with attained bounds (N,) up to `enough`; return which others are left."""
        left = bounds > (np.inf if self._enough is None else self._enough)
        self.close(cell[~left], bounds[~left])
        return left

    def found(self) -> FloatArray:
        """Return points (n, d) that attain more than `enough`, and reset all attained values."""
        which = np.flatnonzero(self._lower > (self._enough or 0.0))
        self._lower[:] = 0.0
        return self._points[which]

    def spend(self, cell: IntArray) -> None:
        """Count boxes that are bounded for cells (N,)."""
        np.add.at(self.spent, cell, 1)

    @property
    def ends(self) -> Ends:
        """The ends of the cells, once all boxes are closed; upper ends are the boxes' bounds."""
        return Ends.at(self._lower, self._closed, self._points)


class Slices:
    """Slices of up to `most` boxes; with a time limit, the first one has one box, and they grow.

    Parameters
    ----------
    most : int
    clock : Clock
    """

    def __init__(self, most: int, clock: Clock) -> None:
        self._most, self._clock = most, clock
        self._size = most if math.isinf(clock.left) else 1

    def of(self, count: int) -> Iterator[slice]:
        """Generate slices of `count` boxes, each sized by the time that the one before took."""
        at = 0
        while at < count:
            size, began = self._size, self._clock.seconds
            yield slice(at, at + size)
            at += size
            seconds = (self._clock.seconds - began) / size
            room = SHARE * self._clock.left
            fit = 2 * size if seconds * 2 * size <= room else int(room / seconds)
            self._size = min(max(fit, 1), self._most)
