"""Quadratic functions on cubes with the axes of e first: upper bounds, and where they are attained.

There are few entries of e and many functions, so that sums over e are sums of whole arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.base.numerics.rounding import TINY
from lipyomo.search.spaces.boxes.quadratics.on_cubes import QuadraticOnCube, pairs_of

ENTRIES = 8
"""The largest number of entries of e: the number of terms of third order grows with its cube."""

SWEEPS = 2
"""How often each entry of the point of a tangent plane is updated: more hardly matters."""


@cache
def places_of(count: int) -> dict[tuple[int, int], int]:
    """Return the index of the coefficient of each pair of different entries."""
    return {pair: count + number for number, pair in enumerate(pairs_of(count))}


def products_of(C: FloatArray, D: FloatArray) -> FloatArray:
    """Return the coefficients of the products of linear parts (D, N, n)."""
    count, pairs = len(C), pairs_of(len(C))
    found = np.empty((count + len(pairs), *np.broadcast_shapes(C.shape[1:], D.shape[1:])))
    np.multiply(C, D, out=found[:count])
    for term, (a, b) in zip(found[count:], pairs, strict=True):
        np.multiply(C[a], D[b], out=term)
        term += C[b] * D[a]
    return found


@dataclass(frozen=True, eq=False)
class Quadratics(QuadraticOnCube):
    """Functions ``constant + linear . e + bends . (e_a e_b) +- error`` for e in [-1, 1]^D.

    Attributes
    ----------
    constant, error : ndarray, shape (N, n)
    linear : ndarray, shape (D, N, n)
    bends : ndarray, shape (D (D + 1) / 2, N, n)
    size : ndarray, shape (N, n)
        Sums of the absolute values of all their terms.
    """

    error: FloatArray
    size: FloatArray

    @classmethod
    def straight(
        cls, constant: FloatArray, linear: FloatArray, error: FloatArray, size: FloatArray
    ) -> Quadratics:
        """Return affine functions, given linear parts (N, n, D) with the axis of e last."""
        slopes = np.ascontiguousarray(np.moveaxis(linear, 2, 0))
        terms = len(slopes) + len(pairs_of(len(slopes)))
        return cls(constant, slopes, np.zeros((terms, 1, 1)), error, size)

    def take(self, which: IntArray) -> Quadratics:
        """Select some of the n functions; a single one is repeated."""
        parts = self.constant, self.linear, self.bends, self.error, self.size
        return Quadratics(
            *(part[..., which if part.shape[-1] > 1 else 0 * which] for part in parts)
        )

    def on(self, which: IntArray) -> Quadratics:
        """Select some of the boxes."""
        parts = self.constant, self.linear, self.bends, self.error, self.size
        return Quadratics(*(part[..., which, :] if part.shape[-2] > 1 else part for part in parts))

    def times(self, share: FloatArray) -> Quadratics:
        """Multiply by numbers (N, n)."""
        size = np.abs(share)
        whole = self.constant * share, self.linear * share, self.bends * share
        return Quadratics(*whole, self.error * size, self.size * size)

    def plus(self, other: Quadratics) -> Quadratics:
        """Add other functions."""
        return Quadratics(
            self.constant + other.constant,
            self.linear + other.linear,
            self.bends + other.bends,
            self.error + other.error,
            self.size + other.size,
        )

    def less(self, other: Quadratics, share: FloatArray, number: FloatArray) -> Quadratics:
        """Subtract multiples of other functions, and numbers (N, n)."""
        linear, bends = share * other.linear, share * other.bends
        np.subtract(self.linear, linear, out=linear)
        np.subtract(self.bends, bends, out=bends)
        steep = np.abs(share)
        return Quadratics(
            self.constant - share * other.constant - number,
            linear,
            bends,
            self.error + steep * other.error,
            self.size + steep * other.size + np.abs(number),
        )

    def sums(self, rows: FloatArray) -> Quadratics:
        """Return sums of multiples, for rows (k, n) of coefficients."""
        turned, sizes = rows.T, np.abs(rows).T
        bends = self.bends @ turned if self.bends.shape[-1] > 1 else self.bends * turned.sum(0)
        parts = self.constant @ turned, self.linear @ turned, bends
        return Quadratics(*parts, self.error @ sizes, self.size @ sizes)

    def shifted(self, number: FloatArray) -> Quadratics:
        """Add numbers (N, n)."""
        constant, size = self.constant + number, self.size + np.abs(number)
        return Quadratics(constant, self.linear, self.bends, self.error, size)

    def multiplied(self, other: Quadratics, unit: float) -> Quadratics:
        """Multiply by other functions; terms of third or higher order in e become errors.

        With the quadratic part of one in m +- r, its products with affine functions ``c . e`` are
        within r times the sum of the sizes of c, about m times these.
        """
        a, b, C, D = self.constant, other.constant, self.linear, other.linear
        (m, r), (n, q) = self.bend, other.bend
        bends = a * other.bends + b * self.bends
        bends += products_of(C, D)
        own, theirs = (np.abs(part).sum(axis=0) for part in (C, D))
        sizes = np.abs(m) + r, np.abs(n) + q
        reach = np.abs(b) + theirs + sizes[1] + other.error
        error = own * q + theirs * r + np.abs(m) * q + np.abs(n) * r + r * q
        error = error + self.error * reach + other.error * (np.abs(a) + own + sizes[0])
        size = 4.0 * self.size * other.size
        parts = a * b + m * n, (a + m) * D + (b + n) * C, bends
        return Quadratics(*parts, error * (1.0 + 8.0 * unit), size)

    def ends(self, unit: float) -> Ends:
        """Return ranges, by the sizes of all coefficients."""
        middle, radius = self.bend
        radius = radius + np.abs(self.linear).sum(axis=0) + self.error
        radius = radius + 16.0 * unit * (self.size + np.abs(self.constant))
        return self.constant + middle - radius, self.constant + middle + radius

    def negative(self) -> Quadratics:
        """Return these functions times -1."""
        return self.times(np.full((1, 1), -1.0))

    def below(
        self, unit: float, start: FloatArray | None = None, concave: BoolArray | None = None
    ) -> StackedTangents:
        """Return affine functions above these, chosen to have small maxima.

        With D >= 0 diagonal and ``M = Q - D`` negative semidefinite

            l . e + e' Q e <= sum D + l . e + e' M e <= sum D - p' M p + (l + 2 M p) . e

        for each point p.  M is made diagonally dominant, unless Q is known to be concave.

        Parameters
        ----------
        unit : float
            The rounding error of sums.
        start : ndarray, shape (D, N, n), optional
            Points to start from.
        concave : ndarray of bool, shape (n,) or (N, n), optional
            Whether quadratic parts are sums of negative squares.
        """
        linear, count = self.linear, len(self.linear)
        squares, bends = self.bends[:count], self.bends[count:]
        rest = np.zeros((count, *bends.shape[1:]))
        beside: list[list[tuple[FloatArray, int]]] = [[] for _ in range(count)]
        for bend, half, (a, b) in zip(bends, 0.5 * np.abs(bends), pairs_of(count), strict=True):
            rest[a] += half
            rest[b] += half
            beside[a].append((bend, b))
            beside[b].append((bend, a))
        shift = np.maximum(squares + rest, 0.0)
        if concave is not None:
            shift = np.where(concave, 0.0, shift)
        lowered = squares - shift
        shape = np.broadcast_shapes(linear.shape, lowered.shape)
        point = np.zeros(shape) if start is None else start.copy()
        steep = 0.5 / np.maximum(-lowered, TINY)  # where M has no curvature, an end is best

        def with_pairs(found: FloatArray, k: int) -> FloatArray:
            for bend, j in beside[k]:
                found = found + bend * point[j]
            return found

        for _ in range(SWEEPS if start is None else 1):
            for k in range(count):
                with np.errstate(over="ignore"):  # far beyond the ends
                    rise = with_pairs(linear[k], k) * steep[k]
                rise.clip(-1.0, 1.0, out=point[k])
        slope = 2.0 * lowered * point
        for k in range(count):
            slope[k] = with_pairs(slope[k], k)
        above = shift.sum(axis=0) - 0.5 * (point * slope).sum(axis=0)
        size = np.abs(linear).sum(axis=0) + np.abs(self.constant) + self.size
        constant = self.constant + (above + self.error + 16.0 * unit * size)
        return StackedTangents(linear + slope, constant, point)

    def extremes(self, convex: BoolArray, unit: float) -> Ends:
        """Return ranges, by tangent planes of concave functions above these and their negatives.

        Parameters
        ----------
        convex : ndarray of bool, shape (n,) or (N, n)
            Whether quadratic parts are sums of squares.
        unit : float
        """
        return -self.negative().below(unit, None, convex).top, self.below(unit).top


class StackedTangents(NamedTuple):
    """Functions ``constant + linear . e``, and points where they touch."""

    linear: FloatArray
    constant: FloatArray
    point: FloatArray

    @property
    def top(self) -> FloatArray:
        """Upper bounds, shape (N, n)."""
        return np.asarray(self.constant + np.abs(self.linear).sum(axis=0))
