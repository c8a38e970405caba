"""A Pyomo model as matrices: the form in which models travel to the solvers.

Over `LinearStandardFormCompiler`.  What solvers treat differently is settled here, once: rows
without variables, crossed bounds, constants that miss a bound by rounding, and NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pyomo.common.errors import InfeasibleConstraintException, PyomoException
from pyomo.core.base import Constraint, Objective, maximize, value
from pyomo.repn import generate_standard_repn
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

from lipyomo.errors import SolverError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]

CONSTANT_TOLERANCE = 1e-9
"""A row without variables counts as satisfied within this tolerance (scaled by its bound)."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A linear model: the optimum of ``c x + offset`` over rows and bounds.

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
        The Pyomo variables, one a column.  Fixed and unused variables have no column.
    constraints : list of ConstraintData
        The Pyomo constraint of each row; a range constraint has two rows.
    infeasible : str, optional
        Set if the model was seen to be infeasible while it was compiled.
    """

    matrix: sp.csc_array
    row_lower: FloatArray
    row_upper: FloatArray
    cost: FloatArray
    offset: float
    lower: FloatArray
    upper: FloatArray
    integer: npt.NDArray[np.bool_]
    maximise: bool
    columns: list[Any]
    constraints: list[Any]
    infeasible: str | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def is_mip(self) -> bool:
        """Whether any variable is discrete."""
        return bool(self.integer.any())

    def relaxed(self) -> LinearModel:
        """Return the continuous relaxation."""
        return replace(self, integer=np.zeros_like(self.integer))

    def without_objective(self) -> LinearModel:
        """Return the feasibility problem: the same constraints, nothing to optimise."""
        return replace(self, cost=np.zeros_like(self.cost), offset=0.0)

    def as_minimisation(self) -> LinearModel:
        """Return the model with its objective negated if it is a maximisation."""
        if not self.maximise:
            return self
        return replace(self, cost=-self.cost, offset=-self.offset, maximise=False)

    def objective(self, x: FloatArray) -> float:
        """Objective at `x`, recomputed with exact summation."""
        return math.fsum((self.cost * x).tolist()) + self.offset

    def violation(self, x: FloatArray) -> float:
        """Largest violation of a row, a bound or an integrality at `x`.

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
        return max((float(part.max()) for part in parts if part.size), default=0.0)

    def vector(self, values: Mapping[Any, float]) -> FloatArray:
        """Arrange values by variable as a vector; NaN where there is none."""
        found = (values.get(var) for var in self.columns)
        return np.array([math.nan if v is None else float(v) for v in found], dtype=np.float64)


def compile_model(model: Any) -> LinearModel:
    """Compile a Pyomo block.

    Parameters
    ----------
    model : BlockData
        A linear model with at most one active objective.

    Returns
    -------
    LinearModel

    Raises
    ------
    SolverError
        If the model is not linear, has several objectives, components that a linear solver cannot
        take, or NaN among its numbers.
    """
    try:
        form = _write(model)
    except InfeasibleConstraintException:
        broken = next((con for con, gap, scale in _constant_rows(model) if gap > scale), None)
        if broken is not None:
            return _infeasible(f"the constraint '{broken.name}' cannot be satisfied", model)
        with _deactivated(model):
            form = _write(model)
    if len(form.objectives) > 1:
        names = ", ".join(objective.name for objective in form.objectives)
        raise SolverError(
            f"the model has {len(form.objectives)} active objectives ({names}); "
            "deactivate all but one"
        )
    return _assemble(form)


def _write(model: Any) -> Any:
    """Compile to mixed form, every failure turned into a `SolverError`."""
    try:
        return LinearStandardFormCompiler().write(model, mixed_form=True, set_sense=None)
    except InfeasibleConstraintException:
        raise
    except (PyomoException, ValueError) as error:
        raise SolverError(f"the model cannot be passed to a linear solver: {error}") from error


