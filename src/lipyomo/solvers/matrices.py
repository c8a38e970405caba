"""A Pyomo model as matrices: the form in which models travel to the solvers.

Over `LinearStandardFormCompiler`.  What solvers treat differently is settled here, once: rows
without variables, crossed bounds, constants that miss a bound by rounding, and NaN.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pyomo.common.errors import (
    InfeasibleConstraintException,
    InvalidConstraintError,
    InvalidExpressionError,
    PyomoException,
)
from pyomo.core.base import Constraint, Objective, Var, maximize, value
from pyomo.core.base.block import BlockData
from pyomo.repn import generate_standard_repn
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

from lipyomo.arguments import instance
from lipyomo.errors import SolverError
from lipyomo.solvers.curved import (
    Curved,
    OrderedSet,
    QuadraticForm,
    QuadraticRow,
    form_of,
    set_aside,
)
from lipyomo.solvers.rows import join_rows, rows_aside

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int32]

INFINITE = 1e20
"""Bounds and sides from here on are infinite, as for most solvers."""
FRACTION_TOLERANCE = 1e-5
"""A discrete variable fixed further than this from an integer has no feasible value."""
QUADRATIC_OBJECTIVE = "quadratic objectives"
NONCONVEX_OBJECTIVE = "quadratic objectives that are not convex"
DISCRETE_QUADRATIC = "quadratic objectives with discrete variables"
QUADRATIC_CONSTRAINTS = "quadratic constraints"
NONCONVEX_CONSTRAINTS = "quadratic constraints that are not convex"
ORDERED_SETS = "special ordered sets"
ALL_FEATURES = frozenset(
    {
        QUADRATIC_OBJECTIVE,
        NONCONVEX_OBJECTIVE,
        DISCRETE_QUADRATIC,
        QUADRATIC_CONSTRAINTS,
        NONCONVEX_CONSTRAINTS,
        ORDERED_SETS,
    }
)

_COMPILING = threading.RLock()
"""Parts of a model are set aside while it is compiled, which no other thread may see."""

CONSTANT_TOLERANCE = 1e-9
"""A row without variables counts as satisfied within this tolerance (scaled by its bound)."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A linear model, perhaps with quadratic terms: an optimum over rows and bounds.

    The objective is ``c x + offset`` plus a quadratic form, if there is one.

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
    fractional : str, optional
        Set if a discrete variable is fixed between integers, which no integer point is.
    quadratic : QuadraticForm, optional
        What the objective has beside ``c x + offset``.
    curved : tuple of QuadraticRow
    sets : tuple of OrderedSet
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
    fractional: str | None = None
    quadratic: QuadraticForm | None = None
    curved: tuple[QuadraticRow, ...] = ()
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
    def features(self) -> dict[str, str]:
        """What the model asks for beyond linear rows, with the name of a component that does."""
        found: dict[str, str] = {}
        if self.quadratic is not None:
            found[QUADRATIC_OBJECTIVE] = "the objective"
            if not self.costs_are_convex():
                found[NONCONVEX_OBJECTIVE] = "the objective"
            if self.is_mip:
                found[DISCRETE_QUADRATIC] = "the objective, beside discrete variables"
        for row in self.curved:
            found[QUADRATIC_CONSTRAINTS] = f"'{row.constraint.name}'"
            if not row.is_convex():
                found[NONCONVEX_CONSTRAINTS] = f"'{row.constraint.name}'"
        for entry in self.sets:
            found[ORDERED_SETS] = f"'{entry.constraint.name}'"
        return found

    def costs_are_convex(self) -> bool:
        """Whether a minimum of the objective is one of a convex function."""
        if self.quadratic is None:
            return True
        form = self.quadratic.negated() if self.maximise else self.quadratic
        return form.is_convex()

    def relaxed(self) -> LinearModel:
        """Return the continuous relaxation."""
        return replace(self, integer=np.zeros_like(self.integer), fractional=None, sets=())

    def without_objective(self) -> LinearModel:
        """Return the feasibility problem: the same constraints, nothing to optimise."""
        return replace(self, cost=np.zeros_like(self.cost), offset=0.0, quadratic=None)

    def as_minimisation(self) -> LinearModel:
        """Return the model with its objective negated if it is a maximisation."""
        if not self.maximise:
            return self
        form = None if self.quadratic is None else self.quadratic.negated()
        return replace(self, cost=-self.cost, offset=-self.offset, maximise=False, quadratic=form)

    def objective(self, x: FloatArray) -> float:
        """Objective at `x`, recomputed with exact summation."""
        curved = 0.0 if self.quadratic is None else self.quadratic.at(x)
        return math.fsum((self.cost * x).tolist()) + self.offset + curved

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
        flat = max((float(part.max()) for part in parts if part.size), default=0.0)
        rows = [row.violation(x) for row in self.curved]
        return max([flat, *rows, *(entry.violation(x) for entry in self.sets)])

    def vector(self, values: Mapping[Any, float]) -> FloatArray:
        """Arrange values by variable as a vector; NaN where there is none."""
        found = (values.get(var) for var in self.columns)
        return np.array([math.nan if v is None else float(v) for v in found], dtype=np.float64)


