"""A few hundred boxes, best first: what they are compared with the search of phases by."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lipyomo.base.clock import Clock
from lipyomo.search.engine.protocol import Incumbent, Outcome
from lipyomo.search.spaces.bundle import bundles, joined
from lipyomo.search.spaces.joint.boxes import Boxes
from lipyomo.search.spaces.joint.context import Context
from lipyomo.search.spaces.joint.halve import halved
from lipyomo.search.spaces.phases import context as phases
from lipyomo.search.spaces.phases.node import Node
from lipyomo.search.spaces.phases.points import Points


@dataclass(frozen=True, eq=False)
class Trial:
    """Boxes and nodes that make up the domain but for what is closed.

    Attributes
    ----------
    boxes : Boxes
    nodes : tuple of Node
        Handed over to the search of phases.
    closed : float
        Largest bound of what is closed.
    best : Incumbent
    """

    boxes: Boxes
    nodes: tuple[Node, ...]
    closed: float
    best: Incumbent

    @property
    def bound(self) -> float:
        """The largest bound of all."""
        return max([self.closed, self.boxes.bound, *(node.bound for node in self.nodes)])

    def outcome(self, most: int) -> Outcome[Boxes | Node]:
        """The same for the engine, in bundles of so many boxes."""
        children: tuple[Boxes | Node, ...] = (*bundles(self.boxes, most), *self.nodes)
        return Outcome(children, closed=self.closed, best=self.best)


def looked(context: Context, space: phases.Context, count: int) -> float:
    """The largest norm at so many points."""
    rng = np.random.default_rng(0)
    points = Points(context.problem, space.presolved, rng, space.params)
    points.enter(context.problem.domain.sample(rng, count))
    return points.best.value


def tried(
    context: Context,
    space: phases.Context,
    best: Incumbent,
    clock: Clock,
    before: Trial | None = None,
) -> Trial:
    """Halve boxes, those with the largest bounds first, until a few hundred have been bounded.

    Parameters
    ----------
    context : Context
    space : lipyomo.search.spaces.phases.context.Context
        Of the same problem.
    best : Incumbent
    clock : Clock
    before : Trial, optional
        Where to go on, until the clock ends.
    """
    params, problem = context.params, context.problem
    rng = np.random.default_rng(0)
    points = Points(problem, space.presolved, rng, space.params, best.value)
    now, most = before, math.inf
    if now is None:
        points.enter(problem.domain.sample(rng, params.samples))
        now, most = Trial(context.whole(), (), -math.inf, points.best), params.trial
    spent = 0
    while len(now.boxes) and spent < most and not clock.expired:
        fit = spent * clock.left / max(clock.seconds, 1e-9) if spent else 1.0
        count = max(1, int(min(fit, len(now.boxes) // 2, params.bundle, most - spent)))
        now = _after_round(context, space, points, now, count)
        spent += count
    return now if now.best.value > best.value else Trial(now.boxes, now.nodes, now.closed, best)


def by_boxes(context: Context, space: phases.Context, clock: Clock) -> Outcome[Boxes | Node] | None:
    """The outcome if boxes alone prove what is good enough; None once they become too many.

    Parameters
    ----------
    context : Context
    space : lipyomo.search.spaces.phases.context.Context
        Of the same problem.
    clock : Clock
    """
    few, spent = context.params.bundle, 0
    points = Points(context.problem, space.presolved, np.random.default_rng(0), space.params)
    now = Trial(context.whole(), (), -math.inf, points.best)
    while len(now.boxes):
        if len(now.boxes) > max(spent, 2 * few) or now.nodes or clock.expired:
            return None
        count = min(len(now.boxes), few)
        now = _after_round(context, space, points, now, count)
        spent += count
    return None if now.nodes else now.outcome(few)


def _after_round(
    context: Context, space: phases.Context, points: Points, now: Trial, count: int
) -> Trial:
    """The same once so many boxes with the largest bounds are halved."""
    order = np.argsort(-now.boxes.bounds, kind="stable")
    found = halved(context, space, points, now.boxes.take(order[:count]))
    boxes = joined([found.boxes, now.boxes.take(order[count:])])
    return Trial(boxes, (*now.nodes, *found.nodes), max(now.closed, found.closed), points.best)
