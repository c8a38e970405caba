"""Ranges of quotients by powers of a function that are quadratic in the inputs.

With v between two positive ends, r one of ``v**0.5`` and ``v**1.5``, and any number k,

    p / r <= k + max(p - k r) / r.

If r is replaced by a lower bound that is affine in v, its tangent or its chord (an upper bound for
k < 0), the maximum is that of a single quadratic function, in which much of p and v cancels.  A
good k is the value of p / r at the middle, or at the corner towards which it increases, whichever
is larger.  Tangents are those at the same points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.networks.normalised import Roots
from lipyomo.search.spaces.boxes.quadratics.product_sums import (
    SumsOfSignals,
    products_in_all,
    sums_of_products,
)
from lipyomo.search.spaces.boxes.quadratics.stacked import Quadratics
from lipyomo.search.spaces.boxes.relaxing.inputs import Affine, Inputs, turned


class RootFunctions(NamedTuple):
    """The s and s' of all squares, and the v and v' of all roots, as functions of the inputs."""

    s: Quadratics
    turn: Quadratics
    v: Quadratics
    along: Quadratics

    @classmethod
    def of_signals(
        cls, s: SumsOfSignals, turn: SumsOfSignals, roots: Roots, unit: float
    ) -> RootFunctions:
        """Compute v and v' from s and s'."""
        weights = (roots.weights[:, None] * roots.whole).T
        v = sums_of_products(s, s, weights, unit).shifted(roots.least)
        along = sums_of_products(s, turn, 2.0 * weights, unit)
        return cls(s.functions, turn.functions, v, along)

    def of(self, group: IntArray) -> RootFunctions:
        """Return the same with v and v' copied for each square; broadcasting would be slower."""
        return RootFunctions(self.s, self.turn, self.v.take(group), self.along.take(group))

    def on(self, which: IntArray) -> RootFunctions:
        """Select some of the boxes."""
        return RootFunctions(*(part.on(which) for part in self))

    def turning(self, unit: float) -> Quadratics:
        """Return the numerators of o', ``s' v - s v' / 2``."""
        half = self.along.times(np.full((1, 1), -0.5))
        return products_in_all([(self.turn, self.v), (self.s, half)], unit)


def quadratic_of(affine: Affine, inputs: Inputs, moving: bool) -> Quadratics:
    """Return affine functions on boxes as quadratic ones; of (x, v) if v is `moving`."""
    linear, offset = turned(affine, inputs, moving)
    size = np.abs(offset) + np.abs(linear).sum(axis=2) + affine.radius
    return Quadratics.straight(offset, linear, affine.radius, size)


@np.errstate(all="ignore")  # an overflow gives no bound
def over_powers(
    p: Quadratics,
    v: Quadratics,
    ends: Ends,
    known: Ends,
    exponent: float,
    concave: bool,
    unit: float,
) -> Ends:
    """Compute ranges (N, n) of ``p / v**exponent``.

    Parameters
    ----------
    p, v : Quadratics
        n functions each, or one v.
    ends : (ndarray, ndarray), shape (N, n), or (N, 1)
        The ranges of v, positive.
    known : (ndarray, ndarray), shape (N, n)
        Known ranges, which the results are intersected with.
    exponent : float
        0.5 or 1.5.
    concave : bool
        Whether ``p - v`` is concave: v is a sum of squares, and p affine.
    unit : float
        The rounding error of sums.
    """
    middle = np.clip(v.constant, *ends)
    k = p.constant / middle**exponent
    least, most = ends[0] ** exponent, ends[1] ** exponent
    corner = np.sign(p.linear - exponent * p.constant / middle * v.linear)
    found = []
    for sign, best in ((-1.0, -known[0]), (1.0, known[1])):
        top, start = (p if sign > 0.0 else p.negative()), sign * corner
        there = np.clip(v.at(start), *ends)
        attained = top.at(start) / there**exponent
        best_k, at = np.fmax(sign * k, attained), np.where(attained > sign * k, there, middle)
        slope, offset = line_of_power(ends, at, best_k >= 0.0, exponent)
        whole = top.less(v, best_k * slope, best_k * offset)
        height = whole.below(unit, start, concave & (best_k >= 0.0)).top
        height = height + 16.0 * unit * (np.abs(best_k) * most + np.abs(height))
        better = best_k + np.where(height > 0.0, height / least, height / most)
        better = better + 8.0 * unit * (np.abs(better) + np.abs(best_k))
        found.append(np.fmin(best, better))
    return -found[0], found[1]


def line_of_power(
    ends: Ends, at: FloatArray, below: BoolArray, exponent: float
) -> tuple[FloatArray, FloatArray]:
    """Return slope and offset of lines below, or above, powers of v: tangents and chords.

    The offset of a tangent follows from its rounded slope, so that it is correct up to rounding.
    """
    a, b, w = np.sqrt(ends[0]), np.sqrt(ends[1]), np.sqrt(at)
    if exponent == 0.5:
        chord, tangent = (1.0 / (a + b), a * b / (a + b)), (0.5 / w, 0.5 * w)
        return np.where(below, chord[0], tangent[0]), np.where(below, chord[1], tangent[1])
    chord = (a * a + a * b + b * b) / (a + b), -(a * a * b * b) / (a + b)
    tangent = 1.5 * w, -0.5 * w * w * w
    return np.where(below, tangent[0], chord[0]), np.where(below, tangent[1], chord[1])


def common_range(one: Ends, other: Ends) -> Ends:
    """Intersect two ranges, ignoring ends that are NaN."""
    low, high = np.fmax(one[0], other[0]), np.fmin(one[1], other[1])
    return low, np.maximum(low, high)
