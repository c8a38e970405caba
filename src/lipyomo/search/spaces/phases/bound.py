"""The third and fourth step: semidefinite bounds of a node's targets, and units fixed by them.

The third computes bounds in floating point, with dual multipliers as certificates, and proves those
that close targets.  The fourth fixes units whose other side cannot beat the incumbent: the bound of
that side is proved from the multipliers of the child.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lipyomo.base.clock import Clock, fits
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.problems.affine.system import NodeForm
from lipyomo.relaxations.semidefinite.bounder import Minimum
from lipyomo.relaxations.semidefinite.choice import root_cost
from lipyomo.relaxations.semidefinite.params import PARAMS
from lipyomo.relaxations.semidefinite.root import RootBounds
from lipyomo.search.spaces.phases.context import PhaseContext
from lipyomo.search.spaces.phases.node import Ahead, Child, DualCertificate, PhaseNode, Watch
from lipyomo.search.spaces.phases.points import Points
from lipyomo.search.spaces.phases.statistics import Statistics

if TYPE_CHECKING:
    from lipyomo.relaxations.semidefinite.switched_bounds import (
        PartBounds,
        SwitchedBounder,
    )


class BoundedNode(NamedTuple):
    """The result of bounding a node.

    Attributes
    ----------
    node : PhaseNode
    worst : Ahead or None
        None if no target was bounded above the cutoff.
    solved, steps : int
        Bounds computed and Newton steps taken.
    """

    node: PhaseNode
    worst: Ahead | None = None
    solved: int = 0
    steps: int = 0


def bounded_targets(
    context: PhaseContext,
    children: Sequence[Child],
    statistics: Statistics,
    value: float,
    watch: Watch,
    root: RootBounds | None = None,
) -> tuple[list[Child], Statistics]:
    """Bound the targets of children with unstable units.

    Parameters
    ----------
    context : PhaseContext
    children : sequence of Child
        Fathomed ones are returned unchanged.
    statistics : Statistics
    value : float
        Value of the incumbent.
    watch : Watch
    root : RootBounds, optional
        Bounds of the whole problem that are known already.
    """
    aim, cutoff = context.aim(value), context.cutoff(value)
    claims, solved, steps, closed = [], 0, 0, 0
    for child in children:
        if not child.is_open:
            claims.append(child)
            continue
        watch.pulse()
        child = child.without_unproved(cutoff)
        node, form = child.node, child.known_form
        if context.switches is not None:
            found = bound_switched(context.switches, node, form, cutoff, watch.clock)
        elif node.trail or node.certificates:
            found = bound_targets(context, node, form, aim, cutoff, watch.clock)
        else:
            found = bound_whole(context, node, form, cutoff, watch.clock, root)
        child = child._replace(node=found.node, worst=found.worst).without_targets(cutoff)
        solved, steps = solved + found.solved, steps + found.steps
        closed += not child.is_open
        claims.append(child)
    return claims, statistics.counting(semidefinite=solved, newton=steps, closed_by_bound=closed)


def bound_targets(
    context: PhaseContext,
    node: PhaseNode,
    form: NodeForm,
    aim: float | None,
    cutoff: float,
    clock: Clock,
) -> BoundedNode:
    """Bound the node's targets, worst first, until one stays above the bound of the next.

    If steps take long, the minimisation of a target stops once it is no longer the worst, as at
    roots: for a small convolution with ten outputs, 2.3 of a node's 2.7 seconds went beyond that.

    Parameters
    ----------
    context : PhaseContext
    node : PhaseNode
    form : NodeForm
        With at least one unstable unit.
    aim : float, optional
        Value at which the minimisation of a bound may stop; by default bounds are minimised.
    cutoff : float
        Bounds at or below it must be proved: they close targets.
    clock : Clock
        Iterations stop once it has expired.
    """
    bounder = context.bounder
    certificates = dict(node.certificates)
    bounds, proved = node.target_bounds.copy(), node.proved.copy()
    worst: Minimum | None = None
    reached, solved, steps = -np.inf, 0, 0
    cost = root_cost(context.targets, form.inputs, form.units.size)
    affordable = cost.fits and fits(cost.step, clock.left)
    for index in np.argsort(-bounds, kind="stable"):
        if bounds[index] <= max(reached, cutoff):
            break
        target = int(node.targets[index])
        found = None
        if affordable:
            old = certificates.get(target)
            # multipliers found for this same form are not refined again
            same = old is not None and np.array_equal(old.units, form.units)
            most = 0 if same else PARAMS.most_steps
            known = None if old is None else old.signs
            signs = known if same else bounder.signs(form, target, known)
            start = None
            if old is not None:
                y = bounder.rejoined(target, old.units, old.multipliers, known, signs)
                start = old.units, y
            goal = aim
            if aim is not None and cost.full >= context.params.long_root:
                goal = max(aim, reached * (1.0 - EXACT_TOLERANCE))
            found = bounder.minimise(form, target, start, goal, lambda: clock.expired, most, signs)
            solved += 1
        if found is None:
            reached = max(reached, float(bounds[index]))
            continue
        state = found.state
        steps += state.iterations
        certificates[target] = DualCertificate(target, form.units, state.multipliers, signs)
        value = state.value
        if value <= cutoff:
            value = bounder.prover.bound(form, target, state.multipliers, signs)
            proved[index] = min(float(proved[index]), value)
        bounds[index] = min(float(bounds[index]), value)
        if state.value > max(reached, cutoff):
            worst, reached = found, state.value
    wanted = set(node.targets.tolist())
    node = node._replace(
        target_bounds=bounds,
        proved=proved,
        certificates={target: own for target, own in certificates.items() if target in wanted},
    )
    return BoundedNode(node, None if worst is None else Ahead.of(worst), solved, steps)


def bound_whole(
    context: PhaseContext,
    node: PhaseNode,
    form: NodeForm,
    cutoff: float,
    clock: Clock,
    root: RootBounds | None = None,
) -> BoundedNode:
    """Bound the whole problem: all targets together, in closed form first."""
    if root is None or not np.array_equal(root.form.units, form.units):
        known = np.zeros(context.targets.count)
        known[node.targets] = node.proved
        root = RootBounds.of(
            context.system, context.targets, node.phases, known, bounder=context.bounder
        )
    root = root.run(cutoff, clock)
    node = with_root(node, root)
    target = int(node.targets[np.argmax(node.target_bounds)])
    found = root.minima.get(target)
    worst = None if found is None or node.bound <= cutoff else Ahead.of(found)
    return BoundedNode(node, worst, max(len(root.minima), 1), root.steps)


def bound_switched(
    bounder: SwitchedBounder,
    node: PhaseNode,
    form: NodeForm,
    cutoff: float,
    clock: Clock,
    report: Callable[[float], object] = lambda _: None,
) -> BoundedNode:
    """Bound the node's targets, worst first, with switches as variables that depend on the inputs.

    Parameters
    ----------
    node, form, cutoff, clock
        See `bound_targets`.
    bounder : SwitchedBounder
    report : callable, optional
        Called with a proved bound of all targets whenever it has dropped.
    """
    targets = node.targets.tolist()
    found = bounder.worst_first(
        form, _known(node), targets, node.target_bounds, cutoff, clock, node.minima, report
    )
    bounds, proved, worst = found.bounds, node.proved.copy(), found.worst
    for index in found.lowered:
        proved[index] = min(float(proved[index]), found.minima[targets[index]].bound)
    above = [target for target, bound in zip(targets, bounds, strict=True) if bound > cutoff]
    minima = {target: found.minima[target] for target in above if target in found.minima}
    node = node._replace(target_bounds=bounds, proved=proved, minima=minima)
    ahead = None if worst is None else Ahead(worst.bound, worst.off, worst.on)
    return BoundedNode(node, ahead, found.solved)


def _known(node: PhaseNode) -> PartBounds:
    """Return the bounds of a node's inputs and pre-activations, and the units decided by splits."""
    from lipyomo.relaxations.semidefinite.switched_bounds import PartBounds

    sides = [split for split in node.trail if split.phase is not None]
    units = np.array([split.number for split in sides], dtype=np.int64)
    on = np.array([split.phase == RIGHT for split in sides], dtype=bool)
    return PartBounds(node.lower, node.upper, node.low, node.high, units, on)


