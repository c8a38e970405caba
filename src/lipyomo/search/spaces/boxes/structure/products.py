"""The products of a layer: the rows of their factors, and which of these they share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray

FEWEST = 3
"""The smallest number of products with a common factor that are bounded together: with two, the
gain is not worth the time."""


@dataclass(frozen=True, eq=False)
class Products:
    """The products of a layer, which follow its units.

    Attributes
    ----------
    units : int
        The number of rows, and of outputs, that are units; the outputs after them are products.
    left, right : ndarray of int, shape (P,)
        The rows of each product's factors.
    rows : int
        The number of all rows.
    """

    units: int
    left: IntArray
    right: IntArray
    rows: int

    @cached_property
    def own(self) -> IntArray:
        """The row of each branch: first of the units, then of the left and of the right factors."""
        return np.concatenate([np.arange(self.units), self.left, self.right])

    @cached_property
    def other(self) -> IntArray:
        """The row that a branch's slope depends on: its own for a unit, else the other factor."""
        return np.concatenate([np.arange(self.units), self.right, self.left])

    @cached_property
    def output(self) -> IntArray:
        """The output of each branch."""
        after = self.units + np.arange(self.left.size)
        return np.concatenate([np.arange(self.units), after, after])

    @cached_property
    def scatter(self) -> FloatArray:
        """The matrix with ones where a branch belongs to a row, shape (branches, rows)."""
        found = np.zeros((self.own.size, self.rows))
        found[np.arange(self.own.size), self.own] = 1.0
        return found

    @cached_property
    def shared(self) -> Shared | None:
        """Products that share a row with several others; each is in the larger of its groups."""
        both = self.left != self.right  # squares have only one row
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
    """Products with a common row, in G groups.

    Attributes
    ----------
    rows : ndarray of int, shape (G,)
        The common row of each group.
    products, group, others : ndarray of int, shape (p,)
        The products, their groups in increasing order, and their other rows.
    second : ndarray of bool, shape (p,)
        Whether the common row is the right factor.
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
        """Sum numbers (N, p, ...) over the products of each group, shape (N, G, ...)."""
        if self.rows.size == 1:
            return np.asarray(products.sum(axis=1, keepdims=True))
        return np.asarray(np.add.reduceat(products, self.first, axis=1))
