"""Boxes as nodes of the search over phases, with all that is known about them.

They carry an empty start for dual ascent: their ranges have just been found by substitution, which
is not repeated, and the ascent takes no longer than that of any other node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lipyomo.networks.phases import OPEN
from lipyomo.problems.affine.system import FlatPhases
from lipyomo.search.spaces.joint.bound import BoundedBoxes
from lipyomo.search.spaces.joint.context import JointContext
from lipyomo.search.spaces.phases.context import PhaseContext
from lipyomo.search.spaces.phases.node import DualCertificate, PhaseNode, Split, WarmStart


def presolved_phases(space: PhaseContext, found: BoundedBoxes) -> FlatPhases:
    """Return the phases (N, units) of the units that are left after presolve."""
    left, root = space.presolved, space.presolved.phases
    known = left.restrict(found.stack.phases, root)
    known[:, root != OPEN] = root[root != OPEN]
    return np.asarray(known)


def as_nodes(
    context: JointContext,
    space: PhaseContext,
    found: BoundedBoxes,
    cutoff: float,
    certificates: Sequence[Mapping[int, DualCertificate]],
) -> list[PhaseNode]:
    """Turn boxes into nodes, with the targets whose bounds are above the cutoff there.

    Parameters
    ----------
    context : JointContext
    space : PhaseContext
        Of the same problem.
    found : BoundedBoxes
        Boxes whose bounds are above the cutoff.
    cutoff : float
    certificates : sequence of (mapping of int to DualCertificate)
        The certificates of each box, by target.
    """
    left, boxes, stack = space.presolved, found.boxes, found.stack
    known, unknown = presolved_phases(space, found), np.full(space.system.count, np.inf)
    lower, upper = left.restrict(stack.lower, -unknown), left.restrict(stack.upper, unknown)
    bounds = context.of_targets(boxes.pairs)
    columns = 0 if space.ascent is None else space.ascent.columns
    none = np.zeros(0, dtype=np.intp), np.zeros((0, columns), dtype=np.float16)
    first = _first_split(context)
    nodes = []
    for k in range(len(boxes)):
        targets = np.flatnonzero(bounds[k] > cutoff)
        above = bounds[k, targets]
        ends = zip(boxes.low[k].tolist(), boxes.high[k].tolist(), strict=True)
        nodes.append(
            PhaseNode(
                known[k],
                lower[k],
                upper[k],
                boxes.low[k],
                boxes.high[k],
                targets,
                above,
                above,
                certificates=certificates[k],
                warm_start=WarmStart(known[k], *none),
                dropped=float(bounds[k].max(where=bounds[k] <= cutoff, initial=0.0)),
                trail=(first, *(Split(j, None, end) for j, end in enumerate(ends))),
            )
        )
    return nodes


def handed_over(context: JointContext, nodes: Sequence[PhaseNode]) -> tuple[PhaseNode, ...]:
    """Return the nodes that were boxes, or are parts of such nodes."""
    first = _first_split(context)
    return tuple(node for node in nodes if node.trail[:1] == (first,))


def _first_split(context: JointContext) -> Split:
    """Return what the trails of boxes begin with: all of an input's interval, which is no split."""
    domain = context.problem.domain
    return Split(0, None, (float(domain.lower[0]), float(domain.upper[0])))
