"""Ranges of quotients by powers of a function that are quadratic in the inputs.

With v between two positive ends, r one of ``v**0.5`` and ``v**1.5``, and any number k,

    p / r <= k + max(p - k r) / r.

If r is replaced by a lower bound that is affine in v, its tangent or its chord (an upper bound for
k < 0), the maximum is that of a single quadratic function, in which much of p and v cancels.  A
good start for k is the value of p / r at the middle, or at the corner towards which it increases.
It is then improved by a Newton step: the maximum has the derivative -r in k, and should be zero
(Dinkelbach: On nonlinear fractional programming, 1967).  Tangents are those at the same points.
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
from lipyomo.search.spaces.boxes.quadratics.stacked import Quadratics, placed
from lipyomo.search.spaces.boxes.relaxing.inputs import Affine, Inputs, turned

ROUNDS = 2
"""How often k is chosen: a third time is not worth it."""

SHARE = 0.05
"""The relative distance of a bound from an attained value at which it is improved once more."""


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
    corner = np.sign(p.linear - exponent * p.constant / middle * v.linear)
    found = []
    for sign, best in ((-1.0, -known[0]), (1.0, known[1])):
        top, start = (p if sign > 0.0 else p.negative()), sign * corner
        there = np.clip(v.at(start), *ends)
        attained = top.at(start) / there**exponent
        best_k, at = np.fmax(sign * k, attained), np.where(attained > sign * k, there, middle)
        quotients = _Quotients(top, v, ends, exponent, concave, unit)
        found.append(quotients.highest(best, best_k, at, start, ROUNDS))
    return -found[0], found[1]


def next_quotient(k: FloatArray, top: FloatArray, power: FloatArray) -> FloatArray:
    """Return the Newton step from k, where ``p - k r`` has the maximum `top` and r is `power`."""
    step = top / power
    return k + np.where(np.isfinite(step), step, 0.0)


class _Quotients(NamedTuple):
    """Functions ``p / v**exponent`` as in `over_powers`, with any number of axes."""

    p: Quadratics
    v: Quadratics
    ends: Ends
    exponent: float
    concave: bool
    unit: float

    def highest(
        self, best: FloatArray, k: FloatArray, at: FloatArray, start: FloatArray, rounds: int
    ) -> FloatArray:
        """Return upper bounds, at most `best`, by k and tangents at a v; repeat where they are far.

        `start` are points near the maximisers.
        """
        p, v, ends, exponent, concave, unit = self
        least, most = ends[0] ** exponent, ends[1] ** exponent
        slope, offset = line_of_power(ends, at, k >= 0.0, exponent)
        whole = p.less(v, k * slope, k * offset)
        found = whole.below(unit, start, concave & (k >= 0.0))
        height, point = found.top, found.point
        height = height + 16.0 * unit * (np.abs(k) * most + np.abs(height))
        better = k + np.where(height > 0.0, height / least, height / most)
        best = np.fmin(best, better + 8.0 * unit * (np.abs(better) + np.abs(k)))
        if rounds == 1:
            return best
        at = np.clip(v.at(point), *ends)
        k = next_quotient(k, height, at**exponent)
        far = np.nonzero(best - k > SHARE * np.maximum(np.abs(best), np.abs(k)))
        if far[0].size:
            within = placed(ends[0], far), placed(ends[1], far)
            parts = p.take(*far), v.take(*far), within
            again = _Quotients(*parts, exponent, concave, unit)
            some = best[far], k[far], at[far], placed(point, far)
            best[far] = again.highest(*some, rounds - 1)
        return best


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
