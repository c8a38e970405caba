"""Affine constraints that are stored as matrices, but are ordinary constraints for Pyomo.

A dense layer has one coefficient for each pair of units, and a Pyomo object for each would take
fifty times the memory and time of the number itself.  So affine rows stay matrices, which the
adapters read directly; a constraint's expression is created on demand, and only the latest is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyomo.environ as pyo
import scipy.sparse as sp
from pyomo.common.autoslots import AutoSlots
from pyomo.core.base.constraint import ConstraintData, IndexedConstraint
from pyomo.core.expr import LinearExpression
from pyomo.core.expr.relational_expr import EqualityExpression

from lipyomo.base.arrays import BoolArray, FloatArray


def linear(coefs: list[float], variables: list[Any]) -> Any:
    """Return ``coefs . variables`` as a Pyomo expression."""
    return LinearExpression(constant=0.0, linear_coefs=coefs, linear_vars=variables)


@dataclass(frozen=True)
class Forms:
    """``matrix @ columns + constant``: n affine forms in Pyomo variables.

    Attributes
    ----------
    matrix : ndarray or sparse array, shape (n, k)
        It must not be modified later.
    constant : ndarray, shape (n,)
    columns : list of VarData, length k
    """

    matrix: Any
    constant: FloatArray
    columns: list[Any]

    def __post_init__(self) -> None:
        if not isinstance(self.matrix, np.ndarray):
            object.__setattr__(self, "matrix", sp.csr_array(self.matrix))

    def __deepcopy__(self, memo: dict[int, Any]) -> Forms:
        return Forms(self.matrix, self.constant, copy.deepcopy(self.columns, memo))

    @classmethod
    def of(cls, columns: Sequence[Any]) -> Forms:
        """Return the variables as forms."""
        return cls(sp.eye_array(len(columns)), np.zeros(len(columns)), list(columns))

    @classmethod
    def numbers(cls, values: FloatArray) -> Forms:
        """Return constants as forms."""
        return cls(sp.csr_array((values.size, 0)), np.asarray(values, dtype=np.float64), [])

    @classmethod
    def of_terms(cls, terms: Iterable[tuple[int, float, Any]], constant: FloatArray) -> Forms:
        """Sum terms (index of the form, coefficient, variable) and constants; drops zeros."""
        kept = [term for term in terms if term[1] != 0.0]
        columns = list({id(variable): variable for _, _, variable in kept}.values())
        place = {id(variable): j for j, variable in enumerate(columns)}
        data = [factor for _, factor, _ in kept]
        where = [k for k, _, _ in kept], [place[id(variable)] for _, _, variable in kept]
        shape = constant.size, len(columns)
        return cls(sp.csr_array((data, where), shape=shape, dtype=np.float64), constant, columns)

    @property
    def size(self) -> int:
        """Number of forms n."""
        return int(self.constant.size)

    def map(self, weight: Any, bias: FloatArray | float = 0.0) -> Forms:
        """Return ``weight @ self + bias``; `weight` of shape (p, n), dense or sparse."""
        constant = np.asarray(weight @ self.constant + bias)
        return Forms(weight @ self.matrix, constant, self.columns)

    def plus(self, places: Sequence[int], variables: Sequence[Any]) -> Forms:
        """Add a variable to each of the forms at `places`."""
        count = len(places)
        own = sp.csr_array((np.ones(count), (places, np.arange(count))), shape=(self.size, count))
        matrix = sp.hstack([sp.csr_array(self.matrix), own])
        return Forms(matrix, self.constant, [*self.columns, *variables])

    def row(self, k: int) -> tuple[list[float], list[Any]]:
        """Return coefficients and variables of form k, without zeros."""
        matrix, columns = self.matrix, self.columns
        if isinstance(matrix, np.ndarray):
            data = matrix[k]
            if data.all():
                return data.tolist(), columns.copy()
            places = np.flatnonzero(data)
            data = data[places]
        else:
            part = slice(matrix.indptr[k], matrix.indptr[k + 1])
            places, data = matrix.indices[part], matrix.data[part]
            if not data.all():
                places, data = places[data != 0.0], data[data != 0.0]
        return data.tolist(), [columns[j] for j in places.tolist()]

    def rows(self) -> Iterator[tuple[list[float], list[Any]]]:
        """Yield coefficients and variables of each form, without zeros."""
        return map(self.row, range(self.size))

    def is_constant(self) -> BoolArray:
        """Return which forms have no variables, shape (n,)."""
        return np.asarray(abs(self.matrix).sum(axis=1) == 0.0).reshape(-1)


class MatrixRowData(ConstraintData):
    """A member of `MatrixRows`; becomes an ordinary constraint if it is assigned another value."""

    __slots__ = ()

    @property
    def place(self) -> int | None:
        """Position among the rows; None once the constraint was assigned another value."""
        held = self._expr
        return held if held.__class__ is int else None

    @property
    def expr(self) -> Any:
        """The expression of the constraint, created on demand."""
        place = self.place
        return super().expr if place is None else self.parent_component().expression(place)

    def to_bounded_expression(self, evaluate_bounds: bool = False) -> tuple[Any, Any, Any]:
        """Return lower bound, body and upper bound."""
        place = self.place
        if place is None:
            found: tuple[Any, Any, Any] = super().to_bounded_expression(evaluate_bounds)
            return found
        body, side = self.expr.args
        return side, body, side


class MatrixRows(IndexedConstraint):
    """Constraints ``targets[k] == forms[keep[k]]``, stored as one matrix.

    Parameters
    ----------
    index : list or Set
        The keys, as many as `targets`.
    targets : sequence of VarData
    forms : Forms
    keep : array_like of int, optional
        Indices of the forms in use; all by default.
    """

    _ComponentDataClass = MatrixRowData
    __autoslot_mappers__ = MappingProxyType({"_latest": AutoSlots.encode_as_none})

    def __init__(
        self,
        index: Any,
        targets: Sequence[Any],
        forms: Forms,
        keep: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__(index)
        self.targets, self.forms = list(targets), forms
        self.keep = np.arange(forms.size) if keep is None else np.asarray(keep, dtype=np.intp)
        self._latest: tuple[int, Any] | None = None

    def fill(self, keys: Iterable[Any]) -> None:
        """Create the constraints, after the component was added to a block."""
        for place, key in enumerate(keys):
            row = self._ComponentDataClass(component=self)
            row._expr, row._index = place, key
            self._data[key] = row

    @property
    def variables(self) -> list[Any]:
        """The variables of all rows: those of the forms, then the targets."""
        return [*self.forms.columns, *self.targets]

    def entries(self, rows: Sequence[MatrixRowData]) -> tuple[sp.coo_array, FloatArray]:
        """Return coefficients of some rows over `variables`, and their right-hand sides."""
        picked = np.array([row.place for row in rows], dtype=np.intp)
        keep = self.keep[picked]
        left = sp.coo_array(self.forms.matrix[keep])
        width, order = len(self.forms.columns), np.arange(picked.size)
        found = sp.coo_array(
            (
                np.concatenate([left.data, np.full(picked.size, -1.0)]),
                (np.concatenate([left.row, order]), np.concatenate([left.col, width + picked])),
            ),
            shape=(picked.size, width + len(self.targets)),
        )
        return found, -self.forms.constant[keep]

    def expression(self, place: int) -> Any:
        """Return one row as a Pyomo expression; the latest is cached for access to its parts."""
        latest = self._latest
        if latest is None or latest[0] != place:
            k = int(self.keep[place])
            coefs, variables = self.forms.row(k)
            coefs.append(-1.0)
            variables.append(self.targets[place])
            body = linear(coefs, variables)
            latest = place, EqualityExpression((body, -float(self.forms.constant[k])))
            self._latest = latest
        return latest[1]


def index_of(keys: Iterable[Any]) -> Any:
    """Return keys as an index; an empty one has dimension 1, which transformations need."""
    index = list(keys)
    return index if index else pyo.Set(initialize=[], dimen=1)


class Rows:
    """One named constraint whose rows are added one by one; not created if there are no keys.

    Parameters
    ----------
    block : BlockData
    name : str
    keys : iterable
        All keys that will be used.
    """

    def __init__(self, block: Any, name: str, keys: Iterable[Any]) -> None:
        index = list(keys)
        self._constraint = pyo.Constraint(index_of(index))
        if index:
            block.add_component(name, self._constraint)

    def at_most(self, key: Any, coefs: list[float], variables: list[Any], bound: float) -> None:
        """Add ``coefs . variables <= bound``."""
        self._constraint[key] = (None, linear(coefs, variables), bound)

    def at_least(self, key: Any, coefs: list[float], variables: list[Any], bound: float) -> None:
        """Add ``coefs . variables >= bound``."""
        self._constraint[key] = (bound, linear(coefs, variables), None)

    def equal(self, key: Any, coefs: list[float], variables: list[Any], bound: float) -> None:
        """Add ``coefs . variables == bound``."""
        self._constraint[key] = (linear(coefs, variables), bound)
