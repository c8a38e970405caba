"""The first step: bounds of pre-activations by substitution, and what they decide.

It claims bounds, phases that follow, and that some parts are empty; in the end, bounds of the
gradient by intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks.phases import OPEN
from lipyomo.relaxations.linear.derivative import gradient_sizes
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.search.spaces.phases.context import Context
from lipyomo.search.spaces.phases.node import Part, WarmStart
from lipyomo.search.spaces.phases.points import Points


def propagated(context: Context, parts: Sequence[Part], is_known: bool) -> Stack:
    """The parts' phases and bounds with what follows from them.

    Parameters
    ----------
    context : Context
    parts : sequence of Part
    is_known : bool
        Whether pre-activation bounds are known.
    """
    stack, system = Stack.of([part.node for part in parts]), context.system
    # a split on a unit leaves the first layer's ranges as they are, and an ascent that goes on from
    # a parent's multipliers knows what substitution would find
    same = all(part.node is not part.parent and part.keeps_box for part in parts)
    if is_known or (same and all(part.node.warm_start is not None for part in parts)):
        stack.settle(system.kinked)
    elif context.domain.is_bounded:
        context.substitute_back(stack, first=int(same))
    return stack


def located(points: Points, parts: Sequence[Part], stack: Stack) -> list[IntArray]:
    """Which known points lie in each part."""
    found = []
    for b, part in enumerate(parts):
        node, phases, inside = part.node, stack.phases[b], part.node.points
        if stack.alive[b]:
            before = OPEN if node is part.parent else part.parent.phases
            inside = points.within(inside, phases, np.flatnonzero(phases != before))
            if inside.size and not part.keeps_box:
                here = points.at(inside)
                inside = inside[((here >= node.low) & (here <= node.high)).all(axis=1)]
        found.append(inside)
    return found


def gradient_bounds(context: Context, stack: Stack) -> FloatArray:
    """Bounds of the targets from intervals of the gradient's entries, shape (B, T)."""
    system = context.system
    ends = system.head - system.head_errors, system.head + system.head_errors
    sizes = gradient_sizes(system.tangents.hidden, stack.phases, *ends, system.rough)
    return context.targets.interval(sizes)


def taken(
    part: Part,
    stack: Stack,
    b: int,
    sizes: FloatArray,
    points: IntArray,
    warm_start: WarmStart | None,
) -> Part:
    """A part with what number `b` of a stack claims, with bounds (T,) of its targets."""
    if not stack.alive[b]:
        return part.fathom(-np.inf)
    proved = np.minimum(part.node.proved, sizes[part.node.targets])
    node = part.node.but(
        phases=stack.phases[b].copy(),  # a view would keep the whole batch in memory
        lower=stack.lower[b].copy(),
        upper=stack.upper[b].copy(),
        proved=proved,
        target_bounds=np.minimum(part.node.target_bounds, proved),
        points=points,
        warm_start=warm_start,
    )
    return replace(part, node=node)
