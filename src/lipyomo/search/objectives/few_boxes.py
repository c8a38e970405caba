"""Boxes with bounds of values of piecewise-linear networks, and the nodes that they become."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.search.objectives.context import Context
from lipyomo.search.objectives.node import Node
from lipyomo.search.spaces.bundle import Bundle
from lipyomo.search.spaces.joint.bound import shares_in_open, within_domain
from lipyomo.search.spaces.phases.node import WarmStart


@dataclass(frozen=True, eq=False)
class ValueBoxes(Bundle):
    """Boxes with upper bounds of the value.

    Attributes
    ----------
    low, high : ndarray, shape (N, d)
    bounds : ndarray, shape (N,)
        Minus infinity where a box is empty.
    axis : ndarray of int, shape (N,)
        The input that is to be halved.
    unstable : ndarray of int, shape (N,)
        The number of units that are open.
    """

    low: FloatArray
    high: FloatArray
    bounds: FloatArray
    axis: IntArray
    unstable: IntArray


def bounded_values(context: Context, boxes: ValueBoxes) -> tuple[ValueBoxes, Stack]:
    """Boxes with bounds above or below the cutoff, and what is known of the units on them.

    Bounds are sound wherever they are, and by substitution over the whole network as one.
    """
    domain, aim = context.domain, context.aim
    start = context.system.root_phases()
    start[aim] = OPEN  # no point is left out
    stack = Stack.unknown(np.tile(start, (len(boxes), 1)), boxes.low, boxes.high)
    within_domain(context.layers, domain, stack, np.float64)
    bounds = np.nextafter(stack.upper[:, aim] + context.cutoff, np.inf)
    bounds = np.where(stack.alive, np.fmin(bounds, boxes.bounds), -np.inf)
    axis = shares_in_open(context.layers[:-1], domain, stack).argmax(axis=1)
    unstable = (stack.phases[:, :aim] == OPEN).sum(axis=1)
    return replace(boxes, bounds=bounds, axis=axis, unstable=unstable), stack


def as_value_nodes(context: Context, boxes: ValueBoxes) -> list[Node]:
    """Nodes of phases for the boxes that are above the cutoff.

    They come with a start for dual ascent, an empty one, as in the search of constants
    (`lipyomo.search.spaces.joint.handover`).
    """
    boxes, stack = bounded_values(context, boxes)
    phases, lower, upper = stack.phases, stack.lower, stack.upper
    phases[:, context.aim] = RIGHT
    lower[:, context.aim], upper[:, context.aim] = -np.inf, boxes.bounds
    none = np.zeros(0, dtype=np.intp), np.zeros((0, context.ascent.columns), dtype=np.float16)
    return [
        Node(
            phases[k],
            lower[k],
            upper[k],
            boxes.low[k],
            boxes.high[k],
            float(boxes.bounds[k]),
            WarmStart(phases[k], *none),
        )
        for k in np.flatnonzero(boxes.bounds > context.cutoff)
    ]
