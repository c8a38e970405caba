"""A statement's hidden layers in arrays, their units in groups of one kind, and their products.

A pair of squares with opposite columns in the next weight is the product of the sum and of the
difference of their pre-activations (`lipyomo_check.records`).  A layer has *rows*, whose
pre-activations are z: those of its other units, then the factors of its products; and *outputs*:
its other units, then its products.  With z given an output is linear in the tangents u of its rows,
of which it has one *branch* each: that of a unit multiplies u with sigma'(z), both of a product
multiply the u of one factor with the z of the other.

A factor's row is the sum or the difference of two rows.  It is kept with what rounding takes from
each entry, so that rows which are equal in exact arithmetic are known to be, and are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ldexp
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from flint import fmpq, fmpz

from lipyomo_check.parts import Layer, rational
from lipyomo_check.smooth.balls import alike
from lipyomo_check.smooth.definitions import Unit, units_of
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.kind import Kind
from lipyomo_check.statement import Statement

Indices = npt.NDArray[np.int64]


class Group(NamedTuple):
    """Units of one kind in a layer."""

    units: Indices
    kind: Kind


class Exact(NamedTuple):
    """Rounding errors of rows: of the weight, the bias and the tangents' weight."""

    weight: Array
    bias: Array
    tangents: Array


@dataclass(frozen=True, eq=False)
class Products:
    """The products of a layer, behind so many other units, by the rows of their factors."""

    units: int
    left: Indices
    right: Indices

    @cached_property
    def own(self) -> Indices:
        """The row of each branch: of the units, of the left factors, of the right ones."""
        return np.concatenate([np.arange(self.units), self.left, self.right])

    @cached_property
    def output(self) -> Indices:
        """The output of each branch."""
        after = self.units + np.arange(self.left.size)
        return np.concatenate([np.arange(self.units), after, after])


@dataclass(frozen=True, eq=False)
class Level:
    """A hidden layer as this needs it.

    Its pre-activations have the weight `weight`; their derivatives have `tangents`, which is the
    same except in the first layer, where directions are given.  The sizes are absolute values.
    Units are the first rows, and the first outputs.
    """

    weight: Array
    sizes: Array
    bias: Array
    groups: tuple[Group, ...]
    tangents: Array
    tangent_sizes: Array
    products: Products | None = None
    rest: Exact | None = None

    @cached_property
    def branch_weight(self) -> Array:
        """The weight of each branch's row."""
        return self.weight if self.products is None else self.weight[self.products.own]

    @cached_property
    def branch_bias(self) -> Array:
        """Its bias."""
        return self.bias if self.products is None else self.bias[self.products.own]

    @cached_property
    def branch_tangents(self) -> Array:
        """Its weight of tangents."""
        return self.tangents if self.products is None else self.tangents[self.products.own]

    @cached_property
    def branch_sizes(self) -> Array:
        """Absolute values of these."""
        return np.abs(self.branch_tangents)

    @cached_property
    def branches(self) -> Indices:
        """The row of each branch."""
        return np.arange(len(self.weight)) if self.products is None else self.products.own

    @property
    def others(self) -> Indices:
        """The row of the other factor of each branch of a product."""
        assert self.products is not None
        return np.concatenate([self.products.right, self.products.left])

    @cached_property
    def slope_rows(self) -> Indices:
        """The row that each branch's slope depends on."""
        if self.products is None:
            return self.branches
        return np.concatenate([np.arange(self.products.units), self.others])

    def own(self, rows: Array) -> Array:
        """Return numbers of rows (..., n) for each branch."""
        return rows if self.products is None else rows[..., self.products.own]

    def spread(self, outputs: Array) -> Array:
        """Return numbers of outputs for each branch."""
        return outputs if self.products is None else outputs[..., self.products.output]

    def outputs_of(self, branches: Array) -> Array:
        """Return sums over each output's branches."""
        if self.products is None:
            return branches
        n, count = self.products.units, self.products.left.size
        both = branches[..., n : n + count] + branches[..., n + count :]
        return np.concatenate([branches[..., :n], both], axis=-1)

    def rows_of(self, branches: Array) -> Array:
        """Return sums over each row's branches."""
        if self.products is None:
            return branches
        found = alike(np.zeros((*branches.shape[:-1], len(self.weight))), branches)
        for k, row in enumerate(self.products.own.tolist()):
            found[..., row] += branches[..., k]
        return found


def hidden_of(statement: Statement) -> list[Layer]:
    """Return the hidden layers, after identities if the first product with directions rounds."""
    if statement.directions is None or (statement.hidden and _in_floats(statement) is not None):
        return statement.hidden
    ones = [1.0] * statement.inputs
    rows = [[float(i == j) for j in range(statement.inputs)] for i in range(statement.inputs)]
    return [Layer(rows, [0.0] * statement.inputs, ones, ones), *statement.hidden]


def levels_of(statement: Statement) -> tuple[list[Level], Array]:
    """Return the layers of `hidden_of` in arrays, and the weight of the last level's outputs."""
    hidden, passed = hidden_of(statement), None
    if statement.directions is not None:
        whole = len(hidden) > len(statement.hidden)
        passed = np.array(statement.directions if whole else _in_floats(statement))
    return in_arrays([*hidden, statement.layers[-1]], passed)


