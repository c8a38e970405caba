"""The steps that examine children of nodes, in their order; the first and the fifth are here.

    propagate -> tighten -> bound -> fix units by bounds -> decide emptiness -> score

Propagation bounds pre-activations by back-substitution and the gradient by interval arithmetic,
derives the phases that follow, and finds some children empty.
Bounding and deciding emptiness cost about the same; the one that has closed more nodes comes first.
A step sees the results of earlier ones and the current incumbent.

The fifth step finds empty children, and the values of those without unstable units: one linear
program per child decides, and gives a point of the child if it has interior.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.exact import approximate
from lipyomo.networks.phases import OPEN
from lipyomo.primal.regions.full import examine
from lipyomo.primal.regions.partial import RegionProgram
from lipyomo.primal.regions.replay import directed_gradients
from lipyomo.problems.affine.system import NodeForm
from lipyomo.relaxations.linear.derivative import gradient_sizes
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.relaxations.linear.preactivation import follow
from lipyomo.relaxations.semidefinite.root import RootBounds
from lipyomo.search.spaces.phases.bound import bounded_targets, fixed
from lipyomo.search.spaces.phases.context import PhaseContext
from lipyomo.search.spaces.phases.node import Child, PhaseNode, WarmStart, Watch
from lipyomo.search.spaces.phases.points import Points
from lipyomo.search.spaces.phases.score import rule_of
from lipyomo.search.spaces.phases.statistics import Statistics
from lipyomo.search.spaces.phases.tighten import tighten


class Workspace(NamedTuple):
    """What the steps share, and only add to.

    Attributes
    ----------
    context : PhaseContext
    points : Points
    region : RegionProgram
    watch : Watch
    """

    context: PhaseContext
    points: Points
    region: RegionProgram
    watch: Watch


def asks_program(context: PhaseContext, statistics: Statistics) -> tuple[bool, Statistics]:
    """Return whether to solve the linear program of a node in which no point is known.

    Dual ascent, if it runs, finds most empty nodes before.  As the programs also give points, some
    are solved in any case.
    """
    one_in, statistics = context.params.programs, statistics.counting(pointless=1)
    pays = one_in * (1 + statistics.empty_by_program) > statistics.programs
    return context.ascent is None or pays or statistics.pointless % one_in == 0, statistics


def with_interior(
    workspace: Workspace,
    children: Sequence[Child],
    asked: Sequence[bool],
    statistics: Statistics,
) -> tuple[list[Child], Statistics]:
    """Solve the linear programs of children in `asked`: fathom empty ones, else add points."""
    context, points, region = workspace.context, workspace.points, workspace.region
    claims = list(children)
    found, empty, before = [], 0, region.solved
    for k, (child, asks) in enumerate(zip(children, asked, strict=True)):
        if not (asks and child.is_open):
            continue
        answer = region.examine(child.known_form, child.node)
        if answer.empty:
            empty += 1
            claims[k] = child.fathom(-np.inf)
        elif answer.point is not None:
            found.append((k, answer.point, answer.margin))
    if found:
        numbers, near, margins = zip(*found, strict=True)
        units = np.flatnonzero(context.system.kinked)
        visited = points.visit(np.array(near), np.array(margins))
        for k, inside in zip(numbers, visited, strict=True):
            node = claims[k].node
            node = node._replace(points=points.pool.within(inside, node.phases, units))
            claims[k] = claims[k]._replace(node=node)
    solved = region.solved - before
    return claims, statistics.counting(programs=solved, empty_by_program=empty, empty=empty)


def finished_part(
    context: PhaseContext, child: Child, statistics: Statistics, points: Points
) -> tuple[Child, Statistics]:
    """Fathom a child without unstable units: its gradient is constant, unless it is empty."""
    node, cutoff = child.node, context.cutoff(points.best.value)
    value = min(_value(context, node, child.known_form, cutoff), float(node.proved.max()))
    if value > cutoff:
        problem = context.problem
        answer = examine(problem.network, problem.domain, context.pattern(node.phases))
        if answer.empty:
            return child.fathom(-np.inf), statistics.counting(empty=1)
        if answer.point is not None:
            points.challenge(answer.point)
        unresolved = value > context.cutoff(points.best.value)
        statistics = statistics.counting(unresolved=int(unresolved))
    return child.fathom(value), statistics


def _value(context: PhaseContext, node: PhaseNode, form: NodeForm, cutoff: float) -> float:
    """Bound a node without unstable units from above; exactly if its gradient cancels much.

    Exact arithmetic takes seconds for a CNN, so it is only used for rounding errors beyond half of
    `slack`; the other half is left to the proof.
    """
    targets = context.targets
    values = targets.exact(form.jacobian)[node.targets]
    errors = context.bounder.value_errors[node.targets]
    if (errors > 0.5 * context.params.slack * values).any() and (values + errors).max() > cutoff:
        problem = context.problem
        pattern = context.pattern(node.phases)
        rows = directed_gradients(problem, pattern, context.functionals)
        gradients = np.array([[approximate(entry) for entry in row] for row in rows])
        values, errors = targets.exact(gradients)[node.targets], 0.0 * errors
    return float((values + errors).max()) * (1.0 + 1e-12)


def examine_children(
    workspace: Workspace,
    children: Sequence[Child],
    statistics: Statistics,
    is_known: bool = False,
    root: RootBounds | None = None,
) -> tuple[list[Child], Statistics]:
    """Bound children of nodes, look for points in them, and choose what to split them on.

    Parameters
    ----------
    workspace : Workspace
    children : sequence of Child
    statistics : Statistics
    is_known : bool, optional
        Whether the children's pre-activation bounds are known already.
    root : RootBounds, optional
        Known bounds of the whole problem.

    Returns
    -------
    list of Child
        In the same order.
    Statistics

    Raises
    ------
    OutOfTimeError
    """
    if not children:
        return [], statistics
    claims, statistics = _narrowed(workspace, children, statistics, is_known)
    claims = [_with_form(workspace, child) for child in claims]
    workspace.watch.check()
    claims, statistics = _finished(workspace, claims, statistics)
    claims, statistics = _judged(workspace, claims, statistics, root)
    return _with_candidates(workspace, claims, statistics)


def _narrowed(
    workspace: Workspace, children: Sequence[Child], statistics: Statistics, is_known: bool
) -> tuple[list[Child], Statistics]:
    """Propagate and tighten: bounds of pre-activations and gradients."""
    context, points = workspace.context, workspace.points
    stack = propagated(context, children, is_known)
    inside = _located(points, children, stack)
    workspace.watch.check()
    warm_start = [child.node.warm_start for child in children]
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
        _taken(child, stack, b, sizes[b], inside[b], warm_start[b])
        for b, child in enumerate(children)
    ]
    return claims, statistics.counting(empty=int(np.count_nonzero(~stack.alive)))


def propagated(context: PhaseContext, children: Sequence[Child], is_known: bool) -> Stack:
    """Propagate the children's phases and bounds: return a stack with all that follows from them.

    Parameters
    ----------
    context : PhaseContext
    children : sequence of Child
    is_known : bool
        Whether the children's pre-activation bounds are known already.
    """
    stack, system = Stack.of([child.node for child in children]), context.system
    # a split on a unit does not change the first layer's ranges, and dual ascent that starts from
    # the parent's multipliers finds all that substitution would
    same = all(child.node is not child.parent and child.keeps_box for child in children)
    if is_known or (same and all(child.node.warm_start is not None for child in children)):
        stack.decide_and_cut(system.kinked)
    elif context.domain.is_bounded:
        context.substitute_back(stack, first=int(same))
    return stack


def _located(points: Points, children: Sequence[Child], stack: Stack) -> list[IntArray]:
    """Return which known points lie in each child."""
    found = []
    for b, child in enumerate(children):
        node, phases, inside = child.node, stack.phases[b], child.node.points
        if stack.alive[b]:
            before = OPEN if node is child.parent else child.parent.phases
            inside = points.pool.within(inside, phases, np.flatnonzero(phases != before))
            if inside.size and not child.keeps_box:
                here = points.pool.at(inside)
                inside = inside[((here >= node.low) & (here <= node.high)).all(axis=1)]
        found.append(inside)
    return found


def _gradient_bounds(context: PhaseContext, stack: Stack) -> FloatArray:
    """Bound the targets by interval bounds of the gradient's entries, shape (B, T)."""
    system = context.system
    ends = system.head - system.head_errors, system.head + system.head_errors
    sizes = gradient_sizes(system.tangents.hidden, stack.phases, *ends, system.rough)
    return context.targets.interval(sizes)


