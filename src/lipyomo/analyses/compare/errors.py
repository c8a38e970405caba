"""Errors of estimates, relative to the best known interval."""

from __future__ import annotations

import math
from collections.abc import Iterable

from lipyomo.base.numerics.rounding import EQUAL, refutes


def joint_interval(ends: Iterable[tuple[float, float, bool]]) -> tuple[float, float]:
    """Return the best interval that several methods prove together; a point if one is exact.

    Parameters
    ----------
    ends : iterable of (lower, upper, exact)
        The interval that each method proves; 0 and infinity if it proves nothing.

    Returns
    -------
    lower, upper : float
        ``lower <= upper``, unless a value attained by one method contradicts the bound of another.
    """
    lower, upper = 0.0, math.inf
    for low, high, exact in ends:
        if exact:
            return low, low
        lower, upper = max(lower, low), min(upper, high)
    return lower, upper if refutes(lower, upper) else max(upper, lower)


def relative_error(value: float, lower: float, upper: float) -> float | None:
    """Return the relative error of a value, given an interval that contains the truth.

    For a point v it is ``value / v - 1``; for an interval it is the distance to the nearer end,
    relative to that end, which is the least possible error; zero if the value is inside.

    Returns
    -------
    float or None
        None if the value is not a number, or the truth is zero.
    """
    if math.isnan(value):
        return None
    if lower * (1.0 - EQUAL) <= value <= upper * (1.0 + EQUAL):
        return 0.0
    end = upper if value > upper else lower
    return value / end - 1.0 if end > 0 else None


def error_text(error: float | None, open_: bool) -> str:
    """Format an error in percent; a star marks a least error, relative to an open interval."""
    return "" if error is None else f"{100.0 * error:+.2f}%{'*' if open_ else ''}"


def width_text(lower: float, upper: float) -> str:
    """Format how far the upper end of an open interval may be from the truth, in percent."""
    if not 0.0 < lower <= upper < math.inf:
        return "open"
    return f"at most {100.0 * (upper / lower - 1.0):.2f}%"
