"""Fast assembly of Pyomo components from matrices.

Rows are written as `LinearExpression` objects over lists of Python floats, without closures (they
would not pickle) and without arithmetic on Pyomo objects (it is slow).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyomo.environ as pyo
import scipy.sparse as sp
from pyomo.core.expr import LinearExpression

from lipyomo.network import FloatArray, Matrix


@dataclass(frozen=True)
class Affine:
    """``matrix @ columns + constant``: n linear forms in Pyomo variables.

    Attributes
    ----------
    matrix : ndarray or sparse array, shape (n, k), or None
        None stands for the identity.
    constant : ndarray, shape (n,)
    columns : list of VarData, length k
    """

    matrix: Matrix | None
    constant: FloatArray
    columns: list[Any]

    @classmethod
    def of(cls, columns: Sequence[Any]) -> Affine:
        """The variables themselves."""
        return cls(None, np.zeros(len(columns)), list(columns))

    @classmethod
    def numbers(cls, values: FloatArray) -> Affine:
        """Constants."""
        return cls(sp.csr_array((values.size, 0)), np.asarray(values, dtype=np.float64), [])

    @property
    def size(self) -> int:
        """Number of forms n."""
        return int(self.constant.size)

    def map(self, weight: Any, bias: FloatArray | float = 0.0) -> Affine:
        """``weight @ self + bias``; `weight` of shape (p, n), dense or sparse."""
        matrix = weight if self.matrix is None else weight @ self.matrix
        return Affine(matrix, np.asarray(weight @ self.constant + bias), self.columns)

    def rows(self, keep: npt.ArrayLike | None = None) -> Iterator[tuple[list[float], list[Any]]]:
        """Coefficients and variables of each form (or of those in `keep`), without zeros."""
        chosen = range(self.size) if keep is None else np.asarray(keep).tolist()
        columns = self.columns
        if self.matrix is None:
            for k in chosen:
                yield [1.0], [columns[k]]
        elif isinstance(self.matrix, np.ndarray):
            full = (np.count_nonzero(self.matrix, axis=1) == len(columns)).tolist()
            for k in chosen:
                row = self.matrix[k]
                if full[k]:
                    yield row.tolist(), columns.copy()
                else:
                    entries = np.flatnonzero(row)
                    yield row[entries].tolist(), [columns[j] for j in entries.tolist()]
        else:
            matrix = sp.csr_array(self.matrix)
            matrix.eliminate_zeros()
            starts = matrix.indptr.tolist()
            indices, data = matrix.indices.tolist(), matrix.data.tolist()
            for k in chosen:
                part = slice(starts[k], starts[k + 1])
                yield data[part], [columns[j] for j in indices[part]]

    def is_constant(self) -> npt.NDArray[np.bool_]:
        """Which forms hold no variable, shape (n,)."""
        if self.matrix is None:
            return np.zeros(self.size, dtype=bool)
        if isinstance(self.matrix, np.ndarray):
            return (
                np.asarray(~self.matrix.any(axis=1)) if self.columns else np.ones(self.size, bool)
            )
        sizes = np.asarray(abs(self.matrix).sum(axis=1)).reshape(-1)
        return np.asarray(sizes == 0, dtype=bool)

    def expression(self, k: int) -> Any:
        """Form k as a Pyomo expression."""
        coefs, variables = next(self.rows([k]))
        return linear(coefs, variables, float(self.constant[k]))


def linear(coefs: list[float], variables: list[Any], constant: float = 0.0) -> Any:
    """``coefs . variables + constant`` as a Pyomo expression."""
    return LinearExpression(constant=constant, linear_coefs=coefs, linear_vars=variables)


def index_of(keys: Iterable[Any], dimen: int = 1) -> Any:
    """Keys as an index; an empty one says its dimension, which transformations ask for."""
    index = list(keys)
    return index if index else pyo.Set(initialize=[], dimen=dimen)


def add_variables(
    block: Any,
    name: str,
    keys: Iterable[Any],
    lower: npt.ArrayLike | None = None,
    upper: npt.ArrayLike | None = None,
    binary: bool = False,
    dimen: int = 1,
) -> list[Any]:
    """Declare ``block.name`` over `keys` and return its variables in that order.

    A component of that name that a rebuild has kept gets new bounds.

    Parameters
    ----------
    block : BlockData
    name : str
    keys : iterable
        Integers or tuples.
    lower, upper : array_like, optional
        One bound a key; infinite ones are left out.
    binary : bool, optional
    dimen : int, optional
        Length of a key, which an empty iterable does not show.
    """
    index = list(keys)
    variable = block.component(name)
    if variable is None:
        domain = pyo.Binary if binary else pyo.Reals
        variable = pyo.Var(index_of(index, dimen), domain=domain)
        block.add_component(name, variable)
    found = [variable[key] for key in index]
    if lower is not None and upper is not None:
        lows, highs = (np.asarray(side, dtype=np.float64) for side in (lower, upper))
        for item, low, high in zip(found, lows.tolist(), highs.tolist(), strict=True):
            set_bounds(item, low, high)
    return found


def set_bounds(variable: Any, low: float, high: float) -> None:
    """Bounds of a variable; infinite ones are left out."""
    variable.setlb(low if low > -np.inf else None)
    variable.setub(high if high < np.inf else None)


def add_value(block: Any, low: float = -np.inf, high: float = np.inf) -> Any:
    """Declare ``block.value``, or give the one that a rebuild has kept new bounds."""
    variable = block.component("value")
    if variable is None:
        variable = pyo.Var()
        block.add_component("value", variable)
    set_bounds(variable, low, high)
    return variable


def add_equalities(
    block: Any,
    name: str,
    keys: Iterable[Any],
    targets: Sequence[Any],
    forms: Affine,
    keep: npt.ArrayLike | None = None,
) -> None:
    """Declare ``targets[k] == forms[k]`` (for the forms in `keep`) as ``block.name``."""
    index = list(keys)
    constraint = pyo.Constraint(index_of(index))
    block.add_component(name, constraint)
    constants = forms.constant if keep is None else forms.constant[np.asarray(keep, dtype=int)]
    for key, target, (coefs, variables), constant in zip(
        index, targets, forms.rows(keep), constants.tolist(), strict=True
    ):
        coefs.append(-1.0)
        variables.append(target)
        constraint[key] = (linear(coefs, variables), -constant)


class Rows:
    """Rows of one named constraint, added one by one.

    Parameters
    ----------
    block : BlockData
    name : str
    keys : iterable
        All keys that will be used.
    dimen : int, optional
        Length of a key, which an empty iterable does not show.
    """

    def __init__(self, block: Any, name: str, keys: Iterable[Any], dimen: int = 1) -> None:
        self._constraint = pyo.Constraint(index_of(keys, dimen))
        block.add_component(name, self._constraint)

    def at_most(self, key: Any, coefs: list[float], variables: list[Any], bound: float) -> None:
        """``coefs . variables <= bound``."""
        self._constraint[key] = (None, linear(coefs, variables), bound)

    def at_least(self, key: Any, coefs: list[float], variables: list[Any], bound: float) -> None:
        """``coefs . variables >= bound``."""
        self._constraint[key] = (bound, linear(coefs, variables), None)

    def equal(self, key: Any, coefs: list[float], variables: list[Any], bound: float) -> None:
        """``coefs . variables == bound``."""
        self._constraint[key] = (linear(coefs, variables), bound)
