"""The whole problem as a node: bounded step by step where that takes long."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.bounds.pairs import Pairs, find_pairs, seconds_for_pairs
from lipyomo.cascade import Cascade
from lipyomo.numerics.pace import fits
from lipyomo.phases import OPEN
from lipyomo.run import Clock
from lipyomo.search.relu.bound import bound_targets, inherited, with_root
from lipyomo.search.relu.context import Context
from lipyomo.search.relu.examine import Bench, examine, scored
from lipyomo.search.relu.learnt import Learnt
from lipyomo.search.relu.node import Node, stack_of
from lipyomo.search.relu.part import OutOfTimeError, Part
from lipyomo.search.relu.points import Points
from lipyomo.semidefinite.root import RootBounds, root_cost, tighten_root


@dataclass(frozen=True, eq=False)
class Beginning:
    """The root of a search.

    Attributes
    ----------
    part : Part
        The whole problem, examined; or as far as it is known where time was over.
    context : Context
        With the pairs of units that were found to exclude each other.
    learnt : Learnt
    still : int
        Open units of the whole problem.
    seconds : float
        What examining it took; infinite if there is no time for a node.
    """

    part: Part
    context: Context
    learnt: Learnt
    still: int = 0
    seconds: float = math.inf


def begin(
    bench: Bench,
    learnt: Learnt,
    cascade: Cascade | None = None,
    report: Callable[[float], object] | None = None,
    search: Callable[[], object] = lambda: None,
) -> Beginning:
    """Bound the whole problem.

    Parameters
    ----------
    bench : Bench
    learnt : Learnt
    cascade : Cascade, optional
        Of the same problem: pre-activation bounds and upper ends to start from.
    report : callable, optional
        Called with proved bounds of the whole problem while they drop.
    search : callable, optional
        Called where there is a cascade, before bounds that take long: looks for points.
    """
    context, clock, points = bench.context, bench.watch.clock, bench.points
    node, root = context.whole(points.count), None
    if cascade is not None and context.system.count:
        node, root, pairs = _descended(bench, cascade, report, search)
        bounder = context.bounder if root is None else root.bounder
        context = context.with_pairs(pairs, bounder.prover.pairs)
        if clock.expired or (root is not None and root.stopped):
            return Beginning(Part(node, node), context, learnt, node.still)
    began = clock.seconds
    bench = replace(bench, context=context)
    is_known = cascade is not None and not context.system.roughness
    try:
        (part,), learnt = examine(bench, [Part(node, node)], learnt, is_known, root)
    except OutOfTimeError:
        return Beginning(Part(node, node), context, learnt, node.still, 0.0)
    still = part.node.still if part.form is None else part.form.units.size
    seconds = clock.seconds - began
    return _with_products(bench, Beginning(part, context, learnt, still, seconds))


def _taken_over(context: Context, node: Node, cascade: Cascade) -> Node:
    """The root with what a cascade knows, whose targets may be coarser."""
    bounds, left = cascade.bounds, context.presolved
    phases = left.restrict(np.concatenate(bounds.phases), node.phases)
    lower = left.restrict(np.concatenate(bounds.lower), node.lower)
    upper = left.restrict(np.concatenate(bounds.upper), node.upper)
    known = cascade.bounds_of(context.targets)
    return replace(node, phases=phases, lower=lower, upper=upper, proved=known, target_bounds=known)


def _descended(
    bench: Bench,
    cascade: Cascade,
    report: Callable[[float], object] | None,
    search: Callable[[], object],
) -> tuple[Node, RootBounds | None, Pairs]:
    """The root with lower bounds, step by step where the first one would be long in coming."""
    context, points, clock = bench.context, bench.points, bench.watch.clock
    node = _taken_over(context, context.whole(points.count), cascade)
    cost = root_cost(context.targets, context.system.tangents.input_dim, node.still)
    if cost.full < context.params.long_root:
        search()
        cascade.run(("joint",))
        return _taken_over(context, node, cascade), None, Pairs.none()
    norm, found = context.problem.output_norm, [Pairs.none()]
    root = RootBounds.of(
        context.system, context.targets, node.phases, node.proved, norm, bounder=context.bounder
    )

    def find() -> Pairs:
        found.append(exclusive_pairs(context, node, points, clock))
        return found[-1]

    cutoff = context.cutoff(points.best.value)
    root = root.begun(cutoff, clock, report)
    search()
    cutoff = context.cutoff(points.best.value)
    root = tighten_root(root, cascade, clock, report, cutoff, find)
    node = replace(node, target_bounds=root.upper)
    return with_root(context, node, root), root, found[-1]


def exclusive_pairs(context: Context, node: Node, points: Points, clock: Clock) -> Pairs:
    """Pairs of units that exclude each other, if there is time to look for them."""
    ascent = context.ascent
    if ascent is None or context.question.known is None:
        return Pairs.none()
    units = int(np.count_nonzero(node.phases[ascent.first :] == OPEN))
    if not fits(seconds_for_pairs(ascent, units), clock.left):
        return Pairs.none()
    return find_pairs(ascent, stack_of([node]), points.sides(node.points))


def _with_products(bench: Bench, known: Beginning) -> Beginning:
    """The root bounded once more, with the products of pairs of units that exclude each other.

    They pay where units are many; proofs do without.
    """
    context, node, clock = known.context, known.part.node, bench.watch.clock
    bounder = context.bounder
    skip = context.question.known is None or context.ascent is None
    if skip or not known.part.is_open or bounder.prover.pairs.count or clock.expired:
        return known
    form = context.system.form(node.phases)
    if not any(bounder.takes_pairs(form, target) for target in node.evidence):
        return known
    warm = {  # some units may be fixed since
        target: inherited(context, form, own) for target, own in node.evidence.items()
    }
    pairs = exclusive_pairs(context, node, bench.points, clock)
    chosen = bounder.best_pairs(form, warm, pairs)
    context = context.with_pairs(pairs, chosen)
    if not chosen.count:
        return replace(known, context=context)
    evidence = {
        target: replace(own, units=form.units, multipliers=warm[target]).with_products(chosen.count)
        for target, own in node.evidence.items()
    }
    cutoff = context.cutoff(bench.points.best.value)
    node = replace(node, evidence=evidence)
    found = bound_targets(context, node, form, None, cutoff, clock, afresh=True)
    part = replace(known.part, node=found.node, worst=found.worst, form=form)
    part, learnt = part.without_targets(cutoff), known.learnt
    if part.is_open:
        bench = replace(bench, context=context)
        part, learnt = scored(bench, part, learnt, learnt.weights())
    return replace(known, part=part, context=context, learnt=learnt)