def compile_model(model: Any) -> LinearModel:
    """Compile a Pyomo block.

    Parameters
    ----------
    model : BlockData
        With at most one active objective; linear but for quadratic terms in objective and
        constraints, and for special ordered sets.

    Returns
    -------
    LinearModel

    Raises
    ------
    SolverError
        If the model has terms beyond quadratic ones, several objectives, components that no
        such solver takes, or NaN among its numbers.
    """
    instance(model, BlockData, "the model", SolverError, "a Pyomo model or block")
    objectives = list(model.component_data_objects(Objective, active=True, descend_into=True))
    if len(objectives) > 1:
        names = ", ".join(objective.name for objective in objectives)
        raise SolverError(
            f"the model has {len(objectives)} active objectives ({names}); deactivate all but one"
        )
    with _COMPILING:
        found = _whole(model)
    wrong = _between_integers(model)
    return found if wrong is None else replace(found, fractional=wrong)


def _whole(model: Any) -> LinearModel:
    """Compile a model, what is not linear included."""
    try:
        return _compiled(model)
    except (InvalidConstraintError, InvalidExpressionError, ValueError, TypeError):
        _refuse_valueless(model)
        # Something is not linear: it is set aside, and joined to the matrices afterwards.
        try:
            with set_aside(model) as curved:
                found = _compiled(model)
        except (PyomoException, ValueError, TypeError) as error:
            raise SolverError(
                f"the model cannot be passed to a linear or quadratic solver: {error}"
            ) from error
        return _joined(found, curved)


def _compiled(model: Any) -> LinearModel:
    """Compile a linear model."""
    try:
        return _assemble(_write(model))
    except InfeasibleConstraintException:
        broken = next((con for con, gap, scale in _constant_rows(model) if gap > scale), None)
        if broken is not None:
            return _infeasible(f"the constraint '{broken.name}' cannot be satisfied", model)
        with _deactivated(model):
            return _assemble(_write(model))


@dataclass(frozen=True, eq=False)
class _Form:
    """What is compiled: rows (constraint, kind) of a matrix, and the objective if there is one."""

    rows: list[tuple[Any, int]]
    matrix: sp.csc_array
    rhs: FloatArray
    columns: list[Any]
    cost: FloatArray
    offset: float
    maximise: bool


def _write(model: Any) -> _Form:
    """Compile to mixed form; what is not linear is an exception of Pyomo's."""
    with rows_aside(model) as held:
        form = LinearStandardFormCompiler().write(model, mixed_form=True, set_sense=None)
    matrix, rhs, columns = join_rows(form.A, np.asarray(form.rhs), form.columns, held)
    cost = np.zeros(len(columns))
    has_objective = len(form.objectives) == 1
    if has_objective:
        cost[: len(form.columns)] = form.c.toarray()[0]
    return _Form(
        [*form.rows, *((row, 0) for part in held for row in part.rows)],
        matrix,
        rhs,
        columns,
        cost,
        float(form.c_offset[0]) if has_objective else 0.0,
        has_objective and int(form.objectives[0].sense) == -1,
    )


def _refuse_valueless(model: Any) -> None:
    """Raise if a variable is fixed without a value, which compilers meet as a wrong number."""
    for var in model.component_data_objects(Var, active=True, descend_into=True):
        if var.fixed and var.value is None:
            raise SolverError(
                f"the variable '{var.name}' is fixed without a value.  Remedy: fix it at a number"
            )


def _between_integers(model: Any) -> str | None:
    """Say which discrete variable is fixed between integers; a solver would not see it."""
    for var in model.component_data_objects(Var, active=True, descend_into=True):
        if var.fixed and var.value is not None and not var.is_continuous():
            value_ = float(var.value)
            if abs(value_ - round(value_)) > FRACTION_TOLERANCE:
                return f"the discrete variable '{var.name}' is fixed at {value_:g}"
    return None


