"""The steps for a batch of nodes: propagate -> tighten -> bound -> choose the branching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.relaxations.linear.preactivation import follow, propagate
from lipyomo.search.objectives.context import ValueContext
from lipyomo.search.objectives.node import ValueNode
from lipyomo.search.objectives.program import Answer
from lipyomo.search.spaces.phases.params import Params as Splits
from lipyomo.search.spaces.phases.tighten import tighten

SPLITS = Splits()
"""Parameters that decide when boxes are split, as in searches for constants."""


def narrowed(
    context: ValueContext, nodes: Sequence[ValueNode], clock: Clock, is_root: bool = False
) -> list[ValueNode]:
    """Bound all pre-activations and the aim, given the cutoff; roughly once the time is up.

    Returns
    -------
    list of ValueNode
        The nodes that may contain a value above the cutoff, narrowed to the part that may.
    """
    stack, aim, domain = Stack.of(nodes), context.aim, context.domain
    np.subtract(stack.upper[:, aim], context.cutoff, out=stack.upper[:, aim])
    stack.upper[:, aim] = np.nextafter(stack.upper[:, aim], np.inf)
    stack.lower[:, aim] = -np.inf
    warm_start = [node.warm_start for node in nodes]
    same = bool((stack.low == domain.lower).all() and (stack.high == domain.upper).all())
    if is_root:
        propagate(context.layers, domain, stack, stop=clock.steps())
    elif not all(warm_start) or not same:
        propagate(context.layers, domain, stack, intervals=False, first=int(same))
    stack.decide_and_cut(context.kinked)
    before = stack.phases.copy()
    none = [None] * len(nodes)
    with np.errstate(over="ignore", invalid="ignore"):  # NaN bounds are ignored
        warm_start = tighten(
            context.ascent,
            context.system,
            stack,
            warm_start,
            none,
            aim=aim,
            stop=lambda: clock.expired,
        )
    follow(context.layers, domain, stack, before)
    stack.upper[:, aim] = np.nextafter(stack.upper[:, aim] + context.cutoff, np.inf)
    return [
        replace(
            node,
            phases=stack.phases[b].copy(),
            lower=stack.lower[b].copy(),
            upper=stack.upper[b].copy(),
            warm_start=warm_start[b],
        )
        for b, node in enumerate(nodes)
        if stack.alive[b]
    ]


def chosen(context: ValueContext, node: ValueNode, found: Answer | None = None) -> ValueNode:
    """Choose how to split a node, if possible.

    With few inputs and many unstable units it is the longest side of its box, which decides many
    units at once; otherwise the unit with the most costly relaxation, or the most balanced range.
    """
    domain = context.domain
    still = np.flatnonzero(node.phases == OPEN)
    if domain.dimension <= SPLITS.box_inputs and still.size > SPLITS.box_units:
        width = (node.high - node.low) / (domain.upper - domain.lower)
        if width.max() > SPLITS.least_width:
            return replace(node, axis=int(width.argmax()))
    if found is not None and found.scores.max(initial=0.0) > 0.0:
        return replace(node, unit=int(found.units[found.scores.argmax()]))
    if not still.size:
        return node
    reach = np.minimum(node.upper, -node.lower)[still]
    return replace(node, unit=int(still[reach.argmax()]))


def region_of(context: ValueContext, node: ValueNode, x: FloatArray) -> ValueNode:
    """Return the affine piece around a point as a node, with the bounds of one that contains it."""
    network = context.system.network
    pattern = np.concatenate([z > 0 for z in network.preactivations(x)])
    phases = np.where(context.system.kinked, pattern, RIGHT).astype(np.int8)
    return replace(node, phases=phases, warm_start=None)
