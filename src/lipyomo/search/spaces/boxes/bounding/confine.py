"""Maxima of affine functions over intersections of boxes and half-spaces, by Lagrange multipliers.

For multipliers m >= 0 of rows ``g . x <= h`` that hold on the relevant part of the box,

    max a . x <= max over the box of (a - sum m g) . x + m . h.

Any multipliers are sound.  Those of a polytope's rows and of phases (with z as an affine function
of x) are optimised jointly, as below.  Tangents of a ball at the maximiser are added one
after another, each with the best multiplier given the others, which is a fractional knapsack.

The multipliers of many small programs are found at a time.  For ``max a . x`` over ``|x_i| <= 1``
and rows ``G x <= h`` any y >= 0 gives the bound

    sum_i |a - y G|_i + y . h,

and the smallest one is the maximum.  Steps of an interior-point method
(`base/numerics/interior.py`) approach it.  If no x satisfies all rows, y grows along a ray on which
the bound decreases without limit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.interior import Stacked, combined
from lipyomo.base.numerics.rounding import EQUAL, UNIT, gamma
from lipyomo.problems.domains.base import RoundPart
from lipyomo.relaxations.linear.balls import outside
from lipyomo.search.spaces.boxes.bounding.above import Above
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.relaxing.inputs import Affine, Signal, best_multiplier, times
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxation
from lipyomo.search.spaces.boxes.structure.stage import Stage

STEPS = int(np.ceil(-np.log10(EQUAL)))
"""The largest number of steps: each gains about a digit."""


class Programs(NamedTuple):
    """N programs ``max a . x`` over ``|x_i| <= 1`` and ``G x <= h``, scaled to numbers near one.

    Shapes are (N, d), (N, K, d) and (N, K).
    """

    a: FloatArray
    G: FloatArray
    h: FloatArray


@np.errstate(all="ignore")  # an overflow gives no bound
def best_multipliers(
    programs: Programs, aims: FloatArray, steps: int = STEPS
) -> tuple[FloatArray, FloatArray]:
    """Find multipliers whose bounds are near the smallest ones, or at most `aims` (N,).

    Returns
    -------
    multipliers : ndarray, shape (N, K)
    points : ndarray, shape (N, d)
        Near the maximisers, if some x satisfies all rows.
    """
    count, rows, d = programs.G.shape
    found, points = np.zeros((count, rows)), np.zeros((count, d))
    least, place = np.abs(programs.a).sum(axis=1), np.arange(count)
    now = _start(programs)
    for step in range(steps + 1):
        y = now.of_rows
        bounds = np.abs(now.a - combined(now.G, y)).sum(axis=1) + (y * now.h[:, :rows]).sum(axis=1)
        better = bounds < least[place]
        least[place[better]], found[place[better]] = bounds[better], y[better]
        points[place] = now.at
        more = (bounds > aims[place]) & np.isfinite(bounds)
        if step == steps or not more.any():
            break
        if not more.all():
            place, now = place[more], now.take(more)
        try:
            now = now.stepped()
        except np.linalg.LinAlgError:
            break
    return found, points


def _start(programs: Programs) -> Stacked:
    """Return the start: the middle of the box, with equal multipliers."""
    (a, G, h), (count, rows, d) = programs, programs.G.shape
    y = np.full((count, rows), 1.0 / (d * rows))
    rest = a - combined(G, y)
    ends = np.maximum(np.concatenate([rest, -rest], axis=1), 0.0) + 1.0 / d
    ones = np.ones_like(ends)
    slack = np.concatenate([np.maximum(h, 1.0), ones], axis=1)
    weights = np.concatenate([y, ends], axis=1)
    return Stacked(a, G, np.concatenate([h, ones], axis=1), np.zeros((count, d)), slack, weights)


class HalfSpaces(NamedTuple):
    """Rows ``g . x <= h`` of N boxes, shapes (N, K, d) and (N, K)."""

    g: FloatArray
    h: FloatArray

    def take(self, which: IntArray) -> HalfSpaces:
        """Select the rows of some boxes."""
        return HalfSpaces(self.g[which], self.h[which])


class Summed(NamedTuple):
    """Functions ``a . x + constant`` of N boxes, with bounds of their rounding errors."""

    a: FloatArray
    constant: FloatArray
    rounding: FloatArray

    def take(self, which: IntArray) -> Summed:
        """Select the functions of some boxes."""
        return Summed(*(array[which] for array in self))


class ConfinedMaxima(NamedTuple):
    """Upper bounds of affine functions over intersections of boxes and half-spaces.

    Attributes
    ----------
    top : ndarray, shape (N,)
        The bounds; minus infinity for empty intersections.
    x : ndarray, shape (N, d)
        Coefficients of an affine function that bounds the given one from above on the
        intersection, and whose maximum over the box is `top`.
    fuzz : ndarray, shape (N,)
        The part of `top` that covers rounding errors and that no better multipliers would save.
    points : ndarray, shape (N, d)
        Points of the box near the maximisers if half-spaces matter; NaN otherwise.
    low, high : ndarray, shape (N, d)
        A box around the part that lies in the half-spaces and may exceed the cutoff; if it is not
        the whole box, `top` is not below the cutoff.
    """

    top: FloatArray
    x: FloatArray
    fuzz: FloatArray
    points: FloatArray
    low: FloatArray
    high: FloatArray

    def lowered(self, which: IntArray, other: ConfinedMaxima) -> ConfinedMaxima:
        """Replace the results of some boxes by those of `other` where its bounds are lower."""
        gains = np.flatnonzero(other.top < self.top[which])
        found = [array.copy() for array in self]
        for array, better in zip(found, other, strict=True):
            array[which[gains]] = better[gains]
        return ConfinedMaxima(*found)


def confined_bounds(
    known: Relaxation,
    above: Above,
    cutoffs: FloatArray,
) -> ConfinedMaxima:
    """Bound the objective on boxes, over their inputs and directions.

    Half-spaces are only used for boxes with bounds above the `cutoffs` (N,).
    """
    context, boxes, (x, v, _) = known.context, known.boxes, known.inputs
    unit = context.unit
    constant = above.constant + (above.v * v.middle + np.abs(above.v) * v.radius).sum(axis=1)
    rounding = np.abs(above.constant) + np.abs(constant)
    rounding += (np.abs(above.v) * v.size).sum(axis=1)
    summed = Summed(above.x, constant, unit * rounding)
    top, fuzz = _over_box(summed, x, unit)
    top[known.empty] = -np.inf
    if not context.domain.is_box:
        top[outside(context.domain, boxes.low, boxes.high, unit)] = -np.inf
    ends = boxes.low.copy(), boxes.high.copy()
    found = ConfinedMaxima(top, above.x.copy(), fuzz, np.full_like(x.middle, np.nan), *ends)
    half_spaces = bool(context.structure.breaks) or not context.domain.is_box
    which = np.flatnonzero((top > cutoffs) & half_spaces)
    if which.size:
        own_boxes = boxes.take(which)
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow gives no bound
            own = x.take(which)
            rows = _rows(known, own_boxes, own, which)
            better = _within(context, own_boxes, own, rows, summed.take(which), cutoffs[which])
        found = found.lowered(which, better)
    less = (found.low > known.boxes.low) | (found.high < known.boxes.high)
    some = less.any(axis=1) & ~known.empty
    top = np.where(some, np.maximum(found.top, cutoffs), found.top)  # it may be so high elsewhere
    return found._replace(top=top, fuzz=found.fuzz + above.fuzz)


def _over_box(summed: Summed, x: Signal, unit: float) -> tuple[FloatArray, FloatArray]:
    """Maxima over boxes, and the part of them that covers rounding, also that of these sums."""
    a, constant, rounding = summed
    fuzz = rounding + unit * ((np.abs(a) * x.size).sum(axis=1) + np.abs(constant))
    top = constant + (a * x.middle + np.abs(a) * x.radius).sum(axis=1) + fuzz * (1.0 + unit)
    return np.where(np.isnan(top), np.inf, top), fuzz  # an overflow gives no bound


def _within(
    context: BoxContext,
    boxes: Boxes,
    x: Signal,
    rows: HalfSpaces,
    summed: Summed,
    cutoffs: FloatArray,
) -> ConfinedMaxima:
    """Maxima over the intersections of boxes, half-spaces and the domain's ball."""
    unit, some, points = context.unit, summed, np.full_like(x.middle, np.nan)
    if rows.h.shape[1]:
        some, points = _with_rows(rows, summed, x, cutoffs)
    if context.domain.ball is not None:
        some = _with_tangents(context, context.domain.ball, some, x)
    top, fuzz = _over_box(some, x, unit)
    low, high = boxes.low.copy(), boxes.high.copy()
    left = np.flatnonzero((top > cutoffs) & (rows.g != 0).any(axis=(1, 2)))
    if left.size and context.inputs < context.params.wide:
        own = x.take(left)
        beating = _beating(summed.take(left), own, cutoffs[left], unit)
        both = zip(rows.take(left), beating, strict=True)
        ends = _ends(HalfSpaces(*(np.concatenate(pair, axis=1) for pair in both)), own)
        low[left], high[left] = np.maximum(low[left], ends[0]), np.minimum(high[left], ends[1])
        none = (low > high).any(axis=1)
        low[none], high[none] = boxes.low[none], boxes.high[none]
        top, fuzz = _over_box(some, Signal.between(low, high, unit), unit)
        top[none] = cutoffs[none]
    # diverging multipliers, as for an empty intersection, do not affect the rounding of the box
    fuzz = np.minimum(fuzz, 2.0 * _over_box(summed, x, unit)[1])
    return ConfinedMaxima(top, some.a, fuzz, points, low, high)


