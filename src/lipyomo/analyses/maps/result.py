"""What a map says: an interval and a witness for each cell."""

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
from lipyomo.base.arrays import FloatArray, IntArray
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
    """How cells ended, from their ends (n,): exact, within the gap, or `otherwise`.

    The gap is one of the upper end, or of `scale` if that is more.  Where what is attained is above
    a bound, one of them is wrong, by however little.
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
        With the norms; over a box that holds all cells.
    cells : Cells
    constant_lower, constant_upper : ndarray, shape (n,)
        The interval of each cell: attained, and a bound.
    status : ndarray of str, shape (n,)
        As `Status` has it: exact, gap, time_limit, interrupted, precision; or contradiction, where
        the ends contradict each other, which is a defect of lipyomo.
    witness : ndarray, shape (n, d)
        Where the lower end is attained; the middle of the cell where nothing is (a lower end of 0).
    witness_rest : ndarray, shape (n, d)
        The point is ``witness + witness_rest``, in exact arithmetic: zeros but where the region in
        which the lower end is attained holds no float64 point.
    seconds : float
    gap : float
        The gap that was asked for.
    unwritten : str
        Why the file that was named does not hold all of the map; empty if it does.
    of : {'constants', 'values'}
        Which.
    scale : float
        Gaps are relative to this where ends are less: of values, the largest size in the middle of
        any cell.
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
        """What the numbers are."""
        problem = self.problem
        if self.of == "constants":
            return f"Lipschitz constant, {problem.describe_norms()}"
        norm = problem.output_norm.name
        return (
            f"size of the value, {norm}" if problem.network.output_dim > 1 else "size of the value"
        )

    @property
    def gaps(self) -> FloatArray:
        """Relative gaps ``1 - lower / upper``, shape (n,); zero where both ends are."""
        top = np.where(self.constant_upper > 0, self.constant_upper, 1.0)
        with np.errstate(invalid="ignore"):
            gap = np.where(np.isfinite(top), 1.0 - self.constant_lower / top, 1.0)
            gap = gap * np.where(np.isfinite(top), top / np.maximum(top, self.scale), 1.0)
        return np.asarray(np.where(self.constant_upper > 0, np.maximum(gap, 0.0), 0.0))

    @property
    def largest(self) -> tuple[float, float]:
        """The interval of the largest constant of a cell: that of the union, if it is convex."""
        return float(self.constant_lower.max()), float(self.constant_upper.max())

    @property
    def place(self) -> FloatArray:
        """Where the largest lower end is attained, or the float64 point next to it, shape (d,)."""
        return self.point(int(self.constant_lower.argmax())).x

    def point(self, k: int) -> Point:
        """Where the lower end of cell k is attained."""
        return Point.at(np.array([self.witness[k], self.witness_rest[k]]))

    @property
    def done(self) -> bool:
        """Whether every cell is exact, or within the gap that was asked for."""
        return bool(np.isin(self.status, (Status.EXACT.value, Status.GAP.value)).all())

    def rows(self) -> Iterator[dict[str, Any]]:
        """The cells as plain numbers."""
        ends = Ends(self.constant_lower, self.constant_upper, self.witness, self.witness_rest)
        return cell_rows(self.cells, np.arange(len(self)), ends, self.status)

    def to_frame(self) -> DataFrame:
        """The cells as a pandas frame.

        Raises
        ------
        ResultError
            If pandas is not installed.
        """
        return frame_of(self.rows(), "use rows()")

    def to_dict(self) -> dict[str, Any]:
        """The map as a whole as plain data: what ``--json`` prints."""
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
        """A few lines for people."""
        low, high = self.largest
        counts = ", ".join(f"{many} {name}" for name, many in Counter(self.status.tolist()).items())
        top = up(high) if math.isfinite(high) else "inf"
        wrong = int((self.status == Status.CONTRADICTION.value).sum())
        defect = f"\nthe ends of {wrong} cells contradict each other.  {DEFECT}" if wrong else ""
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
    """Some cells (k,) as plain numbers: their places, ends, status and witnesses."""
    names = cell_columns(cells.dimension)
    places = np.concatenate([cells.lower[which], cells.upper[which]], axis=1).tolist()
    numbers = zip(which.tolist(), places, ends.lower.tolist(), ends.upper.tolist(), strict=True)
    said = zip(numbers, status.tolist(), ends.points.tolist(), ends.rests.tolist(), strict=True)
    for (index, place, lower, upper), name, point, rest in said:
        more = " ".join(map(repr, rest)) if any(rest) else None
        row = (index, *place, lower, finite(upper), name, *point, more)
        yield dict(zip(names, row, strict=True))


def cell_columns(d: int) -> tuple[str, ...]:
    """Names of what `cell_rows` gives for cells of d inputs.

    ``rest`` is empty, but where the point is a sum: then it has the numbers that are added to x.
    """
    low, high, x = ([f"{name}_{j}" for j in range(d)] for name in ("low", "high", "x"))
    return ("index", *low, *high, "lower", "upper", "status", *x, "rest")
