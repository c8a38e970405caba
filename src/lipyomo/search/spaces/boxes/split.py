"""Cutting boxes by their affine bounds, and splitting them.

With ``x . X + v . V + constant`` an upper bound of the objective, and M its maximum over the box,
points whose x_i is farther than ``(M - cutoff) / |X_i|`` from the maximiser's are below the cutoff.
That leaves a smaller box, and fixes the sign of an entry v_i if ``2 |V_i| > M - cutoff``.  All that
is left lies in the half-space ``-x . X <= (M - cutoff) - max x . X``, which the box keeps, since
ranges of its children's units are smaller there.  A box is split where most of its gap comes from.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.rounding import gamma
from lipyomo.search.spaces.boxes.bound import Bounded
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.bundle import joined

_ROOM = 1.0 + gamma(8)

LITTLE = 0.5
"""In networks with products, boxes of which a cut leaves less than this share are bounded again
before they are split."""


def cut(found: Bounded) -> Boxes:
    """Cut off what is at or below the cutoff from boxes whose bounds are above it.

    Rounding: slack and width are rounded up, the new ends outwards.
    """
    boxes, slack = found.boxes, (found.top - found.cutoffs)[:, None] * _ROOM
    with np.errstate(divide="ignore", over="ignore"):
        width = np.nextafter(slack / np.abs(found.x) * _ROOM, np.inf)
    rises = found.x > 0
    low = np.where(rises, np.fmax(boxes.low, np.nextafter(boxes.high - width, -np.inf)), boxes.low)
    falls = found.x < 0
    high = np.where(falls, np.fmin(boxes.high, np.nextafter(boxes.low + width, np.inf)), boxes.high)
    open_ = boxes.v_low < boxes.v_high
    decided = open_ & (2.0 * np.abs(found.v) > slack * _ROOM)
    sign = np.where(found.v > 0, 1.0, -1.0)
    v_low, v_high = (np.where(decided, sign, end) for end in (boxes.v_low, boxes.v_high))
    sizes = np.abs(found.x) * np.maximum(np.abs(boxes.low), np.abs(boxes.high))
    top = np.maximum(found.x * boxes.low, found.x * boxes.high).sum(axis=1)
    room = slack[:, 0] - top + gamma(2 * boxes.low.shape[1] + 4) * (slack[:, 0] + sizes.sum(axis=1))
    return replace(boxes, low=low, high=high, v_low=v_low, v_high=v_high, half=-found.x, room=room)


def split(context: BoxContext, boxes: Boxes) -> tuple[Boxes, Boxes]:
    """Return the children of the boxes, and the boxes that cannot be split.

    Boxes that `with_little_left` has marked are returned as they are.  An input is bisected, an
    open entry of the direction becomes -1 or 1, a unit's pre-activation is below or above a break
    of its slope.  A box cannot be split if no input has a float64 number strictly inside its range.
    """
    again = _unscored(boxes)
    some = boxes.take(~again) if again.any() else boxes
    children, can = halved(context, some)
    if again.any():
        children = joined([boxes.take(again), children])
    return children, some.take(~can)


def _unscored(boxes: Boxes) -> BoolArray:
    """Return which boxes must be bounded before they are split."""
    return np.asarray(np.isnan(boxes.scores).all(axis=1))


def with_little_left(before: Boxes, left: Boxes) -> Boxes:
    """Mark boxes of which a cut has left little, to be bounded again before they are split.

    Their scores become NaN.  This ends, since each box is smaller than the previous one.
    """
    width = before.high - before.low
    shares = np.divide(left.high - left.low, width, out=np.ones_like(width), where=width > 0.0)
    little = shares.prod(axis=1) < LITTLE
    return replace(left, scores=np.where(little[:, None], np.nan, left.scores))


def split_again(context: BoxContext, boxes: Boxes, far: float) -> tuple[Boxes, int]:
    """Split boxes, not bounded yet, whose parents' bounds are above `far`; also count the splits.

    They would hardly ever be closed themselves.
    """
    above = (boxes.bounds > far) & ~_unscored(boxes)
    if not above.any():
        return boxes, 0
    some = boxes.take(above)
    children, can = halved(context, some)
    return joined([boxes.take(~above), some.take(~can), children]), int(can.sum())


def split_up(context: BoxContext, boxes: Boxes) -> tuple[Boxes, int]:
    """Split boxes until there are enough for a batch; also count the splits.

    Bounding a few boxes takes as long as bounding several times as many.
    """
    halvings, count = 0, 1
    while count and len(boxes) < context.batches.few:
        boxes, count = split_again(context, boxes, -np.inf)
        halvings += count
    return boxes, halvings


def halved(context: BoxContext, boxes: Boxes) -> tuple[Boxes, BoolArray]:
    """Return the children, all lower ones first, of the boxes that can be split, and which can."""
    d, k = context.inputs, context.directions
    middle = boxes.middle
    scores = boxes.scores.copy()
    scores[:, :d][(middle <= boxes.low) | (middle >= boxes.high)] = -1.0
    scores[:, d : d + k][boxes.v_low >= boxes.v_high] = -1.0
    breaks = _breaks(context, boxes)
    scores[:, d + k :][np.isnan(breaks)] = -1.0
    place = scores.argmax(axis=1)
    can = np.take_along_axis(scores, place[:, None], axis=1)[:, 0] >= 0.0
    can &= np.isfinite(boxes.bounds)
    if not can.all():
        boxes, place, middle, breaks = boxes.take(can), place[can], middle[can], breaks[can]
    starts = d, d + k
    scores = boxes.scores.copy()
    scores[np.arange(len(boxes)), place] *= 0.5  # if children are split unbounded
    boxes = replace(boxes, scores=scores)
    return joined([_child(boxes, place, middle, breaks, side, starts) for side in (0, 1)]), can


def _child(
    boxes: Boxes,
    place: IntArray,
    middle: FloatArray,
    breaks: FloatArray,
    side: int,
    starts: tuple[int, int],
) -> Boxes:
    """Return the lower (0) or upper (1) child of each box."""
    number = np.arange(len(boxes))
    names = (("high", "v_high", "ceiling"), ("low", "v_low", "floor"))[side]
    ends = [getattr(boxes, name).copy() for name in names]
    kind = np.searchsorted(starts, place, side="right")
    place = place - np.array([0, *starts])[kind]
    for k, (end, source) in enumerate(zip(ends, (middle, None, breaks), strict=True)):
        mine: BoolArray = kind == k
        rows, columns = number[mine], place[mine]
        end[rows, columns] = (2.0 * side - 1.0) if source is None else source[rows, columns]
    child = replace(boxes, **dict(zip(names, ends, strict=True)))
    if (kind == 1).any():  # a fixed sign sets both ends
        rows = number[kind == 1]
        columns = place[rows]
        other = ("v_low", "v_high")[side]
        both = getattr(child, other).copy()
        both[rows, columns] = 2.0 * side - 1.0
        child = replace(child, **{other: both})
    return child


def _breaks(context: BoxContext, boxes: Boxes) -> FloatArray:
    """Return a break inside each phase, the middle one of several; NaN if there is none."""
    found = np.full(boxes.floor.shape, np.nan)
    for k, places in enumerate(context.structure.breaks):
        ranked = sorted(places, key=lambda place: abs(place - places[len(places) // 2]))
        for place in reversed(ranked):
            inside = (boxes.floor[:, k] < place) & (boxes.ceiling[:, k] > place)
            found[inside, k] = place
    return found
