"""What becomes of the halves of boxes: closed, handed over, or boxes again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import BoolArray
from lipyomo.search.spaces.bundle import joined
from lipyomo.search.spaces.joint.bound import bounded
from lipyomo.search.spaces.joint.boxes import Boxes
from lipyomo.search.spaces.joint.context import Context
from lipyomo.search.spaces.joint.handover import as_nodes
from lipyomo.search.spaces.phases import context as phases
from lipyomo.search.spaces.phases.node import Node
from lipyomo.search.spaces.phases.points import Points


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
    """

    boxes: Boxes
    nodes: list[Node]
    closed: float


def halved(context: Context, space: phases.Context, points: Points, boxes: Boxes) -> Halved:
    """Halve some boxes; the middles of the halves are entered as points.

    Parameters
    ----------
    context : Context
    space : lipyomo.search.spaces.phases.context.Context
        Of the same problem.
    points : Points
    boxes : Boxes
    """
    halves, can = boxes.halves()
    if not can.all():  # float64 numbers are too coarse: units are left to decide
        halves = joined([halves, boxes.take(~can)])
    points.enter(halves.middle)
    cutoff = space.cutoff(points.best.value)
    found = bounded(context, halves, cutoff)
    bounds = found.boxes.bounds
    done = bounds <= cutoff
    given = ~done & ((bounds <= context.params.near * cutoff) | _thin(context, halves))
    return Halved(
        found.boxes.take(~done & ~given),
        as_nodes(context, space, found.take(np.flatnonzero(given)), cutoff),
        float(bounds[done].max(initial=-math.inf)),
    )


def _thin(context: Context, boxes: Boxes) -> BoolArray:
    """Which boxes (N,) are too thin for halving to lead anywhere."""
    domain = context.problem.domain
    shares = (boxes.high - boxes.low) / (domain.upper - domain.lower)
    return np.asarray(shares.max(axis=1) < context.params.least_width)
