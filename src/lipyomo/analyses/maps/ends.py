"""What is known of cells: their ends, and how they narrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, middles
from lipyomo.base.numerics.rounding import gamma
from lipyomo.problems.result import Point


@dataclass(frozen=True, eq=False)
class Ends:
    """What is known of n cells.

    Attributes
    ----------
    lower, upper : ndarray, shape (n,)
    points : ndarray, shape (n, d)
        Where the lower ends are attained; the middle where nothing is.
    rests : ndarray, shape (n, d)
        Where there is no float64 point: what is added to `points` in exact arithmetic; else zeros.
    """

    lower: FloatArray
    upper: FloatArray
    points: FloatArray
    rests: FloatArray

    @classmethod
    def at(cls, lower: FloatArray, upper: FloatArray, points: FloatArray) -> Ends:
        """With float64 points."""
        return cls(lower, upper, points, np.zeros(points.shape))

    @classmethod
    def of_one(cls, lower: float, upper: float, place: Point) -> Ends:
        """Of one cell."""
        rest = np.zeros(place.x.shape) if place.rest is None else place.rest
        return cls(np.array([lower]), np.array([upper]), place.x[None], rest[None])

    def take(self, which: IntArray) -> Ends:
        """Those of some cells."""
        return Ends(self.lower[which], self.upper[which], self.points[which], self.rests[which])


def joined_ends(parts: Sequence[Ends]) -> Ends:
    """All of them, in a row."""
    arrays = (
        [getattr(part, name) for part in parts] for name in ("lower", "upper", "points", "rests")
    )
    return Ends(*map(np.concatenate, arrays))


class Narrowing:
    """The ends of cells while boxes, which are parts of them, are looked at.

    Parameters
    ----------
    low, high : ndarray, shape (n, d)
    slack : float
        Relative gap that closes a cell.
    enough : float, optional
        Bounds up to this close boxes, and others do not, whatever is attained.
    scale : float, optional
        The gap is one of this, where less is attained.

    Attributes
    ----------
    spent : ndarray of int, shape (n,)
        Boxes that each cell has taken.
    """

    def __init__(
        self,
        low: FloatArray,
        high: FloatArray,
        slack: float,
        enough: float | None = None,
        scale: float = 0.0,
    ) -> None:
        count = len(low)
        self._slack, self._enough, self._scale = slack, enough, scale
        self._lower, self._closed = np.zeros(count), np.zeros(count)
        self._points = middles(low, high)
        self.spent = np.zeros(count, dtype=np.intp)

    def attain(self, cell: IntArray, values: FloatArray, points: FloatArray) -> None:
        """Values (N,) that are attained at points (N, d) of cells (N,)."""
        order = np.argsort(values, kind="stable")
        cell, values, points = cell[order], values[order], points[order]
        better = values > self._lower[cell]
        self._lower[cell[better]] = values[better]  # the last one of a cell is its largest
        self._points[cell[better]] = points[better]

    def close(self, cell: IntArray, bounds: FloatArray) -> None:
        """Bounds (N,) of boxes of cells (N,) that will not be looked at any more."""
        np.maximum.at(self._closed, cell, bounds)

    def cutoff(self, cell: IntArray) -> FloatArray:
        """Bounds of boxes of cells (N,) at or below these close the boxes."""
        if self._enough is not None:
            return np.full(cell.shape, self._enough)
        # a little less, so that rounding does not leave a cell open that is closed by its cutoff
        lower = self._lower[cell]
        own = np.maximum(lower / (1.0 - self._slack), lower + self._slack * self._scale)
        return np.asarray(own * (1.0 - gamma(0)))

    def leave(self, cell: IntArray, bounds: FloatArray) -> BoolArray:
        """Close boxes whose bounds (N,) are attained; True where that has to be looked at first."""
        left = bounds > (np.inf if self._enough is None else self._enough)
        self.close(cell[~left], bounds[~left])
        return left

    def found(self) -> FloatArray:
        """Points (n, d) of cells where more than `enough` is attained; they are forgotten."""
        which = np.flatnonzero(self._lower > (self._enough or 0.0))
        self._lower[:] = 0.0
        return self._points[which]

    def spend(self, cell: IntArray) -> None:
        """Count boxes of cells (N,)."""
        np.add.at(self.spent, cell, 1)

    @property
    def ends(self) -> Ends:
        """The ends, once all boxes are closed: the bounds of these, whatever is attained."""
        return Ends.at(self._lower, self._closed, self._points)
