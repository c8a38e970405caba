"""Quadratic functions on cubes with the axes of e first: their upper ends, and where these are.

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
from lipyomo.search.spaces.boxes.on_cubes import QuadraticOnCube, pairs_of

ENTRIES = 8
"""Most entries of e that are worth their time: terms of third order are as many as their cubes."""

SWEEPS = 2
"""How often each entry of a point is chosen at which a tangent plane is low: more hardly matter."""


@cache
def places_of(count: int) -> dict[tuple[int, int], int]:
    """Where the coefficient of each of these pairs stands."""
    return {pair: count + number for number, pair in enumerate(pairs_of(count))}


def products_of(C: FloatArray, D: FloatArray) -> FloatArray:
    """Coefficients of the products of linear parts (D, N, n)."""
    count, pairs = len(C), pairs_of(len(C))
    found = np.empty((count + len(pairs), *np.broadcast_shapes(C.shape[1:], D.shape[1:])))
    np.multiply(C, D, out=found[:count])
    for term, (a, b) in zip(found[count:], pairs, strict=True):
        np.multiply(C[a], D[b], out=term)
        term += C[b] * D[a]
    return found


Places = tuple[IntArray, ...]
"""One array, or rows and columns, as `numpy.nonzero` has them."""


@dataclass(frozen=True, eq=False)
class Quadratics(QuadraticOnCube):
    """Functions ``constant + linear . e + bends . (e_a e_b) +- error`` for e in [-1, 1]^D.

    Attributes
    ----------
    constant, error : ndarray, shape (N, n)
    linear : ndarray, shape (D, N, n)
    bends : ndarray, shape (D (D + 1) / 2, N, n)
    size : ndarray, shape (N, n)
        Sums of absolute values of all terms that they are made of.
    """

    error: FloatArray
    size: FloatArray

    @classmethod
    def straight(
        cls, constant: FloatArray, linear: FloatArray, error: FloatArray, size: FloatArray
    ) -> Quadratics:
        """Affine functions, whose linear parts (N, n, D) have the axis of e last."""
        slopes = np.ascontiguousarray(np.moveaxis(linear, 2, 0))
        terms = len(slopes) + len(pairs_of(len(slopes)))
        return cls(constant, slopes, np.zeros((terms, 1, 1)), error, size)

    def take(self, *places: IntArray) -> Quadratics:
        """Some of the n functions, or those at some places (N, n); of one alone as many copies."""
        parts = self.constant, self.linear, self.bends, self.error, self.size
        return Quadratics(*(placed(part, places) for part in parts))

    def on(self, which: IntArray) -> Quadratics:
        """The functions on some of the boxes."""
        parts = self.constant, self.linear, self.bends, self.error, self.size
        return Quadratics(*(part[..., which, :] if part.shape[-2] > 1 else part for part in parts))

    def times(self, share: FloatArray) -> Quadratics:
        """Multiples, by numbers (N, n)."""
        size = np.abs(share)
        whole = self.constant * share, self.linear * share, self.bends * share
        return Quadratics(*whole, self.error * size, self.size * size)

    def plus(self, other: Quadratics) -> Quadratics:
        """Sums."""
        return Quadratics(
            self.constant + other.constant,
            self.linear + other.linear,
            self.bends + other.bends,
            self.error + other.error,
            self.size + other.size,
        )

    def less(self, other: Quadratics, share: FloatArray, number: FloatArray) -> Quadratics:
        """These less multiples of others, and less numbers (N, n)."""
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
        """Sums of multiples, for rows (k, n) of coefficients."""
        turned, sizes = rows.T, np.abs(rows).T
        bends = self.bends @ turned if self.bends.shape[-1] > 1 else self.bends * turned.sum(0)
        parts = self.constant @ turned, self.linear @ turned, bends
        return Quadratics(*parts, self.error @ sizes, self.size @ sizes)

    def shifted(self, number: FloatArray) -> Quadratics:
        """These and numbers (N, n)."""
        constant, size = self.constant + number, self.size + np.abs(number)
        return Quadratics(constant, self.linear, self.bends, self.error, size)

    def multiplied(self, other: Quadratics, unit: float) -> Quadratics:
        """Products of these with others: what is of third order in e, or more, is an error.

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
        """Ranges, by the sizes of all coefficients."""
        middle, radius = self.bend
        radius = radius + np.abs(self.linear).sum(axis=0) + self.error
        radius = radius + 16.0 * unit * (self.size + np.abs(self.constant))
        return self.constant + middle - radius, self.constant + middle + radius

    def negative(self) -> Quadratics:
        """These functions times -1."""
        return self.times(np.full((1, 1), -1.0))

    def below(
        self, unit: float, start: FloatArray | None = None, concave: BoolArray | None = None
    ) -> StackedTangents:
        """Affine functions above these, low where these are high.

        With D >= 0 diagonal and ``M = Q - D`` negative semidefinite

            l . e + e' Q e <= sum D + l . e + e' M e <= sum D - p' M p + (l + 2 M p) . e

        for each point p: where M is diagonally dominant, or Q is known to be of one sign.

        Parameters
        ----------
        unit : float
            What sums round.
        start : ndarray, shape (D, N, n), optional
            Where to look for points from.
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
        steep = 0.5 / np.maximum(-lowered, TINY)  # where M does not bend, an end is best

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
        """Ends, by tangent planes of concave functions above these, and above their negatives.

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
        """Upper ends, shape (N, n)."""
        return np.asarray(self.constant + np.abs(self.linear).sum(axis=0))


def placed(array: FloatArray, places: Places) -> FloatArray:
    """Numbers at some places of the last axes, of which any may be of one number for all."""
    counts = array.shape[-len(places) :]
    own = (place if count > 1 else 0 * place for place, count in zip(places, counts, strict=True))
    if len(places) == 1:
        return np.asarray(array[..., next(own)])
    row, column = own
    return np.asarray(array[..., row, column])
