"""The result of a map: an interval and a witness for each cell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.maps.cells import Cells
from lipyomo.analyses.maps.ends import Ends
from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.decimals import down, up, vector
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.base.system.plain import finite
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import DEFECT, Point, Status, frame_of

if TYPE_CHECKING:
    from pandas import DataFrame

StatusArray = npt.NDArray[np.str_]


def statuses(
    lower: FloatArray,
    upper: FloatArray,
    gap: float,
    otherwise: Status = Status.TIME_LIMIT,
    scale: float = 0.0,
) -> StatusArray:
    """Derive the status of cells from their ends (n,): exact, within the gap, or `otherwise`.

    Gaps are relative to the upper end, or to `scale` if that is larger.  If an attained value is
    above a bound, by however little, one of them is wrong: this is a contradiction.
    """
    with np.errstate(invalid="ignore"):
        exact = np.isfinite(upper) & (upper - lower <= EXACT_TOLERANCE * np.abs(upper))
        close = np.isfinite(upper) & (upper - lower <= gap * np.maximum(upper, scale)) & (gap > 0)
    names = np.where(close, Status.GAP.value, otherwise.value)
    names = np.where(exact, Status.EXACT.value, names)
    return np.where(lower > upper, Status.CONTRADICTION.value, names)


@dataclass(frozen=True, eq=False)
class CellMap:
    """The local Lipschitz constants of many cells, or the largest sizes of values there.

    Attributes
    ----------
    problem : LipschitzProblem
        The problem with its norms, over a box that contains all cells.
    cells : Cells
    constant_lower, constant_upper : ndarray, shape (n,)
        The interval of each cell: an attained value, and an upper bound.
    status : ndarray of str, shape (n,)
        Values of `Status`: exact, gap, time_limit, interrupted, precision, or bounds (refined
        maps); or contradiction if the ends contradict each other, which is a defect of lipyomo.
    witness : ndarray, shape (n, d)
        Where the lower end is attained; the cell's midpoint if nothing is (a lower end of 0).
    witness_rest : ndarray, shape (n, d)
        The exact point is ``witness + witness_rest``; zeros, unless the region that attains the
        lower end contains no float64 point.
    seconds : float
    gap : float
        The gap that was asked for.
    unwritten : str
        Why the file does not contain the whole map; empty if it does.
    of : {'constants', 'values'}
        The quantity of the map.
    scale : float
        Gaps are relative to this if upper ends are smaller.  For values it is the largest size at
        the midpoint of any cell.
    whole : float
        An upper bound for all cells together, that of cells that were not reached in time.
    """

    problem: LipschitzProblem
    cells: Cells
    constant_lower: FloatArray
    constant_upper: FloatArray
    status: StatusArray
    witness: FloatArray
    seconds: float = 0.0
    gap: float = field(default=0.0)
    unwritten: str = ""
    witness_rest: FloatArray = field(default_factory=lambda: np.zeros(0), kw_only=True)
    of: str = field(default="constants", kw_only=True)
    scale: float = field(default=0.0, kw_only=True)
    whole: float = field(default=math.inf, kw_only=True)

    def __post_init__(self) -> None:
        if not self.witness_rest.size:
            object.__setattr__(self, "witness_rest", np.zeros(self.witness.shape))

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def lower(self) -> FloatArray:
        """Lower ends of the cells, shape (n, d)."""
        return self.cells.lower

    @property
    def upper(self) -> FloatArray:
        """Upper ends of the cells, shape (n, d)."""
        return self.cells.upper

    @property
    def what(self) -> str:
        """Description of the quantity."""
        problem = self.problem
        if self.of == "constants":
            return f"Lipschitz constant, {problem.describe_norms()}"
        norm = problem.output_norm.name
        return (
            f"size of the value, {norm}" if problem.network.output_dim > 1 else "size of the value"
        )

    @property
    def gaps(self) -> FloatArray:
        """Gaps relative to upper ends, or to `scale` if larger, shape (n,); 0 for upper ends 0."""
        top = np.where(self.constant_upper > 0, self.constant_upper, 1.0)
        with np.errstate(invalid="ignore"):
            gap = np.where(np.isfinite(top), 1.0 - self.constant_lower / top, 1.0)
            gap = gap * np.where(np.isfinite(top), top / np.maximum(top, self.scale), 1.0)
        return np.asarray(np.where(self.constant_upper > 0, np.maximum(gap, 0.0), 0.0))

    @property
    def largest(self) -> tuple[float, float]:
        """Interval of the largest constant of all cells; that of their union if this is convex."""
        return float(self.constant_lower.max()), float(self.constant_upper.max())

    @property
    def place(self) -> FloatArray:
        """The point, rounded to float64, that attains the largest lower end, shape (d,)."""
        return self.point(int(self.constant_lower.argmax())).x

    def point(self, k: int) -> Point:
        """Return the point that attains the lower end of cell k."""
        return Point.at(np.array([self.witness[k], self.witness_rest[k]]))

    @property
    def done(self) -> bool:
        """Whether every cell is exact, or within the gap that was asked for."""
        return bool(self._closed.all())

    @property
    def _closed(self) -> BoolArray:
        return np.isin(self.status, (Status.EXACT.value, Status.GAP.value))

    @property
    def unreached(self) -> IntArray:
        """Indices of the cells that were not reached in time: their upper end is `whole`."""
        return np.flatnonzero((self.constant_upper == self.whole) & ~self._closed)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Generate the cells as dicts of plain values."""
        ends = Ends(self.constant_lower, self.constant_upper, self.witness, self.witness_rest)
        return cell_rows(self.cells, np.arange(len(self)), ends, self.status)

    def to_frame(self) -> DataFrame:
        """Return the cells as a pandas frame.

        Raises
        ------
        ResultError
            If pandas is not installed.
        """
        return frame_of(self.rows(), "use rows()")

    def to_dict(self) -> dict[str, Any]:
        """Return a summary of the map as plain data, as printed by ``--json``."""
        low, high = self.largest
        place = self.point(int(self.constant_lower.argmax()))
        what = {"norms": self.problem.describe_norms()}
        if self.of != "constants":
            what = {"of": self.of, "norm": self.problem.output_norm.name}
        return {
            "cells": len(self),
            **what,
            "largest": {"lower": low, "upper": finite(high), **place.to_dict()},
            "status": dict(sorted(Counter(self.status.tolist()).items())),
            "largest_gap": float(self.gaps.max()),
            "seconds": self.seconds,
        }

    def summary(self) -> str:
        """Return a summary of a few lines of text."""
        low, high = self.largest
        counts = ", ".join(f"{many} {name}" for name, many in Counter(self.status.tolist()).items())
        top = up(high) if math.isfinite(high) else "inf"
        wrong = int((self.status == Status.CONTRADICTION.value).sum())
        defect = f"\nthe ends of {wrong} cells contradict each other.  {DEFECT}" if wrong else ""
        count = self.unreached.size
        unreached = f"{count} cell{'s' * (count > 1)}, with one bound for all cells together"
        constants = [("norms", self.problem.describe_norms())] * (self.of == "constants")
        one = "constant" if constants else "value"
        return (
            "\n".join(
                f"{name:<20}{fact}"
                for name, fact in (
                    ("cells", f"{len(self)}: {counts}"),
                    *constants,
                    (f"largest {one}", f"[{down(low)}, {top}]"),
                    ("attained at", vector(self.place, self.problem.network.input_names)),
                    ("largest gap", f"{100.0 * self.gaps.max():.3g} %"),
                    *[("not reached", unreached)] * bool(count),
                    ("seconds", f"{self.seconds:.2f}"),
                )
            )
            + defect
        )

    def __repr__(self) -> str:
        return f"CellMap({len(self)} cells, largest [{self.largest[0]:.6g}, {self.largest[1]:.6g}])"


def cell_rows(
    cells: Cells, which: IntArray, ends: Ends, status: StatusArray
) -> Iterator[dict[str, Any]]:
    """Generate some cells (k,) as dicts: their corners, ends, status and witnesses."""
    names = cell_columns(cells.dimension)
    places = np.concatenate([cells.lower[which], cells.upper[which]], axis=1).tolist()
    numbers = zip(which.tolist(), places, ends.lower.tolist(), ends.upper.tolist(), strict=True)
    said = zip(numbers, status.tolist(), ends.points.tolist(), ends.rests.tolist(), strict=True)
    for (index, place, lower, upper), name, point, rest in said:
        more = " ".join(map(repr, rest)) if any(rest) else None
        row = (index, *place, lower, finite(upper), name, *point, more)
        yield dict(zip(names, row, strict=True))


def cell_columns(d: int) -> tuple[str, ...]:
    """Return the keys of `cell_rows` for cells of d inputs.

    ``rest`` is empty unless the point is an exact sum; then it has the numbers added to x.
    """
    low, high, x = ([f"{name}_{j}" for j in range(d)] for name in ("low", "high", "x"))
    return ("index", *low, *high, "lower", "upper", "status", *x, "rest")