def _taken(
    child: Child,
    stack: Stack,
    b: int,
    sizes: FloatArray,
    points: IntArray,
    warm_start: WarmStart | None,
) -> Child:
    """Update a child from entry `b` of a stack and from bounds (T,) of all targets."""
    if not stack.alive[b]:
        return child.fathom(-np.inf)
    proved = np.minimum(child.node.proved, sizes[child.node.targets])
    node = child.node._replace(
        phases=stack.phases[b].copy(),  # a view would keep the whole batch in memory
        lower=stack.lower[b].copy(),
        upper=stack.upper[b].copy(),
        proved=proved,
        target_bounds=np.minimum(child.node.target_bounds, proved),
        points=points,
        warm_start=warm_start,
    )
    return child._replace(node=node)


def _with_form(workspace: Workspace, child: Child) -> Child:
    """Drop targets that cannot beat the incumbent; if any is left, compute the child's form."""
    if child.is_open:
        workspace.watch.check()
        cutoff = workspace.context.cutoff(workspace.points.best.value)
        child = child.without_unproved(cutoff).without_targets(cutoff)
    if child.is_open:
        child = child._replace(form=workspace.context.system.form(child.node.phases))
    return child


def _finished(
    workspace: Workspace, children: Sequence[Child], statistics: Statistics
) -> tuple[list[Child], Statistics]:
    """Fathom the children without unstable units."""
    context, points = workspace.context, workspace.points
    full = [child.is_open and not child.known_form.units.size for child in children]
    asked = [
        last and not child.node.points.size for child, last in zip(children, full, strict=True)
    ]
    claims, statistics = with_interior(workspace, children, asked, statistics)
    for k in np.flatnonzero(full).tolist():
        if claims[k].is_open:
            workspace.watch.check()
            claims[k], statistics = finished_part(context, claims[k], statistics, points)
    return claims, statistics


