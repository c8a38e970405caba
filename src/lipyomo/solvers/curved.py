"""What goes beyond linear rows: quadratic terms and special ordered sets, by column."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pyomo.core.base import Constraint, Objective, SOSConstraint, value
from pyomo.repn import generate_standard_repn

from lipyomo.errors import SolverError
from lipyomo.solvers.rows import MatrixRowData

FloatArray = npt.NDArray[np.float64]

LARGEST_HESSIAN = 3000
"""Most columns of a quadratic form whose convexity is examined."""


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """``sum_k value_k x_{first_k} x_{second_k}`` with ``first_k <= second_k``, no pair twice.

    Parameters
    ----------
    first, second : list of int
    values : list of float
    """

    first: list[int]
    second: list[int]
    values: list[float]

    def at(self, x: FloatArray) -> float:
        """Value at a point, by exact summation."""
        pairs = zip(self.first, self.second, self.values, strict=True)
        return math.fsum(v * float(x[i]) * float(x[j]) for i, j, v in pairs)

    def negated(self) -> QuadraticForm:
        """The form with the other sign."""
        return replace(self, values=[-v for v in self.values])

    def matrix(self, columns: int) -> sp.csc_array:
        """Symmetric Q with the form ``x^T Q x``."""
        half = sp.coo_array((self.values, (self.first, self.second)), shape=(columns, columns))
        return sp.csc_array(0.5 * (half + half.T))

    def is_convex(self) -> bool:
        """Whether the form is certainly convex, up to rounding.

        Forms in more than `LARGEST_HESSIAN` columns count as convex only if their diagonal
        dominates.
        """
        used = sorted(set(self.first) | set(self.second))
        place = {column: k for k, column in enumerate(used)}
        first, second = [place[i] for i in self.first], [place[j] for j in self.second]
        small = QuadraticForm(first, second, self.values).matrix(len(used))
        diagonal = small.diagonal()
        rest = np.asarray(abs(small).sum(axis=1)).reshape(-1) - np.abs(diagonal)
        if (diagonal >= rest).all():
            return True
        if len(used) > LARGEST_HESSIAN:
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
        """Whether the points that satisfy the row certainly form a convex set."""
        above = math.isinf(self.upper) or self.form.is_convex()
        return above and (math.isinf(self.lower) or self.form.negated().is_convex())

    def violation(self, x: FloatArray) -> float:
        """Violation at a point, divided by the largest coefficient if that exceeds 1."""
        at = self.form.at(x) + math.fsum(
            c * float(x[j]) for j, c in zip(self.columns, self.coefs, strict=True)
        )
        scale = max([1.0, *map(abs, self.form.values), *map(abs, self.coefs)])
        return max(self.lower - at, at - self.upper, 0.0) / scale


@dataclass(frozen=True, eq=False)
class OrderedSet:
    """A special ordered set: at most `kind` entries, neighbours by weight, may be non-zero.

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
        """Size of the largest entry beyond the best `kind` neighbours."""
        sizes = np.abs(x[self.columns])
        if sizes.size <= self.kind:
            return 0.0
        starts = range(sizes.size - self.kind + 1)
        rest = [np.delete(sizes, range(start, start + self.kind)).max() for start in starts]
        return float(min(rest))


@dataclass(frozen=True, eq=False)
class Curved:
    """Parts of a Pyomo model that a linear compiler does not take, still by variable.

    Parameters
    ----------
    objective : tuple or None
        (expression form, sense) of an objective with quadratic terms.
    rows : list of (constraint, form, lower, upper)
    sets : list of (constraint, kind, pairs of variable and weight)
    """

    objective: Any
    rows: list[tuple[Any, Any, float, float]]
    sets: list[tuple[Any, int, list[tuple[Any, float]]]]


@contextmanager
def set_aside(model: Any) -> Iterator[Curved]:
    """Take quadratic and set constraints out of a model for a moment, and its objective if curved.

    Raises
    ------
    SolverError
        If a constraint or the objective has terms beyond quadratic ones.
    """
    found = Curved(*_split(model))
    gone = [row[0] for row in found.rows] + [entry[0] for entry in found.sets]
    if found.objective is not None:
        gone.append(found.objective[0])
    for component in gone:
        component.deactivate()
    try:
        yield found
    finally:
        for component in gone:
            component.activate()


def _split(model: Any) -> tuple[Any, list[Any], list[Any]]:
    """The curved objective, rows and sets of a model."""
    objective = None
    for found in model.component_data_objects(Objective, active=True, descend_into=True):
        form = _quadratic(found, found.expr)
        if form.quadratic_vars:
            objective = (found, form)
    rows = []
    for constraint in model.component_data_objects(Constraint, active=True, descend_into=True):
        if isinstance(constraint, MatrixRowData) and constraint.place is not None:
            continue
        lower, body, upper = constraint.to_bounded_expression()
        form = _quadratic(constraint, body)
        if form.quadratic_vars:
            low = -math.inf if lower is None else float(value(lower))
            high = math.inf if upper is None else float(value(upper))
            rows.append((constraint, form, low, high))
    sets = []
    for constraint in model.component_data_objects(SOSConstraint, active=True, descend_into=True):
        if constraint.level not in (1, 2):
            raise SolverError(
                f"the set '{constraint.name}' is of type {constraint.level}, not 1, 2"
            )
        pairs = sorted(constraint.get_items(), key=lambda pair: pair[1])
        sets.append((constraint, int(constraint.level), [(var, float(w)) for var, w in pairs]))
    return objective, rows, sets


def _quadratic(component: Any, expression: Any) -> Any:
    """An expression with its quadratic part apart; refused by name if it has more than that."""
    form = generate_standard_repn(expression, compute_values=True, quadratic=True)
    if form.nonlinear_expr is not None:
        kind = "objective" if component.ctype is Objective else "constraint"
        raise SolverError(
            f"the {kind} '{component.name}' is neither linear nor quadratic: {form.nonlinear_expr}"
        )
    return form


def form_of(repn: Any, column: dict[int, int]) -> QuadraticForm:
    """The quadratic part of an expression, by column."""
    sums: dict[tuple[int, int], float] = {}
    for (one, two), coefficient in zip(repn.quadratic_vars, repn.quadratic_coefs, strict=True):
        i, j = sorted((column[id(one)], column[id(two)]))
        sums[i, j] = sums.get((i, j), 0.0) + float(coefficient)
    pairs = [(pair, v) for pair, v in sums.items() if v != 0.0]
    return QuadraticForm(
        [pair[0] for pair, _ in pairs], [pair[1] for pair, _ in pairs], [v for _, v in pairs]
    )
