"""Splitting: two children a box, where its bound's gap comes from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import Context
from lipyomo.search.spaces.bundle import joined


def split(context: Context, boxes: Boxes) -> tuple[Boxes, Boxes]:
    """The children of the boxes, and those that cannot be split.

    An input is halved, an open entry of the direction becomes -1 or 1, a unit's pre-activation is
    below or above a break of its slope.  Where no input with a middle is left, float64 numbers
    are too few.
    """
    children, can = halved(context, boxes)
    return children, boxes.take(~can)


def split_again(context: Context, boxes: Boxes, far: float) -> tuple[Boxes, int]:
    """Boxes that have their parents' bounds, those above `far` split; and how many were.

    Their children would hardly ever be closed.
    """
    above = boxes.bounds > far
    if not above.any():
        return boxes, 0
    some = boxes.take(above)
    children, can = halved(context, some)
    return joined([boxes.take(~above), some.take(~can), children]), int(can.sum())


def halved(context: Context, boxes: Boxes) -> tuple[Boxes, BoolArray]:
    """The children of the boxes that can be split, all lower ones first; and which boxes can."""
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
    scores[np.arange(len(boxes)), place] *= 0.5  # where children are split before they are bounded
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
    """The lower (0) or upper (1) child of each box."""
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
    if (kind == 1).any():  # a sign that is fixed has both ends
        rows = number[kind == 1]
        columns = place[rows]
        other = ("v_low", "v_high")[side]
        both = getattr(child, other).copy()
        both[rows, columns] = 2.0 * side - 1.0
        child = replace(child, **{other: both})
    return child


def _breaks(context: Context, boxes: Boxes) -> FloatArray:
    """A break inside each phase, the one in the middle of several; NaN where there is none."""
    found = np.full(boxes.floor.shape, np.nan)
    for k, places in enumerate(context.breaks):
        ranked = sorted(places, key=lambda place: abs(place - places[len(places) // 2]))
        for place in reversed(ranked):
            inside = (boxes.floor[:, k] < place) & (boxes.ceiling[:, k] > place)
            found[inside, k] = place
    return found
