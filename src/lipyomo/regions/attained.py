"""Witnesses of networks with smooth units: the norm of the Jacobian at a point, in ball arithmetic.

The supremum over X is not less than the norm at any point of X near which its
Jacobian is continuous: so a point counts, on the boundary of X as well, if every unit whose slope
has jumps is proved not to be at one.  Units that depend on inputs which cannot move do not matter.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from flint import arb, arb_mat, ctx

from lipyomo.activations import Activation, TwoSlope
from lipyomo.arrays import BoolArray, FloatArray
from lipyomo.domains import Domain
from lipyomo.numerics.exact import exact
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Witness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lipyomo.network import Layer

PRECISION = 128
"""Bits of ball arithmetic: far more than float64 numbers have, so that ends do not lose any."""


def smooth_witness(problem: LipschitzProblem, point: FloatArray) -> Witness | None:
    """A witness at a point of the domain, whose frozen inputs have their values.

    Parameters
    ----------
    problem : LipschitzProblem
    point : ndarray, shape (d,)

    Returns
    -------
    Witness or None
        None if the point is not in the domain, or a unit may be where its slope jumps.
    """
    if not np.isfinite(point).all() or not holds(problem.domain, point):
        return None
    found = problem.value_at(point)
    before = ctx.prec
    ctx.prec = PRECISION
    try:
        at = _rates(problem, point)
        if at is None:
            return None
        slopes, pattern = at
        gradient = _gradient(problem, slopes, found.functional)
        value = _size(gradient, problem.input_norm)
        if problem.output_norm.dual_ball == "round":
            value = value / _size([arb(y) for y in found.functional.tolist()], "l2")
        excess = problem.output_norm.excess
        if excess:
            value = value * (1 - arb(excess))
        least = _below(value)
    finally:
        ctx.prec = before
    return Witness(point, found.direction, found.functional, tuple(pattern), 0.0, least)


def smooth_derivatives(
    problem: LipschitzProblem, point: FloatArray, rows: FloatArray
) -> list[list[arb]] | None:
    """Gradients of functionals (p, m) at a point in a problem's directions, or inputs that move.

    None where `smooth_witness` has none.
    """
    if not np.isfinite(point).all() or not holds(problem.domain, point):
        return None
    before = ctx.prec
    ctx.prec = PRECISION
    try:
        at = _rates(problem, point)
        return None if at is None else [_gradient(problem, at[0], row) for row in rows]
    finally:
        ctx.prec = before


def _rates(
    problem: LipschitzProblem, point: FloatArray
) -> tuple[list[list[arb]], list[BoolArray]] | None:
    """Slopes of all units at a point, and the signs of what they are applied to."""
    h = arb_mat([[arb(value)] for value in point.tolist()])
    slopes: list[list[arb]] = []
    pattern = []
    moving = ~problem.domain.frozen | problem.at_fixed
    for layer in problem.network.hidden:
        z = matrix_of(layer) * h + bias_of(layer)
        moving = np.asarray(layer.sizes @ moving.astype(np.float64)) > 0
        values = _units(layer, [z[k, 0] for k in range(layer.units)], moving)
        if values is None:
            return None
        h = arb_mat([[value] for value, _ in values])
        slopes.append([slope for _, slope in values])
        pattern.append(np.array([bool(z[k, 0] > 0) for k in range(layer.units)]))
    return slopes, pattern


def _gradient(
    problem: LipschitzProblem, slopes: Sequence[Sequence[arb]], functional: FloatArray
) -> list[arb]:
    """The gradient of a functional where units have these slopes."""
    network = problem.network
    row = arb_mat([[arb(y) for y in functional.tolist()]]) * matrix_of(network.head)
    for layer, slope in zip(reversed(network.hidden), reversed(slopes), strict=True):
        row = arb_mat([[row[0, k] * s for k, s in enumerate(slope)]]) * matrix_of(layer)
    return _along(row, problem)


def holds(domain: Domain, point: FloatArray) -> bool:
    """Whether the domain holds the point, boundary included, without rounding."""
    if ((point < domain.lower) | (point > domain.upper)).any():
        return False
    entries = [exact(x) for x in point.tolist()]
    rows = domain.rows
    for k in range(rows.count):
        own = slice(rows.A.indptr[k], rows.A.indptr[k + 1])
        pairs = zip(rows.A.indices[own].tolist(), rows.A.data[own].tolist(), strict=True)
        if sum((exact(a) * entries[j] for j, a in pairs), exact(0.0)) > exact(float(rows.b[k])):
            return False
    ball = domain.ball
    if ball is None:
        return True
    away = [x - exact(c) for x, c in zip(entries, ball.point.tolist(), strict=True)]
    radius = exact(ball.radius)
    if ball.norm == "l1":
        return bool(sum((abs(a) for a in away), exact(0.0)) <= radius)
    return bool(sum((a * a for a in away), exact(0.0)) <= radius * radius)


def _units(layer: Layer, z: Sequence[arb], moving: BoolArray) -> list[tuple[arb, arb]] | None:
    """Values and slopes of a layer's units; None if one that moves may be at a break."""
    found = []
    for (kind, at), moves in zip(units_at(layer, z), moving.tolist(), strict=True):
        breaks = [place for place, jumps in zip(kind.breaks, kind.jumps, strict=True) if jumps]
        if moves and any((at - arb(place)).contains(0) for place in breaks):
            return None
        found.append(kind.exact(at))
    return found


