"""Errors of estimates, relative to what is known of the truth."""

from __future__ import annotations

import math
from collections.abc import Iterable

from lipyomo.base.numerics.rounding import EQUAL, refutes


def joint_interval(ends: Iterable[tuple[float, float, bool]]) -> tuple[float, float]:
    """The best interval that several methods prove together; a point if one of them is exact.

    Parameters
    ----------
    ends : iterable of (lower, upper, exact)
        What each method proves: 0 and infinity where it proves nothing.

    Returns
    -------
    lower, upper : float
        ``lower <= upper``, unless what one method attains is above what another one proves.
    """
    lower, upper = 0.0, math.inf
    for low, high, exact in ends:
        if exact:
            return low, low
        lower, upper = max(lower, low), min(upper, high)
    return lower, upper if refutes(lower, upper) else max(upper, lower)


def relative_error(value: float, lower: float, upper: float) -> float | None:
    """Relative error of a value, given an interval that holds the truth.

    With a point v it is ``value / v - 1``; with an interval the distance to the nearer end,
    relative to that end: at least that much is wrong, and zero means that the value lies inside.

    Returns
    -------
    float or None
        None for a value that is no number, or a truth of zero.
    """
    if math.isnan(value):
        return None
    if lower * (1.0 - EQUAL) <= value <= upper * (1.0 + EQUAL):
        return 0.0
    end = upper if value > upper else lower
    return value / end - 1.0 if end > 0 else None


def error_text(error: float | None, open_: bool) -> str:
    """An error in percent; a star marks a least error, to an interval that is still open."""
    return "" if error is None else f"{100.0 * error:+.2f}%{'*' if open_ else ''}"


def width_text(lower: float, upper: float) -> str:
    """How far the upper end of an open interval may be from the truth, in percent."""
    if not 0.0 < lower <= upper < math.inf:
        return "open"
    return f"at most {100.0 * (upper / lower - 1.0):.2f}%"
