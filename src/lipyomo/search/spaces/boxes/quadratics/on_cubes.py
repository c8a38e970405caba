"""Quadratic functions of few inputs on cubes, bounded by their values at corners.

``l . e + e' Q e`` attains its maximum over [-1, 1]^d at a corner, except for negative entries of
the diagonal of Q.  For these

    -q e**2 <= -q (2 t e - t**2)    for any t,

which is affine in e.  t is the best value of the entry on its own, or given the other entries of
the best corner.

At a corner and the opposite one, linear terms have opposite signs and quadratic ones are the same,
so that both are compared at once.

Quadratic terms have one coefficient each: first those of squares, in the order of e, then those of
all pairs of different entries, in the order of `pairs_of`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.ranges import Ends, size

TURNS = 3
"""How often tangents are chosen: the second and third time given the best corner."""


@cache
def pairs_of(count: int) -> tuple[tuple[int, int], ...]:
    """Return all pairs of `count` entries."""
    return tuple(combinations(range(count), 2))


@dataclass(frozen=True, eq=False)
class QuadraticOnCube:
    """Functions ``constant + linear . e + bends . (e_a e_b)`` for e in [-1, 1]^D.

    Attributes
    ----------
    constant : ndarray, shape (...)
    linear : ndarray, shape (D, ...)
    bends : ndarray, shape (D (D + 1) / 2, ...)
        The coefficients of the squares and pairs of e.
    """

    constant: FloatArray
    linear: FloatArray
    bends: FloatArray

    @property
    def square(self) -> FloatArray:
        """Coefficients of squares."""
        return self.bends[: len(self.linear)]

    @property
    def pairs(self) -> FloatArray:
        """Coefficients of pairs."""
        return self.bends[len(self.linear) :]

    def at(self, point: FloatArray) -> FloatArray:
        """Return the values at points (D, ...)."""
        turned = self.linear + self.square * point
        found = self.constant + (turned * point).sum(axis=0)
        for bend, (a, b) in zip(self.pairs, pairs_of(len(point)), strict=True):
            found = found + bend * point[a] * point[b]
        return np.asarray(found)

    @property
    def reach(self) -> FloatArray:
        """Upper bounds of the absolute values."""
        found = np.abs(self.constant) + np.abs(self.linear).sum(axis=0) + size(self.bend_ends)
        return np.asarray(found)

    @property
    def bend(self) -> Ends:
        """Middles and radii of quadratic parts."""
        low, high = self.bend_ends
        return 0.5 * (low + high), 0.5 * (high - low)

    @cached_property
    def bend_ends(self) -> Ends:
        """Ranges of quadratic parts."""
        rest = np.abs(self.pairs).sum(axis=0)
        high = np.maximum(self.square, 0.0).sum(axis=0) + rest
        return np.minimum(self.square, 0.0).sum(axis=0) - rest, high

    @property
    def matrix(self) -> FloatArray:
        """Symmetric matrices of quadratic parts, shape (D, D, ...)."""
        count = len(self.linear)
        found = np.empty((count, count, *self.bends.shape[1:]))
        index = np.arange(count)
        found[index, index] = self.square
        for bend, (a, b) in zip(0.5 * self.pairs, pairs_of(count), strict=True):
            found[a, b] = found[b, a] = bend
        return found

    def corner_ends(self) -> tuple[FloatArray, FloatArray]:
        """Return bounds from below and above."""
        joint = self._joint
        down = _highest(-self.linear, -self.square, -joint)
        up = _highest(self.linear, self.square, joint)
        return self.constant - down, self.constant + up

    def highest(self) -> FloatArray:
        """Return bounds from above, with tangents chosen given the best corners as well."""
        count, less = len(self.linear), np.minimum(self.square, 0.0)
        corners, joint = _corners(count)[0], self._joint
        base = self.constant + np.maximum(self.square, 0.0).sum(axis=0)
        found, slope = np.full_like(base, np.inf), self.linear
        for _ in range(TURNS):
            t = _best(slope, less)
            along = _sums(corners, self.linear + 2.0 * less * t)
            values = np.abs(along) + joint
            best = values.argmax(axis=0)
            found = np.minimum(found, base + values.max(axis=0) - (less * t * t).sum(axis=0))
            side = np.sign(np.take_along_axis(along, best[None], axis=0))
            place = np.moveaxis(corners[best], -1, 0) * side
            slope = self.linear.copy()
            for bend, (i, j) in zip(self.pairs, pairs_of(count), strict=True):
                slope[i] += bend * place[j]
                slope[j] += bend * place[i]
        return np.asarray(found)

    def raised(self, number: FloatArray) -> QuadraticOnCube:
        """Add a number to each function."""
        return replace(self, constant=self.constant + number)

    @property
    def _joint(self) -> FloatArray:
        """The values of the pairs at corners."""
        return _sums(_corners(len(self.linear))[1], self.pairs)


def _highest(linear: FloatArray, square: FloatArray, joint: FloatArray) -> FloatArray:
    """Bound functions minus their constants from above; `joint` is that of pairs at corners."""
    less = np.minimum(square, 0.0)
    t = _best(linear, less)
    values = _sums(_corners(len(linear))[0], linear + 2.0 * less * t)
    np.abs(values, out=values)
    values += joint
    more = np.maximum(square, 0.0) - less * t * t
    return np.asarray(values.max(axis=0) + more.sum(axis=0))


def _best(linear: FloatArray, less: FloatArray) -> FloatArray:
    """Return where ``l e + q e**2`` is largest in [-1, 1], for q <= 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.clip(linear / (-2.0 * less), -1.0, 1.0)
    return np.where(np.isnan(found), 0.0, found)


def _sums(rows: FloatArray, parts: FloatArray) -> FloatArray:
    """Multiply rows (c, d) by parts (d, ...)."""
    return np.asarray(np.tensordot(rows, parts, 1))


@cache
def _corners(count: int) -> tuple[FloatArray, FloatArray]:
    """Return one corner of each opposite pair of a cube, and products of their coordinates."""
    bits = (np.arange(2 ** (count - 1))[:, None] >> np.arange(count)) & 1
    corners: FloatArray = 1.0 - 2.0 * bits.astype(np.float64)
    first, second = np.triu_indices(count, 1)
    return corners, np.asarray(corners[:, first] * corners[:, second])