def _assemble(form: Any) -> LinearModel:
    """Turn the compiler's mixed form into row bounds and settle what solvers treat differently."""
    kinds = np.fromiter((row[1] for row in form.rows), dtype=np.int8, count=len(form.rows))
    rhs = np.asarray(form.rhs, dtype=np.float64)
    row_lower = np.where(kinds <= 0, rhs, -np.inf)
    row_upper = np.where(kinds >= 0, rhs, np.inf)
    constraints = [row[0] for row in form.rows]
    matrix = sp.csc_array(form.A)
    columns = list(form.columns)
    lower, upper, integer = _column_data(columns)
    has_objective = len(form.objectives) == 1
    cost = form.c.toarray()[0] if has_objective else np.zeros(len(columns))
    offset = float(form.c_offset[0]) if has_objective else 0.0
    _refuse_nan(matrix, rhs, cost, offset, constraints)

    infeasible = None
    crossed = np.flatnonzero(lower > upper + CONSTANT_TOLERANCE * np.maximum(1.0, np.abs(upper)))
    if crossed.size:
        infeasible = f"the bounds of the variable '{columns[crossed[0]].name}' exclude each other"
    lower, upper = np.minimum(lower, upper), np.maximum(lower, upper)

    empty = np.bincount(matrix.indices, minlength=rhs.size) == 0
    if empty.any():
        slack = CONSTANT_TOLERANCE * np.maximum(1.0, np.abs(rhs))
        wrong = np.flatnonzero(empty & ((row_lower > slack) | (row_upper < -slack)))
        if wrong.size:
            name = constraints[wrong[0]].name
            infeasible = f"the constraint '{name}' cannot be satisfied: it has no free variable"
        keep = np.flatnonzero(~empty)
        matrix = sp.csc_array(sp.csr_array(matrix)[keep])
        row_lower, row_upper = row_lower[keep], row_upper[keep]
        constraints = [constraints[i] for i in keep]

    matrix.sort_indices()
    return LinearModel(
        matrix=matrix,
        row_lower=row_lower,
        row_upper=row_upper,
        cost=np.ascontiguousarray(cost, dtype=np.float64),
        offset=offset,
        lower=lower,
        upper=upper,
        integer=integer,
        maximise=has_objective and int(form.objectives[0].sense) == -1,
        columns=columns,
        constraints=constraints,
        infeasible=infeasible,
    )


def _column_data(columns: list[Any]) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Return bounds (domains included) and integrality of the variables."""
    bounds = [var.bounds for var in columns]
    lower = np.array([-math.inf if low is None else low for low, _ in bounds], dtype=np.float64)
    upper = np.array([math.inf if high is None else high for _, high in bounds], dtype=np.float64)
    integer = np.array([not var.is_continuous() for var in columns], dtype=np.bool_)
    for var, discrete in zip(columns, integer.tolist(), strict=True):
        if discrete and not var.is_integer():
            raise SolverError(
                f"the variable '{var.name}' has the domain {var.domain}, which is neither an "
                "interval of reals nor of integers"
            )
    return lower, upper, integer


def _refuse_nan(
    matrix: sp.csc_array, rhs: FloatArray, cost: FloatArray, offset: float, constraints: list[Any]
) -> None:
    """Raise if a number of the model is NaN or a coefficient infinite."""
    if not (np.isfinite(cost).all() and math.isfinite(offset)):
        raise SolverError("the objective holds NaN or infinite numbers")
    bad = np.zeros(rhs.size, dtype=np.bool_)
    bad[matrix.indices[~np.isfinite(matrix.data)]] = True
    bad |= np.isnan(rhs)
    if bad.any():
        name = constraints[int(np.flatnonzero(bad)[0])].name
        raise SolverError(f"the constraint '{name}' holds NaN or infinite coefficients")


def _constant_rows(model: Any) -> Iterator[tuple[Any, float, float]]:
    """Yield (constraint, violation, allowed violation) of the constant active constraints."""
    for con in model.component_data_objects(Constraint, active=True, descend_into=True):
        lower, body, upper = con.to_bounded_expression()
        form = generate_standard_repn(body, quadratic=False)
        if form.linear_vars or form.nonlinear_vars:
            continue
        at = value(form.constant)
        ends = [value(end) for end in (lower, upper) if end is not None]
        gaps = [0.0]
        if lower is not None:
            gaps.append(value(lower) - at)
        if upper is not None:
            gaps.append(at - value(upper))
        yield con, max(gaps), CONSTANT_TOLERANCE * max([1.0, *map(abs, ends)])


@contextmanager
def _deactivated(model: Any) -> Iterator[None]:
    """Deactivate, for a moment, the constant constraints that rounding alone violates."""
    harmless = [con for con, gap, _ in _constant_rows(model) if gap > 0.0]
    for con in harmless:
        con.deactivate()
    try:
        yield
    finally:
        for con in harmless:
            con.activate()


def _infeasible(why: str, model: Any) -> LinearModel:
    """Return an empty model that says why `model`, whose sense it keeps, is infeasible."""
    none = np.zeros(0)
    objectives = model.component_data_objects(Objective, active=True)
    maximise = any(objective.sense == maximize for objective in objectives)
    return LinearModel(
        sp.csc_array((0, 0)),
        none,
        none,
        none,
        0.0,
        none,
        none,
        none.astype(bool),
        maximise,
        [],
        [],
        why,
    )