def _programs(objectives: FloatArray, rows: HalfSpaces, x: Signal) -> tuple[Programs, FloatArray]:
    """Scale to linear programs over [-1, 1]^d; also return the scales of the rows."""
    (g, h), turned = rows, rows.g * x.radius[:, None]
    spans = np.abs(turned).sum(axis=2)
    spans = np.where(spans > 0, spans, 1.0)
    middle = times(g, x.middle)
    return Programs(objectives, turned / spans[:, :, None], (h - middle) / spans), spans


def _with_rows(
    rows: HalfSpaces, summed: Summed, x: Signal, cutoffs: FloatArray
) -> tuple[Summed, FloatArray]:
    """Subtract multiples of rows from the functions; also return points near the maximisers.

    The subtracted ``m (g . x - h)`` is not positive where a row holds.
    """
    (a, constant, rounding), (g, h) = summed, rows
    turned, middle = a * x.radius, (a * x.middle).sum(axis=1)
    scale = np.abs(turned).sum(axis=1)
    scale = np.where(scale > 0, scale, 1.0)
    programs, spans = _programs(turned / scale[:, None], rows, x)
    aims = (cutoffs - constant - middle) / scale - EQUAL
    y, points = best_multipliers(programs, aims)
    m = (y * scale[:, None] / spans)[:, :, None]
    size = np.abs(constant) + ((np.abs(a) + (m * np.abs(g)).sum(axis=1)) * x.size).sum(axis=1)
    size += (m[:, :, 0] * np.abs(h)).sum(axis=1)
    rounding = rounding + gamma(2 * h.shape[1] + a.shape[1] + 8) * size
    less = Summed(a - (m * g).sum(axis=1), constant + (m[:, :, 0] * h).sum(axis=1), rounding)
    return less, np.clip(x.middle + x.radius * points, x.middle - x.radius, x.middle + x.radius)


