"""The order of the steps.

    propagate -> tighten -> bound -> fix units by bounds -> decide emptiness -> score

Of bounding and deciding emptiness, which cost about the same, the one that closes more nodes comes
first.  A step sees what earlier ones claim, and the incumbent of the moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.primal.regions.partial import RegionProgram
from lipyomo.relaxations.linear.preactivation import follow
from lipyomo.relaxations.semidefinite.root import RootBounds
from lipyomo.search.spaces.phases.bound import bounded_targets, fixed
from lipyomo.search.spaces.phases.context import Context
from lipyomo.search.spaces.phases.empty import asks_program, finished_part, with_interior
from lipyomo.search.spaces.phases.node import Part, Watch
from lipyomo.search.spaces.phases.points import Points
from lipyomo.search.spaces.phases.propagate import gradient_bounds, located, propagated, taken
from lipyomo.search.spaces.phases.score import rule_of
from lipyomo.search.spaces.phases.statistics import Statistics
from lipyomo.search.spaces.phases.tighten import tighten


@dataclass(frozen=True)
class Workspace:
    """Where parts are examined: what steps share, and only add to.

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
        Whether pre-activation bounds are known.
    root : RootBounds, optional
        What is known of the whole problem.

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
    inside = located(points, parts, stack)
    workspace.watch.check()
    warm_start = [part.node.warm_start for part in parts]
    if context.ascent is not None:
        seen = [points.seen(numbers) for numbers in inside]
        before = stack.phases.copy()
        warm_start = tighten(
            context.ascent, context.system, stack, warm_start, seen, context.params
        )
        layers, errors = context.system.network.hidden, context.system.weight_errors
        follow(layers, context.domain, stack, before, errors)
        workspace.watch.check()
    sizes = gradient_bounds(context, stack)
    claims = [
        taken(part, stack, b, sizes[b], inside[b], warm_start[b]) for b, part in enumerate(parts)
    ]
    return claims, statistics.counting(empty=int(np.count_nonzero(~stack.alive)))


def _with_form(workspace: Workspace, part: Part) -> Part:
    """The part with its form, unless none of its targets matters any more."""
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
    """Bound parts with unstable units and decide which are empty."""
    context, points, region = workspace.context, workspace.points, workspace.region
    asked = []
    for part in parts:
        asks = part.is_open and not part.node.points.size
        if asks:
            asks, statistics = asks_program(context, statistics)
        asked.append(asks)
    # on unbounded domains emptiness is proved in rational numbers, which costs more
    closing = statistics.closed_by_bound * statistics.programs
    first = closing > statistics.empty * statistics.semidefinite or not context.domain.is_bounded
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
    """The parts with units fixed by bounds, and those that they may be split on."""
    context, points, weights = workspace.context, workspace.points, statistics.weights()
    rule, claims = rule_of(context), list(parts)
    for k, part in enumerate(parts):
        if part.is_open:
            part, statistics = fixed(context, part, statistics, points)
            cutoff = context.cutoff(points.best.value)
            units, features, statistics = rule(
                context, part.node, part.known_form, part.worst, statistics, weights, cutoff
            )
            claims[k] = replace(part, node=part.node.but(candidates=units, features=features))
    return claims, statistics
