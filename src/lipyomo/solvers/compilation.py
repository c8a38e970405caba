"""Compilation of Pyomo models to matrices.

Cases that solvers treat differently are resolved here: rows without variables, crossed bounds,
constants that violate a bound by rounding errors, NaN.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from pyomo.common.errors import PyomoException
from pyomo.common.gc_manager import PauseGC
from pyomo.core.base import (
    Block,
    Constraint,
    Objective,
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
from pyomo.repn.quadratic import QuadraticRepn
from pyomo.repn.util import categorize_valid_components

from lipyomo.base.arguments import instance
from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.errors import SolverError
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.solvers.matrices import LinearModel
from lipyomo.solvers.outcome import TOLERANCE
from lipyomo.solvers.reading import ORDER, Reader, numbers
from lipyomo.solvers.rows import MatrixRowData
from lipyomo.solvers.status import INFINITE
from lipyomo.solvers.variables import ends_of

_KNOWN = {Block, Constraint, ExternalFunction, Objective, Port, SOSConstraint, Suffix}
"""Types of active components that a model may have."""


def compile_model(model: Any) -> LinearModel:
    """Compile a Pyomo block.

    Parameters
    ----------
    model : BlockData
        With at most one active objective; linear except for quadratic terms in objective and
        constraints, and special ordered sets.

    Returns
    -------
    LinearModel

    Raises
    ------
    SolverError
        If the model has other nonlinear terms, several objectives, components that no such solver
        supports, or NaN among its numbers.
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
    """Return the message on unsupported components."""
    names = ", ".join(f"'{item.name}'" for item in components[:3])
    names += f" and {len(components) - 3} more" * (len(components) > 3)
    if all(item.ctype not in (Disjunct, Disjunction) for item in components):
        return f"no linear or quadratic solver takes {names}"
    return (
        f"no solver takes disjunctions as they are: {names}.  Remedy: "
        "pyo.TransformationFactory('gdp.bigm').apply_to(model), or gdp.hull, before the solve"
    )


def _all(model: Any, ctype: Any) -> Iterator[Any]:
    """Return all active components of one type."""
    found: Iterator[Any] = model.component_data_objects(ctype, active=True, sort=ORDER)
    return found


def _between_integers(model: Any) -> str | None:
    """Return a message on a discrete variable that is fixed between integers, if any.

    Solvers would not notice, since fixed variables are not passed to them.
    """
    for var in _all(model, Var):
        if var.fixed and var.value is not None and not var.is_continuous():
            fixed = float(var.value)
            if abs(fixed - round(fixed)) > TOLERANCE:
                return f"the discrete variable '{var.name}' is fixed at {fixed:g}"
    return None


def _refuse_valueless(model: Any) -> None:
    """Raise if a variable is fixed without a value, the likely cause of an invalid number."""
    for var in _all(model, Var):
        if var.fixed and var.value is None:
            raise SolverError(
                f"the variable '{var.name}' is fixed without a value.  Remedy: fix it at a number"
            )


def _compiled(model: Any) -> LinearModel:
    """Read all components; the variables in use become columns."""
    goals = list(_all(model, Objective))
    if len(goals) > 1:
        names = ", ".join(goal.name for goal in goals)
        raise SolverError(
            f"the model has {len(goals)} active objectives ({names}); deactivate all but one"
        )
    reader = Reader()
    goal = reader.form(goals[0], goals[0].expr) if goals else QuadraticRepn()
    bent = _read_constraints(reader, model)
    sets = [(con, _members(con)) for con in _all(model, SOSConstraint)]
    in_sets = [reader.places(var for var, _ in members) for _, members in sets]

    matrix, rhs = reader.matrix(), numbers(reader.sides) - numbers(reader.offsets)
    cost = np.zeros(len(reader.place))
    cost[[reader.place[key] for key in goal.linear]] = numbers(goal.linear.values())
    used = (np.diff(matrix.indptr) > 0) | (cost != 0.0)
    for form in (goal, *(form for _, form, _, _ in bent)):
        for key in itertools.chain(form.linear, *(form.quadratic or ())):
            used[reader.place[key]] = True
    # Fixed variables become constants, except in sets, which only have variables.
    fixed = reader.fixed()
    known = sorted(fixed.keys() - set(itertools.chain(*in_sets)))
    if known:
        rhs -= matrix[:, known] @ np.array([fixed[place] for place in known])
    used[known] = False
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
        offset=float(numbers([goal.constant])[0]),
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
    return _normalised(found, np.maximum(1.0, np.abs(numbers(reader.sides))))