def in_arrays(layers: Sequence[Layer], passed: Array | None = None) -> tuple[list[Level], Array]:
    """Return layers in arrays, and the last weight; the first tangents' weight may be given."""
    levels: list[Level] = []
    columns: Indices | None = None
    for i, layer in enumerate(layers[:-1]):
        weight = _columns(np.array(layer.rows), columns)
        level = _level(layer, weight)
        if i == 0 and passed is not None:
            level = replace(level, tangents=passed, tangent_sizes=np.abs(passed))
        columns = None
        if layer.products:
            level, columns = _with_products(level, layer)
        levels.append(level)
    return levels, _columns(np.array(layers[-1].rows), columns)


def units_alone(layer: Layer) -> list[Unit]:
    """Return a layer's units that are no part of products, in their order."""
    paired = {k for pair in layer.products for k in pair}
    return [unit for k, unit in enumerate(units_of(layer)) if k not in paired]


def _columns(weight: Array, columns: Indices | None) -> Array:
    return weight if columns is None else np.ascontiguousarray(weight[:, columns])


def _in_floats(statement: Statement) -> list[list[float]] | None:
    """Return the first weight in the statement's directions, if its entries are floats."""
    rows, bits = statement.first
    found = []
    for row in rows:
        try:
            values = [ldexp(float(int(v)), -bits) for v in row]
        except OverflowError:
            return None
        if any(
            rational(value) != fmpq(v, fmpz(1) << bits)
            for value, v in zip(values, row, strict=True)
        ):
            return None
        found.append(values)
    return found


def _level(layer: Layer, weight: Array) -> Level:
    """Return a hidden layer in arrays, its units in groups of one kind; all units are rows."""
    sizes = np.abs(weight)
    paired = {k for pair in layer.products for k in pair}
    of: dict[object, list[int]] = {}
    kinds: dict[object, Kind] = {}
    units = ((k, unit) for k, unit in enumerate(units_of(layer)) if k not in paired)
    for place, (_, unit) in enumerate(units):
        key = unit.name or (unit.left, unit.right)
        of.setdefault(key, []).append(place)
        kinds[key] = unit.kind
    groups = tuple(Group(np.array(own), kinds[key]) for key, own in of.items())
    return Level(weight, sizes, np.array(layer.offset), groups, weight, sizes)


class _Row(NamedTuple):
    """A row of a layer: weight, bias and tangents' weight, and what rounding has taken of these."""

    floats: tuple[Array, Array, Array]
    rest: tuple[Array, Array, Array]

    @property
    def key(self) -> bytes:
        """Equal for equal rows."""
        return b"".join((part + 0.0).tobytes() for part in (*self.floats, *self.rest))

    def plus(self, other: _Row, sign: float) -> _Row:
        """Return the sum (or difference) of two rows without rests, by Knuth's exact addition."""
        found, rests = [], []
        for a, own in zip(self.floats, other.floats, strict=True):
            b = sign * own
            s = a + b
            back = s - a
            found.append(s)
            rests.append((a - (s - back)) + (b - back))
        return _Row((found[0], found[1], found[2]), (rests[0], rests[1], rests[2]))


def _with_products(level: Level, layer: Layer) -> tuple[Level, Indices]:
    """Return a level with its products, and the columns of the next weight for its outputs."""
    firsts = [p for p, _ in layer.products]
    paired = {k for pair in layer.products for k in pair}
    alone = [k for k in range(layer.units) if k not in paired]

    def row(k: int) -> _Row:
        floats = level.weight[k], level.bias[k : k + 1], level.tangents[k]
        return _Row(floats, (0.0 * floats[0], 0.0 * floats[1], 0.0 * floats[2]))

    rows = [row(k) for k in alone]
    places: dict[bytes, int] = {}
    for place, own in enumerate(rows):
        places.setdefault(own.key, place)
    factors: list[list[int]] = [[], []]
    for p, q in layer.products:
        for side, sign in zip(factors, (1.0, -1.0), strict=True):
            own = row(p).plus(row(q), sign)
            if own.key not in places:
                places[own.key] = len(rows)
                rows.append(own)
            side.append(places[own.key])
    weight, bias, tangents = (_stacked([own.floats for own in rows], n) for n in range(3))
    rest = Exact(*(_stacked([own.rest for own in rows], n) for n in range(3)))
    rest = rest._replace(bias=rest.bias[:, 0])
    same = level.tangents is level.weight
    left, right = (np.array(side, dtype=np.int64) for side in factors)
    found = replace(
        level,
        weight=weight,
        sizes=np.abs(weight),
        bias=bias[:, 0],
        tangents=weight if same else tangents,
        tangent_sizes=np.abs(tangents),
        products=Products(len(alone), left, right),
        rest=rest if any(part.any() for part in rest) else None,
    )
    return found, np.array([*alone, *firsts], dtype=np.int64)


def _stacked(parts: Sequence[tuple[Array, Array, Array]], which: int) -> Array:
    return np.ascontiguousarray(np.stack([part[which] for part in parts]))
