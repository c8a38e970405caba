"""The maximum of an affine function over a box and half-spaces together, by Lagrange multipliers.

For multipliers m >= 0 of rows ``g . x <= h`` that hold on the part of the box that counts,

    max a . x <= max over the box of (a - sum m g) . x + m . h.

Any multipliers are sound.  They are chosen one after another: the row that the present maximiser
violates most gets the multiplier that is best with the others as they are, which is a fractional
knapsack.  Rows are those of a polytope, the phases of units (with z as an affine function of x),
and tangents of a ball at the maximiser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lipyomo.arrays import FloatArray, IntArray
from lipyomo.numerics.rounding import EQUAL
from lipyomo.search.smooth.boxes import Boxes
from lipyomo.search.smooth.collapse import Above
from lipyomo.search.smooth.context import Context, Stage
from lipyomo.search.smooth.inputs import Signal, best_multiplier
from lipyomo.search.smooth.relax import Affine, Relaxed


class HalfSpace(NamedTuple):
    """A row ``g . x <= h`` for each of N boxes, and how far the maximisers violate it.

    The violation is a share of the row's range over the box.
    """

    g: FloatArray
    h: FloatArray
    violation: FloatArray


Source = Callable[[FloatArray], HalfSpace]
"""From the maximisers (N, d) to the row of its kind that they violate most."""


@dataclass(frozen=True, eq=False)
class Confined:
    """Maxima of affine functions over boxes and half-spaces.

    Attributes
    ----------
    top : ndarray, shape (N,)
        Not below them; minus infinity where nothing is left.
    x : ndarray, shape (N, d)
        Coefficients of an affine function that is not below the given one where it counts, and
        whose maximum over the box is `top`.
    fuzz : ndarray, shape (N,)
        What of it pays for rounding.
    """

    top: FloatArray
    x: FloatArray
    fuzz: FloatArray


def confined(
    context: Context,
    boxes: Boxes,
    layers: Sequence[Relaxed],
    above: Above,
    directions: tuple[FloatArray, FloatArray],
    cutoffs: FloatArray,
) -> Confined:
    """Bounds of the objective on boxes, and over the directions between two ends (N, d).

    Only bounds above the `cutoffs` (N,) are worth any multipliers.
    """
    unit, middle = context.unit, boxes.middle
    radius = np.maximum(boxes.high - middle, middle - boxes.low) * (1.0 + unit)
    x = Signal(middle, radius, np.abs(middle) + radius)
    v_middle = 0.5 * (directions[0] + directions[1])
    v_radius = np.maximum(directions[1] - v_middle, v_middle - directions[0]) * (1.0 + unit)
    constant = above.constant + (above.v * v_middle + np.abs(above.v) * v_radius).sum(axis=1)
    rounding = np.abs(above.constant) + np.abs(constant)
    rounding += (np.abs(above.v) * (np.abs(v_middle) + v_radius)).sum(axis=1)
    found = _over_box(above.x, constant, unit * rounding, x, unit)
    for layer in layers:
        found.top[layer.empty] = -np.inf
    outside = _outside(context, boxes)
    found.top[outside] = -np.inf
    which = np.flatnonzero(found.top > cutoffs)
    sources = _sources(context, boxes.take(which), layers, x, which) if which.size else []
    if not sources:
        return replace(found, fuzz=found.fuzz + above.fuzz)
    some = Signal(x.middle[which], x.radius[which], x.size[which])
    better = _ascended(context, found.x[which], constant[which], rounding[which], some, sources)
    gains = better.top < found.top[which]
    for name in ("top", "x", "fuzz"):
        ours, theirs = getattr(found, name), getattr(better, name)
        ours[which[gains]] = theirs[gains]
    return replace(found, fuzz=found.fuzz + above.fuzz)


def _over_box(
    a: FloatArray, constant: FloatArray, rounding: FloatArray, x: Signal, unit: float
) -> Confined:
    """``a . x + constant`` over boxes, where `rounding` and that of this sum are to be paid for."""
    fuzz = rounding + unit * ((np.abs(a) * x.size).sum(axis=1) + np.abs(constant))
    top = constant + (a * x.middle + np.abs(a) * x.radius).sum(axis=1) + fuzz * (1.0 + unit)
    return Confined(np.where(np.isnan(top), np.inf, top), a.copy(), fuzz)  # overflow says nothing


def _ascended(
    context: Context,
    a: FloatArray,
    constant: FloatArray,
    rounding: FloatArray,
    x: Signal,
    sources: Sequence[Source],
) -> Confined:
    """The same with multipliers of rows, one row after another."""
    unit, empty = context.unit, np.zeros(len(a), dtype=bool)
    rounding = unit * rounding
    for _ in range(context.params.confine_steps):
        worst = np.where(a > 0, x.middle + x.radius, x.middle - x.radius)
        worst = np.where(a == 0, x.middle, worst)
        g, h, violation = sources[0](worst)
        for source in sources[1:]:
            other = source(worst)
            more = other.violation > violation
            g = np.where(more[:, None], other.g, g)
            h, violation = np.where(more, other.h, h), np.maximum(violation, other.violation)
        if not (violation > EQUAL).any():
            break
        size = (np.abs(g) * x.size).sum(axis=1)
        least = (g * x.middle - np.abs(g) * x.radius).sum(axis=1)
        # rows that are not violated may stand for phases that a box does not have
        empty |= (violation > 0) & (least - unit * (size + np.abs(h)) > h)
        m = np.where(violation > EQUAL, best_multiplier(a, g, h, x), 0.0)
        rounding += unit * ((np.abs(a) * x.size).sum(axis=1) + m * (size + np.abs(h)))
        constant = constant + m * h
        rounding += unit * np.abs(constant)
        a = a - m[:, None] * g
    found = _over_box(a, constant, rounding, x, unit)
    return replace(found, top=np.where(empty, -np.inf, found.top))


# -- where rows come from --------------------------------------------------------------------------


def _sources(
    context: Context, boxes: Boxes, layers: Sequence[Relaxed], x: Signal, which: IntArray
) -> list[Source]:
    """The kinds of rows that some of the boxes have."""
    middle, radius = x.middle[which], x.radius[which]
    found: list[Source] = []
    rows = context.domain.rows
    if rows.count:
        found.append(_polytope(context, radius))
    if context.domain.ball is not None:
        found.append(_tangents(context, radius))
    for stage, layer in zip(context.stages, layers, strict=True):
        if not stage.broken.size:
            continue
        floor, ceiling = boxes.floor[:, stage.phases], boxes.ceiling[:, stage.phases]
        some = np.flatnonzero((np.isfinite(floor) | np.isfinite(ceiling)).any(axis=0))
        if some.size:
            ends = floor[:, some], ceiling[:, some]
            affine = _of_units(layer.pre, stage, some, which)
            found.append(_phases(context, affine, ends, (middle, radius)))
    return found


def _of_units(affine: Affine, stage: Stage, some: IntArray, which: IntArray) -> Affine:
    """Pre-activations of some of a layer's units with phases, on some boxes."""
    units = stage.broken[some]
    rows = affine.x[:, units] if affine.x.shape[0] == 1 else affine.x[np.ix_(which, units)]
    place = np.ix_(which, units)
    return Affine(rows, None, affine.constant[place], affine.radius[place])