def _read_constraints(reader: Reader, model: Any) -> list[tuple[Any, Any, float, float]]:
    """Add the linear constraints to the reader, and return the quadratic ones.

    Returns
    -------
    list of (constraint, form, float, float)
        Each with its lower and upper bound.
    """
    bent: list[tuple[Any, Any, float, float]] = []
    held: dict[int, list[MatrixRowData]] = {}
    for con in _all(model, Constraint):
        if isinstance(con, MatrixRowData) and con.place is not None:
            held.setdefault(id(con.parent_component()), []).append(con)
            continue
        low, body, high = con.to_bounded_expression()
        form = reader.form(con, body)
        ends = ends_of(None if low is None else value(low), None if high is None else value(high))
        if form.quadratic:
            bent.append((con, form, *ends))
        else:
            reader.add(con, form, *ends)
    for members in held.values():
        reader.add_matrix(members)
    return bent


def _members(con: Any) -> list[tuple[Any, float]]:
    """Return variables and weights of a special ordered set, by increasing weight."""
    if con.level not in (1, 2):
        raise SolverError(f"the set '{con.name}' is of type {con.level}, not 1, 2")
    return sorted(((var, float(weight)) for var, weight in con.get_items()), key=lambda m: m[1])


def _normalised(model: LinearModel, scale: FloatArray) -> LinearModel:
    """Normalise what solvers treat differently: infinity, crossed bounds, rows without variables.

    Parameters
    ----------
    model : LinearModel
    scale : numpy.ndarray, shape (rows,)
        By how much a row without variables may miss its side, in units of `Params.rounding`.
    """
    low, high = model.row_lower, model.row_upper
    low[low <= -INFINITE], high[high >= INFINITE] = -np.inf, np.inf
    lower, upper = model.lower, model.upper
    infeasible = None
    crossed = np.flatnonzero(lower > upper + EQUAL * np.maximum(1.0, np.abs(upper)))
    if crossed.size:
        name = model.columns[crossed[0]].name
        infeasible = f"the bounds of the variable '{name}' exclude each other"
    empty = np.bincount(model.matrix.indices, minlength=low.size) == 0
    slack = EQUAL * scale
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


def _column_data(columns: list[Any]) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return bounds (domains included) and integrality of the variables."""
    bounds = [(var.value, var.value) if var.fixed else var.bounds for var in columns]
    lower, upper = np.array([ends_of(*pair) for pair in bounds]).reshape(-1, 2).T.copy()
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
    """Return the name of a part with NaN or infinite coefficients; None if there is none."""
    curve = () if model.quadratic is None else model.quadratic.values
    if not (np.isfinite(model.cost).all() and np.isfinite([model.offset, *curve]).all()):
        return "the objective"
    # The right-hand side of a row is one of its bounds, or both.
    bad = np.isnan(model.row_lower) | np.isnan(model.row_upper)
    bad[model.matrix.indices[~np.isfinite(model.matrix.data)]] = True
    wrong = [model.constraints[int(row)] for row in np.flatnonzero(bad)]
    for row in model.quadratic_rows:
        if not np.isfinite([*row.form.values, *row.coefs]).all() or np.isnan(row.lower + row.upper):
            wrong.append(row.constraint)
    return f"the constraint '{wrong[0].name}'" if wrong else None
