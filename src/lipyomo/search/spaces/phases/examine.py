"""The order of the steps.

    propagate -> tighten -> bound -> fix units by bounds -> decide emptiness -> score

Of bounding and deciding emptiness, which cost about the same, the one that closes more nodes comes
first.  A step sees what earlier ones claim, and the incumbent of the moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipyomo.base.frozen import but
from lipyomo.primal.regions.partial import RegionProgram
from lipyomo.relaxations.linear.preactivation import follow
from lipyomo.relaxations.semidefinite.root import RootBounds
from lipyomo.search.spaces.phases.bound import bounded
from lipyomo.search.spaces.phases.context import Context
from lipyomo.search.spaces.phases.empty import asks_program, finished, with_interior
from lipyomo.search.spaces.phases.fix import fixed
from lipyomo.search.spaces.phases.learnt import Learnt
from lipyomo.search.spaces.phases.part import Part, Watch
from lipyomo.search.spaces.phases.points import Points
from lipyomo.search.spaces.phases.propagate import gradient_bounds, located, propagated, taken
from lipyomo.search.spaces.phases.score import rule_of
from lipyomo.search.spaces.phases.tighten import tighten


@dataclass(frozen=True)
class Bench:
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


def examine(
    bench: Bench,
    parts: Sequence[Part],
    learnt: Learnt,
    is_known: bool = False,
    root: RootBounds | None = None,
) -> tuple[list[Part], Learnt]:
    """Bound parts of nodes, look for points in them, and choose what to split them on.

    Parameters
    ----------
    bench : Bench
    parts : sequence of Part
    learnt : Learnt
    is_known : bool, optional
        Whether pre-activation bounds are known.
    root : RootBounds, optional
        What is known of the whole problem.

    Returns
    -------
    list of Part
        In the same order.
    Learnt

    Raises
    ------
    OutOfTimeError
    """
    if not parts:
        return [], learnt
    claims, learnt = _narrowed(bench, parts, learnt, is_known)
    claims = [_with_form(bench, part) for part in claims]
    bench.watch.check()
    claims, learnt = _finished(bench, claims, learnt)
    claims, learnt = _judged(bench, claims, learnt, root)
    return _with_candidates(bench, claims, learnt)


def _narrowed(
    bench: Bench, parts: Sequence[Part], learnt: Learnt, is_known: bool
) -> tuple[list[Part], Learnt]:
    """Propagate and tighten: bounds of pre-activations and gradients."""
    context, points = bench.context, bench.points
    stack = propagated(context, parts, is_known)
    inside = located(points, parts, stack)
    bench.watch.check()
    warmth = [part.node.warmth for part in parts]
    if context.ascent is not None:
        seen = [points.seen(numbers) for numbers in inside]
        before = stack.phases.copy()
        warmth = tighten(context.ascent, context.system, stack, warmth, seen, context.params)
        layers, errors = context.system.network.hidden, context.system.weight_errors
        follow(layers, context.domain, stack, before, errors)
        bench.watch.check()
    sizes = gradient_bounds(context, stack)
    claims = [taken(part, stack, b, sizes[b], inside[b], warmth[b]) for b, part in enumerate(parts)]
    return claims, learnt.counting(empty=int(np.count_nonzero(~stack.alive)))


def _with_form(bench: Bench, part: Part) -> Part:
    """The part with its form, unless none of its targets matters any more."""
    if part.is_open:
        bench.watch.check()
        cutoff = bench.context.cutoff(bench.points.best.value)
        part = part.without_unproved(cutoff).without_targets(cutoff)
    return but(part, form=bench.context.system.form(part.node.phases)) if part.is_open else part


def _finished(bench: Bench, parts: Sequence[Part], learnt: Learnt) -> tuple[list[Part], Learnt]:
    """Fathom the parts without open units."""
    context, points = bench.context, bench.points
    full = [part.is_open and not part.known_form.units.size for part in parts]
    asked = [last and not part.node.points.size for part, last in zip(parts, full, strict=True)]
    claims, learnt = with_interior(context, parts, asked, learnt, points, bench.region)
    for k in np.flatnonzero(full).tolist():
        if claims[k].is_open:
            bench.watch.check()
            claims[k], learnt = finished(context, claims[k], learnt, points)
    return claims, learnt


def _judged(
    bench: Bench, parts: Sequence[Part], learnt: Learnt, root: RootBounds | None
) -> tuple[list[Part], Learnt]:
    """Bound parts with open units and decide which are empty."""
    context, points, region = bench.context, bench.points, bench.region
    asked = []
    for part in parts:
        asks = part.is_open and not part.node.points.size
        if asks:
            asks, learnt = asks_program(context, learnt)
        asked.append(asks)
    # on unbounded domains emptiness is proved in rational numbers, which costs more
    closing = learnt.closed_by_bound * learnt.programs
    first = closing > learnt.empty * learnt.semidefinite or not context.domain.is_bounded
    claims = list(parts)
    for bounding in (first, not first):
        value = points.best.value
        if bounding:
            claims, learnt = bounded(context, claims, learnt, value, bench.watch, root)
        else:
            claims, learnt = with_interior(context, claims, asked, learnt, points, region)
    return claims, learnt


def _with_candidates(
    bench: Bench, parts: Sequence[Part], learnt: Learnt
) -> tuple[list[Part], Learnt]:
    """The parts with units fixed by bounds, and those that they may be split on."""
    context, points, weights = bench.context, bench.points, learnt.weights()
    rule, claims = rule_of(context), list(parts)
    for k, part in enumerate(parts):
        if part.is_open:
            part, learnt = fixed(context, part, learnt, points)
            cutoff = context.cutoff(points.best.value)
            units, features, learnt = rule(
                context, part.node, part.known_form, part.worst, learnt, weights, cutoff
            )
            claims[k] = but(part, node=part.node.but(candidates=units, features=features))
    return claims, learnt
