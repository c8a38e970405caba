"""The root node, which is bounded step by step if that takes long."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lipyomo.networks.phases import flat
from lipyomo.relaxations.cascade import Cascade
from lipyomo.relaxations.semidefinite.choice import root_cost
from lipyomo.relaxations.semidefinite.root import RootBounds, tighten_root
from lipyomo.search.spaces.phases.bound import bound_switched, with_root
from lipyomo.search.spaces.phases.context import PhaseContext
from lipyomo.search.spaces.phases.examine import Workspace, examine_children
from lipyomo.search.spaces.phases.node import Child, OutOfTimeError, PhaseNode
from lipyomo.search.spaces.phases.params import Params
from lipyomo.search.spaces.phases.statistics import Statistics

_DEEP = 4.0
"""Predicted seconds of the root's bound by a single matrix from which on the bound by a chain of
matrices is computed first, since the tree will start late.  Below, the multipliers of the single
matrix are needed anyway."""


class Beginning(NamedTuple):
    """The root of a search.

    Attributes
    ----------
    child : Child
        The whole problem, examined as far as time allowed.
    context : PhaseContext
        The context in which nodes are bounded.
    statistics : Statistics
    still : int
        Number of unstable units of the whole problem.
    seconds : float
        Time that examining it took; infinite if there is no time for a node.
    """

    child: Child
    context: PhaseContext
    statistics: Statistics
    still: int = 0
    seconds: float = math.inf


def begin(
    workspace: Workspace,
    statistics: Statistics,
    cascade: Cascade | None,
    report: Callable[[float], object],
    search: Callable[[], object],
) -> Beginning:
    """Bound the whole problem.

    Parameters
    ----------
    workspace : Workspace
    statistics : Statistics
    cascade : Cascade or None
        Pre-activation bounds and upper bounds of the same problem to start from.
    report : callable
        Called with proved bounds of the whole problem as they drop.
    search : callable
        Looks for points; called once before the slow bounds, if there is a cascade.
    """
    context, clock, points = workspace.context, workspace.watch.clock, workspace.points
    node, root = context.whole(points.pool.count), None
    if cascade is not None and context.system.count:
        cost = root_cost(
            context.targets, context.system.tangents.input_dim, cascade.bounds.unstable
        )
        if switches_pay(context.params, cost.full, cascade.bounds.unstable):
            context = context.with_switches()
            workspace = workspace._replace(context=context)
        node, root = _descended(workspace, cascade, report, search)
        if clock.expired or (root is not None and root.stopped):
            return Beginning(Child(node, node), context, statistics, node.still)
    began = clock.seconds
    is_known = cascade is not None and not context.system.roughness
    try:
        (child,), statistics = examine_children(
            workspace, [Child(node, node)], statistics, is_known, root
        )
    except OutOfTimeError:
        return Beginning(Child(node, node), context, statistics, node.still, 0.0)
    still = child.node.still if child.form is None else child.form.units.size
    return Beginning(child, context, statistics, still, clock.seconds - began)


def switches_pay(params: Params, seconds: float, unstable: int) -> bool:
    """Return whether switches pay at a root, by its predicted time and number of unstable units."""
    return seconds >= (params.long_root if unstable >= params.many else params.switched)


def _taken_over(context: PhaseContext, node: PhaseNode, cascade: Cascade) -> PhaseNode:
    """Return the root with the bounds of a cascade, whose targets may be coarser."""
    bounds, left = cascade.bounds, context.presolved
    phases = left.restrict(flat(bounds.phases), node.phases)
    lower = left.restrict(np.concatenate(bounds.lower), node.lower)
    upper = left.restrict(np.concatenate(bounds.upper), node.upper)
    known = cascade.bounds_of(context.targets)
    return node._replace(phases=phases, lower=lower, upper=upper, proved=known, target_bounds=known)


def _descended(
    workspace: Workspace,
    cascade: Cascade,
    report: Callable[[float], object],
    search: Callable[[], object],
) -> tuple[PhaseNode, RootBounds | None]:
    """Tighten the root from a cascade, step by step if its first full bound would take long."""
    context, points, clock = workspace.context, workspace.points, workspace.watch.clock
    node = _taken_over(context, context.whole(points.pool.count), cascade)
    cost = root_cost(context.targets, context.system.tangents.input_dim, node.still)
    if cost.full < context.params.long_root:
        search()
        cascade.run(("joint",))
        return _taken_over(context, node, cascade), None
    norm = context.problem.output_norm
    chain = None
    if cost.full >= _DEEP:
        from lipyomo.relaxations.semidefinite.chain_root import chain_bounds, exact_tangents

        small, phases = cascade.problem, cascade.bounds.phases
        tangents = exact_tangents(small.network, small.directions)
        chain = chain_bounds(tangents, norm, phases, cascade.targets, cascade.upper)
    if chain is not None:
        chain = chain.run(context.cutoff(points.best.value), clock, report, closed_only=True)
        search()
        chain = chain.run(context.cutoff(points.best.value), clock, report)
        cascade.tighten(chain.upper)
        node = _taken_over(context, node, cascade)
    root = RootBounds.of(
        context.system, context.targets, node.phases, node.proved, norm, bounder=context.bounder
    )
    cutoff = context.cutoff(points.best.value)
    root = root.begun(cutoff, clock, report)
    if chain is None:
        search()
    cutoff = context.cutoff(points.best.value)
    form, switches = root.form, context.switches
    above = int((root.upper > cutoff).sum())
    if switches is not None and form.units.size and switches.fits(clock, form.units.size, above):
        node = node._replace(proved=root.upper, target_bounds=root.upper)
        found = bound_switched(switches, node, form, cutoff, clock, report)
        return found.node, None
    root = tighten_root(root, cascade, clock, report, cutoff)
    node = node._replace(target_bounds=root.upper)
    return with_root(node, root), root