def units_at(layer: Layer, z: Sequence[arb]) -> list[tuple[Activation, arb]]:
    """The activation of each unit of a layer, with its pre-activation."""
    kinds: list[Activation] = [
        TwoSlope(left, right)
        for left, right in zip(layer.left.tolist(), layer.right.tolist(), strict=True)
    ]
    for curve in layer.curves:
        for k in curve.units.tolist():
            kinds[k] = curve.activation
    return list(zip(kinds, z, strict=True))


def _size(entries: Sequence[arb], input_norm: str) -> arb:
    """The norm of a gradient in the dual of an input norm."""
    if input_norm == "l2":
        return sum((entry * entry for entry in entries), arb(0)).sqrt()
    sizes = [abs(entry) for entry in entries]
    if input_norm == "linf":
        return sum(sizes, arb(0))
    return max(sizes, key=lambda size: float(size.mid()))


def _along(row: arb_mat, problem: LipschitzProblem) -> list[arb]:
    """A gradient in the inputs that can move, or in a problem's directions."""
    if problem.directions is None:
        return [row[0, j] for j in np.flatnonzero(~problem.domain.frozen).tolist()]
    columns = sp.csc_array(problem.directions)
    found = []
    for start, end in pairwise(columns.indptr.tolist()):
        pairs = zip(columns.indices[start:end].tolist(), columns.data[start:end], strict=True)
        found.append(sum((row[0, i] * arb(float(entry)) for i, entry in pairs), arb(0)))
    return found


def _below(value: arb) -> float:
    """A float64 number that is not above a ball, and not below zero."""
    least = float(value.lower())
    while least > 0 and not value >= arb(least):
        least = float(np.nextafter(least, 0.0))
    return max(least, 0.0) if np.isfinite(least) else 0.0


_WEIGHTS: WeakKeyDictionary[Layer, arb_mat] = WeakKeyDictionary()


def matrix_of(layer: Layer) -> arb_mat:
    """The (remembered) weight of a layer, shape (n, k): a search asks at point after point."""
    found = _WEIGHTS.get(layer)
    if found is None:
        found = arb_mat(layer.units, layer.inputs, layer.dense_weight.reshape(-1).tolist())
        _WEIGHTS[layer] = found
    return found


def bias_of(layer: Layer) -> arb_mat:
    """The bias of a layer, a column."""
    return arb_mat([[value] for value in layer.bias.tolist()])
