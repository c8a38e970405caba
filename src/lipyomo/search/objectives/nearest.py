"""Distances: how far from a point a network's value reaches zero.

The search maximises minus the distance.  The domain of nodes is the ball whose radius is the
incumbent's distance; bounds use that only points in it with a nonnegative value matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.rounding import CLOSED
from lipyomo.networks.network import Network
from lipyomo.primal.regions.value import value_at
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.objectives.context import ValueContext, ValueQuestion
from lipyomo.search.objectives.node import ValueNode
from lipyomo.search.objectives.objective import PhaseObjective, chosen
from lipyomo.search.objectives.params import Params
from lipyomo.search.objectives.reach import Reach

BEYOND = np.append(0.0, 10.0 ** -np.arange(12.0, 6.0, -1.0))
"""Relative extensions of a step to try, until the value is proved positive."""


class NearestQuestion(NamedTuple):
    """The least distance at which ``c . f`` is positive, or zero if ties count.

    Attributes
    ----------
    network : Network
    row : ndarray, shape (m,)
        c.
    around : MetricBall
        The points within a distance of a centre (`lipyomo.analyses.certification.radius`).
    most : float
        Largest distance that matters; finite.
    ties : bool
        Whether points with the value zero count.
    least : float
        Distance up to which the value is known to be negative.
    params : Params
    """

    network: Network
    row: FloatArray
    around: Any
    most: float
    ties: bool = False
    least: float = 0.0
    params: Params = Params()

    def cutoff(self, value: float) -> float:
        """Return minus the distance from which on nodes do not matter, if `value` is attained."""
        return max(value * (1.0 - CLOSED), -self.most)


class LeastDistance(PhaseObjective):
    """Minus the least distance.

    Parameters
    ----------
    question : NearestQuestion
    start : Incumbent, optional
        Minus the distance of the nearest known point, and that point.
    """

    def __init__(self, question: NearestQuestion, start: Incumbent | None = None) -> None:
        whole = question.around.domain(question.most)
        value = ValueQuestion(question.network, question.row, whole, params=question.params)
        super().__init__(question, value)
        self._nearest, self._start = question, start or Incumbent()
        self._limit = question.most

    def at(self, value: float) -> ValueContext:
        """See `PhaseObjective`; instead of raising a cutoff, the domain is shrunk."""
        limit = -self.cutoff(value)
        if limit < self._limit:
            self._limit = limit
            question = replace(self.context.question, domain=self._nearest.around.domain(limit))
            self.context = replace(self.context, question=question)
        return self.context

    def first(self, rng: np.random.Generator, clock: Clock) -> Incumbent:
        """See `PhaseObjective`."""
        return self._start

    def top(self, node: ValueNode, clock: Clock) -> float:
        """See `PhaseObjective`."""
        return -self._nearest.least

    def within(self, nodes: Sequence[ValueNode]) -> list[ValueNode]:
        """See `PhaseObjective`; the domain may have shrunk since the nodes were made."""
        domain, found = self.context.domain, []
        for node in nodes:
            low, high = np.maximum(node.low, domain.lower), np.minimum(node.high, domain.upper)
            if (low <= high).all():
                found.append(replace(node, low=low, high=high))
        return found

    def judged(self, node: ValueNode, best: Incumbent, clock: Clock) -> tuple[ValueNode, Incumbent]:
        """See `PhaseObjective`."""
        limit = -self.cutoff(best.value)
        found = self._program.nearest(node, self._reach_of(node), -node.bound, limit, clock)
        if found.point is not None and found.end < limit:
            best = self.challenged(best, found.point)
        node = replace(node, bound=min(node.bound, -found.end))
        return chosen(self.context, node, found), best

    def _reach_of(self, node: ValueNode) -> Callable[[float], Reach]:
        """Return the function that gives the inputs of a node within a distance."""

        def reach(distance: float) -> Reach:
            found: Reach = self._nearest.around.reach(distance)
            low, high = np.maximum(found.low, node.low), np.minimum(found.high, node.high)
            return found._replace(low=np.minimum(low, high), high=high)

        return reach

    def _on_piece(self, piece: ValueNode, best: Incumbent, clock: Clock) -> Incumbent:
        reach, least = self._reach_of(piece), self._nearest.least
        found = self._program.nearest(piece, reach, least, -best.value, clock)
        return best if found.point is None else self.challenged(best, found.point)

    def challenged(self, best: Incumbent, point: FloatArray) -> Incumbent:
        """See `PhaseObjective`; only points that count are accepted."""
        found = confirmed_point(self._nearest, point)
        return found if found is not None and found.value > best.value else best


def confirmed_point(question: NearestQuestion, point: FloatArray) -> Incumbent | None:
    """Return a point that counts in exact arithmetic: the given one, or one slightly beyond it."""
    centre, around = question.around.centre, question.around
    points = around.inside(centre + (1.0 + BEYOND[:, None]) * (point - centre))
    values = question.network.forward(points) @ question.row
    for x in points[(values >= 0.0) if question.ties else (values > 0.0)]:
        value = value_at(question.network, question.row, x)[0]
        if value > 0.0 or (question.ties and value == 0.0):
            return Incumbent(-float(around.distances(x[None])[0]), x)
    return None
