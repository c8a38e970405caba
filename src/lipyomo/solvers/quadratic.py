"""Quadratic terms and special ordered sets of a `LinearModel`, by column."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray
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
