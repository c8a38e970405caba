"""Bounds of boxes: the steps by which a batch of boxes is bounded, in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.rounding import EQUAL, EXACT_TOLERANCE, UNDERFLOW
from lipyomo.search.spaces.boxes.bounding.above import Above
from lipyomo.search.spaces.boxes.bounding.collapse import collapsed
from lipyomo.search.spaces.boxes.bounding.confine import ConfinedMaxima, confined_bounds
from lipyomo.search.spaces.boxes.bounding.rows_over_roots import rows_over_roots
from lipyomo.search.spaces.boxes.bounding.second_order import second_order
from lipyomo.search.spaces.boxes.boxes import Boxes, Frame
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.euclid import Across, across, euclidean_frame
from lipyomo.search.spaces.boxes.quadratics.stacked import ENTRIES
from lipyomo.search.spaces.boxes.relaxing.gradient import Enclosed, enclosed
from lipyomo.search.spaces.boxes.relaxing.inputs import Affine
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxation, Relaxed
from lipyomo.search.spaces.boxes.structure.tails import Tail
from lipyomo.search.spaces.bundle import joined

WIDE = 64.0
"""Largest ratio of the ends of a sum of squares up to which a tail is bounded by quotients of
quadratic functions.  Beyond it their bounds are up to a thousand times those of planes, which take
five times as long."""


class Bounded(NamedTuple):
    """The results of bounding boxes.

    Attributes
    ----------
    boxes : Boxes
        The boxes with bounds and scores.
    top : ndarray, shape (N,)
        Maxima over the boxes of affine upper bounds of the objective; a parent's bound may be
        lower.
    x, v : ndarray, shape (N, d)
        Coefficients of the affine upper bounds.
    fuzz : ndarray, shape (N,)
        The part of the bounds that covers rounding errors.
    cutoffs : ndarray, shape (N,)
        Wherever the affine function is at most this, the objective is at most the cutoff.
    points : ndarray, shape (N, d)
        Points of the boxes near maximisers if half-spaces cut the boxes; NaN otherwise.
    """

    boxes: Boxes
    top: FloatArray
    x: FloatArray
    v: FloatArray
    fuzz: FloatArray
    cutoffs: FloatArray
    points: FloatArray

    @classmethod
    def of(
        cls,
        boxes: Boxes,
        top: ConfinedMaxima,
        bounds: FloatArray,
        v: FloatArray,
        cutoffs: FloatArray,
    ) -> Bounded:
        """Give boxes their bounds, and shrink them to what the maxima over half-spaces leave."""
        boxes = replace(boxes, bounds=np.minimum(bounds, boxes.bounds), low=top.low, high=top.high)
        return cls(boxes, top.top, top.x, v, top.fuzz, cutoffs, top.points)

    def take(self, which: IntArray) -> Bounded:
        """Select the results of some boxes."""
        return Bounded(self.boxes.take(which), *(array[which] for array in self[1:]))

    def instead(self, which: IntArray, others: Bounded) -> Bounded:
        """Replace the results of some boxes by others."""
        both = joined([self.boxes, others.boxes])
        arrays = (np.concatenate(pair) for pair in zip(self[1:], others[1:], strict=True))
        place = np.arange(len(self.boxes))
        place[which] = len(place) + np.arange(which.size)
        return Bounded(both, *arrays).take(place)


def framed(context: BoxContext, boxes: Boxes) -> Frame:
    """Return the functionals and directions along which boxes are bounded."""
    return (euclidean_frame if context.targets.euclidean else Frame.given)(context, boxes)


def bounded(
    context: BoxContext, boxes: Boxes, cutoff: float | FloatArray, decide: bool = False
) -> Bounded:
    """Compute bounds and scores of boxes; they may be rough for boxes with bounds below the cutoff.

    Parameters
    ----------
    context : BoxContext
    boxes : Boxes
    cutoff : float, or ndarray, shape (N,)
    decide : bool, optional
        Whether to find gradient entries that have one sign on a whole box.  This is slow with many
        inputs, and on small boxes cuts find the same.
    """
    frame, cutoffs = framed(context, boxes), np.full(len(boxes), cutoff)
    tail = None if decide or context.targets.euclidean else context.structure.tail
    moving = bool((boxes.v_low < boxes.v_high).any())
    if tail is None or context.inputs + moving * context.directions > ENTRIES:
        return _by_planes(context, boxes, frame, cutoffs, decide)
    found, wide = _of_tail(context, tail, boxes, frame, cutoffs)
    if not wide.size:
        return found
    some = boxes.take(wide)
    return found.instead(
        wide, _by_planes(context, some, framed(context, some), cutoffs[wide], False)
    )


def _by_planes(
    context: BoxContext, boxes: Boxes, frame: Frame, cutoffs: FloatArray, decide: bool
) -> Bounded:
    """Bound boxes by the linear relaxations (lines and planes) of all layers."""
    known = relaxed(context, boxes, (frame.v_low, frame.v_high))
    above = collapsed(known, frame.rows, frame.errors)
    decide = decide and not context.targets.euclidean and bool((boxes.v_low < boxes.v_high).any())
    jacobian = framed_jacobian(known, frame) if decide or context.targets.euclidean else None
    rest = None
    if context.targets.euclidean and jacobian is not None:
        rest = across(context, frame, jacobian)
        cutoffs = rest.cutoffs(cutoffs)
    top = confined_bounds(known, above, cutoffs)
    scores = gaps_of(known, above)
    v = above.v
    if context.structure.multiplies:
        v, top = closer(known, partial(_second, known, frame), v, top, cutoffs)
    bounds = _least(top, above)
    if rest is None:
        bounds = _nonnegative(bounds)
    else:
        bounds = rest.norm(bounds)
        scores = _with_rest(scores, context, rest, top.top, 0.5 * (boxes.high - boxes.low))
    boxes = replace(boxes, scores=scores)
    if decide and jacobian is not None:
        boxes = with_decided_signs(boxes, *jacobian.ends)
    return Bounded.of(boxes, top, bounds, v, cutoffs)


def _of_tail(
    context: BoxContext, tail: Tail, boxes: Boxes, frame: Frame, cutoffs: FloatArray
) -> tuple[Bounded, IntArray]:
    """Bound boxes of a network that ends in quotients by roots; also return which are too wide."""
    known = relaxed(context.up_to_tail, boxes, (frame.v_low, frame.v_high), lines=False)
    rows = rows_over_roots(context, tail, known)
    above, parts = rows.above(frame.rows, frame.errors)
    scores = np.zeros_like(boxes.scores)
    top = confined_bounds(known, above, cutoffs)
    scores[:, : parts.shape[1]] = parts
    scores[:, context.inputs :] *= context.sign_weight

    def second(some: IntArray) -> Above:
        errors = None if frame.errors is None else frame.errors[some]
        return rows.on(some).second(frame.rows[some], errors)

    v, top = closer(known, second, above.v, top, cutoffs)
    bounds = _nonnegative(top.top)
    wide = np.flatnonzero(~(rows.ends[1] <= WIDE * rows.ends[0]).all(axis=1))  # or overflow
    return Bounded.of(replace(boxes, scores=scores), top, bounds, v, cutoffs), wide


def _nonnegative(bounds: FloatArray) -> FloatArray:
    """Turn bounds of ``y . J v`` into bounds of norms; minus infinity stays, for empty boxes."""
    return np.where(np.isfinite(bounds), np.maximum(bounds, 0.0), bounds)


def _least(top: ConfinedMaxima, above: Above) -> FloatArray:
    """Return the lower of the affine and the quadratic bounds."""
    return top.top if above.form is None else np.fmin(top.top, above.form.highest())


def closer(
    known: Relaxation,
    second: Callable[[IntArray], Above],
    v: FloatArray,
    top: ConfinedMaxima,
    cutoffs: FloatArray,
) -> tuple[FloatArray, ConfinedMaxima]:
    """Improve maxima by `second`-order affine upper bounds where these are lower; also return v.

    It is tried on boxes whose maxima are above the cutoff, but not far.
    """
    with np.errstate(invalid="ignore"):
        far = top.top - cutoffs
        some = np.flatnonzero((far > 0.0) & (far <= known.context.params.second * cutoffs))
    if not some.size:
        return v, top
    above = second(some)
    found = confined_bounds(known.on(some), above, cutoffs[some])
    less = np.flatnonzero(found.top < top.top[some])
    v = v.copy()
    v[some[less]] = above.v[less]
    return v, top.lowered(some, found)


def _second(known: Relaxation, frame: Frame, some: IntArray) -> Above:
    """Second-order affine upper bounds of the objective on some of the boxes."""
    errors = None if frame.errors is None else frame.errors[some]
    return second_order(known.on(some), frame.rows[some], errors)


def under(known: Relaxation, above: Above, cutoffs: FloatArray) -> Bounded:
    """Bound and score boxes by an affine upper bound of the objective."""
    top = confined_bounds(known, above, cutoffs)
    boxes = replace(known.boxes, scores=gaps_of(known, above))
    return Bounded.of(boxes, top, _least(top, above), above.v, cutoffs)


INSIDE = np.sqrt([5.0, 2.0, 3.0]) % 1.0
"""Irrational shares of a box's width: unlike its middle, such points are rarely on a kink."""


