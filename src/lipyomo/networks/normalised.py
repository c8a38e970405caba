"""Normalised rows: signals divided by the root of a weighted sum of their squares.

With ``v = sum_k c_k s_k**2 + least`` and ``o_k = s_k / sqrt(v)``, as in LayerNorm and RMSNorm,
``sum_k c_k o_k**2 <= 1``, however small v may be.  One layer has the squares of s and passes
signals through; the next one has ``1 / sqrt(v)``; the layer after that multiplies it with the
passed signals, some of which are the s themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.networks.gates import AffineRows
from lipyomo.networks.multiples import canonical, is_power_of_two


@dataclass(frozen=True, eq=False)
class Roots:
    """Units of a layer that are inverse roots of weighted sums of squares.

    Attributes
    ----------
    units : ndarray of int, shape (g,)
    least : ndarray, shape (g,)
        Positive constants added to the sums.
    squares : ndarray of int, shape (n,)
        Units of the layer before that are the squares of all sums.
    group : ndarray of int, shape (n,)
        The sum of each square.
    weights : ndarray, shape (n,)
        The positive weight of each square in its sum.
    """

    units: IntArray
    least: FloatArray
    squares: IntArray
    group: IntArray
    weights: FloatArray

    @cached_property
    def whole(self) -> FloatArray:
        """Indicator of the squares of each sum, shape (n, g)."""
        return np.asarray(self.group[:, None] == np.arange(self.units.size), dtype=np.float64)

    @cached_property
    def others(self) -> FloatArray:
        """Indicator of pairs of different squares in the same sum, shape (n, n)."""
        same = self.group[:, None] == self.group
        return np.asarray(same & ~np.eye(self.group.size, dtype=bool), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Quotients:
    """Products of a layer that are multiples of s divided by its root.

    Attributes
    ----------
    products : ndarray of int, shape (p,)
        Indices among the layer's products.
    squares : ndarray of int, shape (p,)
        The s, by its position in `Roots.squares` of the layer before.
    scale : ndarray, shape (p,)
        The multiples: powers of two, of either sign.
    """

    products: IntArray
    squares: IntArray
    scale: FloatArray


class Passing(NamedTuple):
    """A layer's rows, and which of its outputs are identities of the rows of the same number."""

    rows: AffineRows
    passed: BoolArray


def roots_of(rows: AffineRows, inverse: IntArray, squares: IntArray) -> Roots | None:
    """Detect inverse roots of weighted sums of squares among a layer's units.

    Parameters
    ----------
    rows : AffineRows
        Pre-activations of the units.
    inverse : ndarray of int
        Units that are inverse roots.
    squares : ndarray of int
        Outputs of the layer before that are squares.
    """
    square = np.zeros(rows.weight.shape[1], dtype=bool)
    square[squares] = True
    found = []
    for unit in inverse.tolist():
        filled = np.flatnonzero(rows.weight[unit])
        weights = rows.weight[unit, filled]
        if filled.size and square[filled].all() and rows.bias[unit] > 0.0 and weights.min() > 0.0:
            found.append((unit, filled, weights))
    if not found:
        return None
    units = np.array([unit for unit, _, _ in found], dtype=np.intp)
    group = np.concatenate([np.full(own.size, k) for k, (_, own, _) in enumerate(found)])
    both = (np.concatenate([each[k] for each in found]) for k in (1, 2))
    numbers, weights = both
    return Roots(units, rows.bias[units], numbers, group, weights)


def quotients_of(
    roots: Roots,
    rows: AffineRows,
    factors: tuple[IntArray, IntArray],
    between: Passing,
    first: Passing,
) -> Quotients | None:
    """Detect products of a layer that are exactly multiples of s divided by its root.

    Parameters
    ----------
    roots : Roots
        Inverse roots of the layer before.
    rows : AffineRows
        The factors of products.
    factors : (ndarray of int, ndarray of int)
        The two rows of each product.
    between, first : Passing
        The layer before, and the one before that, which has the squares.
    """
    group_of = {unit: k for k, unit in enumerate(roots.units.tolist())}
    known: dict[tuple[int, bytes], tuple[int, float]] = {}
    for place, (unit, group) in enumerate(zip(roots.squares, roots.group, strict=True)):
        key, scale = canonical(first.rows.weight[unit], first.rows.bias[unit])
        known.setdefault((int(group), key), (place, scale))
    found: list[tuple[int, int, float]] = []
    for product, pair in enumerate(zip(*factors, strict=True)):
        for root, other in (pair, pair[::-1]):
            filled = np.flatnonzero(rows.weight[root])
            alone = filled.size == 1 and int(filled[0]) in group_of and rows.bias[root] == 0.0
            if not alone or not is_power_of_two(rows.weight[root, filled[0]]):
                continue
            passed = _passed(rows.weight[other], float(rows.bias[other]), (between, first))
            if passed is None:
                continue
            key, scale = canonical(*passed)
            place, own = known.get((group_of[int(filled[0])], key), (-1, 1.0))
            if place >= 0:
                share = float(rows.weight[root, filled[0]])
                found.append((product, place, share * scale / own))
                break
    if not found:
        return None
    products, squares = (np.array([each[k] for each in found], dtype=np.intp) for k in range(2))
    return Quotients(products, squares, np.array([scale for _, _, scale in found]))


def _passed(
    row: FloatArray, bias: float, through: Sequence[Passing]
) -> tuple[FloatArray, FloatArray] | None:
    """Pull a row back through identities of some layers; None if impossible, or not exact."""
    for rows, passed in through:
        filled = np.flatnonzero(row)
        if not filled.size or not passed[filled].all():
            return None
        parts, biases = rows.weight[filled], rows.bias[filled]
        if filled.size == 1 and is_power_of_two(row[filled[0]]):
            if bias != 0.0 and biases[0] != 0.0:
                return None
            row, bias = row[filled[0]] * parts[0], float(row[filled[0]] * biases[0] + bias)
            continue
        k, columns = np.nonzero(parts)
        alone = k.size == filled.size == np.unique(k).size == np.unique(columns).size
        if not alone or biases.any() or not all(map(is_power_of_two, parts[k, columns])):
            return None
        new = np.zeros(parts.shape[1])
        new[columns] = row[filled] * parts[k, columns]
        row = new
    return row, np.array([bias])
