"""Reader of a Pyomo model's components, based on Pyomo's walker of quadratic expressions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from pyomo.core.base import Objective, SortComponents
from pyomo.repn.quadratic import QuadraticRepnVisitor
from pyomo.repn.util import InvalidNumber, OrderedVarRecorder

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.errors import SolverError
from lipyomo.solvers.matrices import OrderedSet, QuadraticForm, QuadraticRow
from lipyomo.solvers.rows import MatrixRowData

ORDER = SortComponents.ORDERED_INDICES


def numbers(values: Iterable[Any]) -> FloatArray:
    """Convert numbers to an array; NaN for Pyomo's `InvalidNumber`.

    Raises
    ------
    TypeError, ValueError
        If a value is neither.
    """
    found = list(values)
    try:
        return np.array(found, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array([math.nan if isinstance(v, InvalidNumber) else float(v) for v in found])


class Reader:
    """Reader of a model's components, which numbers all variables in them.

    Attributes
    ----------
    place : dict of int to int
        Position of a variable, in the order of appearance, by its id.
    constraints, kinds, sides, offsets : list
        Of the linear rows: the Pyomo constraint, 1 for ``<=``, -1 for ``>=`` or 0 for ``==``, the
        right-hand side, and the constant in the body.
    entries : tuple of lists
        Row, place and coefficient of each matrix entry.
    """

    def __init__(self) -> None:
        self.place: dict[int, int] = {}
        self._free: dict[int, Any] = {}
        self._fixed: dict[int, Any] = {}
        self._recorder = OrderedVarRecorder(self._free, self.place, ORDER)
        self._walk = QuadraticRepnVisitor({}, var_recorder=self._recorder).walk_expression
        self.constraints: list[Any] = []
        self.kinds: list[int] = []
        self.sides: list[Any] = []
        self.offsets: list[Any] = []
        self.entries: tuple[list[int], list[int], list[Any]] = ([], [], [])
        self._parts: list[tuple[IntArray, IntArray, FloatArray]] = []

    def form(self, component: Any, expression: Any) -> Any:
        """Decompose an expression; raise an error if it is neither linear nor quadratic."""
        found = self._walk(expression)
        if found.nonlinear is not None:
            kind = "objective" if component.ctype is Objective else "constraint"
            raise SolverError(
                f"the {kind} '{component.name}' is neither linear nor quadratic: {found.nonlinear}"
            )
        return found

    def places(self, variables: Iterable[Any]) -> IntArray:
        """Return the places of variables, including fixed ones."""
        found = []
        for variable in variables:
            if id(variable) not in self.place:
                self._recorder.add(variable)
            if variable.fixed:
                self._fixed[id(variable)] = variable
            found.append(self.place[id(variable)])
        return np.array(found, dtype=np.intp)

    def add(self, con: Any, form: Any, low: float, high: float) -> None:
        """Add a linear constraint: an equation, or a row for each finite bound."""
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
        """Add equations that are stored as a matrix."""
        component = members[0].parent_component()
        found, sides = component.entries(members)
        places = self.places(component.variables)
        self._parts.append((found.row + len(self.constraints), places[found.col], found.data))
        self.constraints += members
        self.kinds += [0] * len(members)
        self.sides += sides.tolist()
        self.offsets += [0.0] * len(members)

    def matrix(self) -> sp.csc_array:
        """Return the coefficients of all rows, shape (rows, places)."""
        rows, places, data = self.entries
        plain = np.array(rows, dtype=np.intp), np.array(places, dtype=np.intp), numbers(data)
        row, place, coefs = map(np.concatenate, zip(plain, *self._parts, strict=True))
        shape = (len(self.constraints), len(self.place))
        found = sp.coo_array((coefs, (row, place)), shape=shape).tocsc()
        found.sum_duplicates()
        found.eliminate_zeros()
        return found

    def fixed(self) -> dict[int, float]:
        """Return values of fixed variables by place; in forms they are constants already."""
        return {self.place[key]: float(var.value) for key, var in self._fixed.items()}

    def keep(self, used: BoolArray) -> list[Any]:
        """Drop unused places, renumber the others, and return their variables."""
        known = {self.place[key]: var for key, var in (self._free | self._fixed).items()}
        shifted = np.cumsum(used) - 1
        self.place = {key: int(shifted[place]) for key, place in self.place.items()}
        return [known[place] for place in np.flatnonzero(used).tolist()]

    def quadratic(self, form: Any) -> QuadraticForm:
        """Convert the quadratic part of a form."""
        pairs = [sorted((self.place[one], self.place[two])) for one, two in form.quadratic]
        values = numbers(form.quadratic.values()).tolist()
        return QuadraticForm([pair[0] for pair in pairs], [pair[1] for pair in pairs], values)

    def row(self, con: Any, form: Any, low: float, high: float) -> QuadraticRow:
        """Convert a quadratic constraint."""
        at = [self.place[key] for key in form.linear]
        coefs = numbers(form.linear.values()).tolist()
        lower, upper = numbers([low - form.constant, high - form.constant]).tolist()
        return QuadraticRow(self.quadratic(form), at, coefs, lower, upper, con)

    def set(self, con: Any, members: list[tuple[Any, float]]) -> OrderedSet:
        """Convert a special ordered set."""
        at = [self.place[id(var)] for var, _ in members]
        return OrderedSet(int(con.level), at, [weight for _, weight in members], con)
