"""Boxes with bounds of values of piecewise-linear networks, and their conversion to nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.search.objectives.context import ValueContext
from lipyomo.search.objectives.node import ValueNode
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
        Upper bounds; minus infinity for empty boxes.
    axis : ndarray of int, shape (N,)
        The input to bisect.
    unstable : ndarray of int, shape (N,)
        Number of open units.
    """

    low: FloatArray
    high: FloatArray
    bounds: FloatArray
    axis: IntArray
    unstable: IntArray

    @classmethod
    def whole(cls, context: ValueContext) -> ValueBoxes:
        """Return the domain as a box without a bound."""
        domain, none = context.domain, np.zeros(1, dtype=np.intp)
        ends = domain.lower[None], domain.upper[None]
        return cls(*ends, np.full(1, np.inf), none, none + context.aim)


def bounded_values(context: ValueContext, boxes: ValueBoxes) -> tuple[ValueBoxes, Stack]:
    """Bound boxes by back-substitution through the whole network; also return the units' bounds.

    The bounds are sound whether they are above or below the cutoff.
    """
    domain, aim = context.domain, context.aim
    start = context.system.root_phases()
    start[aim] = OPEN  # includes points below the cutoff
    stack = Stack.unknown(np.tile(start, (len(boxes), 1)), boxes.low, boxes.high)
    within_domain(context.layers, domain, stack, np.float64)
    bounds = np.nextafter(stack.upper[:, aim] + context.cutoff, np.inf)
    bounds = np.where(stack.alive, np.fmin(bounds, boxes.bounds), -np.inf)
    axis = shares_in_open(context.layers[:-1], domain, stack).argmax(axis=1)
    unstable = (stack.phases[:, :aim] == OPEN).sum(axis=1)
    return replace(boxes, bounds=bounds, axis=axis, unstable=unstable), stack


def as_value_nodes(context: ValueContext, boxes: ValueBoxes) -> list[ValueNode]:
    """Convert the boxes above the cutoff to nodes of the search over phases.

    They have an empty warm start for dual ascent, as in the search for constants
    (`lipyomo.search.spaces.joint.halve`).
    """
    boxes, stack = bounded_values(context, boxes)
    phases, lower, upper = stack.phases, stack.lower, stack.upper
    phases[:, context.aim] = RIGHT
    lower[:, context.aim], upper[:, context.aim] = -np.inf, boxes.bounds
    none = np.zeros(0, dtype=np.intp), np.zeros((0, context.ascent.columns), dtype=np.float16)
    return [
        ValueNode(
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
