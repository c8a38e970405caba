"""The objective as one affine function above it: collapsed backwards as a whole.

For a functional the objective is ``w . t`` of the last layer, w the functional's row of the last
weights.  Layer by layer, a sum ``a . h + b . t`` over the units is bounded by one over the layer
before: with t = sigma'(z) u as in `relax.py`,

    a sigma(z) + b t <= (a sigma + b u0 sigma')(z) + b rate u - b u0 rate + |b| rr ur,

and the part in brackets lies below one line ``s z + above``: sigma and sigma' are relaxed together.
Error O(h^2), for a box of width h.  Rounding is paid for as in `relax.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipyomo.arrays import FloatArray
from lipyomo.bounds.kinds import each_kind
from lipyomo.search.smooth.context import Context
from lipyomo.search.smooth.relax import Relaxed


@dataclass(frozen=True, eq=False)
class Above:
    """``x . X + v . V + constant``, not below the objective on each of N boxes.

    Attributes
    ----------
    x, v : ndarray, shape (N, d)
    constant : ndarray, shape (N,)
    fuzz : ndarray, shape (N,)
        What of the constant pays for rounding.
    gaps : list of (ndarray, ndarray)
        What each unit of each layer adds for want of knowledge: in all, and of its tangent alone;
        shapes (N, n).
    """

    x: FloatArray
    v: FloatArray
    constant: FloatArray
    fuzz: FloatArray
    gaps: list[tuple[FloatArray, FloatArray]]


def collapsed(
    context: Context, layers: Sequence[Relaxed], rows: FloatArray, errors: FloatArray | None
) -> Above:
    """The objective ``rows . t`` on boxes.

    Parameters
    ----------
    context : Context
    layers : sequence of Relaxed
        All hidden layers, at least one.
    rows : ndarray, shape (N, n_L)
    errors : ndarray, shape (N, n_L), optional
        What the rows may be off by.
    """
    unit, b = context.unit, rows
    a = np.zeros_like(rows)
    constant, fuzz = np.zeros(len(rows)), np.zeros(len(rows))
    gaps: list[tuple[FloatArray, FloatArray]] = []
    if errors is not None:
        layer = layers[-1]
        largest = np.abs(layer.rate) + layer.rate_radius
        fuzz += (errors * largest * (np.abs(layer.tangent) + layer.tangent_radius)).sum(axis=1)
    last = layers[-1]
    for stage, layer in zip(reversed(context.stages), reversed(layers), strict=True):
        u, ur, rate, rr = layer.tangent, layer.tangent_radius, layer.rate, layer.rate_radius
        c = b * u
        if layer is last:  # a = 0: nothing is gained by other lines
            bend, middle, radius = layer.bend
            s, middle, radius = c * bend, c * middle, np.abs(c) * radius
            under, over = middle - radius, middle + radius
        else:
            low = np.minimum(layer.low, layer.high)
            s, under, over = each_kind(stage.kinds, "lines", a, c, low, layer.high)
        size = np.abs(b)
        rounds = rr * ur
        off = size * rounds
        constant += (over - c * rate + off + s * stage.bias).sum(axis=1)
        fuzz += unit * (
            np.abs(over)
            + np.abs(under)
            + np.abs(s) * layer.reach
            + np.abs(c) * (2.0 * np.abs(rate) + rr)
            + size * (np.abs(rate) * layer.pace + rounds)
        ).sum(axis=1)
        gaps.append((over - under + off, off))
        a, b = s @ stage.weight, (b * rate) @ stage.weight
    fuzz = fuzz * (1.0 + unit)
    return Above(a, b, constant + fuzz, fuzz, gaps[::-1])
