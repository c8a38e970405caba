"""The products of a layer: which rows they are of, and which of these they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray

FEWEST = 3
"""Products with a factor in common that are bounded together: of two less cancels than it costs."""


@dataclass(frozen=True, eq=False)
class Products:
    """The products of a layer, behind so many units.

    Attributes
    ----------
    units : int
        Rows, and outputs, that are units; the outputs behind them are products.
    left, right : ndarray of int, shape (P,)
        Rows of each product's factors.
    rows : int
        Number of all rows.
    """

    units: int
    left: IntArray
    right: IntArray
    rows: int

    @cached_property
    def own(self) -> IntArray:
        """The row of each branch: of the units, of the left factors, of the right ones."""
        return np.concatenate([np.arange(self.units), self.left, self.right])

    @cached_property
    def other(self) -> IntArray:
        """The row that a branch's slope depends on: its own one of a unit, else the other one."""
        return np.concatenate([np.arange(self.units), self.right, self.left])

    @cached_property
    def output(self) -> IntArray:
        """The output of each branch."""
        after = self.units + np.arange(self.left.size)
        return np.concatenate([np.arange(self.units), after, after])

    @cached_property
    def scatter(self) -> FloatArray:
        """Ones where a branch belongs to a row, shape (branches, rows)."""
        found = np.zeros((self.own.size, self.rows))
        found[np.arange(self.own.size), self.own] = 1.0
        return found

    @cached_property
    def shared(self) -> Shared | None:
        """Products of which several have a row in common; each is in the group that is larger."""
        both = self.left != self.right  # squares have one row
        counts = np.bincount(
            np.concatenate([self.left[both], self.right[both]]), minlength=self.rows
        )
        second = counts[self.right] > counts[self.left]
        common = np.where(second, self.right, self.left)
        members = np.bincount(common[both], minlength=self.rows)
        some = np.flatnonzero(both & (members[common] >= FEWEST))
        if not some.size:
            return None
        some = some[np.argsort(common[some], kind="stable")]
        rows, own = np.unique(common[some], return_inverse=True)
        other = np.where(second, self.left, self.right)[some]
        return Shared(rows, some, own, other, second[some])


@dataclass(frozen=True, eq=False)
class Shared:
    """Products with a row in common, in G groups.

    Attributes
    ----------
    rows : ndarray of int, shape (G,)
        What those of each group have in common.
    products, group, others : ndarray of int, shape (p,)
        These, their groups, which are in order, and their other rows.
    second : ndarray of bool, shape (p,)
        Whether the row in common is the right one.
    """

    rows: IntArray
    products: IntArray
    group: IntArray
    others: IntArray
    second: BoolArray

    @cached_property
    def first(self) -> IntArray:
        """The first product of each group."""
        return np.searchsorted(self.group, np.arange(self.rows.size))

    def sums(self, products: FloatArray) -> FloatArray:
        """Sums (N, G, ...) over the products of each group, of numbers (N, p, ...)."""
        if self.rows.size == 1:
            return np.asarray(products.sum(axis=1, keepdims=True))
        return np.asarray(np.add.reduceat(products, self.first, axis=1))
