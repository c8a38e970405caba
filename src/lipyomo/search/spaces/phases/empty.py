"""The fifth step: which parts have no interior, and the values of those without open units.

A linear program a part answers, with a point of those that have interior.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.base.frozen import but
from lipyomo.base.numerics.exact import approximate
from lipyomo.primal.regions.full import examine
from lipyomo.primal.regions.partial import RegionProgram
from lipyomo.primal.regions.replay import directed_gradients
from lipyomo.problems.affine.system import NodeForm
from lipyomo.search.spaces.phases.context import Context
from lipyomo.search.spaces.phases.learnt import Learnt
from lipyomo.search.spaces.phases.node import Node
from lipyomo.search.spaces.phases.part import Part
from lipyomo.search.spaces.phases.points import Points


def asks_program(context: Context, learnt: Learnt) -> tuple[bool, Learnt]:
    """Whether to solve the linear program of a node in which no point is known.

    Where dual ascent runs it finds most empty nodes first.  The programs also give points, so that
    some are solved in any case.
    """
    one_in, learnt = context.params.programs, learnt.counting(pointless=1)
    pays = one_in * (1 + learnt.empty_by_program) > learnt.programs
    return context.ascent is None or pays or learnt.pointless % one_in == 0, learnt


def with_interior(
    context: Context,
    parts: Sequence[Part],
    asked: Sequence[bool],
    learnt: Learnt,
    points: Points,
    region: RegionProgram,
) -> tuple[list[Part], Learnt]:
    """Fathom those parts without interior, where programs are asked; the others get points."""
    claims = list(parts)
    found, empty, before = [], 0, region.solved
    for k, (part, asks) in enumerate(zip(parts, asked, strict=True)):
        if not (asks and part.is_open):
            continue
        answer = region.examine(part.known_form, part.node)
        if answer.empty:
            empty += 1
            claims[k] = part.fathom(-np.inf)
        elif answer.point is not None:
            found.append((k, answer.point, answer.margin))
    if found:
        numbers, near, margins = zip(*found, strict=True)
        units = np.flatnonzero(context.system.kinked)
        visited = points.visit(np.array(near), np.array(margins))
        for k, inside in zip(numbers, visited, strict=True):
            node = claims[k].node
            node = node.but(points=points.within(inside, node.phases, units))
            claims[k] = but(claims[k], node=node)
    solved = region.solved - before
    return claims, learnt.counting(programs=solved, empty_by_program=empty, empty=empty)


def finished(context: Context, part: Part, learnt: Learnt, points: Points) -> tuple[Part, Learnt]:
    """Fathom a part without open units: its value is known, if its region has interior."""
    node, cutoff = part.node, context.cutoff(points.best.value)
    value = min(_value(context, node, part.known_form, cutoff), float(node.proved.max()))
    if value > cutoff:
        problem = context.problem
        answer = examine(problem.network, problem.domain, context.pattern(node.phases))
        if answer.empty:
            return part.fathom(-np.inf), learnt.counting(empty=1)
        if answer.point is not None:
            points.challenge(answer.point)
        unresolved = value > context.cutoff(points.best.value)
        learnt = learnt.counting(unresolved=int(unresolved))
    return part.fathom(value), learnt


def _value(context: Context, node: Node, form: NodeForm, cutoff: float) -> float:
    """Upper bound of a node without open units; exact where much of its gradient cancels.

    Rounding errors of half the slack that counts as met leave the other half to the proof; exact
    arithmetic takes seconds for a CNN.
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
