"""Reading the components of a Pyomo model, by Pyomo's walker of quadratic expressions."""

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
from lipyomo.solvers.quadratic import OrderedSet, QuadraticForm, QuadraticRow
from lipyomo.solvers.rows import MatrixRowData

ORDER = SortComponents.ORDERED_INDICES


def numbers(values: Iterable[Any]) -> FloatArray:
    """Numbers as an array; NaN for what Pyomo marks as none.

    Raises
    ------
    TypeError, ValueError
        If one is neither.
    """
    found = list(values)
    try:
        return np.array(found, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array([math.nan if isinstance(v, InvalidNumber) else float(v) for v in found])


class Reader:
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
        self._recorder = OrderedVarRecorder(self._free, self.place, ORDER)
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
        plain = np.array(rows, dtype=np.intp), np.array(places, dtype=np.intp), numbers(data)
        row, place, coefs = map(np.concatenate, zip(plain, *self._parts, strict=True))
        shape = (len(self.constraints), len(self.place))
        found = sp.coo_array((coefs, (row, place)), shape=shape).tocsc()
        found.sum_duplicates()
        found.eliminate_zeros()
        return found

    def fixed(self) -> dict[int, float]:
        """Values of fixed variables by place; forms that were read hold none."""
        return {self.place[key]: float(var.value) for key, var in self._fixed.items()}

    def keep(self, used: BoolArray) -> list[Any]:
        """The variables at the places in use, which are the only ones from now on."""
        known = {self.place[key]: var for key, var in (self._free | self._fixed).items()}
        shifted = np.cumsum(used) - 1
        self.place = {key: int(shifted[place]) for key, place in self.place.items()}
        return [known[place] for place in np.flatnonzero(used).tolist()]

    def quadratic(self, form: Any) -> QuadraticForm:
        """The quadratic part of a form."""
        pairs = [sorted((self.place[one], self.place[two])) for one, two in form.quadratic]
        values = numbers(form.quadratic.values()).tolist()
        return QuadraticForm([pair[0] for pair in pairs], [pair[1] for pair in pairs], values)

    def row(self, con: Any, form: Any, low: float, high: float) -> QuadraticRow:
        """A quadratic constraint."""
        at = [self.place[key] for key in form.linear]
        coefs = numbers(form.linear.values()).tolist()
        lower, upper = numbers([low - form.constant, high - form.constant]).tolist()
        return QuadraticRow(self.quadratic(form), at, coefs, lower, upper, con)

    def set(self, con: Any, members: list[tuple[Any, float]]) -> OrderedSet:
        """A special ordered set."""
        at = [self.place[id(var)] for var, _ in members]
        return OrderedSet(int(con.level), at, [weight for _, weight in members], con)
