"""Quotients by powers of quadratic functions near the middles of boxes, as quadratic functions.

With ``v = m (1 + x)`` a quotient ``p / v**e`` is about

    p m**-e (1 - e x + e (e + 1) x**2 / 2),

of which the terms up to the second order are kept.  With f for their sum and r for the power, the
quotient is exactly f plus ``(p - f r) / r``, and this is of third order if r is replaced by its
Taylor polynomial of degree two.  The error of that polynomial is monotone over the range of v.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.ranges import Ends, size
from lipyomo.search.spaces.boxes.quadratics.stacked import Quadratics, products_of


@np.errstate(all="ignore")  # an overflow gives no bound
def expanded(
    p: Quadratics, v: Quadratics, ends: Ends, exponent: float, unit: float
) -> tuple[FloatArray, Quadratics]:
    """Return numbers (N, n) near ``p / v**exponent`` at the middles, and the quotients minus these.

    Parameters
    ----------
    p, v : Quadratics
        n functions each.
    ends : (ndarray, ndarray), shape (N, n)
        The range of v, positive.
    exponent : float
        0.5 or 1.5.
    unit : float
        The rounding error of sums.
    """
    at = np.clip(v.constant, *ends)
    inverse = at**-exponent
    k, x = p.constant * inverse, v.linear / at
    fall = exponent * inverse * p.linear
    bends = inverse * p.bends - exponent * k / at * v.bends
    bends += products_of(0.5 * exponent * (exponent + 1.0) * k * x - fall, x)
    linear, none = inverse * p.linear - exponent * k * x, np.zeros_like(k)
    sizes = np.abs(k) + np.abs(linear).sum(axis=0) + np.abs(bends).sum(axis=0)
    found = Quadratics(k, linear, bends, none, sizes)
    product = found.multiplied(_power(v, ends, at, exponent, unit), unit)
    left = p.plus(product.negative()).ends(unit)
    error = size(left) / ends[0] ** exponent
    error = error + 8.0 * unit * (sizes + error)
    return k, replace(found, constant=none, error=error)


def _power(v: Quadratics, ends: Ends, at: FloatArray, exponent: float, unit: float) -> Quadratics:
    """Return ``v**exponent`` as its Taylor polynomial about numbers in the ranges of v."""
    slope = exponent * at ** (exponent - 1.0)
    bend = 0.5 * exponent * (exponent - 1.0) * at ** (exponent - 2.0)
    away = np.zeros_like(at)
    for end in ends:
        shift, power = end - at, end**exponent
        terms = at**exponent, slope * shift, bend * shift * shift
        rounding = power + sum(np.abs(term) for term in terms)
        away = np.maximum(away, np.abs(power - sum(terms)) + 8.0 * unit * rounding)
    beside = v.shifted(-at)
    found = beside.times(slope).plus(beside.multiplied(beside, unit).times(bend))
    return replace(found.shifted(at**exponent), error=found.error + away)
