"""When an interval counts as a point, and when what is attained refutes a bound."""

from __future__ import annotations

import math

from lipyomo.base.numerics.rounding import EQUAL

EXACT_TOLERANCE = 1e-6
"""Relative gap at which an interval with an attained lower end is called exact."""

CLOSED = EXACT_TOLERANCE / 2.0
"""Relative gap at which searches are done; the other half is for the rounding of what follows."""


def close_enough(lower: float, upper: float) -> bool:
    """Whether [lower, upper] is a point for the purpose of calling an answer exact.

    The test is relative at every scale: weights may be as small as they like.
    """
    return math.isfinite(upper) and upper - lower <= EXACT_TOLERANCE * abs(upper)


def refutes(lower: float, claim: float) -> bool:
    """Whether an attained value exceeds a bound that holds up to a solver's tolerances."""
    return lower > claim + EQUAL * abs(claim)
