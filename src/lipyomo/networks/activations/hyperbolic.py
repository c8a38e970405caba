"""Derivatives of tanh: ``s Q(t)`` with t = tanh z, s = 1 - t**2 and polynomials Q.

As s' = -2 t s and t' = s, the next polynomial is ``-2 t Q + (1 - t**2) Q'``.  s is computed as
``4 e / (1 + e)**2``, e = exp(-2 |z|), off by 24 u.  With C the sum of the absolute coefficients and
n the degree, Q(t) is off by 8 n u C for t, which is off by 8 u, and by 2 n u C for Horner's rule; a
monomial keeps its relative precision.  Underflow in e causes an error four times as large in s.
Turning points are roots of the next polynomial, found in ball arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from flint import arb, fmpz_poly

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.networks.activations.branch import Turn
from lipyomo.networks.activations.derived import Family, horner, turning_points
from lipyomo.networks.activations.elementary import exp, tanh
from lipyomo.networks.activations.rounding import TINY, Error

SLOPE = fmpz_poly([1, 0, -1])
"""tanh', in t."""


@cache
def polynomial(order: int) -> fmpz_poly:
    """Q of a derivative of tanh; ``order >= 1``."""
    if order == 1:
        return fmpz_poly([1])
    before = polynomial(order - 1)
    return fmpz_poly([0, -2]) * before + SLOPE * before.derivative()


@cache
def _turns(order: int) -> tuple[Turn, ...]:
    whole = SLOPE * polynomial(order)
    return turning_points(polynomial(order + 1), lambda t: (t.atanh(), whole(t)))


@dataclass(frozen=True)
class TanhFamily(Family):
    """Derivatives of tanh."""

    name = "tanh"

    def derivatives(self, z: FloatArray, first: int, last: int) -> tuple[FloatArray, ...]:
        """See `Family`."""
        t = tanh(z)
        e = exp(-2.0 * np.abs(z))
        d = 1.0 + e
        s = 4.0 * e / (d * d)
        return tuple(s * horner(polynomial(k), t) for k in range(first, last + 1))

    def turns(self, order: int) -> tuple[Turn, ...]:
        """See `Family`."""
        return _turns(order)

    def error(self, order: int) -> Error:
        """See `Family`."""
        coefficients = [abs(int(one)) for one in polynomial(order).coeffs()]
        size = sum(coefficients)
        off, unit = 10 * (len(coefficients) - 1), UNIT_ROUNDOFF
        if sum(one != 0 for one in coefficients) == 1:
            return Error((28 + off) * unit, 8 * size * TINY)
        return Error(28 * unit, (off + 2) * size * unit + 8 * size * TINY)

    def ball(self, z: arb, order: int) -> arb:
        """See `Family`."""
        return z.sech() ** 2 * polynomial(order)(z.tanh())

    def sign(self, order: int) -> float:
        """See `Family`."""
        return 1.0 if order % 2 else -1.0