def least_bound(context: BoxContext, box: Boxes, cutoff: float) -> float:
    """Return a bound that no split of this box will ever undercut; 0 if none is above the cutoff.

    The bound of a point exceeds its value by rounding errors only.  If the bounds of several points
    are above the cutoff, splitting is in vain.  With an undecided direction (entries of the
    gradient may have either sign by rounding alone), they must also be above it along their worst
    direction.
    """
    width = box.high - box.low
    points = np.concatenate([box.low + share * width for share in INSIDE])
    points = np.clip(points, box.low, box.high)
    parts = box.take(np.zeros(len(points), dtype=np.intp))
    parts = replace(parts, low=points, high=points, room=np.full(len(points), np.inf))
    found = bounded(context, parts, cutoff)
    if found.boxes.bounds.min() > cutoff and (box.v_low < box.v_high).any():
        v = np.where(found.v > 0.0, parts.v_high, parts.v_low)
        found = bounded(context, replace(parts, v_low=v, v_high=v), cutoff)
    least = float(found.boxes.bounds.min())
    # other boxes whose bounds are due to rounding alone agree with it but for the last digits
    return least * (1.0 + EXACT_TOLERANCE) if least > cutoff else 0.0


def framed_jacobian(known: Relaxation, frame: Frame) -> Enclosed:
    """Affine bounds of the entries of J, or of the frame's functionals times J if it has no y."""
    if frame.y is not None:
        head = known.context.head
        return enclosed(known, np.broadcast_to(head, (len(known.boxes), *head.shape)), None)
    errors = None if frame.errors is None else frame.errors[:, None]
    return enclosed(known, frame.rows[:, None], errors)


