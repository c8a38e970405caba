"""Hidden layers in the form used by the search over boxes: dense arrays, and explicit products.

A network represents a product as a difference of squares (`lipyomo.networks.activations.Half`).
Here ``p**2 - q**2`` with opposite columns in the next weight is restored to
``(p + q) (p - q)``: a layer has rows, with pre-activations z, and outputs, which are
sigma(z) of the first rows, one by one, and then products of two rows.  Rows that are multiples of
each other by a power of two are stored as one row, shared by all products in which they occur.

By the chain rule, an output's tangent is a sum over its rows, with one term, a *branch*, for each:
a unit has the branch sigma'(z) u, and a product has two, the u of either row times the z of the
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.networks.activations import Activation, Power, TwoSlope
from lipyomo.networks.network import Layer
from lipyomo.networks.normalised import Quotients, Roots

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


Kind = tuple[Activation, "slice | IntArray"]
"""An activation, and the units of a layer that apply it."""


def kinds_of(layer: Layer) -> tuple[Kind, ...]:
    """Group a layer's units by activation."""
    found: list[Kind] = [(curve.activation, curve.units) for curve in layer.curves]
    rest = np.flatnonzero(~layer.curved)
    lefts, rights = layer.left[rest], layer.right[rest]
    for left, right in sorted(set(zip(lefts.tolist(), rights.tolist(), strict=True))):
        found.append((TwoSlope(left, right), rest[(lefts == left) & (rights == right)]))
    if len(found) == 1:
        return ((found[0][0], slice(None)),)
    return tuple(found)


def each_kind(
    kinds: Sequence[Kind], name: str, *arrays: FloatArray
) -> tuple[FloatArray, ...] | FloatArray:
    """Apply a method of every unit's activation to the columns of arrays (..., n)."""
    if len(kinds) == 1:
        found: tuple[FloatArray, ...] | FloatArray = getattr(kinds[0][0], name)(*arrays)
        return found
    whole: list[FloatArray] = []
    single = True
    for activation, units in kinds:
        part = getattr(activation, name)(*(array[..., units] for array in arrays))
        single = not isinstance(part, tuple)
        for k, piece in enumerate((part,) if single else part):
            if k == len(whole):
                whole.append(np.empty(np.broadcast_shapes(*(array.shape for array in arrays))))
            whole[k][..., units] = piece
    return whole[0] if single else tuple(whole)


class Copies(NamedTuple):
    """Rows of a layer that are multiples, by powers of two, of others or of the previous layer's.

    Attributes
    ----------
    fresh : ndarray of int, shape (f,)
        Rows that are not multiples.
    source : ndarray of int, shape (n,)
        Index of each row's source: into `fresh`, followed by the rows of the previous layer.
    scale : ndarray, shape (n,)
    """

    fresh: IntArray
    source: IntArray
    scale: FloatArray


