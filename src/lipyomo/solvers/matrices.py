"""A Pyomo model as matrices: the form in which models travel to the solvers.

Expressions are read by Pyomo's walker of quadratic ones.  What solvers treat differently is settled
here, once: rows without variables, crossed bounds, constants that miss a bound by rounding, NaN.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pyomo.common.errors import PyomoException
from pyomo.common.gc_manager import PauseGC
from pyomo.core.base import (
    Block,
    Constraint,
    Objective,
    SortComponents,
    SOSConstraint,
    Suffix,
    Var,
    maximize,
    value,
)
from pyomo.core.base.block import BlockData
from pyomo.core.base.external import ExternalFunction
from pyomo.gdp import Disjunct, Disjunction
from pyomo.network import Port
from pyomo.repn.quadratic import QuadraticRepn, QuadraticRepnVisitor
from pyomo.repn.util import InvalidNumber, OrderedVarRecorder, categorize_valid_components

from lipyomo.arguments import instance
from lipyomo.errors import SolverError
from lipyomo.solvers.quadratic import OrderedSet, QuadraticForm, QuadraticRow
from lipyomo.solvers.rows import MatrixRowData
from lipyomo.solvers.status import INFINITE

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

FRACTION_TOLERANCE = 1e-5
"""A discrete variable fixed further than this from an integer has no feasible value."""
QUADRATIC_OBJECTIVE = "quadratic objectives"
NONCONVEX_OBJECTIVE = "quadratic objectives that are not convex"
DISCRETE_QUADRATIC = "quadratic objectives with discrete variables"
QUADRATIC_CONSTRAINTS = "quadratic constraints"
NONCONVEX_CONSTRAINTS = "quadratic constraints that are not convex"
ORDERED_SETS = "special ordered sets"
UNBOUNDED_SETS = "special ordered sets whose members may be infinite"
ALL_FEATURES = frozenset(
    {
        QUADRATIC_OBJECTIVE,
        NONCONVEX_OBJECTIVE,
        DISCRETE_QUADRATIC,
        QUADRATIC_CONSTRAINTS,
        NONCONVEX_CONSTRAINTS,
        ORDERED_SETS,
        UNBOUNDED_SETS,
    }
)

CONSTANT_TOLERANCE = 1e-9
"""A row without variables counts as satisfied within this tolerance (scaled by its bound)."""

_SORT = SortComponents.ORDERED_INDICES
_KNOWN = {Block, Constraint, ExternalFunction, Objective, Port, SOSConstraint, Suffix}
"""Kinds of active components that a model may have."""


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
    integer: npt.NDArray[np.bool_]
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
    def features(self) -> dict[str, str]:
        """What the model asks for beyond linear rows, with the name of a component that does."""
        found: dict[str, str] = {}
        if self.quadratic is not None:
            found[QUADRATIC_OBJECTIVE] = "the objective"
            if not self.costs_are_convex():
                found[NONCONVEX_OBJECTIVE] = "the objective"
            if self.is_mip:
                found[DISCRETE_QUADRATIC] = "the objective, beside discrete variables"
        for row in self.quadratic_rows:
            found[QUADRATIC_CONSTRAINTS] = f"'{row.constraint.name}'"
            if not (row.is_convex() or row.is_cone(self.lower)):
                found[NONCONVEX_CONSTRAINTS] = f"'{row.constraint.name}'"
        for entry in self.sets:
            found[ORDERED_SETS] = f"'{entry.constraint.name}'"
        open_member = self._unbounded_member()
        if open_member is not None:
            found[UNBOUNDED_SETS] = open_member
        return found

    def _unbounded_member(self) -> str | None:
        """A member of an ordered set that neither its bounds nor rows keep finite, by name."""
        if not self.sets:
            return None
        finite = self._finite_columns()
        for entry in self.sets:
            for j in entry.columns:
                if not finite[j]:
                    name = self.columns[j].name
                    return f"'{entry.constraint.name}', unless '{name}' gets bounds"
        return None

    def _finite_columns(self) -> npt.NDArray[np.bool_]:
        """Whether bounds of a column, or what rows imply from those of others, are finite."""
        entries = self.matrix.tocoo()
        rows, columns, positive = entries.row, entries.col, entries.data > 0.0
        known = np.array([np.isfinite(self.lower), np.isfinite(self.upper)])
        while True:
            before = known.sum()
            # Where the smallest value of the other terms is finite, an upper side bounds the term.
            for side, sign in ((self.row_upper, positive), (self.row_lower, ~positive)):
                missing = ~known[np.where(sign, 0, 1), columns]
                others = np.bincount(rows, missing, self.size[0])[rows] - missing
                told = np.isfinite(side)[rows] & (others == 0)
                known[np.where(sign, 1, 0)[told], columns[told]] = True
            if known.sum() == before:
                return np.asarray(known.all(axis=0))

    def costs_are_convex(self) -> bool:
        """Whether a minimum of the objective is one of a convex function."""
        if self.quadratic is None:
            return True
        form = self.quadratic.negated() if self.maximise else self.quadratic
        return form.is_convex()

    @property
    def sides(self) -> tuple[list[str], list[float]]:
        """E, L or G for each row, and its right-hand side."""
        below = np.isfinite(self.row_upper)
        equal = self.row_lower == self.row_upper
        letters = np.where(equal, "E", np.where(below, "L", "G"))
        return letters.tolist(), np.where(below, self.row_upper, self.row_lower).tolist()

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
        rows = [row.violation(x) for row in self.quadratic_rows]
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
    _, unknown = categorize_valid_components(model, valid=_KNOWN)
    if unknown:
        raise SolverError(_not_taken([item for items in unknown.values() for item in items]))
    try:
        with PauseGC():
            return replace(_compiled(model), fractional=_between_integers(model))
    except (PyomoException, ValueError, TypeError) as error:
        _refuse_valueless(model)
        raise SolverError(
            f"the model cannot be passed to a linear or quadratic solver: {error}"
        ) from error


def _not_taken(components: list[Any]) -> str:
    """Say which components no such solver takes; disjuncts by the block that made them."""
    disjuncts = [item for item in components if item.ctype in (Disjunct, Disjunction)]
    if not disjuncts:
        return f"no linear or quadratic solver takes {_named(components)}"
    # Disjunctions say it best: disjuncts are named only where no disjunction holds them.
    choices = [item for item in disjuncts if item.ctype is Disjunction]
    owners = {id(owner): owner for owner in map(_maker, choices or disjuncts)}
    return (
        f"no solver takes disjunctions as they are: {_named(list(owners.values()))}.  Remedy: "
        "pyo.TransformationFactory('gdp.bigm').apply_to(model), or gdp.hull, before the solve"
    )


def _named(components: list[Any], most: int = 3) -> str:
    """The names of the first components, and how many more there are."""
    names = ", ".join(f"'{item.name}'" for item in components[:most])
    return names if len(components) <= most else f"{names} and {len(components) - most} more"


def _maker(component: Any) -> Any:
    """The block whose formulation a component is part of, or else the component."""
    block = component.parent_block()
    while block is not None and not hasattr(block, "build_formulation"):
        block = block.parent_block()
    return component if block is None else block


def _all(model: Any, ctype: Any) -> Iterator[Any]:
    """All active components of one kind."""
    found: Iterator[Any] = model.component_data_objects(ctype, active=True, sort=_SORT)
    return found


def _between_integers(model: Any) -> str | None:
    """Say which discrete variable is fixed between integers; a solver would not see it."""
    for var in _all(model, Var):
        if var.fixed and var.value is not None and not var.is_continuous():
            fixed = float(var.value)
            if abs(fixed - round(fixed)) > FRACTION_TOLERANCE:
                return f"the discrete variable '{var.name}' is fixed at {fixed:g}"
    return None


def _refuse_valueless(model: Any) -> None:
    """Raise if a variable is fixed without a value, which a compiler meets as a wrong number."""
    for var in _all(model, Var):
        if var.fixed and var.value is None:
            raise SolverError(
                f"the variable '{var.name}' is fixed without a value.  Remedy: fix it at a number"
            )


def _numbers(values: Iterable[Any]) -> FloatArray:
    """Numbers as an array; NaN for what Pyomo marks as none."""
    found = list(values)
    try:
        return np.array(found, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array([math.nan if isinstance(v, InvalidNumber) else float(v) for v in found])


class _Reader:
    """Reads a model's components, over the variables of all that it meets.

    Attributes
    ----------
    place : dict of int to int
        By id of a variable, its position in the order in which they appear.
    constraints, kinds, sides, offsets : list
        Of the linear rows: 1 stands for at most its side, -1 for at least, 0 for equal; the offset
        is the constant in the row's body.
    entries : tuple of lists
        Row, place and coefficient of each entry of the matrix.
    """

    def __init__(self) -> None:
        self.place: dict[int, int] = {}
        self._free: dict[int, Any] = {}
        self._fixed: dict[int, Any] = {}
        self._recorder = OrderedVarRecorder(self._free, self.place, _SORT)
        self._walk = QuadraticRepnVisitor({}, var_recorder=self._recorder).walk_expression
        self.constraints: list[Any] = []
        self.kinds: list[int] = []
        self.sides: list[Any] = []
        self.offsets: list[Any] = []
        self.entries: tuple[list[int], list[int], list[Any]] = ([], [], [])
        self._parts: list[tuple[IntArray, IntArray, FloatArray]] = []

    def form(self, component: Any, expression: Any) -> Any:
        """An expression in parts; refused by name if there is more than quadratic terms."""
        found = self._walk(expression)
        if found.nonlinear is not None:
            kind = "objective" if component.ctype is Objective else "constraint"
            raise SolverError(
                f"the {kind} '{component.name}' is neither linear nor quadratic: {found.nonlinear}"
            )
        return found

    def places(self, variables: Iterable[Any]) -> IntArray:
        """The places of variables, fixed ones included."""
        found = []
        for variable in variables:
            if id(variable) not in self.place:
                self._recorder.add(variable)
            if variable.fixed:
                self._fixed[id(variable)] = variable
            found.append(self.place[id(variable)])
        return np.array(found, dtype=np.intp)

    def add(self, con: Any, form: Any, low: float, high: float) -> None:
        """Enter a linear constraint: an equation, or a row for each side that it has."""
        rows, places, data = self.entries
        for kind, side in ((0, high),) if low == high else ((1, high), (-1, low)):
            if side != kind * math.inf:
                rows += [len(self.constraints)] * len(form.linear)
                places += [self.place[key] for key in form.linear]
                data += form.linear.values()
                self.constraints.append(con)
                self.kinds.append(kind)
                self.sides.append(side)
                self.offsets.append(form.constant)

    def add_matrix(self, members: list[MatrixRowData]) -> None:
        """Enter equations that are held as a matrix."""
        component = members[0].parent_component()
        found, sides = component.entries(members)
        places = self.places(component.variables)
        self._parts.append((found.row + len(self.constraints), places[found.col], found.data))
        self.constraints += members
        self.kinds += [0] * len(members)
        self.sides += sides.tolist()
        self.offsets += [0.0] * len(members)

    def matrix(self) -> sp.csc_array:
        """The coefficients of all rows, shape (rows, places)."""
        rows, places, data = self.entries
        plain = np.array(rows, dtype=np.intp), np.array(places, dtype=np.intp), _numbers(data)
        row, place, numbers = map(np.concatenate, zip(plain, *self._parts, strict=True))
        shape = (len(self.constraints), len(self.place))
        found = sp.coo_array((numbers, (row, place)), shape=shape).tocsc()
        found.sum_duplicates()
        found.eliminate_zeros()
        return found

    def fixed(self) -> dict[int, float]:
        """Values of fixed variables by place; forms that were read hold none."""
        return {self.place[key]: float(var.value) for key, var in self._fixed.items()}

    def keep(self, used: npt.NDArray[np.bool_]) -> list[Any]:
        """The variables at the places in use, which are the only ones from now on."""
        known = {self.place[key]: var for key, var in (self._free | self._fixed).items()}
        shifted = np.cumsum(used) - 1
        self.place = {key: int(shifted[place]) for key, place in self.place.items()}
        return [known[place] for place in np.flatnonzero(used).tolist()]

    def quadratic(self, form: Any) -> QuadraticForm:
        """The quadratic part of a form."""
        pairs = [sorted((self.place[one], self.place[two])) for one, two in form.quadratic]
        values = _numbers(form.quadratic.values()).tolist()
        return QuadraticForm([pair[0] for pair in pairs], [pair[1] for pair in pairs], values)

    def row(self, con: Any, form: Any, low: float, high: float) -> QuadraticRow:
        """A quadratic constraint."""
        at = [self.place[key] for key in form.linear]
        coefs = _numbers(form.linear.values()).tolist()
        lower, upper = _numbers([low - form.constant, high - form.constant]).tolist()
        return QuadraticRow(self.quadratic(form), at, coefs, lower, upper, con)

    def set(self, con: Any, members: list[tuple[Any, float]]) -> OrderedSet:
        """A special ordered set."""
        at = [self.place[id(var)] for var, _ in members]
        return OrderedSet(int(con.level), at, [weight for _, weight in members], con)


def _compiled(model: Any) -> LinearModel:
    """Read all components; the variables that they use become columns."""
    goals = list(_all(model, Objective))
    if len(goals) > 1:
        names = ", ".join(goal.name for goal in goals)
        raise SolverError(
            f"the model has {len(goals)} active objectives ({names}); deactivate all but one"
        )
    reader = _Reader()
    goal = reader.form(goals[0], goals[0].expr) if goals else QuadraticRepn()
    bent: list[tuple[Any, Any, float, float]] = []
    held: dict[int, list[MatrixRowData]] = {}
    for con in _all(model, Constraint):
        if isinstance(con, MatrixRowData) and con.place is not None:
            held.setdefault(id(con.parent_component()), []).append(con)
            continue
        low, body, high = con.to_bounded_expression()
        form = reader.form(con, body)
        ends = -math.inf if low is None else value(low), math.inf if high is None else value(high)
        if form.quadratic:
            bent.append((con, form, *ends))
        else:
            reader.add(con, form, *ends)
    for members in held.values():
        reader.add_matrix(members)
    sets = [(con, _members(con)) for con in _all(model, SOSConstraint)]
    in_sets = [reader.places(var for var, _ in members) for _, members in sets]

    matrix, rhs = reader.matrix(), _numbers(reader.sides) - _numbers(reader.offsets)
    cost = np.zeros(len(reader.place))
    cost[[reader.place[key] for key in goal.linear]] = _numbers(goal.linear.values())
    used = (np.diff(matrix.indptr) > 0) | (cost != 0.0)
    for form in (goal, *(form for _, form, _, _ in bent)):
        for key in itertools.chain(form.linear, *(form.quadratic or ())):
            used[reader.place[key]] = True
    # Fixed variables are numbers, except in sets, which hold nothing but variables.
    fixed = reader.fixed()
    numbers = sorted(fixed.keys() - set(itertools.chain(*in_sets)))
    if numbers:
        rhs -= matrix[:, numbers] @ np.array([fixed[place] for place in numbers])
    used[numbers] = False
    for places in in_sets:
        used[places] = True
    columns = reader.keep(used)
    lower, upper, integer = _column_data(columns)
    kinds = np.array(reader.kinds, dtype=np.int8)
    found = LinearModel(
        matrix=matrix if used.all() else matrix[:, used],
        row_lower=np.where(kinds <= 0, rhs, -np.inf),
        row_upper=np.where(kinds >= 0, rhs, np.inf),
        cost=cost[used],
        offset=float(_numbers([goal.constant])[0]),
        lower=lower,
        upper=upper,
        integer=integer,
        maximise=bool(goals) and goals[0].sense == maximize,
        columns=columns,
        constraints=reader.constraints,
        quadratic=reader.quadratic(goal) if goal.quadratic else None,
        quadratic_rows=tuple(reader.row(con, form, low, high) for con, form, low, high in bent),
        sets=tuple(reader.set(con, members) for con, members in sets),
    )
    wrong = _not_numbers(found)
    if wrong is not None:
        _refuse_valueless(model)
        raise SolverError(f"{wrong} holds NaN or infinite numbers")
    return _settled(found, np.maximum(1.0, np.abs(_numbers(reader.sides))))


def _members(con: Any) -> list[tuple[Any, float]]:
    """Variables and weights of a special ordered set, by increasing weight."""
    if con.level not in (1, 2):
        raise SolverError(f"the set '{con.name}' is of type {con.level}, not 1, 2")
    return sorted(((var, float(weight)) for var, weight in con.get_items()), key=lambda m: m[1])


def _settled(model: LinearModel, scale: FloatArray) -> LinearModel:
    """Settle what solvers treat differently: infinity, crossed bounds, rows without variables.

    Parameters
    ----------
    model : LinearModel
    scale : numpy.ndarray, shape (rows,)
        By how much a row without variables may miss its side, in units of `CONSTANT_TOLERANCE`.
    """
    low, high = model.row_lower, model.row_upper
    low[low <= -INFINITE], high[high >= INFINITE] = -np.inf, np.inf
    lower, upper = model.lower, model.upper
    infeasible = None
    crossed = np.flatnonzero(lower > upper + CONSTANT_TOLERANCE * np.maximum(1.0, np.abs(upper)))
    if crossed.size:
        name = model.columns[crossed[0]].name
        infeasible = f"the bounds of the variable '{name}' exclude each other"
    empty = np.bincount(model.matrix.indices, minlength=low.size) == 0
    slack = CONSTANT_TOLERANCE * scale
    for wrong, why in (
        (empty & ((low > slack) | (high < -slack)), "cannot be satisfied: it has no free variable"),
        (~empty & ((low >= INFINITE) | (high <= -INFINITE)), "asks for an infinite value"),
    ):
        if wrong.any():
            infeasible = f"the constraint '{model.constraints[int(wrong.argmax())].name}' {why}"
    keep = np.flatnonzero(~empty & (np.isfinite(low) | np.isfinite(high)))
    matrix, constraints = model.matrix, model.constraints
    if keep.size < low.size:
        matrix = sp.csc_array(sp.csr_array(matrix)[keep])
        low, high, constraints = low[keep], high[keep], [constraints[i] for i in keep]
    matrix.sort_indices()
    return replace(
        model,
        matrix=matrix,
        row_lower=low,
        row_upper=high,
        constraints=constraints,
        lower=np.minimum(lower, upper),
        upper=np.maximum(lower, upper),
        infeasible=infeasible,
    )


def _column_data(columns: list[Any]) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Return bounds (domains included) and integrality of the variables."""
    bounds = [(var.value, var.value) if var.fixed else var.bounds for var in columns]
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


def _not_numbers(model: LinearModel) -> str | None:
    """What of a model holds NaN or infinite coefficients, by name."""
    curve = () if model.quadratic is None else model.quadratic.values
    if not (np.isfinite(model.cost).all() and np.isfinite([model.offset, *curve]).all()):
        return "the objective"
    # The side of a row is one of its ends, or both.
    bad = np.isnan(model.row_lower) | np.isnan(model.row_upper)
    bad[model.matrix.indices[~np.isfinite(model.matrix.data)]] = True
    wrong = [model.constraints[int(row)] for row in np.flatnonzero(bad)]
    for row in model.quadratic_rows:
        if not np.isfinite([*row.form.values, *row.coefs]).all() or np.isnan(row.lower + row.upper):
            wrong.append(row.constraint)
    return f"the constraint '{wrong[0].name}'" if wrong else None
