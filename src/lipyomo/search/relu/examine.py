"""The order of the steps.

    propagate -> tighten -> bound -> fix units by bounds -> decide emptiness -> score

Of bounding and deciding emptiness, which cost about the same, the one that closes more nodes comes
first.  A step sees what earlier ones claim, and the incumbent of the moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipyomo.bounds.preactivation import follow
from lipyomo.frozen import but
from lipyomo.network import FloatArray
from lipyomo.regions.partial import RegionProgram
from lipyomo.search.relu.bound import bounded
from lipyomo.search.relu.context import Context
from lipyomo.search.relu.empty import asks_program, finished, with_interior
from lipyomo.search.relu.fix import fixed
from lipyomo.search.relu.learnt import Learnt
from lipyomo.search.relu.part import Part, Watch
from lipyomo.search.relu.points import Points
from lipyomo.search.relu.propagate import gradient_bounds, located, propagated, taken
from lipyomo.search.relu.score import rule_of
from lipyomo.search.relu.tighten import tighten
from lipyomo.semidefinite.root import RootBounds


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
    context, points, region = bench.context, bench.points, bench.region
    claims, learnt = narrowed(bench, parts, learnt, is_known)
    for k, part in enumerate(claims):
        if part.is_open:
            bench.watch.check()
            cutoff = context.cutoff(points.best.value)
            part = part.without_unproved(cutoff).without_targets(cutoff)
            if part.is_open:
                part = but(part, form=context.system.form(part.node.phases))
            claims[k] = part
    bench.watch.check()
    full = [k for k, part in enumerate(claims) if part.is_open and not part.known_form.units.size]
    some = [claims[k] for k in full]
    asked = [not part.node.points.size for part in some]
    some, learnt = with_interior(context, some, asked, learnt, points, region)
    for k, part in zip(full, some, strict=True):
        if part.is_open:
            bench.watch.check()
            part, learnt = finished(context, part, learnt, points)
        claims[k] = part
    still = [k for k, part in enumerate(claims) if part.is_open]
    some, learnt = _judged(bench, [claims[k] for k in still], learnt, root)
    weights = learnt.weights()
    for k, part in zip(still, some, strict=True):
        if part.is_open:
            part, learnt = fixed(context, part, learnt, points)
            part, learnt = scored(bench, part, learnt, weights)
        claims[k] = part
    return claims, learnt


def narrowed(
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


def scored(bench: Bench, part: Part, learnt: Learnt, weights: FloatArray) -> tuple[Part, Learnt]:
    """The part with the units that it may be split on."""
    cutoff = bench.context.cutoff(bench.points.best.value)
    units, features, learnt = rule_of(bench.context)(
        bench.context, part.node, part.known_form, part.worst, learnt, weights, cutoff
    )
    node = part.node.but(candidates=units, features=features)
    return but(part, node=node), learnt


def _judged(
    bench: Bench, parts: Sequence[Part], learnt: Learnt, root: RootBounds | None
) -> tuple[list[Part], Learnt]:
    """Bound parts with open units and decide which are empty."""
    context, points, region = bench.context, bench.points, bench.region
    asked = []
    for part in parts:
        asks = not part.node.points.size
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