@dataclass(frozen=True, eq=False)
class Stage:
    """A hidden layer.

    Attributes
    ----------
    weight, sizes : ndarray, shape (n, h)
        The weight and its absolute values: n rows, h outputs of the previous layer.
    along, along_sizes : ndarray, shape (n, t)
        The same for tangents.  In the first layer these are ``W T`` with the problem's directions
        T, whose rounding is tiny in a reduced problem (`LipschitzProblem.rounding`).
    bias : ndarray, shape (n,)
    off : ndarray, shape (n,)
        Added to the sizes of the terms of pre-activations, so that their rounding errors also cover
        other errors.
    kinds : tuple of Kind
        Activations with their units; every unit, also of two slopes, is in exactly one.
    broken : ndarray of int, shape (b,)
        Units whose slope has a break (a kink, or a jump); these have phases.
    phases : slice
        Their positions among the phases of all layers.
    products : Products, optional
    copies : Copies, optional
        Rows that follow from others, in networks with products.
    roots : Roots, optional
        Units that are inverse roots of sums of squares of the previous layer.
    quotients : Quotients, optional
        Products with such units of the previous layer.
    """

    weight: FloatArray
    sizes: FloatArray
    along: FloatArray
    along_sizes: FloatArray
    bias: FloatArray
    off: FloatArray
    kinds: tuple[Kind, ...]
    broken: IntArray
    phases: slice
    products: Products | None = None
    copies: Copies | None = None
    roots: Roots | None = None
    quotients: Quotients | None = None

    def with_inputs(self, weight: FloatArray, bias: FloatArray, off: FloatArray) -> Stage:
        """Return the layer with other weights and biases; those of tangents stay."""
        return replace(self, weight=weight, sizes=abs(weight), bias=bias, off=off)

    def powers_of(self, exponent: float) -> IntArray:
        """Return the units that are powers with this exponent, in order."""
        numbers = np.arange(self.units_of(self.bias).size)
        found = [numbers[:0]]
        for activation, units in self.kinds:
            power = activation.true
            if isinstance(power, Power) and power.exponent == exponent:
                found.append(numbers[units])
        return np.sort(np.concatenate(found))

    @cached_property
    def squares(self) -> IntArray:
        """Units that are squares."""
        return self.powers_of(2.0)

    # -- from rows to branches to outputs, and back ------------------------------------------------

    @cached_property
    def branch_weight(self) -> FloatArray:
        """The weights of each branch's row."""
        return self.weight if self.products is None else self.weight[self.products.own]

    @cached_property
    def branch_along(self) -> FloatArray:
        """The same for tangents."""
        return self.along if self.products is None else self.along[self.products.own]

    @cached_property
    def branch_along_sizes(self) -> FloatArray:
        """Their absolute values."""
        return self.along_sizes if self.products is None else self.along_sizes[self.products.own]

    def units_of(self, rows: FloatArray) -> FloatArray:
        """From values of rows (..., n), or of outputs, select those of units."""
        return rows if self.products is None else rows[..., : self.products.units]

    def own(self, rows: FloatArray) -> FloatArray:
        """From values of rows (..., n), select that of each branch's row."""
        return rows if self.products is None else rows[..., self.products.own]

    def other(self, rows: FloatArray) -> FloatArray:
        """From values of rows (..., n), select that of the row that fixes each branch's slope."""
        return rows if self.products is None else rows[..., self.products.other]

    def spread(self, outputs: FloatArray) -> FloatArray:
        """From values of outputs (..., h), select that of each branch's output."""
        return outputs if self.products is None else outputs[..., self.products.output]

    def on_rows(self, branches: FloatArray) -> FloatArray:
        """Sum values of branches over each row's branches."""
        return branches if self.products is None else branches @ self.products.scatter

    def each(self, name: str, *rows: FloatArray) -> tuple[FloatArray, ...] | FloatArray:
        """Apply a method of every unit's activation to values of rows (..., n)."""
        some = [self.units_of(array) for array in rows]
        if not self.kinds:
            none = np.zeros(np.broadcast_shapes(*(part.shape for part in some)))
            counts = {"enclose": 2, "slope_range": 2, "lines": 3, "parabolas": 4}
            return (none,) * counts[name] if name in counts else none
        return each_kind(self.kinds, name, *some)

    # -- at points ---------------------------------------------------------------------------------

    def outputs(self, z: FloatArray) -> FloatArray:
        """Evaluate the outputs (..., h) at pre-activations (..., n)."""
        found = np.asarray(self.each("value", z))
        if self.products is None:
            return found
        return np.concatenate([found, z[..., self.products.left] * z[..., self.products.right]], -1)

    def slopes(self, z: FloatArray) -> FloatArray:
        """Evaluate the factors of u in the branches at pre-activations (..., n)."""
        return self.with_others(np.asarray(self.each("slope", z)), z)

    def bends(self, z: FloatArray, u: FloatArray) -> FloatArray:
        """Derivatives of these factors along u (..., n)."""
        return self.with_others(np.asarray(self.each("curvature", z)) * self.units_of(u), u)

    def with_others(self, units: FloatArray, rows: FloatArray) -> FloatArray:
        """Append to values of units, for each branch of a product, that of its other row."""
        if self.products is None:
            return units
        return np.concatenate([units, rows[..., self.products.other[self.products.units :]]], -1)

    def sums(self, branches: FloatArray) -> FloatArray:
        """Sum values of branches over each output's branches, shape (..., h)."""
        if self.products is None:
            return branches
        n, count = self.products.units, self.products.left.size
        left, right = branches[..., n : n + count], branches[..., n + count :]
        return np.concatenate([branches[..., :n], left + right], -1)
