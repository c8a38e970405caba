"""Processing boxes: closing them by semidefinite bounds, handing them over, or bisecting them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lipyomo.base.arrays import IntArray
from lipyomo.base.clock import Clock
from lipyomo.search.engine.protocol import NODES, Incumbent, Outcome, Pulse
from lipyomo.search.spaces.bundle import bundles, joined, thin_boxes
from lipyomo.search.spaces.joint.adaptive import BOUNDED, CLOSED, BoxesOrNode, NearCutoff
from lipyomo.search.spaces.joint.beside import together_of
from lipyomo.search.spaces.joint.bound import bounded_pairs
from lipyomo.search.spaces.joint.close import closing
from lipyomo.search.spaces.joint.context import JointBoxes, JointContext
from lipyomo.search.spaces.joint.handover import as_nodes
from lipyomo.search.spaces.phases.context import PhaseContext
from lipyomo.search.spaces.phases.node import PhaseNode
from lipyomo.search.spaces.phases.points import Points

HANDED_UNITS = 24.0
"""Boxes are handed over if their scores, which count unstable units, sum to at most this: others
become large trees.  A box has about twice as many unstable units at most."""

FAR_HALVES = 3.0
"""Boxes are bisected twice at once if their bounds seem to need more bisections than this."""


@dataclass(frozen=True, eq=False)
class Halved:
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
    nodes: list[PhaseNode] = field(default_factory=list)
    closed: float = -math.inf
    counters: Mapping[str, int] = field(default_factory=dict)


def halved_in_turn(
    context: JointContext,
    space: PhaseContext,
    bundled: Sequence[JointBoxes],
    best: Incumbent,
    reach: NearCutoff,
    clock: Clock,
    pulse: Pulse,
) -> Outcome[BoxesOrNode]:
    """Process bundles of boxes; see `closed_or_halved` and `NearCutoff`."""
    boxes, rng = joined(bundled), np.random.default_rng(0)
    points = Points(space.problem, space.presolved, rng, space.params, best.value)
    parts: list[Halved] = []
    rest = boxes.take(slice(0, 0))
    size, most = context.params.bundle, reach.together
    for at in range(0, len(boxes), size):
        if clock.expired:
            rest = boxes.take(slice(at, len(boxes)))
            break
        some = boxes.take(slice(at, at + size))
        parts.append(closed_or_halved(context, space, points, some, reach, max(most, 0), clock))
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


def closed_or_halved(
    context: JointContext,
    space: PhaseContext,
    points: Points,
    boxes: JointBoxes,
    reach: NearCutoff | None = None,
    most: int = 0,
    clock: Clock | None = None,
) -> Halved:
    """Close boxes by semidefinite bounds, hand them over or bisect them.

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
    clock : Clock, optional
        The time limit of semidefinite bounds.
    """
    far, waiting, near = _parted(context, space, points, boxes, reach, most, clock or Clock())
    cutoff = space.cutoff(points.best.value)
    parts, times = _parts(far, cutoff)
    if not len(parts):
        return replace(near, boxes=waiting)
    points.enter(context.problem.domain.drawn_in(parts.middle))
    cutoff = space.cutoff(points.best.value)
    found = bounded_pairs(context, parts, cutoff).boxes.fallen(parts, times)
    done = found.bounds <= cutoff
    closed = max(near.closed, float(found.bounds[done].max(initial=-math.inf)))
    left = joined([found.take(~done), waiting])
    return replace(near, boxes=left, closed=closed)


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


def _parted(
    context: JointContext,
    space: PhaseContext,
    points: Points,
    boxes: JointBoxes,
    reach: NearCutoff | None,
    most: int,
    clock: Clock,
) -> tuple[JointBoxes, JointBoxes, Halved]:
    """Return the boxes to be bisected, those that wait, and the result of the others."""
    cutoff = space.cutoff(points.best.value)
    flat = thin_boxes(boxes, context.problem.domain, context.params.least_width)
    none_of = np.zeros(len(boxes), dtype=bool)
    short, hands = none_of, none_of
    if reach is not None and cutoff > 0.0:
        multiples = boxes.bounds / cutoff
        short = ~flat & reach.are_bounded(multiples, boxes.fall)
        hands = reach.are_handed(multiples, boxes.fall)
        hands &= boxes.scores.sum(axis=1) <= HANDED_UNITS
    candidates = np.flatnonzero(~flat & ~short & hands)
    order = np.argsort(-boxes.bounds[candidates], kind="stable")
    first, waits = np.split(candidates[order], [most])
    some = flat | short
    some[first] = True
    waiting, none = boxes.take(waits), boxes.take(slice(0, 0))
    counters = {NODES: len(boxes) - len(waiting)}
    far = ~some
    far[waits] = False
    if not some.any():
        return boxes.take(far), waiting, Halved(none, counters=counters)
    found = bounded_pairs(context, boxes.take(some), cutoff)
    known = closing(context, space, found, points.best.value, short[some], clock)
    bounds = known.found.boxes.bounds
    done = bounds <= cutoff
    number = np.flatnonzero(~done & (~short[some] | hands[some]))
    own = [known.certificates[k] for k in number]
    nodes = as_nodes(context, space, known.found.take(number), cutoff, own)
    counters |= {BOUNDED: int(known.tried.sum()), CLOSED: int((known.tried & done).sum())}
    closed = float(bounds[done].max(initial=-math.inf))
    done[number] = True
    left = joined([boxes.take(far), known.found.boxes.take(~done)])
    return left, waiting, Halved(none, nodes, closed, counters)
