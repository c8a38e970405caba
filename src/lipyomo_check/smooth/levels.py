"""A statement's hidden layers in arrays, their units in groups of one kind."""

from __future__ import annotations

from math import ldexp
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from flint import fmpq, fmpz

from lipyomo_check.smooth.definitions import units_of
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.kinds import Kind
from lipyomo_check.statement import Layer, Statement, rational


class Group(NamedTuple):
    """Units of one kind in a layer."""

    units: npt.NDArray[np.int64]
    kind: Kind


class Level(NamedTuple):
    """A hidden layer as this needs it.

    Its pre-activations have the weight `weight`; their derivatives have `tangents`, which is the
    same except in the first layer, where directions are given.  The sizes are absolute values.
    """

    weight: Array
    sizes: Array
    bias: Array
    groups: tuple[Group, ...]
    tangents: Array
    tangent_sizes: Array


def hidden_of(statement: Statement) -> list[Layer]:
    """The hidden layers, behind identities if the first one's product with directions rounds."""
    if statement.directions is None or (statement.hidden and _in_floats(statement) is not None):
        return statement.hidden
    ones = [1.0] * statement.inputs
    rows = [[float(i == j) for j in range(statement.inputs)] for i in range(statement.inputs)]
    return [Layer(rows, [0.0] * statement.inputs, ones, ones), *statement.hidden]


def levels_of(statement: Statement) -> list[Level]:
    """The layers of `hidden_of` in arrays."""
    hidden = hidden_of(statement)
    levels = [_level(layer) for layer in hidden]
    if statement.directions is None:
        return levels
    passed = statement.directions if len(hidden) > len(statement.hidden) else _in_floats(statement)
    tangents = np.array(passed)
    return [levels[0]._replace(tangents=tangents, tangent_sizes=np.abs(tangents)), *levels[1:]]


def _in_floats(statement: Statement) -> list[list[float]] | None:
    """The first weight in the statement's directions, if its entries are floats."""
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


def _level(layer: Layer) -> Level:
    """A hidden layer in arrays, its units in groups of one kind."""
    weight = np.array(layer.rows)
    sizes = np.abs(weight)
    of: dict[object, list[int]] = {}
    units = units_of(layer)
    for k, unit in enumerate(units):
        of.setdefault(unit.name or (unit.left, unit.right), []).append(k)
    groups = tuple(Group(np.array(own), units[own[0]].kind) for own in of.values())
    return Level(weight, sizes, np.array(layer.offset), groups, weight, sizes)