def _joined(model: LinearModel, curved: Curved) -> LinearModel:
    """Add what was set aside, with columns for variables that are nowhere else."""
    columns = list(model.columns)
    place = {id(var): k for k, var in enumerate(columns)}

    def enter(var: Any) -> None:
        if id(var) not in place:
            place[id(var)] = len(columns)
            columns.append(var)

    forms = [form for _, form, _, _ in curved.rows]
    if curved.objective is not None:
        forms.append(curved.objective[1])
    for form in forms:
        for var in form.linear_vars:
            enter(var)
        for pair in form.quadratic_vars:
            for var in pair:
                enter(var)
    for _, _, members in curved.sets:
        for var, _ in members:
            enter(var)
    fresh = columns[len(model.columns) :]
    lower, upper, integer = _column_data(fresh)
    for k, var in enumerate(fresh):
        if var.fixed:
            lower[k] = upper[k] = float(var.value)
    more = len(fresh)
    cost = np.concatenate([model.cost, np.zeros(more)])
    offset, quadratic, maximise = model.offset, None, model.maximise
    if curved.objective is not None:
        objective, form = curved.objective
        maximise = objective.sense == maximize
        offset = float(form.constant)
        for var, coefficient in zip(form.linear_vars, form.linear_coefs, strict=True):
            cost[place[id(var)]] += float(coefficient)
        quadratic = form_of(form, place)
        if not (np.isfinite(cost).all() and np.isfinite([offset, *quadratic.values]).all()):
            raise SolverError("the objective holds NaN or infinite numbers")
    rows = []
    for constraint, form, low, high in curved.rows:
        terms = form_of(form, place)
        coefs = [float(c) for c in form.linear_coefs]
        if not np.isfinite([*terms.values, *coefs, float(form.constant)]).all():
            raise SolverError(f"the constraint '{constraint.name}' holds NaN or infinite numbers")
        at = [place[id(var)] for var in form.linear_vars]
        ends = low - float(form.constant), high - float(form.constant)
        rows.append(QuadraticRow(terms, at, coefs, *ends, constraint))
    sets = [
        OrderedSet(kind, [place[id(var)] for var, _ in members], [w for _, w in members], con)
        for con, kind, members in curved.sets
    ]
    matrix = sp.csc_array(
        (
            model.matrix.data,
            model.matrix.indices,
            np.append(model.matrix.indptr, np.full(more, model.matrix.nnz, dtype=np.int32)),
        ),
        shape=(model.matrix.shape[0], len(columns)),
    )
    return replace(
        model,
        matrix=matrix,
        cost=cost,
        offset=offset,
        lower=np.concatenate([model.lower, lower]),
        upper=np.concatenate([model.upper, upper]),
        integer=np.concatenate([model.integer, integer]),
        maximise=maximise,
        columns=columns,
        quadratic=quadratic,
        curved=tuple(rows),
        sets=tuple(sets),
    )


def _assemble(form: _Form) -> LinearModel:
    """Turn the compiler's mixed form into row bounds and settle what solvers treat differently."""
    kinds = np.fromiter((row[1] for row in form.rows), dtype=np.int8, count=len(form.rows))
    rhs, matrix, columns = form.rhs, form.matrix, form.columns
    row_lower = np.where(kinds <= 0, rhs, -np.inf)
    row_upper = np.where(kinds >= 0, rhs, np.inf)
    # From `INFINITE` on, solvers mean infinity, but not all alike: here it is settled for all.
    row_lower[row_lower <= -INFINITE] = -np.inf
    row_upper[row_upper >= INFINITE] = np.inf
    constraints = [row[0] for row in form.rows]
    lower, upper, integer = _column_data(columns)
    _refuse_nan(matrix, rhs, form.cost, form.offset, constraints)

    infeasible = None
    crossed = np.flatnonzero(lower > upper + CONSTANT_TOLERANCE * np.maximum(1.0, np.abs(upper)))
    if crossed.size:
        infeasible = f"the bounds of the variable '{columns[crossed[0]].name}' exclude each other"
    lower, upper = np.minimum(lower, upper), np.maximum(lower, upper)

    empty = np.bincount(matrix.indices, minlength=rhs.size) == 0
    slack = CONSTANT_TOLERANCE * np.maximum(1.0, np.abs(rhs))
    wrong = np.flatnonzero(empty & ((row_lower > slack) | (row_upper < -slack)))
    if wrong.size:
        name = constraints[wrong[0]].name
        infeasible = f"the constraint '{name}' cannot be satisfied: it has no free variable"
    never = np.flatnonzero(~empty & ((row_lower >= INFINITE) | (row_upper <= -INFINITE)))
    if never.size:
        infeasible = f"the constraint '{constraints[never[0]].name}' asks for an infinite value"
    keep = np.flatnonzero(~empty & (np.isfinite(row_lower) | np.isfinite(row_upper)))
    if keep.size < rhs.size:
        matrix = sp.csc_array(sp.csr_array(matrix)[keep])
        row_lower, row_upper = row_lower[keep], row_upper[keep]
        constraints = [constraints[i] for i in keep]

    matrix.sort_indices()
    return LinearModel(
        matrix=matrix,
        row_lower=row_lower,
        row_upper=row_upper,
        cost=form.cost,
        offset=form.offset,
        lower=lower,
        upper=upper,
        integer=integer,
        maximise=form.maximise,
        columns=columns,
        constraints=constraints,
        infeasible=infeasible,
    )


def _column_data(columns: list[Any]) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Return bounds (domains included) and integrality of the variables."""
    bounds = [var.bounds for var in columns]
    lower = np.array([-math.inf if low is None else low for low, _ in bounds], dtype=np.float64)
    upper = np.array([math.inf if high is None else high for _, high in bounds], dtype=np.float64)
    lower[lower <= -INFINITE] = -np.inf
    upper[upper >= INFINITE] = np.inf
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
