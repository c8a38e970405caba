"""Processing boxes: handing them over to the search over phases as nodes, or bisecting them.

Nodes carry all that is known about their boxes, and an empty start for dual ascent: their ranges
have just been found by substitution, which is not repeated, and the ascent takes no longer than
that of any other node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import IntArray
from lipyomo.base.clock import Clock
from lipyomo.networks.phases import OPEN
from lipyomo.search.engine.protocol import NODES, Incumbent, Outcome, Pulse
from lipyomo.search.spaces.bundle import bundles, joined, thin_boxes
from lipyomo.search.spaces.joint.adaptive import BoxesOrNode, NearCutoff
from lipyomo.search.spaces.joint.beside import together_of
from lipyomo.search.spaces.joint.bound import BoundedBoxes, bounded_pairs
from lipyomo.search.spaces.joint.context import JointBoxes, JointContext
from lipyomo.search.spaces.phases.context import PhaseContext
from lipyomo.search.spaces.phases.node import PhaseNode, Split, WarmStart
from lipyomo.search.spaces.phases.points import Points

HANDED_UNITS = 24.0
"""Boxes are handed over if their scores, which count unstable units, sum to at most this: others
become large trees.  A box has about twice as many unstable units at most."""

FAR_HALVES = 3.0
"""Boxes are bisected twice at once if their bounds seem to need more bisections than this."""


class Halved(NamedTuple):
    """The result of processing some boxes.

    Attributes
    ----------
    boxes : JointBoxes
    nodes : list of PhaseNode
        Handed over to the search over phases.
    closed : float
        Largest bound of the boxes that are closed; minus infinity if there are none.
    counters : mapping of str to int
        See `lipyomo.search.spaces.joint.adaptive`.
    """

    boxes: JointBoxes
    nodes: list[PhaseNode]
    closed: float
    counters: Mapping[str, int]


def halved_in_turn(
    context: JointContext,
    space: PhaseContext,
    bundled: Sequence[JointBoxes],
    best: Incumbent,
    reach: NearCutoff,
    clock: Clock,
    pulse: Pulse,
) -> Outcome[BoxesOrNode]:
    """Process bundles of boxes; see `handed_or_halved` and `NearCutoff`."""
    boxes, points = joined(bundled), Points(space, np.random.default_rng(0), best.value)
    parts: list[Halved] = []
    rest = boxes.take(slice(0, 0))
    size, most = context.params.bundle, reach.together
    for at in range(0, len(boxes), size):
        if clock.expired:
            rest = boxes.take(slice(at, len(boxes)))
            break
        some = boxes.take(slice(at, at + size))
        parts.append(handed_or_halved(context, space, points, some, reach, max(most, 0)))
        most -= len(parts[-1].nodes)
        reach = reach.after(parts[-1].counters)
        pulse()
    left = joined([part.boxes for part in parts]) if parts else boxes.take(slice(0, 0))
    found = points.best if points.best.value > best.value else None
    own = Outcome[BoxesOrNode](bundles(left, size), bundles(rest, size), closed=0.0, best=found)
    handed = (
        Outcome[BoxesOrNode](tuple(part.nodes), closed=part.closed, counters=part.counters)
        for part in parts
    )
    return together_of([own, *handed])


def handed_or_halved(
    context: JointContext,
    space: PhaseContext,
    points: Points,
    boxes: JointBoxes,
    reach: NearCutoff | None = None,
    most: int = 0,
) -> Halved:
    """Hand boxes over, or bisect them.

    The middles of the halves are tried as points.

    Parameters
    ----------
    context : JointContext
    space : PhaseContext
        Of the same problem.
    points : Points
    boxes : JointBoxes
    reach : NearCutoff, optional
        Which boxes are near the cutoff; by default none.
    most : int, optional
        The largest number of boxes that are handed over, not counting those too thin to be
        bisected; others that are near wait as they are.
    """
    cutoff = space.cutoff(points.best.value)
    some = thin_boxes(boxes, context.problem.domain, context.params.least_width)
    candidates = np.zeros(0, dtype=np.intp)
    if reach is not None and cutoff > 0.0:
        hands = reach.are_handed(boxes.bounds / cutoff, boxes.fall)
        hands &= boxes.scores.sum(axis=1) <= HANDED_UNITS
        candidates = np.flatnonzero(~some & hands)
    order = np.argsort(-boxes.bounds[candidates], kind="stable")
    first, waits = np.split(candidates[order], [most])
    some[first] = True
    waiting, far = boxes.take(waits), ~some
    far[waits] = False
    nodes, closed, counters = list[PhaseNode](), -math.inf, {NODES: len(boxes) - len(waiting)}
    if some.any():
        near = bounded_pairs(context, boxes.take(some), cutoff)
        done = near.boxes.bounds <= cutoff
        nodes = as_nodes(context, space, near.take(np.flatnonzero(~done)), cutoff)
        closed = float(near.boxes.bounds[done].max(initial=-math.inf))
    parts, times = _parts(boxes.take(far), cutoff)
    if not len(parts):
        return Halved(waiting, nodes, closed, counters)
    points.enter(context.problem.domain.drawn_in(parts.middle))
    cutoff = space.cutoff(points.best.value)
    found = bounded_pairs(context, parts, cutoff).boxes.fallen(parts, times)
    done = found.bounds <= cutoff
    closed = max(closed, float(found.bounds[done].max(initial=-math.inf)))
    return Halved(joined([found.take(~done), waiting]), nodes, closed, counters)


def _parts(boxes: JointBoxes, cutoff: float) -> tuple[JointBoxes, IntArray]:
    """Bisect boxes, twice if they are far above the cutoff; return the parts and how often.

    The bounds of the halves in between would not close anything there.
    """
    halves, can = boxes.halves()
    again = halves.are_far(cutoff, FAR_HALVES)
    quarters, able = halves.take(again).halves()
    again[np.flatnonzero(again)[~able]] = False
    # boxes that cannot be bisected in float64 are kept; splitting units decides them
    parts = [halves.take(~again), boxes.take(~can), quarters]
    times = np.repeat([1, 1, 2], [len(part) for part in parts])
    return joined(parts), times


def as_nodes(
    context: JointContext, space: PhaseContext, found: BoundedBoxes, cutoff: float
) -> list[PhaseNode]:
    """Turn boxes above the cutoff into nodes, with the targets whose bounds are above it there."""
    left, boxes, stack = space.presolved, found.boxes, found.stack
    known, unknown = left.restrict(stack.phases, left.phases), np.full(space.system.count, np.inf)
    decided = left.phases != OPEN
    known[:, decided] = left.phases[decided]
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
