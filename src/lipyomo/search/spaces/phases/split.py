"""Branching: split a node's input box if inputs are few, else the unit of best expected score.

At the root, below which all other nodes lie, several units are tried and the best one is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.phases import OPEN
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.relaxations.semidefinite.choice import root_cost
from lipyomo.search.spaces.phases.context import PhaseContext
from lipyomo.search.spaces.phases.examine import Workspace, examine_children
from lipyomo.search.spaces.phases.node import Child, PhaseNode, Split
from lipyomo.search.spaces.phases.score import score
from lipyomo.search.spaces.phases.statistics import Statistics


def together(context: PhaseContext, node: PhaseNode) -> int:
    """Return how many nodes of this size to split together."""
    params, units = context.params, node.still
    size = units**2 * min(node.low.size, units) / params.common
    return max(int(params.together / max(size, 1.0)), 1)


TRYING = 0.1
"""Share of the time left that trying units for the first split may take."""


def split(
    workspace: Workspace, nodes: Sequence[PhaseNode], statistics: Statistics
) -> tuple[list[tuple[Child, ...]], Statistics]:
    """Split some nodes, and examine the children of each.

    Nodes are split in batches, since NumPy's overhead dominates at most networks' sizes.

    Parameters
    ----------
    workspace : Workspace
    nodes : sequence of PhaseNode
    statistics : Statistics

    Raises
    ------
    OutOfTimeError
    """
    context, weights = workspace.context, statistics.weights()
    ways = (_ways(workspace, node, statistics, weights) for node in nodes)
    tries = [(k, *way) for k, each in enumerate(ways) for way in each]
    children = [Child(nodes[k], part) for k, _, parts in tries for part in parts]
    examined, statistics = examine_children(workspace, children, statistics)
    cutoff = context.cutoff(workspace.points.best.value)
    found: dict[int, tuple[float, tuple[Child, ...]]] = {}
    stop = 0
    for k, unit, parts in tries:
        node, start, stop = nodes[k], stop, stop + len(parts)
        now, scored = tuple(examined[start:stop]), 0.0
        if unit is not None:
            scored = score(context, node, [child.node for child in now if child.is_open], cutoff)
            place = int(np.argmax(node.candidates == unit))
            statistics = statistics.learn(unit, node.features[place], scored)
        if k not in found or scored > found[k][0]:
            found[k] = scored, now
    statistics = statistics.counting(nodes=sum(node.examined for node in nodes))
    return [now for _, now in found.values()], statistics


def wants_box(context: PhaseContext, node: PhaseNode) -> bool:
    """Return whether to split the input box of `node` rather than a unit."""
    domain, params = context.domain, context.params
    boxes = domain.is_bounded and domain.dimension <= params.box_inputs
    return boxes and node.still > params.box_units


def box_halves(context: PhaseContext, node: PhaseNode) -> list[PhaseNode]:
    """Bisect the input box in the direction that decides most units; return [] if too few."""
    domain, d = context.domain, node.low.size
    low: FloatArray = np.tile(node.low, (2 * d, 1))
    high: FloatArray = np.tile(node.high, (2 * d, 1))
    middle, index = 0.5 * (node.low + node.high), np.arange(d)
    high[index, index] = middle
    low[d + index, index] = middle
    nodes = []
    for i, (a, b) in enumerate(zip(low, high, strict=True)):
        j = i % d
        trail = (*node.trail, Split(j, None, (float(a[j]), float(b[j]))))
        nodes.append(node._replace(low=a, high=b, trail=trail))
    stack = Stack.of(nodes)
    context.substitute_back(stack)
    still = np.where(stack.alive, (stack.phases == OPEN).sum(axis=1), 0.0)
    first, second = still[:d], still[d:]
    relative = (node.high - node.low) / (domain.upper - domain.lower)
    k = int(np.argmin(first + second + np.maximum(first, second) - 1e-3 * relative))
    before, least = node.still, context.params.least_width
    wide = relative.max() > least and first[k] + second[k] <= 2 * before - 2
    if not wide and max(first[k], second[k]) >= before:
        return []
    return [nodes[k], nodes[d + k]]


def _ways(
    workspace: Workspace, node: PhaseNode, statistics: Statistics, weights: FloatArray
) -> list[tuple[int | None, list[PhaseNode]]]:
    """Return the splits to try on a node, as pairs (unit or None, parts of the node).

    A node that is not examined yet is its own only child.
    """
    context = workspace.context
    if not node.examined:
        return [(None, [node._replace()])]  # a part of it, and not a root
    boxes = box_halves(context, node) if wants_box(context, node) else []
    if boxes:
        return [(None, boxes)]
    trust = context.params.unit_trust
    expected = statistics.forecast(node.candidates, node.features, weights, trust)
    order = np.argsort(-expected, kind="stable")
    tries = 1 if statistics.nodes else _tries(workspace, node)
    return [(unit, node.sides(unit)) for unit in node.candidates[order[: max(tries, 1)]].tolist()]


def _tries(workspace: Workspace, node: PhaseNode) -> int:
    """Return how many units to try at the root.

    A bad first split doubles the tree, so a few more bounds are worth it if the tree will be large:
    if many units are unstable, and the bound is not close to the cutoff.  They must not take long,
    nor a large share of the time left.
    """
    context, left = workspace.context, workspace.watch.clock.left
    params = context.params
    close = params.close * context.cutoff(workspace.points.best.value)
    cost = root_cost(context.targets, context.system.tangents.input_dim, node.still).full
    if node.bound < close or not cost < params.long_root:
        return 1
    return int(min(node.still // params.tried, TRYING * left / (2.0 * cost)))
