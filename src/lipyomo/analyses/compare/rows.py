"""Rows of a comparison, one for each method, and what is computed from all of them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace

from lipyomo.base.numerics.rounding import EQUAL, refutes
from lipyomo.base.system.plain import finite, plain
from lipyomo.problems.result import Guarantee, Result


@dataclass(frozen=True)
class Row:
    """The result of one method for one problem.

    Attributes
    ----------
    network : str
        The name of the network.
    norms : str
        Such as ``linf -> l2``.
    method, title : str
        The name for ``--method``, and the title shown.
    guarantee : str
        exact, upper, lower or heuristic.
    status : str
        How it ended: a `Status`, or ``refused``, ``failed``, ``killed``, ``interrupted``.
    value : float or None
        The value of the method; None without one.
    lower, upper : float
        The interval that it proves; 0 and infinity if it proves nothing.
    seconds : float
        Wall-clock seconds of the method, without the start of its process.
    error : float or None
        The error relative to the exact value or to the best interval (see `with_errors`).  For an
        exact method that was stopped, how far its upper bound is above the truth, at most.
    message : str
        Why there is no value, or the first warning of the method.
    """

    network: str
    norms: str
    method: str
    title: str
    guarantee: str
    status: str
    value: float | None
    lower: float
    upper: float
    seconds: float
    error: float | None = None
    message: str = ""

    @property
    def is_open(self) -> bool:
        """Whether an exact method stopped before its interval was closed."""
        return self.guarantee == "exact" and self.status != "exact" and self.value is not None

    @property
    def has_answer(self) -> bool:
        """Whether there is a value, or an end of an interval."""
        return self.value is not None or self.lower > 0 or math.isfinite(self.upper)

    def with_result(self, result: Result) -> Row:
        """Return the row of a method that has finished.

        The value of an exact method that ran out of time is its upper bound.
        """
        value = result.value
        if result.guarantee is Guarantee.EXACT and not result.is_exact:
            value = result.upper
        return replace(
            self,
            guarantee=str(result.guarantee),
            status=str(result.status),
            value=finite(value),
            lower=result.lower,
            upper=result.upper,
            seconds=result.seconds,
            message=result.warnings[0] if result.warnings else "",
        )

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON; infinities become None."""
        found: dict[str, object] = plain(asdict(self))
        return found


def reference_interval(rows: Iterable[Row]) -> tuple[float, float]:
    """Return the best interval that all rows prove together; a point if one of them is exact."""
    return joint_interval((row.lower, row.upper, row.status == "exact") for row in rows)


def with_errors(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with their relative errors; see `relative_error`."""
    ends = reference_interval(rows)
    return [replace(row, error=_error(row, *ends)) for row in rows]


def _error(row: Row, lower: float, upper: float) -> float | None:
    if row.value is None:
        return None
    if row.is_open and lower < upper:
        # its value may be the end of the best interval, which does not make its error zero
        return row.value / lower - 1.0 if lower > 0 else None
    return relative_error(row.value, lower, upper)


def to_json(rows: Sequence[Row]) -> str:
    """Return a JSON list of objects, one for each row."""
    return json.dumps([row.to_dict() for row in rows], indent=2, allow_nan=False)


def to_csv(rows: Sequence[Row]) -> str:
    """Return comma-separated values with a header; empty if there is no number."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [item.name for item in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.to_dict() for row in rows)
    return text.getvalue()


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
