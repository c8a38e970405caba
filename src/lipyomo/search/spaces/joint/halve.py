"""What becomes of boxes: closed by semidefinite bounds, handed over, or halved and bounded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lipyomo.base.arrays import IntArray
from lipyomo.base.clock import Clock
from lipyomo.search.engine.protocol import NODES, Incumbent, Outcome, Pulse
from lipyomo.search.spaces.bundle import bundles, joined, thin_boxes
from lipyomo.search.spaces.joint.bound import bounded_pairs
from lipyomo.search.spaces.joint.close import closing
from lipyomo.search.spaces.joint.context import Boxes, Context
from lipyomo.search.spaces.joint.handover import as_nodes
from lipyomo.search.spaces.joint.parts import BOUNDED, CLOSED, NearCutoff, Part
from lipyomo.search.spaces.phases import context as phases
from lipyomo.search.spaces.phases.node import Node
from lipyomo.search.spaces.phases.points import Points

HANDED_UNITS = 24.0
"""Boxes that are handed over have no more unstable units than twice that, about, as their scores
count them: others become large trees."""

FAR_HALVES = 3.0
"""Boxes are halved twice at once if their bounds seem to meet the cutoff after more halvings."""


@dataclass(frozen=True, eq=False)
class Halved:
    """What is left of some boxes.

    Attributes
    ----------
    boxes : Boxes
    nodes : list of Node
        Handed over to the search of phases.
    closed : float
        Largest bound of what is closed; minus infinity if nothing is.
    counters : mapping of str to int
        See `lipyomo.search.spaces.joint.parts`.
    """

    boxes: Boxes
    nodes: list[Node] = field(default_factory=list)
    closed: float = -math.inf
    counters: Mapping[str, int] = field(default_factory=dict)


def halved_in_turn(
    context: Context,
    space: phases.Context,
    bundled: Sequence[Boxes],
    best: Incumbent,
    reach: NearCutoff,
    clock: Clock,
    pulse: Pulse,
) -> Outcome[Part]:
    """What becomes of bundles of boxes; see `closed_or_halved`, and `NearCutoff`."""
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
    counters: Counter[str] = Counter()
    for part in parts:
        counters.update(part.counters)
    left = joined([part.boxes for part in parts]) if parts else boxes.take(slice(0, 0))
    return Outcome(
        (*bundles(left, size), *(node for part in parts for node in part.nodes)),
        returned=bundles(rest, size),
        closed=max([0.0, *(part.closed for part in parts)]),
        best=points.best if points.best.value > best.value else None,
        counters=counters,
    )


def closed_or_halved(
    context: Context,
    space: phases.Context,
    points: Points,
    boxes: Boxes,
    reach: NearCutoff | None = None,
    most: int = 0,
    clock: Clock | None = None,
) -> Halved:
    """Close boxes by semidefinite bounds, hand them over or halve them.

    The middles of halves are entered as points.

    Parameters
    ----------
    context : Context
    space : lipyomo.search.spaces.phases.context.Context
        Of the same problem.
    points : Points
    boxes : Boxes
    reach : NearCutoff, optional
        What is near; by default nothing.
    most : int, optional
        So many boxes at most are handed over, but for those too thin to be halved; others that are
        near wait as they are.
    clock : Clock, optional
        Of semidefinite bounds.
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


def _parts(boxes: Boxes, cutoff: float) -> tuple[Boxes, IntArray]:
    """Halves of boxes, and how often each was halved: twice where boxes are far above the cutoff.

    What lies between a box and its quarters would have bounds that end nothing.
    """
    halves, can = boxes.halves()
    again = halves.are_far(cutoff, FAR_HALVES)
    quarters, able = halves.take(again).halves()
    again[np.flatnonzero(again)[~able]] = False
    # where float64 numbers are too coarse, units are left to decide
    parts = [halves.take(~again), boxes.take(~can), quarters]
    times = np.repeat([1, 1, 2], [len(part) for part in parts])
    return joined(parts), times


def _parted(
    context: Context,
    space: phases.Context,
    points: Points,
    boxes: Boxes,
    reach: NearCutoff | None,
    most: int,
    clock: Clock,
) -> tuple[Boxes, Boxes, Halved]:
    """Boxes that are to be halved, those that wait, and what became of the others."""
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
