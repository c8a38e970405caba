"""Ranges of quotients by a root, of functions that are quadratic in the inputs.

With v between two positive ends, and any number k,

    p / sqrt(v) <= k + max(p - k sqrt(v)) / sqrt(v).

For k >= 0 the root is not below its chord ``(v + sqrt(v_low v_high)) / (sqrt(v_low) +
sqrt(v_high))``, and for k < 0 not above a tangent ``(v + m**2) / (2 m)``.  So the maximum is that
of one quadratic function, in which much of p and of v cancels out.  The bound is a better k.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.affine import Affine
from lipyomo.search.spaces.boxes.inputs import Inputs
from lipyomo.search.spaces.boxes.quadratic import Quadratic, turned

ROUNDS = 2
"""How often a bound is the k of the next one: more hardly gain."""


def quadratic_of(affine: Affine, inputs: Inputs, moving: bool) -> Quadratic:
    """Affine functions on boxes as quadratic ones, of (x, v) where that is `moving`."""
    linear, offset = turned(affine, inputs, moving)
    size = np.abs(offset) + np.abs(linear).sum(axis=2) + affine.radius
    none = np.zeros((1, 1, linear.shape[2] ** 2))
    return Quadratic(offset, linear, none, affine.radius, size)


@np.errstate(all="ignore")  # what overflows says nothing
def over_roots(
    p: Quadratic, v: Quadratic, ends: Ends, known: Ends, concave: bool, unit: float
) -> Ends:
    """Ranges (N, n) of ``p / sqrt(v)``.

    Parameters
    ----------
    p, v : Quadratic
        n functions each.
    ends : (ndarray, ndarray), shape (N, n)
        Of v, positive.
    known : (ndarray, ndarray), shape (N, n)
        Ranges to begin with.
    concave : bool
        Whether ``p - v`` has a matrix of negative squares: v is a sum of squares, and p affine.
    unit : float
        What sums round.
    """
    roots = np.sqrt(ends[0]), np.sqrt(ends[1])
    slope = 1.0 / (roots[0] + roots[1])
    middle = 0.5 * (roots[0] + roots[1])
    chord, tangent = (slope, slope * roots[0] * roots[1]), (0.5 / middle, 0.5 * middle)
    found = []
    for sign, k in ((-1.0, -known[0]), (1.0, known[1])):
        turned_p = p.scaled(np.full((1, 1), sign))
        for _ in range(ROUNDS):
            slope, start = (np.where(k >= 0.0, *both) for both in zip(chord, tangent, strict=True))
            whole = turned_p.plus(v.scaled(-k * slope))
            shift = k * start
            whole = replace(whole, constant=whole.constant - shift, size=whole.size + np.abs(shift))
            most = whole.highest(concave & (k >= 0.0), unit)
            most = most + 8.0 * unit * (np.abs(k) * roots[1] + np.abs(most))
            better = k + np.where(most > 0.0, most / roots[0], most / roots[1])
            k = np.fmin(k, better + 8.0 * unit * (np.abs(better) + np.abs(k)))
        found.append(k)
    return -found[0], found[1]


def common_range(one: Ends, other: Ends) -> Ends:
    """What two ranges share; NaN is no end."""
    low, high = np.fmax(one[0], other[0]), np.fmin(one[1], other[1])
    return low, np.maximum(low, high)
