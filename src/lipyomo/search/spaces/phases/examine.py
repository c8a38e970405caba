"""The steps that examine parts of nodes, in their order; the first of them is in this file.

    propagate -> tighten -> bound -> fix units by bounds -> decide emptiness -> score

Propagation bounds pre-activations by back-substitution and the gradient by interval arithmetic,
derives the phases that follow, and finds some parts empty.
Bounding and deciding emptiness cost about the same; the one that has closed more nodes comes first.
A step sees the results of earlier ones and the current incumbent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks.phases import OPEN
from lipyomo.primal.regions.partial import RegionProgram
from lipyomo.relaxations.linear.derivative import gradient_sizes
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.relaxations.linear.preactivation import follow
from lipyomo.relaxations.semidefinite.root import RootBounds
from lipyomo.search.spaces.phases.bound import bounded_targets, fixed
from lipyomo.search.spaces.phases.context import Context
from lipyomo.search.spaces.phases.empty import asks_program, finished_part, with_interior
from lipyomo.search.spaces.phases.node import Part, WarmStart, Watch
from lipyomo.search.spaces.phases.points import Points
from lipyomo.search.spaces.phases.score import rule_of
from lipyomo.search.spaces.phases.statistics import Statistics
from lipyomo.search.spaces.phases.tighten import tighten


@dataclass(frozen=True)
class Workspace:
    """What the steps share, and only add to.

    Attributes
    ----------
    context : Context
    points : Points
    region : RegionProgram
    watch : Watch
    """

    context: Context
    points: Points
    region: RegionProgram
    watch: Watch


def examine_parts(
    workspace: Workspace,
    parts: Sequence[Part],
    statistics: Statistics,
    is_known: bool = False,
    root: RootBounds | None = None,
) -> tuple[list[Part], Statistics]:
    """Bound parts of nodes, look for points in them, and choose what to split them on.

    Parameters
    ----------
    workspace : Workspace
    parts : sequence of Part
    statistics : Statistics
    is_known : bool, optional
        Whether the parts' pre-activation bounds are known already.
    root : RootBounds, optional
        Known bounds of the whole problem.

    Returns
    -------
    list of Part
        In the same order.
    Statistics

    Raises
    ------
    OutOfTimeError
    """
    if not parts:
        return [], statistics
    claims, statistics = _narrowed(workspace, parts, statistics, is_known)
    claims = [_with_form(workspace, part) for part in claims]
    workspace.watch.check()
    claims, statistics = _finished(workspace, claims, statistics)
    claims, statistics = _judged(workspace, claims, statistics, root)
    return _with_candidates(workspace, claims, statistics)


def _narrowed(
    workspace: Workspace, parts: Sequence[Part], statistics: Statistics, is_known: bool
) -> tuple[list[Part], Statistics]:
    """Propagate and tighten: bounds of pre-activations and gradients."""
    context, points = workspace.context, workspace.points
    stack = propagated(context, parts, is_known)
    inside = _located(points, parts, stack)
    workspace.watch.check()
    warm_start = [part.node.warm_start for part in parts]
    if context.ascent is not None:
        seen = [points.pool.seen(numbers) for numbers in inside]
        before = stack.phases.copy()
        warm_start = tighten(
            context.ascent, context.system, stack, warm_start, seen, context.params
        )
        layers, errors = context.system.network.hidden, context.system.weight_errors
        follow(layers, context.domain, stack, before, errors)
        workspace.watch.check()
    sizes = _gradient_bounds(context, stack)
    claims = [
        _taken(part, stack, b, sizes[b], inside[b], warm_start[b]) for b, part in enumerate(parts)
    ]
    return claims, statistics.counting(empty=int(np.count_nonzero(~stack.alive)))


def propagated(context: Context, parts: Sequence[Part], is_known: bool) -> Stack:
    """Propagate the parts' phases and bounds: return a stack with all that follows from them.

    Parameters
    ----------
    context : Context
    parts : sequence of Part
    is_known : bool
        Whether the parts' pre-activation bounds are known already.
    """
    stack, system = Stack.of([part.node for part in parts]), context.system
    # a split on a unit does not change the first layer's ranges, and dual ascent that starts from
    # the parent's multipliers finds all that substitution would
    same = all(part.node is not part.parent and part.keeps_box for part in parts)
    if is_known or (same and all(part.node.warm_start is not None for part in parts)):
        stack.decide_and_cut(system.kinked)
    elif context.domain.is_bounded:
        context.substitute_back(stack, first=int(same))
    return stack


def _located(points: Points, parts: Sequence[Part], stack: Stack) -> list[IntArray]:
    """Return which known points lie in each part."""
    found = []
    for b, part in enumerate(parts):
        node, phases, inside = part.node, stack.phases[b], part.node.points
        if stack.alive[b]:
            before = OPEN if node is part.parent else part.parent.phases
            inside = points.pool.within(inside, phases, np.flatnonzero(phases != before))
            if inside.size and not part.keeps_box:
                here = points.pool.at(inside)
                inside = inside[((here >= node.low) & (here <= node.high)).all(axis=1)]
        found.append(inside)
    return found


def _gradient_bounds(context: Context, stack: Stack) -> FloatArray:
    """Bound the targets by interval bounds of the gradient's entries, shape (B, T)."""
    system = context.system
    ends = system.head - system.head_errors, system.head + system.head_errors
    sizes = gradient_sizes(system.tangents.hidden, stack.phases, *ends, system.rough)
    return context.targets.interval(sizes)


