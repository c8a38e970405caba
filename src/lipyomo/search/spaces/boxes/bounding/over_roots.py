"""Affine functions above whole sums of quotients by one root, and of their tangents.

With ``o_k = s_k / sqrt(v)``, and a and b for the factors of outputs and tangents,

    sum_k a_k o_k + b_k o_k' = N / v**1.5,    N = P v - Q v' / 2,
    P = sum_k a_k s_k + b_k s_k',             Q = sum_k b_k s_k,

where s, s', v and v' are functions of the inputs.  As in `relaxing/quotients.py`, for any k

    N / r <= k + (N - k r) / r,    r = v**1.5,

and N - k r lies below an affine function L.  So the quotient is at most k + L / r.  The maximum of
this over the range of r is convex in L, and lies below its chord over the range of L.  The next k
is a Newton step for a largest L of 0 (Dinkelbach: On nonlinear fractional programming, 1967).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.bounding.above import Above
from lipyomo.search.spaces.boxes.bounding.majorants import tangents
from lipyomo.search.spaces.boxes.quadratics.product_sums import products_in_all
from lipyomo.search.spaces.boxes.quadratics.stacked import Quadratics
from lipyomo.search.spaces.boxes.relaxing.inputs import Inputs
from lipyomo.search.spaces.boxes.relaxing.quotients import (
    RootFunctions,
    line_of_power,
)

ROUNDS = 5
"""How often k is updated: there is only one quotient for each root, so that this is cheap."""

EXPONENT = 1.5


@np.errstate(all="ignore")  # an overflow gives no bound
def above_quotient(
    known: RootFunctions,
    ends: Ends,
    inputs: Inputs,
    unit: float,
    form: Quadratics | None = None,
) -> Above:
    """Compute affine functions above sums of ``(P v - Q v' / 2) / v**1.5``, one for each root.

    Parameters
    ----------
    known : RootFunctions
        With Q and P in the place of s and s'.
    ends : (ndarray, ndarray), shape (N, g)
        Ranges of v.
    inputs : Inputs
    unit : float
    form : Quadratics, optional
        An upper bound of the rest of the objective, which is added.
    """
    N, v, (low, high) = known.turning(unit), known.v, ends
    least, most = low**EXPONENT, high**EXPONENT
    at = np.clip(v.constant, low, high)
    if form is not None:
        first = np.zeros_like(v.constant)
        first[:, 0] = 1.0
        N = N.plus(products_in_all([(_power(v, ends, at, unit), form)], unit).times(first))
    k, start = N.constant / at**EXPONENT, None
    for _ in range(ROUNDS):
        slope, offset = line_of_power(ends, at, k >= 0.0, EXPONENT)
        above = N.less(v, k * slope, k * offset)
        L = above.below(unit, start)
        start = L.point
        at = np.clip(v.at(start), low, high)
        step = L.top / at**EXPONENT
        k, last = k + np.where(np.isfinite(step), step, 0.0), k
    linear, constant = _lowest(above, unit)
    away = np.abs(linear).sum(axis=0)
    bottom, top = constant - away, constant + away
    first = np.where(bottom < 0.0, bottom / most, bottom / least)
    end = np.where(top < 0.0, top / most, top / least)
    rise = np.where(away > 0.0, (end - first) / (2.0 * away), 0.0)
    linear = rise * linear
    x, moves = inputs.x, inputs.v
    d = x.middle.shape[1]
    middle, radius = x.middle, x.radius
    if len(linear) > d:
        middle = np.concatenate([middle, moves.middle], axis=1)
        radius = np.concatenate([radius, moves.radius], axis=1)
    turned = linear.sum(axis=2).T
    slopes = np.divide(turned, radius, out=np.zeros_like(turned), where=radius > 0.0)
    constant = (last + 0.5 * (first + end)).sum(axis=1) - (slopes * middle).sum(axis=1)
    size = np.abs(last) + np.abs(first) + np.abs(end)
    fuzz = size.sum(axis=1) + (np.abs(slopes) * (np.abs(middle) + radius)).sum(axis=1)
    fuzz = 32.0 * unit * fuzz
    constant = np.where(np.isnan(constant + fuzz), np.inf, constant + fuzz)
    slopes = np.where(np.isfinite(slopes), slopes, 0.0)
    if len(linear) > d:
        return Above(slopes[:, :d], slopes[:, d:], constant, fuzz)
    return Above(slopes, np.zeros_like(moves.middle), constant, fuzz)


def _power(v: Quadratics, ends: Ends, at: FloatArray, unit: float) -> Quadratics:
    """Return the first ``v**1.5`` as its tangent at numbers in the range of v, with errors."""
    root = np.sqrt(at)
    slope, offset = EXPONENT * root, (1.0 - EXPONENT) * at * root
    sides = [(end**EXPONENT, slope * end + offset) for end in ends]
    away = np.maximum(*(np.abs(power - line) for power, line in sides))
    away = away + 8.0 * unit * (sides[1][0] + slope * ends[1] + np.abs(offset))
    tangent = v.times(slope).shifted(offset)
    whole = replace(tangent, error=tangent.error + away)
    return whole.take(np.zeros(1, dtype=np.intp))


def _lowest(functions: Quadratics, unit: float) -> tuple[FloatArray, FloatArray]:
    """Return linear parts (D, N, g) and constants of functions above, using concave parts."""
    (d, *shape), size = functions.linear.shape, functions.size + np.abs(functions.constant)
    matrix = np.moveaxis(np.broadcast_to(functions.matrix, (d, d, *shape)), (0, 1), (2, 3))
    linear = np.moveaxis(functions.linear, 0, 2).reshape(-1, d)
    found = tangents(matrix.reshape(-1, d, d), linear)
    rounding = size + np.abs(functions.linear).sum(axis=0) + found.size.reshape(shape)
    constant = functions.error + found.constant.reshape(shape) + 16.0 * unit * rounding
    slope = np.moveaxis((linear + found.slope).reshape(*shape, d), 2, 0)
    return slope, functions.constant + constant
