"""The objective as one affine function above it: collapsed backwards as a whole.

For a functional the objective is ``w . t`` of the last layer, w the functional's row of the last
weights; of values it is ``w . h``.  Layer by layer, a sum ``a . h + b . t`` over the units is
bounded by one over the layer before: with t = sigma'(z) u as in `relax.py`, and any m and r,

    a sigma(z) + b t = (a sigma + b m sigma')(z) + b r u - b m r + b (sigma' - r)(u - m).

The part in brackets lies below one line ``s z + above``: sigma and sigma' are relaxed together.
Where m is an end of u's range, and r the other end of that of sigma' (the same one, where b is
negative), the last product is at most zero: that is McCormick's envelope (Computability of global
solutions to factorable nonconvex programs, 1976).  But ``a sigma + b u sigma'`` is affine in u, so
that planes ``s z + b r u + most`` lie above it where they do so at both ends m and n of u's range:

    most = max over both ends of (above a sigma + b m sigma' for that s) - b r m,

for any r.  With the r at which both are the same the plane is nowhere above McCormick's for that
s, and mostly far below.  The first end is the one whose line is lower where the objective is
largest; s is the slope of its chord.  Error O(h^2), for a box of width h.

Rounding is paid for as in `relax.py`; what b m and b n are off by, and how far the range of u goes
beyond m and n for that, times the size of sigma' and of r, as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.linear.kinds import each_kind
from lipyomo.search.spaces.boxes.relax import Relaxation, Relaxed, at


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
    known: Relaxation,
    rows: FloatArray,
    errors: FloatArray | None,
    weights: FloatArray | None = None,
) -> Above:
    """The objective ``rows . t + weights . h`` on boxes, of the last layer.

    Parameters
    ----------
    known : Relaxation
        Of at least one layer.
    rows : ndarray, shape (N, n_L)
    errors : ndarray, shape (N, n_L), optional
        What the rows may be off by.
    weights : ndarray, shape (N, n_L), optional
        By default zeros.
    """
    context, layers = known.context, known.layers
    unit, b = context.unit, rows
    a = np.zeros_like(rows) if weights is None else weights
    constant, fuzz = np.zeros(len(rows)), np.zeros(len(rows))
    gaps: list[tuple[FloatArray, FloatArray]] = []
    if errors is not None:
        layer = layers[-1]
        largest = np.abs(layer.rate) + layer.rate_radius
        fuzz += (errors * largest * (np.abs(layer.tangent) + layer.tangent_radius)).sum(axis=1)
    last = layers[-1]
    worst = _worst(known, rows)
    for stage, layer in zip(reversed(context.stages), reversed(layers), strict=True):
        ur, rr, size = layer.tangent_radius, layer.rate_radius, np.abs(b)
        side = _side(layer, b, *worst)
        c, rate = b * (layer.tangent - side * ur), layer.rate + side * np.sign(b) * rr
        low = np.minimum(layer.low, layer.high)
        if layer is last and weights is None:  # a = 0: its lines are known
            bend, middle, radius = layer.bend
            s, middle, radius = c * bend, c * middle, np.abs(c) * radius
            under, over = middle - radius, middle + radius
        else:
            s, under, over = each_kind(stage.kinds, "lines", a, c, low, layer.high)
        above, most = over - c * rate, np.maximum(np.abs(under), np.abs(over))
        d = b * (layer.tangent + side * ur)
        many = (ur > 2.0 * unit * layer.pace).any(axis=1)  # else u is known but for rounding
        many &= np.isfinite(d).all(axis=1) & np.isfinite(s).all(axis=1)
        if many.any():
            whole = np.broadcast_arrays(a, d, low, layer.high, s, layer.rate, rr)
            *some, middle, radius = (array[many] for array in whole)
            other = each_kind(stage.kinds, "lines", *some)[2]
            ends = (c[many], over[many]), (d[many], other)
            rate[many] = _rate(middle, radius, *ends)
            above[many] = np.maximum(*(end - g * rate[many] for g, end in ends))
            most[many] = np.maximum(most[many], np.abs(other))
        constant += (above + s * stage.bias).sum(axis=1)
        fuzz += unit * (
            2.0 * most
            + np.abs(s) * layer.reach
            + size * (np.abs(rate) + 2.0 * (np.abs(layer.rate) + rr)) * (layer.pace + 4.0 * ur)
        ).sum(axis=1)
        rounds = size * rr * ur
        gaps.append((over - under + rounds, rounds))
        a, b = s @ stage.weight, (b * rate) @ stage.along
    fuzz = fuzz * (1.0 + unit)
    return Above(a, b, constant + fuzz, fuzz, gaps[::-1])


def _rate(
    rate: FloatArray,
    radius: FloatArray,
    one: tuple[FloatArray, FloatArray],
    other: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """How planes rise with b u in order to meet both lines; within the range of sigma'."""
    (c, over), (d, above) = one, other
    found = np.divide(above - over, d - c, out=rate.copy(), where=d != c)
    return np.clip(np.where(np.isfinite(found), found, rate), rate - radius, rate + radius)


def _worst(known: Relaxation, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where on the boxes the objective is largest, if it were as affine as its chords."""
    a, b = np.zeros_like(rows), rows
    for stage, layer in zip(reversed(known.context.stages), reversed(known.layers), strict=True):
        s = b * layer.tangent * layer.bend[0]
        if layer.value is not None:
            s += a * layer.value[0]
        a, b = s @ stage.weight, (b * layer.rate) @ stage.along
    x, v, _ = known.inputs
    return x.middle + np.sign(a) * x.radius, v.middle + np.sign(b) * v.radius


def _side(layer: Relaxed, b: FloatArray, x: FloatArray, v: FloatArray) -> FloatArray:
    """Which bound of each unit's product is less at (x, v): -1 or 1."""
    bend, centre, _ = layer.bend
    p = (bend * at(layer.pre, x, v) + centre - layer.rate) * np.sign(b)
    q = at(layer.pre_tangent, x, v) - layer.tangent
    return np.where(p * layer.tangent_radius < q * layer.rate_radius, -1.0, 1.0)
