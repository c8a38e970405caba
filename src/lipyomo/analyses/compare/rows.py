"""One row a method, and what is computed from all rows together."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace

from lipyomo.analyses.compare.errors import joint_interval, relative_error
from lipyomo.base.system.plain import finite, plain
from lipyomo.problems.result import Guarantee, Result


@dataclass(frozen=True)
class Row:
    """What one method said about one problem.

    Attributes
    ----------
    network : str
        Name of the network.
    norms : str
        Such as ``linf -> l2``.
    method, title : str
        As given to ``--method``, and as shown.
    guarantee : str
        exact, upper, lower or heuristic.
    status : str
        How it ended: a `Status`, or ``refused``, ``failed``, ``killed``, ``interrupted``.
    value : float or None
        The method's one number; None without one.
    lower, upper : float
        The interval that it proves, 0 and infinity where it proves nothing.
    seconds : float
        Wall-clock seconds of the method, without the start of its process.
    error : float or None
        Relative error to the exact value or to the best interval (see `with_errors`).  Of an exact
        method that was stopped: what its upper end may be above the truth, at most.
    message : str
        Why there is no value, or the method's first warning.
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
        """Whether an exact method stopped before its interval closed."""
        return self.guarantee == "exact" and self.status != "exact" and self.value is not None

    @property
    def has_answer(self) -> bool:
        """Whether there is a value, or an end of an interval."""
        return self.value is not None or self.lower > 0 or math.isfinite(self.upper)

    def with_result(self, result: Result) -> Row:
        """The row of a method that came to an end.

        An exact method that ran out of time is worth its upper end.
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
        """Plain data for JSON; infinities become None."""
        found: dict[str, object] = plain(asdict(self))
        return found


def reference_interval(rows: Iterable[Row]) -> tuple[float, float]:
    """The best interval that all rows prove together; a point if one of them is exact."""
    return joint_interval((row.lower, row.upper, row.status == "exact") for row in rows)


def with_errors(rows: Sequence[Row]) -> list[Row]:
    """The rows with their relative errors; see `relative_error`."""
    ends = reference_interval(rows)
    return [replace(row, error=_error(row, *ends)) for row in rows]


def _error(row: Row, lower: float, upper: float) -> float | None:
    if row.value is None:
        return None
    if row.is_open and lower < upper:
        # Its value is the end of the best interval, perhaps, and no error of zero for that.
        return row.value / lower - 1.0 if lower > 0 else None
    return relative_error(row.value, lower, upper)


def to_json(rows: Sequence[Row]) -> str:
    """A JSON list of objects, one a row."""
    return json.dumps([row.to_dict() for row in rows], indent=2, allow_nan=False)


def to_csv(rows: Sequence[Row]) -> str:
    """Comma-separated values with a header; empty where there is no number."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [item.name for item in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.to_dict() for row in rows)
    return text.getvalue()
