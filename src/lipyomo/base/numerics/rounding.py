"""Error bounds of sums of products, and tolerances by which an interval counts as a point.

With the unit roundoff ``u = 2**-53`` every operation returns ``(x op y)(1 + delta)``, |delta| <= u.
A sum of n products, in whatever order it is added up, is off by at most

    n u / (1 - n u) * sum_i |a_i b_i|

(Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).  `gamma` is that factor with
``2 u`` in place of ``u`` and eight more operations: the second half pays for the rounding of the
magnitudes ``sum_i |a_i b_i|`` themselves, which are computed in float64 too, and the eight
operations for adding a bias, multiplying with a slope, and adding the error to what it belongs to.
The error bound is zero where all terms are zero, so that exact values stay exact.  Underflow is not
accounted for.
"""

from __future__ import annotations

import math

import numpy as np

UNIT = float(np.finfo(np.float64).eps)
"""Twice the unit roundoff: the second half pays for the rounding of the error terms themselves."""

UNIT_ROUNDOFF = UNIT / 2.0
"""Largest relative error u of one operation."""

EQUAL = 1e-9
"""Relative difference below which two results of long computations are taken to be equal."""

TINY = 1e-300
"""Stands in for sizes that vanish, so that nothing is divided by zero."""

UNDERFLOW = 1e-290
"""Upper bound of the error by underflow in a sum of products."""


def gamma(terms: int) -> float:
    """Bound the relative error of a sum of `terms` products and a few more operations."""
    return (terms + 8) * UNIT


def rounded_up(value: float, operations: int = 0) -> float:
    """Increase `value` by the error bound of a sum of so many products."""
    return float(value) + gamma(operations) * abs(float(value))


EXACT_TOLERANCE = 1e-6
"""Relative gap at which an interval with an attained lower bound is called exact."""

CLOSED = EXACT_TOLERANCE / 2.0
"""Relative gap at which searches stop; the other half covers the rounding of later steps."""


def close_enough(lower: float, upper: float) -> bool:
    """Return whether the gap of [lower, upper] is small enough to call the answer exact.

    The test is purely relative, since weights may be of any scale.
    """
    return math.isfinite(upper) and upper - lower <= EXACT_TOLERANCE * abs(upper)


def refutes(lower: float, claim: float) -> bool:
    """Return whether an attained value exceeds a claimed upper bound by more than `EQUAL`."""
    return lower > claim + EQUAL * abs(claim)