def _worst_of(g: FloatArray, h: FloatArray, excess: FloatArray, radius: FloatArray) -> HalfSpace:
    """The row (N, R, d) that is violated most, by its share of the range."""
    span = np.matmul(np.abs(g), 2.0 * radius[:, :, None])[:, :, 0]
    share = np.divide(excess, span, out=np.zeros_like(excess), where=span > 0)
    best, number = share.argmax(axis=1), np.arange(len(share))
    rows = g[number, best] if g.shape[0] == len(share) else g[0, best]
    return HalfSpace(rows, h[number, best], share[number, best])


def _polytope(context: Context, radius: FloatArray) -> Source:
    """The rows of the domain."""
    rows = context.domain.rows
    g, b = rows.A.toarray()[None], rows.b

    def worst(points: FloatArray) -> HalfSpace:
        h = np.broadcast_to(b, (len(points), b.size))
        return _worst_of(g, h, points @ g[0].T - b, radius)

    return worst


def _tangents(context: Context, radius: FloatArray) -> Source:
    """Tangents of the domain's ball: ``g . (x - p) <= radius |g|`` in the dual norm, for any g."""
    ball = context.domain.ball
    assert ball is not None

    def worst(points: FloatArray) -> HalfSpace:
        gap = points - ball.point
        g = gap if ball.norm == "l2" else np.where(gap >= 0, 1.0, -1.0)
        top = np.abs(g).max(axis=1, keepdims=True)
        g = g / np.where(top > 0, top, 1.0)
        reach = ball.radius * ball.sizes(g)
        h = g @ ball.point + reach
        h += context.unit * (np.abs(g) @ np.abs(ball.point) + 2.0 * reach)
        span = 2.0 * (np.abs(g) * radius).sum(axis=1)
        excess = (g * points).sum(axis=1) - h
        return HalfSpace(g, h, np.divide(excess, span, out=0.0 * span, where=span > 0))

    return worst