def with_decided_signs(boxes: Boxes, low: FloatArray, high: FloatArray) -> Boxes:
    """Fix entries of v at the gradient's sign where its range [low, high] has only one."""
    open_ = boxes.v_low < boxes.v_high
    v_low, v_high = (
        np.where(open_ & (low > 0), 1.0, np.where(open_ & (high < 0), -1.0, end))
        for end in (boxes.v_low, boxes.v_high)
    )
    return replace(boxes, v_low=v_low, v_high=v_high)


def gaps_of(known: Relaxation, above: Above) -> FloatArray:
    """Attribute the gaps of bounds to inputs, entries of v, and phases; shape (N, d + k + p).

    The gap of a unit is attributed to inputs in proportion to their part of the width of its z (and
    u), and to units of the previous layer as far as that width stems from their relaxation.  If its
    range contains a break, the gap also goes to its phase: a phase is worth splitting if its unit
    alone adds more than all units attribute to any input.  As far as the range of its slope is one
    jump, which bisection never removes, one split decides the phase, as it does a sign.
    """
    context, boxes, layers = known.context, known.boxes, known.layers
    d, k = context.inputs, context.directions
    x_radius = 0.5 * (boxes.high - boxes.low)
    v_radius = 0.5 * (known.directions[1] - known.directions[0])
    found = np.zeros((len(boxes), d + k + boxes.floor.shape[1]))
    parts, phases = (found[:, :d], found[:, d : d + k]), found[:, d + k :]
    of_later, of_later_tangents = np.zeros(1), np.zeros(1)
    for n in range(len(layers) - 1, -1, -1):
        stage, layer = context.stages[n], layers[n]
        gap, off = above.gaps[n][0] + of_later, above.gaps[n][1] + of_later_tangents
        if stage.broken.size:
            weight = _weights(context, layer, n)
            phases[:, stage.phases] = gap[:, stage.broken] * weight
        share = _credit(layer.pre, gap, x_radius, v_radius, *parts)
        share_of_tangents = _credit(layer.pre_tangent, off, x_radius, v_radius, *parts)
        if n:
            before, own = layers[n - 1], context.stages[n - 1]
            assert before.value is not None
            assert before.change is not None
            moved = share_of_tangents @ stage.along_sizes
            of_later = (share @ stage.sizes) * before.value[2] + moved * before.change.spread
            of_later = own.on_rows(own.spread(of_later))
            of_tangents = own.spread(moved) * before.rate_radius * own.own(before.tangent_radius)
            of_later_tangents = own.on_rows(of_tangents)
    parts[0][:] *= x_radius
    parts[1][:] *= v_radius * context.sign_weight
    return found