def _beating(summed: Summed, x: Signal, cutoffs: FloatArray, unit: float) -> HalfSpaces:
    """Return a row ``-a . x <= constant - cutoff`` for each box: where functions exceed cutoffs."""
    fuzz = _over_box(summed, x, unit)[1]
    room = summed.constant - cutoffs
    room = room + 2.0 * fuzz + 4.0 * UNIT * (np.abs(summed.constant) + np.abs(cutoffs))
    some = np.isfinite(room)
    return HalfSpaces(
        np.where(some[:, None], -summed.a, 0.0)[:, None], np.where(some, room, 1.0)[:, None]
    )


def _ends(rows: HalfSpaces, x: Signal) -> tuple[FloatArray, FloatArray]:
    """Bounding boxes of the parts of boxes in which all rows hold.

    Rounding errors of the scaled programs are relative to their numbers, except for h minus its
    value at the middle, whose error is relative to these two.  Half of the digits are enough, as
    children are shrunk again.
    """
    (g, h), (count, d) = rows, x.middle.shape
    objectives = np.tile(np.concatenate([np.eye(d), -np.eye(d)]), (count, 1))
    each = np.repeat(np.arange(count), 2 * d)
    (_, G, H), spans = _programs(objectives, rows, x)
    sizes = 1.0 + (np.abs(h) + times(np.abs(g), x.size)) / spans
    G, H = G[each], H[each]
    y, _ = best_multipliers(Programs(objectives, G, H), np.full(len(each), -1.0), STEPS // 2)
    ends = np.abs(objectives - (y[:, :, None] * G).sum(axis=1)).sum(axis=1) + (y * H).sum(axis=1)
    ends += gamma(4 * h.shape[1] + 4 * d + 32) * (1.0 + (y * sizes[each]).sum(axis=1))
    ends = np.where(ends < 1.0, ends, 1.0).reshape(count, 2, d)
    room = 4.0 * UNIT * x.size
    return x.middle - x.radius * ends[:, 1] - room, x.middle + x.radius * ends[:, 0] + room


def _with_tangents(context: BoxContext, ball: RoundPart, summed: Summed, x: Signal) -> Summed:
    """Subtract multiples of a ball's tangents ``g . (x - p) <= radius |g|``, with the dual norm."""
    unit, (a, constant, rounding) = context.unit, summed
    for _ in range(context.params.tangents):
        worst = np.where(a > 0, x.middle + x.radius, x.middle - x.radius)
        worst = np.where(a == 0, x.middle, worst)
        gap = worst - ball.point
        g = gap if ball.norm == "l2" else np.where(gap >= 0, 1.0, -1.0)
        top = np.abs(g).max(axis=1, keepdims=True)
        g = g / np.where(top > 0, top, 1.0)
        reach = ball.radius * ball.sizes(g)
        h = g @ ball.point + reach
        h += unit * (np.abs(g) @ np.abs(ball.point) + 2.0 * reach)
        out = (g * worst).sum(axis=1) - h > 2.0 * EQUAL * (np.abs(g) * x.radius).sum(axis=1)
        if not out.any():
            break
        m = np.where(out, best_multiplier(a, g, h, x), 0.0)
        size = (np.abs(g) * x.size).sum(axis=1) + np.abs(h)
        rounding = rounding + unit * ((np.abs(a) * x.size).sum(axis=1) + m * size)
        constant = constant + m * h
        rounding = rounding + unit * np.abs(constant)
        a = a - m[:, None] * g
    return Summed(a, constant, rounding)


# -- where rows come from --------------------------------------------------------------------------


def _rows(known: Relaxation, boxes: Boxes, x: Signal, which: IntArray) -> HalfSpaces:
    """Return the rows of the domain and of phases that cut some of the boxes."""
    context = known.context
    found: list[HalfSpaces] = []
    rows = context.domain.rows
    if rows.count:
        found.append(_crossing(rows.dense[None], np.tile(rows.b, (len(boxes), 1)), x))
    for stage, layer in zip(context.stages, known.layers, strict=True):
        if not stage.broken.size:
            continue
        floor, ceiling = boxes.floor[:, stage.phases], boxes.ceiling[:, stage.phases]
        some = np.flatnonzero((np.isfinite(floor) | np.isfinite(ceiling)).any(axis=0))
        if not some.size:
            continue
        affine = _of_units(layer.pre, stage, some, which)
        floor, ceiling = floor[:, some], ceiling[:, some]
        room = affine.radius + context.unit * (affine.radius + np.abs(affine.constant))
        under = affine.constant - floor + (room + context.unit * np.abs(floor))
        over = ceiling - affine.constant + (room + context.unit * np.abs(ceiling))
        found.append(_crossing(-affine.x, np.where(np.isfinite(floor), under, np.inf), x))
        found.append(_crossing(affine.x, np.where(np.isfinite(ceiling), over, np.inf), x))
    if not found:
        return HalfSpaces(np.zeros((len(boxes), 0, x.middle.shape[1])), np.zeros((len(boxes), 0)))
    return HalfSpaces(*(np.concatenate(parts, axis=1) for parts in zip(*found, strict=True)))


def _of_units(affine: Affine, stage: Stage, some: IntArray, which: IntArray) -> Affine:
    """Affine pre-activations of some of a layer's units with phases, on some boxes."""
    units = stage.broken[some]
    rows = affine.x[:, units] if affine.x.shape[0] == 1 else affine.x[np.ix_(which, units)]
    place = np.ix_(which, units)
    return Affine(rows, None, affine.constant[place], affine.radius[place])


def _crossing(g: FloatArray, h: FloatArray, x: Signal) -> HalfSpaces:
    """Select the rows (N or 1, P, d) that cut each box; ``0 <= 1`` fills missing rows."""
    cross = times(g, x.middle) + times(np.abs(g), x.radius) > h
    most = int(cross.sum(axis=1).max(initial=0))
    places = np.argsort(~cross, axis=1, kind="stable")[:, :most]
    number = np.arange(len(h))[:, None]
    real = cross[number, places]
    rows = g[0, places] if g.shape[0] == 1 else g[number, places]
    return HalfSpaces(rows * real[:, :, None], np.where(real, h[number, places], 1.0))
