"""Gated sums: rows ``a + g (b - a)``, which lie between a and b if g is between zero and one.

The state of a gated unit (GRU) is such a row: a product of a gate with a difference, plus one term
of that difference.  Bounded as a sum of three ranges it grows from step to step, as a mean of two
it does not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray


class Gates(NamedTuple):
    """Gated sums of a layer, with a and b as functions of the outputs of the last layer but one.

    Attributes
    ----------
    rows : ndarray of int, shape (g,)
    products : ndarray of int, shape (g,)
        The product of a gate and a difference, in the layer before.
    second : ndarray of bool, shape (g,)
        Whether the gate is the second factor.
    scale : ndarray, shape (g,)
        Factors of the gates, powers of two.
    weights, sizes : (ndarray, ndarray), shape (g, h) each
        Weights of a and b, and sums of the absolute terms of these.
    biases, bias_sizes : (ndarray, ndarray), shape (g,) each
        Biases of a and b, and sums of the absolute terms of these.
    """

    rows: IntArray
    products: IntArray
    second: BoolArray
    scale: FloatArray
    weights: tuple[FloatArray, FloatArray]
    sizes: tuple[FloatArray, FloatArray]
    biases: tuple[FloatArray, FloatArray]
    bias_sizes: tuple[FloatArray, FloatArray]


class AffineRows(NamedTuple):
    """Affine functions of the outputs of a layer: weights (n, h) and biases (n,)."""

    weight: FloatArray
    bias: FloatArray


def gated_sums(
    after: AffineRows, units: AffineRows, passed: BoolArray, first: AffineRows, second: AffineRows
) -> Gates | None:
    """Detect the gated sums among the rows of a layer; None if there are none.

    Parameters
    ----------
    after : AffineRows
        The rows, over m units and then k products of the layer before.
    units : AffineRows
        Pre-activations of the m units, over the outputs of the layer before that.
    passed : ndarray of bool, shape (m,)
        Which units are identities.
    first, second : AffineRows
        Factors of the k products, over the same outputs.
    """
    count = len(units.bias)
    found: list[tuple[int, int, bool, float, float, FloatArray, FloatArray, FloatArray]] = []
    for row, values in enumerate(after.weight):
        filled = np.flatnonzero(values)
        ahead, behind = filled[filled < count], filled[filled >= count] - count
        if behind.size != 1 or not ahead.size or not passed[ahead].all():
            continue
        k, share = int(behind[0]), float(values[count + behind[0]])
        start = values[ahead] @ units.weight[ahead]
        size = np.abs(values[ahead]) @ np.abs(units.weight[ahead])
        for place, rest in ((False, second), (True, first)):
            change = rest.weight[k]
            both = np.flatnonzero((start != 0.0) & (change != 0.0))
            if not both.size:
                continue
            factor = -share * float(change[both[0]] / start[both[0]])
            if abs(np.frexp(factor)[0]) == 0.5:
                share /= factor
                more = size + abs(share) * np.abs(change)
                found.append((row, k, place, factor, share, start, size, more))
                break
    if not found:
        return None
    rows, products = (np.array([each[k] for each in found], dtype=np.intp) for k in range(2))
    side = np.array([each[2] for each in found])
    scales, shares, starts, sizes, larger = (
        np.array([each[k] for each in found]) for k in range(3, 8)
    )
    other = np.where(side[:, None], first.weight[products], second.weight[products])
    bias = np.where(side, first.bias[products], second.bias[products])
    ends = starts + shares[:, None] * other
    used = after.weight[rows, :count]
    own = after.bias[rows] + used @ units.bias
    own_size = np.abs(after.bias[rows]) + np.abs(used) @ np.abs(units.bias)
    biases = own, own + shares * bias
    bias_sizes = own_size, own_size + np.abs(shares * bias)
    parts = (starts, ends), (sizes, larger), biases, bias_sizes
    return Gates(rows, products, side, scales, *parts)
