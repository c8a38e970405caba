"""Cuts: what of a box is below the cutoff already, by the affine bound at hand.

With ``x . X + v . V + constant`` not below the objective, and M its maximum over the box, points
whose x_i is farther than ``(M - cutoff) / |X_i|`` from the maximiser's are below the cutoff.  That
leaves a smaller box; and an entry v_i has one sign only where ``2 |V_i| > M - cutoff``.  All that
is left lies in the half-space ``-x . X <= (M - cutoff) - max x . X``, which the box keeps: ranges
of its children's units are smaller there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.numerics.rounding import gamma
from lipyomo.search.spaces.boxes.bound import Bounded
from lipyomo.search.spaces.boxes.boxes import Boxes

_ROOM = 1.0 + gamma(8)


def cut(found: Bounded) -> Boxes:
    """The boxes without what is at or below the cutoff; their bounds have to be above it.

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
