"""Hyperbolic tangent.

With e = exp(-2 |z|), exact but for the exponential: sigma' = 4 e / (1 + e)**2, never 1 - tanh**2,
so that it keeps its relative precision far out.  sigma'' = -2 t sigma', and
sigma''' = (6 t**2 - 2) sigma'.
Relative errors: t 8 u; e 8 u, 1 + e and its square 20 u at most, together 24 u for sigma'; 40 u for
sigma''; sigma''' likewise, and 64 u absolute where 6 t**2 - 2 cancels.
Turning points: sigma' at 0, sigma'' at t**2 = 1/3, sigma''' at 0 and t**2 = 2/3.

Bands around ``F = A tanh + c tanh'``: with t = tanh z, the derivative of G = F - s z is a cubic in
t,

    G' = (1 - t**2) (A - 2 c t) - s = 2 c t**3 - A t**2 - 2 c t + (A - s),

so G has its extremes over an interval at the ends and at up to three roots.  The bounds hold for
any approximation of the roots.  A root x, or the inverse of a root beyond 1, is divided off, and
the remaining quadratic is written as a product again:

    G' = (t - x) (a t - q) (t - y) + rest     or     G' = (1 - x t) (a t - q) (t - y) + rest.

Between the roots of the product, which are known exactly, the product has a fixed sign, and the
rest is at most r on |t| <= 1.  Hence G is at most the largest of its values at both ends and at
those roots that lie in the interval, plus r times the width, and likewise from below.

For a small r the first root must be the one farthest from the mean of all three, which is simple.
With h = A / (6 c) and m = sqrt(h**2 + 1/3) it is h - sign(v) 2 m g, where
``4 g**3 - 3 g = |v|``, v = (2 h**3 + h - (A - s) / (2 c)) / (-2 m**3), g >= cos(pi / 6), for which
Newton's method takes a few steps from a line.

Rounding.  The sum of the absolute coefficients is at most B = |A| + 4 |c| + |A - s|, and at most
three times as large after a division by a root within [-1, 1].  Horner's rule and the product are
some twenty operations; 256 u B covers them, the rounding of q / a, and a discriminant of the wrong
sign.  Values of G are as in `lipyomo.networks.activations.bands`: those at roots have an exact t,
and z = artanh t has an error of 8 u.  Roots count as inside if they are within 16 u |z| of the
interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.numerics.rounding import UNDERFLOW, UNIT, UNIT_ROUNDOFF
from lipyomo.networks.activations.activation import Activation, Slope, known_as
from lipyomo.networks.activations.bands import Band, Cut, chord
from lipyomo.networks.activations.branch import Branch, Sums, Turn, exact_turn
from lipyomo.networks.activations.derived import Derivative
from lipyomo.networks.activations.elementary import arctanh, tanh, tanh_slope
from lipyomo.networks.activations.families import TanhFamily
from lipyomo.networks.activations.rounding import error

INFLECTION = math.log(2.0 + math.sqrt(3.0)) / 2.0
"""artanh(1 / sqrt 3)."""

STEEPEST = 4.0 / (3.0 * math.sqrt(3.0))
"""The value of sigma'' at -INFLECTION."""

OUTER = math.log(math.sqrt(3.0) + math.sqrt(2.0))
"""artanh(sqrt(2 / 3)), where sigma''' is 2/3."""


@dataclass(frozen=True)
class TanhBranch(Branch):
    """tanh on R."""

    whole = True
    turns = (
        (),
        (exact_turn(0.0, 1.0),),
        (Turn(-INFLECTION, STEEPEST), Turn(INFLECTION, -STEEPEST)),
        (Turn(-OUTER, 2 / 3), exact_turn(0.0, -2.0), Turn(OUTER, 2 / 3)),
    )
    tails = ((-1.0, 1.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))
    errors = (error(8), error(24), error(40), error(40, 64))

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        t = tanh(z)
        if order == 0:
            return (t,)
        slope = tanh_slope(z)
        if order == 1:
            return t, slope
        found = t, slope, -2.0 * t * slope
        return found if order == 2 else (*found, (6.0 * t * t - 2.0) * slope)

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        return z.tanh(), z.sech() ** 2


@known_as("tanh")
@dataclass(frozen=True)
class Tanh(Activation):
    """``tanh z``."""

    name = "tanh"
    reflection = (-1.0, 0.0)
    branches = (TanhBranch(),)

    @property
    def derivative(self) -> Slope:
        """``1 - tanh**2``."""
        return Slope(1.0, Derivative(TanhFamily(), 1))

    def _band(self, cut: Cut, sums: Sums) -> Band:
        """By the roots of a cubic."""
        return tanh_band(sums)


_FEW = float(np.cbrt(UNIT))
"""Smallest ratio of c to A in the first guess, as cubes would lose the other terms of v otherwise.
Newton's method corrects the guess."""

_STEPS = 3
"""Newton steps for g, enough to decide on which side of 1 a root is."""


def tanh_band(sums: Sums) -> Band:
    """Bands around ``A tanh + c tanh'``."""
    A, c, low, high, s = sums
    first, last, flat_first, flat_last = tanh(low), tanh(high), tanh_slope(low), tanh_slope(high)
    start, end = sums.of(first, flat_first), sums.of(last, flat_last)
    if s is None:
        slopes = flat_first * (A - 2.0 * c * first), flat_last * (A - 2.0 * c * last)
        s = chord(sums, (start, end), slopes)
    ends = start - s * low, end - s * high
    least, greatest = np.minimum(*ends), np.maximum(*ends)
    roots, rest = _roots(A, c, s)
    unit = UNIT_ROUNDOFF
    for t, known in roots:
        z = arctanh(t)
        room = 16 * unit * np.abs(z)
        inside = known & (np.abs(t) < 1.0) & (z >= low - room) & (z <= high + room)
        there = A * t + c * ((1.0 - t) * (1.0 + t)) - s * z
        np.minimum(least, np.where(inside, there, np.inf), out=least)
        np.maximum(greatest, np.where(inside, there, -np.inf), out=greatest)
    big, small = np.abs(A), np.abs(c)
    off = rest * (high - low) * (1 + 4 * unit)
    off += 48 * unit * (big * np.maximum(np.abs(first), np.abs(last)) + small)
    off += 32 * unit * np.abs(s) * sums.sizes
    off += UNDERFLOW * (big + small) + UNDERFLOW * ((big > 0.0) | (small > 0.0) | (s != 0.0))
    return s, least - off, greatest + off


def _roots(
    A: FloatArray, c: FloatArray, s: FloatArray
) -> tuple[list[tuple[FloatArray, BoolArray]], FloatArray]:
    """Return roots of a product near G', whether each is real, and a bound of the difference."""
    if not c.any():
        return _opposite_roots(A, s)
    coefficients = A - s, -2.0 * c, -A, 2.0 * c
    x = _far_root(A, c, coefficients[0])
    inner = np.abs(x) <= 1.0
    x = np.where(inner, x, 1.0 / x)
    b0, b1, b2, b3 = (
        np.where(inner, one, other)
        for one, other in zip(coefficients, reversed(coefficients), strict=True)
    )
    q1 = b2 + x * b3
    q0 = b1 + x * q1
    steep = (b3 * x + q1) * x + q0
    step = (b0 + x * q0) / np.where(steep == 0.0, np.inf, steep)
    x = np.minimum(np.maximum(x - step, -1.0), 1.0)
    q1 = b2 + x * b3
    q0 = b1 + x * q1
    rest = np.abs(b0 + x * q0)
    a, b, d = np.where(inner, b3, q0), q1, np.where(inner, q0, b3)
    square = b * b - 4.0 * a * d
    q = -0.5 * (b + np.copysign(np.sqrt(np.maximum(square, 0.0)), b))
    y = d / np.where(q == 0.0, 1.0, q)
    real = square >= 0.0
    rest += np.where(real, 2.0 * (np.abs(b + q + a * y) + np.abs(d - q * y)), 0.0)
    size = np.abs(A) + 4.0 * np.abs(c) + np.abs(coefficients[0])
    rest += 256 * UNIT_ROUNDOFF * size + UNDERFLOW * (size > 0.0)
    return [(x, inner), (y, real), (q / np.where(a == 0.0, UNDERFLOW, a), real)], rest


def _opposite_roots(
    A: FloatArray, s: FloatArray
) -> tuple[list[tuple[FloatArray, BoolArray]], FloatArray]:
    """As `_roots` where c is zero: the product is ``-A (t - r) (t + r)``, r**2 = (A - s) / A."""
    constant = A - s
    square = constant / np.where(A == 0.0, np.inf, A)
    r, real = np.sqrt(np.maximum(square, 0.0)), square >= 0.0
    rest = np.where(real, np.abs(constant - A * r * r), 0.0)
    rest += 8 * UNIT_ROUNDOFF * (np.abs(A) + np.abs(constant)) + UNDERFLOW * (A != 0.0)
    return [(r, real), (-r, real)], rest


def _far_root(A: FloatArray, c: FloatArray, constant: FloatArray) -> FloatArray:
    """Approximate the root of G' that is farthest from the mean of all three."""
    some = np.copysign(np.maximum(np.maximum(np.abs(c), _FEW * np.abs(A)), UNDERFLOW), c)
    h = A / (6.0 * some)
    m = np.sqrt(h * h + 1.0 / 3.0)
    v = (0.5 * constant / some - h - 2.0 * h * h * h) / (2.0 * m * m * m)
    size = np.abs(v)
    g = 0.866 + 0.134 * size
    for _ in range(_STEPS):
        square = g * g
        g = (8.0 * square * g + size) / (12.0 * square - 3.0)
    return np.asarray(h - np.copysign(2.0 * m * g, v))
