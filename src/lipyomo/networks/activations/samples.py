"""Values and derivatives of the functions that bands enclose, on pieces of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.rounding import UNDERFLOW, UNIT_ROUNDOFF
from lipyomo.networks.activations.branch import Branch, Sums
from lipyomo.networks.activations.rounding import Error


class Cut(NamedTuple):
    """Intervals with the same branches and number of pieces, by their positions.

    Wide ones are cut more finely near zero, and the ranges of F and F' on their pieces are used.
    """

    where: IntArray
    branches: tuple[Branch, ...]
    pieces: int
    wide: bool


_Hull = tuple[FloatArray, Error, tuple[FloatArray, FloatArray]]
"""A factor, with the error bound and the range of the derivative that it multiplies."""


@dataclass(frozen=True, eq=False)
class Samples:
    """F at the ends of the pieces of intervals, which lie inside one branch.

    Attributes
    ----------
    branch : Branch
    sums : Sums
    z : list of ndarray
        Ends of pieces, in order.
    jets : list of tuples of ndarray
        Derivatives there.
    values : list of ndarray
        F there.
    size : ndarray
        Largest ``|A sigma| + |c sigma'|``.
    """

    branch: Branch
    sums: Sums
    z: list[FloatArray]
    jets: list[tuple[FloatArray, ...]]
    values: list[FloatArray]
    size: FloatArray

    @classmethod
    def of(cls, branch: Branch, sums: Sums, cut: Cut) -> Samples:
        """Sample the pieces of a cut, or whole intervals if these need no pieces."""
        whole = branch.whole and cut.pieces == 1
        z = [sums.low, sums.high] if whole else places(sums, cut)
        jets = [branch.jet(at, 3) for at in z]
        values, size = [], np.zeros_like(sums.low)
        for jet in jets:
            left, right = sums.A * jet[0], sums.c * jet[1]
            values.append(left + right)
            np.maximum(size, np.abs(left) + np.abs(right), out=size)
        return cls(branch, sums, z, jets, values, size)

    def slope(self, end: int) -> FloatArray:
        """F' at the first (0) or last (-1) place."""
        return self.sums.of(*self.jets[end][1:3])

    def range(self, k: int, order: int) -> tuple[FloatArray, FloatArray]:
        """Range of a derivative of F on the k-th piece, less its error (`room`)."""
        return self._sum(self._hulls(k, order))

    def range_and_room(self, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the range of F'' on the k-th piece, and its error, which is less than `room`."""
        hulls = self._hulls(k, 2)
        room = UNDERFLOW * ((self.sums.A != 0.0) | (self.sums.c != 0.0))
        for factor, error, ends in hulls:
            relative = error.relative + 4 * UNIT_ROUNDOFF
            largest = np.maximum(np.abs(ends[0]), np.abs(ends[1])) * (1.0 + 2.0 * relative)
            off = relative * (largest + error.absolute) + error.absolute
            room = room + np.abs(factor) * off
        return *self._sum(hulls), room

    def _sum(self, hulls: Sequence[_Hull]) -> tuple[FloatArray, FloatArray]:
        least = most = np.zeros_like(self.sums.low)
        for factor, _, ends in hulls:
            one, other = factor * ends[0], factor * ends[1]
            least, most = least + np.minimum(one, other), most + np.maximum(one, other)
        return least, most

    def _hulls(self, k: int, order: int) -> list[_Hull]:
        """Return A and c with the errors and ranges on the k-th piece of their derivatives."""
        a, b = self.z[k : k + 2]
        return [
            (
                factor,
                self.branch.errors[of],
                self.branch.hull(of, a, b, self.jets[k][of], self.jets[k + 1][of]),
            )
            for factor, of in ((self.sums.A, order), (self.sums.c, order + 1))
            if factor.any()
        ]

    def room(self, order: int) -> FloatArray:
        """Return the error bound of `range`, underflow included."""
        A, c, branch = self.sums.A, self.sums.c, self.branch
        value, slope = (
            (error.relative + 4 * UNIT_ROUNDOFF) * branch.largest(k) + error.absolute
            for k, error in enumerate(branch.errors[order : order + 2], order)
        )
        room = np.abs(A) * value
        room += np.abs(c) * slope
        return np.asarray(room + UNDERFLOW * ((A != 0.0) | (c != 0.0)))


def places(sums: Sums, cut: Cut) -> list[FloatArray]:
    """Ends of pieces, in order: even in z, or in z / (1 + |z|) on wide intervals."""
    low, high = sums.low, sums.high
    shares = [k / cut.pieces for k in range(1, cut.pieces)]
    if cut.wide:
        first, last = low / (1.0 + np.abs(low)), high / (1.0 + np.abs(high))
        bent = [first + share * (last - first) for share in shares]
        inner = [y / (1.0 - np.abs(y)) for y in bent]
    else:
        width = high - low
        inner = [low + share * width for share in shares]
    found = [low]
    for z in inner:
        found.append(np.minimum(np.maximum(z, found[-1]), high))
    return [*found, high]
