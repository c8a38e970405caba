"""Ranges of quotients by powers of a function that are quadratic in the inputs.

With v between two positive ends, r one of ``v**0.5`` and ``v**1.5``, and any number k,

    p / r <= k + max(p - k r) / r.

Where r is not below its tangent, or its chord, as a function of v (for k >= 0; above it for k < 0),
the maximum is that of one quadratic function, in which much of p and of v cancels out.  A good k is
what p / r attains at the middle, or at the corner that it rises towards, and then what Newton's
step makes of it: the maximum falls by r where k rises, and should be zero, as Dinkelbach has it (On
nonlinear fractional programming, 1967).  Tangents are those at these points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.networks.normalised import Roots
from lipyomo.search.spaces.boxes.inputs import Affine, Inputs, turned
from lipyomo.search.spaces.boxes.product_sums import (
    SumsOfSignals,
    products_in_all,
    sums_of_products,
)
from lipyomo.search.spaces.boxes.stacked import Quadratics, placed

ROUNDS = 2
"""How often k is chosen: a third time gains less than it takes."""

SHARE = 0.05
"""Of its size: what an end may be beyond what is attained."""


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
        """With the v and v' that follow from s and s'."""
        weights = (roots.weights[:, None] * roots.whole).T
        v = sums_of_products(s, s, weights, unit).shifted(roots.least)
        along = sums_of_products(s, turn, 2.0 * weights, unit)
        return cls(s.functions, turn.functions, v, along)

    def of(self, group: IntArray) -> RootFunctions:
        """With the v and v' of each square, copied: what is broadcast takes three times as long."""
        return RootFunctions(self.s, self.turn, self.v.take(group), self.along.take(group))

    def on(self, which: IntArray) -> RootFunctions:
        """The functions on some of the boxes."""
        return RootFunctions(*(part.on(which) for part in self))

    def turning(self, unit: float) -> Quadratics:
        """The numerators of o', ``s' v - s v' / 2``."""
        half = self.along.times(np.full((1, 1), -0.5))
        return products_in_all([(self.turn, self.v), (self.s, half)], unit)


def quadratic_of(affine: Affine, inputs: Inputs, moving: bool) -> Quadratics:
    """Affine functions on boxes as quadratic ones, of (x, v) where that is `moving`."""
    linear, offset = turned(affine, inputs, moving)
    size = np.abs(offset) + np.abs(linear).sum(axis=2) + affine.radius
    return Quadratics.straight(offset, linear, affine.radius, size)


@np.errstate(all="ignore")  # what overflows says nothing
def over_powers(
    p: Quadratics,
    v: Quadratics,
    ends: Ends,
    known: Ends,
    exponent: float,
    concave: bool,
    unit: float,
) -> Ends:
    """Ranges (N, n) of ``p / v**exponent``.

    Parameters
    ----------
    p, v : Quadratics
        n functions each, or one v.
    ends : (ndarray, ndarray), shape (N, n), or (N, 1)
        Of v, positive.
    known : (ndarray, ndarray), shape (N, n)
        Ranges that these are no wider than.
    exponent : float
        0.5 or 1.5.
    concave : bool
        Whether ``p - v`` has a matrix of negative squares: v is a sum of squares, and p affine.
    unit : float
        What sums round.
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
    """A k with a maximum of ``p - k r`` near zero, where it is `top`, and r is a `power` there."""
    step = top / power
    return k + np.where(np.isfinite(step), step, 0.0)


class _Quotients(NamedTuple):
    """Functions ``p / v**exponent`` as `over_powers` has them, in any number of axes."""

    p: Quadratics
    v: Quadratics
    ends: Ends
    exponent: float
    concave: bool
    unit: float

    def highest(
        self, best: FloatArray, k: FloatArray, at: FloatArray, start: FloatArray, rounds: int
    ) -> FloatArray:
        """Upper ends, at most `best`, by k and a v with tangents at it; again where they are far.

        The points near which all this is attained are a `start`.
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
    """Slope and start of lines that powers of v are not below, or not above: tangents and chords.

    Of a tangent the start is chosen by the slope as it is, so that it is right but for rounding.
    """
    a, b, w = np.sqrt(ends[0]), np.sqrt(ends[1]), np.sqrt(at)
    if exponent == 0.5:
        chord, tangent = (1.0 / (a + b), a * b / (a + b)), (0.5 / w, 0.5 * w)
        return np.where(below, chord[0], tangent[0]), np.where(below, chord[1], tangent[1])
    chord = (a * a + a * b + b * b) / (a + b), -(a * a * b * b) / (a + b)
    tangent = 1.5 * w, -0.5 * w * w * w
    return np.where(below, tangent[0], chord[0]), np.where(below, tangent[1], chord[1])


def common_range(one: Ends, other: Ends) -> Ends:
    """What two ranges share; NaN is no end."""
    low, high = np.fmax(one[0], other[0]), np.fmin(one[1], other[1])
    return low, np.maximum(low, high)