def _phases(
    context: Context,
    affine: Affine,
    ends: tuple[FloatArray, FloatArray],
    box: tuple[FloatArray, FloatArray],
) -> Source:
    """Phases of units whose pre-activations are ``x . rows + constant +- radius``."""
    floor, ceiling = (np.where(np.isfinite(end), end, 0.0) for end in ends)
    held = [np.isfinite(end) for end in ends]
    room = affine.radius * (1.0 + context.unit)
    room = room + context.unit * (np.abs(affine.constant) + np.abs(floor) + np.abs(ceiling))
    under, over = affine.constant - floor + room, ceiling - affine.constant + room
    rows = affine.x
    span = np.matmul(np.abs(rows), 2.0 * box[1][:, :, None])[:, :, 0]

    def worst(points: FloatArray) -> HalfSpace:
        z = np.matmul(rows, points[:, :, None])[:, :, 0]
        excess = np.concatenate(
            [np.where(held[0], -z - under, -1.0), np.where(held[1], z - over, -1.0)], axis=1
        )
        spans = np.concatenate([span, span], axis=1)
        share = np.divide(excess, spans, out=np.zeros_like(excess), where=spans > 0)
        best, number = share.argmax(axis=1), np.arange(len(share))
        unit, is_over = best % z.shape[1], best >= z.shape[1]
        row = rows[number, unit] if len(rows) == len(share) else rows[0, unit]
        g = np.where(is_over[:, None], row, -row)
        h = np.where(is_over, over[number, unit], under[number, unit])
        return HalfSpace(g, h, share[number, best])

    return worst


def _outside(context: Context, boxes: Boxes) -> FloatArray:
    """Boxes that one of the domain's rows, or its ball, does not meet."""
    ball, rows = context.domain.ball, context.domain.rows
    if ball is None:
        if not rows.count:
            return np.zeros(len(boxes), dtype=bool)
        A, size = rows.A.toarray(), np.maximum(np.abs(boxes.low), np.abs(boxes.high))
        least = boxes.low @ np.maximum(A, 0.0).T + boxes.high @ np.minimum(A, 0.0).T
        room = context.unit * (size @ np.abs(A).T + np.abs(rows.b))
        return np.asarray((least - room > rows.b).any(axis=1))
    away = np.maximum(np.maximum(boxes.low - ball.point, ball.point - boxes.high), 0.0)
    size = np.abs(away).sum(axis=1) if ball.norm == "l1" else np.sqrt((away * away).sum(axis=1))
    return np.asarray(size * (1.0 - 2.0 * context.unit) > ball.radius)