def _taken(
    part: Part,
    stack: Stack,
    b: int,
    sizes: FloatArray,
    points: IntArray,
    warm_start: WarmStart | None,
) -> Part:
    """Update a part from entry `b` of a stack and from bounds (T,) of all targets."""
    if not stack.alive[b]:
        return part.fathom(-np.inf)
    proved = np.minimum(part.node.proved, sizes[part.node.targets])
    node = replace(
        part.node,
        phases=stack.phases[b].copy(),  # a view would keep the whole batch in memory
        lower=stack.lower[b].copy(),
        upper=stack.upper[b].copy(),
        proved=proved,
        target_bounds=np.minimum(part.node.target_bounds, proved),
        points=points,
        warm_start=warm_start,
    )
    return replace(part, node=node)


def _with_form(workspace: Workspace, part: Part) -> Part:
    """Drop targets that cannot beat the incumbent; if any is left, compute the part's form."""
    if part.is_open:
        workspace.watch.check()
        cutoff = workspace.context.cutoff(workspace.points.best.value)
        part = part.without_unproved(cutoff).without_targets(cutoff)
    if part.is_open:
        part = replace(part, form=workspace.context.system.form(part.node.phases))
    return part


def _finished(
    workspace: Workspace, parts: Sequence[Part], statistics: Statistics
) -> tuple[list[Part], Statistics]:
    """Fathom the parts without unstable units."""
    context, points = workspace.context, workspace.points
    full = [part.is_open and not part.known_form.units.size for part in parts]
    asked = [last and not part.node.points.size for part, last in zip(parts, full, strict=True)]
    claims, statistics = with_interior(context, parts, asked, statistics, points, workspace.region)
    for k in np.flatnonzero(full).tolist():
        if claims[k].is_open:
            workspace.watch.check()
            claims[k], statistics = finished_part(context, claims[k], statistics, points)
    return claims, statistics


def _judged(
    workspace: Workspace, parts: Sequence[Part], statistics: Statistics, root: RootBounds | None
) -> tuple[list[Part], Statistics]:
    """Bound parts with unstable units, and decide which parts are empty."""
    context, points, region = workspace.context, workspace.points, workspace.region
    asked = []
    for part in parts:
        asks = part.is_open and not part.node.points.size
        if asks:
            asks, statistics = asks_program(context, statistics)
        asked.append(asks)
    # on unbounded domains, emptiness is proved in rational arithmetic, which costs more
    closing = statistics.closed_by_bound * statistics.programs
    emptying = statistics.empty_by_program * statistics.semidefinite
    first = closing > emptying or not context.domain.is_bounded
    claims = list(parts)
    for bounding in (first, not first):
        value = points.best.value
        if bounding:
            claims, statistics = bounded_targets(
                context, claims, statistics, value, workspace.watch, root
            )
        else:
            claims, statistics = with_interior(context, claims, asked, statistics, points, region)
    return claims, statistics


def _with_candidates(
    workspace: Workspace, parts: Sequence[Part], statistics: Statistics
) -> tuple[list[Part], Statistics]:
    """Fix units by bounds, and choose the branching candidates of each part."""
    context, points, weights = workspace.context, workspace.points, statistics.weights()
    rule, claims = rule_of(context), list(parts)
    for k, part in enumerate(parts):
        if part.is_open:
            part, statistics = fixed(context, part, statistics, points)
            cutoff = context.cutoff(points.best.value)
            units, features, statistics = rule(
                context, part.node, part.known_form, part.worst, statistics, weights, cutoff
            )
            claims[k] = replace(part, node=replace(part.node, candidates=units, features=features))
    return claims, statistics
