"""The fifth step: find empty children, and the values of those without unstable units.

One linear program per child decides, and gives a point of the child if it has interior.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.base.numerics.exact import approximate
from lipyomo.primal.regions.full import examine
from lipyomo.primal.regions.partial import RegionProgram
from lipyomo.primal.regions.replay import directed_gradients
from lipyomo.problems.affine.system import NodeForm
from lipyomo.search.spaces.phases.context import PhaseContext
from lipyomo.search.spaces.phases.node import Child, PhaseNode
from lipyomo.search.spaces.phases.points import Points
from lipyomo.search.spaces.phases.statistics import Statistics


def asks_program(context: PhaseContext, statistics: Statistics) -> tuple[bool, Statistics]:
    """Return whether to solve the linear program of a node in which no point is known.

    Dual ascent, if it runs, finds most empty nodes before.  As the programs also give points, some
    are solved in any case.
    """
    one_in, statistics = context.params.programs, statistics.counting(pointless=1)
    pays = one_in * (1 + statistics.empty_by_program) > statistics.programs
    return context.ascent is None or pays or statistics.pointless % one_in == 0, statistics


def with_interior(
    context: PhaseContext,
    children: Sequence[Child],
    asked: Sequence[bool],
    statistics: Statistics,
    points: Points,
    region: RegionProgram,
) -> tuple[list[Child], Statistics]:
    """Solve the linear programs of children in `asked`: fathom empty ones, else add points."""
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
