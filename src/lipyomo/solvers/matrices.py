"""Models as matrices, as they are passed to the solvers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.system.memory import BATCH


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """``sum_k value_k x_{first_k} x_{second_k}`` with distinct pairs ``first_k <= second_k``.

    Parameters
    ----------
    first, second : list of int
    values : list of float
    """

    first: list[int]
    second: list[int]
    values: list[float]

    def at(self, x: FloatArray) -> float:
        """Return the value at a point, by exact summation."""
        pairs = zip(self.first, self.second, self.values, strict=True)
        return math.fsum(v * float(x[i]) * float(x[j]) for i, j, v in pairs)

    def negated(self) -> QuadraticForm:
        """Return the form with the opposite sign."""
        return replace(self, values=[-v for v in self.values])

    def matrix(self, columns: int) -> sp.csc_array:
        """Return the symmetric Q for which the form is ``x^T Q x``."""
        half = sp.coo_array((self.values, (self.first, self.second)), shape=(columns, columns))
        return sp.csc_array(0.5 * (half + half.T))

    def is_convex(self) -> bool:
        """Return whether the form is known to be convex, up to rounding.

        Forms whose dense matrix would exceed `BATCH` bytes only count as convex if they are
        diagonally dominant.
        """
        used = sorted(set(self.first) | set(self.second))
        place = {column: k for k, column in enumerate(used)}
        first, second = [place[i] for i in self.first], [place[j] for j in self.second]
        small = QuadraticForm(first, second, self.values).matrix(len(used))
        diagonal = small.diagonal()
        rest = np.asarray(abs(small).sum(axis=1)).reshape(-1) - np.abs(diagonal)
        if (diagonal >= rest).all():
            return True
        if 8 * len(used) ** 2 > BATCH:
            return False
        ends = np.linalg.eigvalsh(small.toarray())
        return bool(ends[0] >= -1e-11 * max(1.0, float(np.abs(ends).max())))


@dataclass(frozen=True, eq=False)
class QuadraticRow:
    """``lower <= form + coefs . x[columns] <= upper``.

    Parameters
    ----------
    form : QuadraticForm
    columns : list of int
    coefs : list of float
    lower, upper : float
    constraint : ConstraintData
    """

    form: QuadraticForm
    columns: list[int]
    coefs: list[float]
    lower: float
    upper: float
    constraint: Any

    def is_convex(self) -> bool:
        """Return whether the row's feasible set is known to be convex."""
        above = math.isinf(self.upper) or self.form.is_convex()
        return above and (math.isinf(self.lower) or self.form.negated().is_convex())

    def is_cone(self, floor: FloatArray) -> bool:
        """Return whether this is a second-order cone ``sum_k a_k x_k^2 <= b t^2`` with ``t >= 0``.

        Parameters
        ----------
        floor : ndarray, shape (columns,)
            Lower bounds of the columns.
        """
        form = self.form
        negative = [i for i, value in zip(form.first, form.values, strict=True) if value < 0.0]
        return (
            form.first == form.second
            and not any(self.coefs)
            and (self.lower, self.upper) == (-math.inf, 0.0)
            and len(negative) == 1
            and bool(floor[negative[0]] >= 0.0)
        )

    def violation(self, x: FloatArray) -> float:
        """Return the violation at a point, divided by max(1, largest |coefficient|)."""
        at = self.form.at(x) + math.fsum(
            c * float(x[j]) for j, c in zip(self.columns, self.coefs, strict=True)
        )
        scale = max([1.0, *map(abs, self.form.values), *map(abs, self.coefs)])
        return max(self.lower - at, at - self.upper, 0.0) / scale


@dataclass(frozen=True, eq=False)
class OrderedSet:
    """A special ordered set: at most `kind` entries, adjacent by weight, may be nonzero.

    Parameters
    ----------
    kind : {1, 2}
    columns : list of int
        By increasing weight.
    weights : list of float
    constraint : SOSConstraintData
    """

    kind: int
    columns: list[int]
    weights: list[float]
    constraint: Any

    def violation(self, x: FloatArray) -> float:
        """Return the largest entry outside the best choice of `kind` adjacent entries."""
        sizes = np.abs(x[self.columns])
        if sizes.size <= self.kind:
            return 0.0
        starts = range(sizes.size - self.kind + 1)
        rest = [np.delete(sizes, range(start, start + self.kind)).max() for start in starts]
        return float(min(rest))


