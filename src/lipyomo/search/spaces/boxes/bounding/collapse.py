"""One affine upper bound of the objective, by backward propagation through all layers.

For a functional the objective is ``w . t`` of the last layer, with w the functional's row of the
last weights; for values it is ``w . h``.  Layer by layer, a sum ``a . h + b . t`` over the units is
bounded by one over the previous layer: with t = sigma'(z) u as in `relaxing/relax.py`, any m and r,

    a sigma(z) + b t = (a sigma + b m sigma')(z) + b r u - b m r + b (sigma' - r)(u - m).

The bracket lies below one line ``s z + above``: sigma and sigma' are relaxed together.  If m is one
end of u's range and r the opposite end of the range of sigma' (the same end for negative b), the
last product is at most zero: this is McCormick's envelope (Computability of global solutions to
factorable nonconvex programs, 1976).  But since ``a sigma + b u sigma'`` is affine in u, a plane
``s z + b r u + most`` lies above it if it does so at both ends m and n of u's range:

    most = max over both ends of (above a sigma + b m sigma' for that s) - b r m,

for any r.  With the r at which both terms are equal, the plane is nowhere above McCormick's for the
same s, and mostly far below.  The first end m is the one whose line is lower where the objective is
largest; s is the slope of its chord.  The error is O(h^2) for a box of width h.

Rounding is covered as in `relaxing/relax.py`.  The errors of b m and b n, and how far the range of
u extends beyond m and n because of them, are also covered, times the size of sigma' and of r.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.search.spaces.boxes.bounding.above import Above
from lipyomo.search.spaces.boxes.bounding.factors import factored
from lipyomo.search.spaces.boxes.quadratics.on_cubes import QuadraticOnCube
from lipyomo.search.spaces.boxes.relaxing.curves import curves_of
from lipyomo.search.spaces.boxes.relaxing.inputs import at
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxation, Relaxed
from lipyomo.search.spaces.boxes.structure.stage import Stage


def collapsed(
    known: Relaxation,
    rows: FloatArray,
    errors: FloatArray | None,
    weights: FloatArray | None = None,
) -> Above:
    """Bound the objective ``rows . t + weights . h`` of the last layer from above on boxes.

    Values ``weights . h`` alone are at least the affine function minus `Above.total` and twice the
    fuzz: planes through the middles are parallel.

    Parameters
    ----------
    known : Relaxation
        A relaxation with at least one layer.
    rows : ndarray, shape (N, n_L)
    errors : ndarray, shape (N, n_L), optional
        Bounds of the errors of the rows.
    weights : ndarray, shape (N, n_L), optional
        By default zeros.
    """
    context, layers = known.context, known.layers
    unit, b = context.unit, rows
    a = np.zeros_like(rows) if weights is None else weights
    last = layers[-1]
    constant, fuzz = np.zeros(len(rows)), np.zeros(len(rows))
    fuzz = fuzz + rounding_of(context.stages[-1], last, errors)
    gaps: list[tuple[FloatArray, FloatArray]] = []
    worst = _worst(known, rows, weights)
    form: QuadraticOnCube | None = None
    for stage, layer in zip(reversed(context.stages), reversed(layers), strict=True):
        products = None
        if stage.products is not None:
            n = stage.products.units
            products = factored(stage, layer, a[:, n:], b[:, n:], worst, known.inputs, unit)
            a, b, some = a[:, :n], b[:, :n], layer.units(n)
        else:
            some = layer
        first = context.curved and layer is layers[0]
        curves = curves_of(context, layer, known.inputs) if first else None
        if curves is not None:
            form = curves.above(a, b)
            size = np.abs(constant) + np.abs(form.constant) + fuzz
            form = form.raised(constant + fuzz + 8.0 * unit * size)
        own_lines = layer is last and weights is None  # a = 0: its lines are computed already
        there = at(some.pre, *worst), at(some.pre_tangent, *worst)
        s, rate, above, off, gap = of_units(stage, some, (a, b), there, own_lines, unit)
        constant += above
        fuzz += off
        slopes = b * rate
        if products is not None:
            s, slopes, gap = products.joined(stage, s, slopes, gap)
            constant += products.constant
            fuzz += products.fuzz
        gaps.append(gap)
        a, b = s @ stage.branch_weight, slopes @ stage.branch_along
    fuzz = fuzz * (1.0 + unit)
    return Above(a, b, constant + fuzz, fuzz, gaps[::-1], form)


def rounding_of(stage: Stage, layer: Relaxed, errors: FloatArray | None) -> FloatArray:
    """Bound the effect of errors (N, n_L) of the rows after the last layer, shape (N,) or (1,)."""
    if errors is None:
        return np.zeros(1)
    largest = np.abs(layer.rate) + layer.rate_radius
    largest = largest * stage.own(np.abs(layer.tangent) + layer.tangent_radius)
    return np.asarray((errors * stage.sums(largest)).sum(axis=1))


def of_units(
    stage: Stage,
    layer: Relaxed,
    factors: tuple[FloatArray, FloatArray],
    there: tuple[FloatArray, FloatArray],
    own_lines: bool,
    unit: float,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, tuple[FloatArray, FloatArray]]:
    """Planes above ``a . h + b . t`` of a layer's units, for `factors` a and b.

    Return their slopes in z and in b u, constants, rounding errors, and gaps.  `there` has z and u
    where the objective is estimated to be largest.
    """
    a, b = factors
    ur, rr, size = layer.tangent_radius, layer.rate_radius, np.abs(b)
    side = _side(layer, b, there)
    c, rate = b * (layer.tangent - side * ur), layer.rate + side * np.sign(b) * rr
    low = np.minimum(layer.low, layer.high)
    if own_lines:
        bend, middle, radius = layer.bend
        s, middle, radius = c * bend, c * middle, np.abs(c) * radius
        under, over = middle - radius, middle + radius
    else:
        s, under, over = stage.each("lines", a, c, low, layer.high)
    above, most = over - c * rate, np.maximum(np.abs(under), np.abs(over))
    d = b * (layer.tangent + side * ur)
    many = (ur > 2.0 * unit * layer.pace).any(axis=1)  # otherwise u is known up to rounding
    many &= np.isfinite(d).all(axis=1) & np.isfinite(s).all(axis=1)
    if many.any():
        whole = np.broadcast_arrays(a, d, low, layer.high, s, layer.rate, rr)
        *some, middle, radius = (array[many] for array in whole)
        other = stage.each("lines", *some)[2]
        ends = one, last = (c[many], over[many]), (d[many], other)
        change, start = last[0] - one[0], middle.copy()  # planes touch the lines at both ends
        found = np.divide(last[1] - one[1], change, out=start, where=change != 0.0)
        found = np.where(np.isfinite(found), found, middle)
        rate[many] = np.clip(found, middle - radius, middle + radius)  # within sigma's slopes
        above[many] = np.maximum(*(end - g * rate[many] for g, end in ends))
        most[many] = np.maximum(most[many], np.abs(other))
    off = unit * (
        2.0 * most
        + np.abs(s) * layer.reach
        + size * (np.abs(rate) + 2.0 * (np.abs(layer.rate) + rr)) * (layer.pace + 4.0 * ur)
    ).sum(axis=1)
    rounds = size * rr * ur
    constant = (above + s * stage.units_of(stage.bias)).sum(axis=1)
    return s, rate, constant, off, (over - under + rounds, rounds)


def _worst(
    known: Relaxation, rows: FloatArray, weights: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Maximisers over the boxes of the objective with every unit replaced by its chord."""
    a, b = np.zeros_like(rows), rows
    if weights is not None and known.context.structure.multiplies:
        a = weights
    for stage, layer in zip(reversed(known.context.stages), reversed(known.layers), strict=True):
        a, b = stage.spread(a), stage.spread(b)
        s = b * stage.other(layer.tangent) * layer.bend[0]
        if layer.value is not None:
            s += a * layer.value[0]
        a, b = s @ stage.branch_weight, (b * layer.rate) @ stage.branch_along
    x, v, _ = known.inputs
    return x.middle + np.sign(a) * x.radius, v.middle + np.sign(b) * v.radius


def _side(layer: Relaxed, b: FloatArray, there: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Return the end of u, -1 or 1, whose plane is lower where z and u are `there`, by unit."""
    bend, centre, _ = layer.bend
    p = (bend * there[0] + centre - layer.rate) * np.sign(b)
    q = there[1] - layer.tangent
    return np.where(p * layer.tangent_radius < q * layer.rate_radius, -1.0, 1.0)