def _judged(
    workspace: Workspace, children: Sequence[Child], statistics: Statistics, root: RootBounds | None
) -> tuple[list[Child], Statistics]:
    """Bound children with unstable units, and decide which children are empty."""
    context, points = workspace.context, workspace.points
    asked = []
    for child in children:
        asks = child.is_open and not child.node.points.size
        if asks:
            asks, statistics = asks_program(context, statistics)
        asked.append(asks)
    # on unbounded domains, emptiness is proved in rational arithmetic, which costs more
    closing = statistics.closed_by_bound * statistics.programs
    emptying = statistics.empty_by_program * statistics.semidefinite
    first = closing > emptying or not context.domain.is_bounded
    claims = list(children)
    for bounding in (first, not first):
        value = points.best.value
        if bounding:
            claims, statistics = bounded_targets(
                context, claims, statistics, value, workspace.watch, root
            )
        else:
            claims, statistics = with_interior(workspace, claims, asked, statistics)
    return claims, statistics


def _with_candidates(
    workspace: Workspace, children: Sequence[Child], statistics: Statistics
) -> tuple[list[Child], Statistics]:
    """Fix units by bounds, and choose the branching candidates of each child."""
    context, points, weights = workspace.context, workspace.points, statistics.weights()
    rule, claims = rule_of(context), list(children)
    for k, child in enumerate(children):
        if child.is_open:
            child, statistics = fixed(context, child, statistics, points)
            cutoff = context.cutoff(points.best.value)
            units, features, statistics = rule(
                context, child.node, child.known_form, child.worst, statistics, weights, cutoff
            )
            claims[k] = child._replace(
                node=child.node._replace(candidates=units, features=features)
            )
    return claims, statistics