class Feature(StrEnum):
    """A property of models beyond linear rows, which a solver may not support."""

    QUADRATIC_OBJECTIVE = "quadratic objectives"
    NONCONVEX_OBJECTIVE = "quadratic objectives that are not convex"
    DISCRETE_QUADRATIC = "quadratic objectives with discrete variables"
    QUADRATIC_CONSTRAINTS = "quadratic constraints"
    NONCONVEX_CONSTRAINTS = "quadratic constraints that are not convex"
    ORDERED_SETS = "special ordered sets"
    UNBOUNDED_SETS = "special ordered sets whose members may be infinite"


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A mixed-integer linear model, possibly with quadratic terms and special ordered sets.

    The objective is ``c x + offset``, plus a quadratic form if there is one.

    The constraints are ``row_lower <= A x <= row_upper`` and ``lower <= x <= upper``.

    Parameters
    ----------
    matrix : scipy.sparse.csc_array, shape (rows, columns)
        Coefficients; 32-bit indices, no duplicates, no stored zeros.
    row_lower, row_upper : numpy.ndarray, shape (rows,)
    cost : numpy.ndarray, shape (columns,)
    offset : float
    lower, upper : numpy.ndarray, shape (columns,)
    integer : numpy.ndarray of bool, shape (columns,)
    maximise : bool
    columns : list of VarData
        The Pyomo variable of each column.  Fixed and unused variables have no column.
    constraints : list of ConstraintData
        The Pyomo constraint of each row; a range constraint has two rows.
    infeasible : str, optional
        Set if the compilation has found the model to be infeasible.
    fractional : str, optional
        Set if a discrete variable is fixed between integers, so that no integer point is feasible.
    quadratic : QuadraticForm, optional
        Quadratic part of the objective.
    quadratic_rows : tuple of QuadraticRow
    sets : tuple of OrderedSet
    """

    matrix: sp.csc_array
    row_lower: FloatArray
    row_upper: FloatArray
    cost: FloatArray
    offset: float
    lower: FloatArray
    upper: FloatArray
    integer: BoolArray
    maximise: bool
    columns: list[Any]
    constraints: list[Any]
    infeasible: str | None = None
    fractional: str | None = None
    quadratic: QuadraticForm | None = None
    quadratic_rows: tuple[QuadraticRow, ...] = ()
    sets: tuple[OrderedSet, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def is_mip(self) -> bool:
        """Whether any variable is discrete, or in a special ordered set."""
        return bool(self.integer.any()) or bool(self.sets)

    @property
    def features(self) -> dict[Feature, str]:
        """The features that the model needs, each with the name of a component that needs it."""
        found: dict[Feature, str] = {}
        if self.quadratic is not None:
            found[Feature.QUADRATIC_OBJECTIVE] = "the objective"
            if not self.costs_are_convex():
                found[Feature.NONCONVEX_OBJECTIVE] = "the objective"
            if self.is_mip:
                found[Feature.DISCRETE_QUADRATIC] = "the objective, beside discrete variables"
        for row in self.quadratic_rows:
            found[Feature.QUADRATIC_CONSTRAINTS] = f"'{row.constraint.name}'"
            if not (row.is_convex() or row.is_cone(self.lower)):
                found[Feature.NONCONVEX_CONSTRAINTS] = f"'{row.constraint.name}'"
        finite = self._finite_columns() if self.sets else np.zeros(0, dtype=bool)
        for entry in self.sets:
            found[Feature.ORDERED_SETS] = f"'{entry.constraint.name}'"
            for j in entry.columns:
                if not finite[j]:
                    remedy = f"unless '{self.columns[j].name}' gets bounds"
                    found[Feature.UNBOUNDED_SETS] = f"'{entry.constraint.name}', {remedy}"
        return found

    def _finite_columns(self) -> BoolArray:
        """Return which columns have finite bounds, explicit or implied by rows."""
        entries = self.matrix.tocoo()
        rows, columns, positive = entries.row, entries.col, entries.data > 0.0
        known = np.array([np.isfinite(self.lower), np.isfinite(self.upper)])
        while True:
            before = known.sum()
            # An upper bound of a row bounds a term if the minimum of the other terms is finite.
            for side, sign in ((self.row_upper, positive), (self.row_lower, ~positive)):
                missing = ~known[np.where(sign, 0, 1), columns]
                others = np.bincount(rows, missing, self.size[0])[rows] - missing
                bounded = np.isfinite(side)[rows] & (others == 0)
                known[np.where(sign, 1, 0)[bounded], columns[bounded]] = True
            if known.sum() == before:
                return np.asarray(known.all(axis=0))

    def costs_are_convex(self) -> bool:
        """Return whether the objective is convex if minimised, concave if maximised."""
        if self.quadratic is None:
            return True
        form = self.quadratic.negated() if self.maximise else self.quadratic
        return form.is_convex()

    @property
    def sides(self) -> tuple[list[str], list[float]]:
        """The sense (E, L or G) of each row, and its right-hand side."""
        below = np.isfinite(self.row_upper)
        equal = self.row_lower == self.row_upper
        letters = np.where(equal, "E", np.where(below, "L", "G"))
        return letters.tolist(), np.where(below, self.row_upper, self.row_lower).tolist()

    def relaxed(self) -> LinearModel:
        """Return the continuous relaxation."""
        return replace(self, integer=np.zeros_like(self.integer), fractional=None, sets=())

    def objective(self, x: FloatArray) -> float:
        """Objective at `x`, recomputed with exact summation."""
        curved = 0.0 if self.quadratic is None else self.quadratic.at(x)
        return math.fsum((self.cost * x).tolist()) + self.offset + curved

    def violation(self, x: FloatArray) -> float:
        """Return the largest violation of a row, a bound or an integrality at `x`.

        A row's violation is divided by max(1, largest |coefficient| of the row), so that the number
        is a distance in the units of the variables.
        """
        activity = self.matrix @ x
        scale = np.ones(self.size[0])
        np.maximum.at(scale, self.matrix.indices, np.abs(self.matrix.data))
        parts = (
            (self.row_lower - activity) / scale,
            (activity - self.row_upper) / scale,
            self.lower - x,
            x - self.upper,
            np.abs(x - np.round(x))[self.integer],
        )
        flat = max((float(part.max()) for part in parts if part.size), default=0.0)
        rows = [row.violation(x) for row in self.quadratic_rows]
        return max([flat, *rows, *(entry.violation(x) for entry in self.sets)])

    def vector(self, values: Mapping[Any, float]) -> FloatArray:
        """Convert values by variable to a vector; NaN where a value is missing."""
        found = (values.get(var) for var in self.columns)
        return np.array([math.nan if v is None else float(v) for v in found], dtype=np.float64)