def _weights(context: BoxContext, layer: Relaxed, number: int) -> FloatArray:
    """Weights of the gaps of a layer's units in the scores of their phases, shape (N, b).

    Zero without a break in the unit's range, else a little more than for inputs.
    """
    broken = context.stages[number].broken
    low, high = layer.low[:, broken], layer.high[:, broken]
    inside, jump = np.zeros(low.shape, dtype=bool), np.zeros_like(low)
    for edge, size in zip(*context.structure.edges[number], strict=True):
        here = (low < edge) & (high > edge)
        inside |= here
        jump = np.maximum(jump, here * size)
    whole = np.maximum(2.0 * layer.rate_radius[:, broken], jump)
    share = np.divide(jump, whole, out=np.zeros_like(jump), where=whole > 0)
    weight = 1.0 + EQUAL + (context.params.sign_weight - 1.0) * share
    return np.where(inside, weight, 0.0)


def _with_rest(
    scores: FloatArray, context: BoxContext, rest: Across, top: FloatArray, x_radius: FloatArray
) -> FloatArray:
    """Add the gap of the rest of J to scores: of open entries of v, else of inputs and phases."""
    with np.errstate(invalid="ignore"):
        added = np.where(np.isfinite(top), rest.norm(top) - np.maximum(top, 0.0), 0.0)
    total = rest.open_part.sum(axis=1)
    across = rest.a + rest.b
    share = np.divide(total, across, out=np.zeros_like(total), where=across > 0)
    share = np.minimum(share, 1.0) * added
    weights = np.divide(
        rest.open_part, total[:, None], out=np.zeros_like(rest.open_part), where=total[:, None] > 0
    )
    x_part, v_part, phases = np.split(
        scores, np.cumsum([context.inputs, context.directions]), axis=1
    )
    v_part = v_part + share[:, None] * weights
    whole = x_part.sum(axis=1, keepdims=True)
    even = x_radius / x_radius.sum(axis=1, keepdims=True).clip(min=1e-300)
    weights = np.where(whole > 0, x_part / np.where(whole > 0, whole, 1.0), even)
    x_part = x_part + (added - share)[:, None] * weights
    more = np.divide(added - share, whole[:, 0], out=np.zeros_like(added), where=whole[:, 0] > 0)
    return np.hstack([x_part, v_part, phases * (1.0 + more[:, None])])


def _credit(
    affine: Affine,
    gap: FloatArray,
    x_radius: FloatArray,
    v_radius: FloatArray,
    x_part: FloatArray,
    v_part: FloatArray,
) -> FloatArray:
    """Add each unit's gap, divided by its width, times its coefficients to the parts of x and v.

    Returns
    -------
    ndarray, shape (N, n)
        The gaps divided by the widths.
    """
    x_sizes = np.abs(affine.x)
    width = _widths(x_sizes, x_radius) + affine.radius
    v_sizes = None if affine.v is None else np.abs(affine.v)
    if v_sizes is not None:
        width = width + _widths(v_sizes, v_radius)
    share = np.divide(gap, width, out=np.zeros_like(gap), where=width > UNDERFLOW)
    for sizes, part in ((x_sizes, x_part), (v_sizes, v_part)):
        if sizes is not None:
            if sizes.shape[0] == 1:
                part += share @ sizes[0]
            else:
                part += np.matmul(share[:, None, :], sizes)[:, 0]
    return share


def _widths(sizes: FloatArray, radius: FloatArray) -> FloatArray:
    """Radii of linear functions with coefficients (N or 1, n, d) on boxes of `radius` (N, d)."""
    if sizes.shape[0] == 1:
        return np.asarray(radius @ sizes[0].T)
    return np.asarray(np.matmul(sizes, radius[:, :, None])[:, :, 0])