def with_root(node: PhaseNode, root: RootBounds) -> PhaseNode:
    """Return the root node with the bounds and certificates of the whole problem."""
    proved = root.upper[node.targets]
    units = root.form.units
    certificates = {
        target: DualCertificate(target, units, y) for target, y in root.multipliers.items()
    }
    bounds = np.minimum(node.target_bounds, proved)
    return node._replace(proved=proved, target_bounds=bounds, certificates=certificates)


def proved(context: PhaseContext, node: PhaseNode) -> PhaseNode:
    """Return the node with proved bounds only."""
    if (node.proved <= node.target_bounds).all():
        return node
    known = node.proved.copy()
    forms: dict[bytes, NodeForm] = {}
    for index, target in enumerate(node.targets.tolist()):
        own = node.certificates.get(target)
        if own is None or not own.units.size or node.target_bounds[index] >= known[index]:
            continue
        key = own.units.tobytes()
        if key not in forms:
            phases = node.phases.copy()
            phases[own.units] = OPEN  # some have been decided since
            forms[key] = context.system.form(phases)
        bound = context.bounder.prover.bound(forms[key], target, own.multipliers, own.signs)
        known[index] = min(bound, float(known[index]))
    return node._replace(proved=known, target_bounds=known)


def fixed(
    context: PhaseContext, child: Child, statistics: Statistics, points: Points
) -> tuple[Child, Statistics]:
    """Decide the units of a child whose other side cannot beat the incumbent."""
    node, form, worst = child.node, child.known_form, child.worst
    if worst is None or worst.found is None or node.targets.size > 1:
        return child, statistics
    value = points.best.value
    cutoff, drops = context.cutoff(value), (worst.off, worst.on)
    remaining, count = node, 0
    for position, on, bound in context.bounder.excluded(
        form, worst.found, drops, context.aim(value)
    ):
        unit = int(form.units[position])
        if bound > cutoff or remaining.phases[unit] != OPEN:
            continue
        left, right = remaining.sides(unit)
        other, remaining = (right, left) if on else (left, right)
        child = child.fathom(bound, other)
        count += 1
    if count:
        statistics = statistics.counting(fixed=count)
        more = np.flatnonzero(remaining.phases != node.phases)
        inside = points.pool.within(node.points, remaining.phases, more)
        child = child._replace(node=remaining._replace(points=inside))
    return child, statistics
