"""Values of smooth and mixed networks on boxes, bounded by affine functions.

This is the search for their constants (`lipyomo.search.spaces.boxes`) without directions: the
objective ``c . f`` itself is back-substituted through affine bounds of the units.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.clock import Clock
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.objectives.context import ValueQuestion
from lipyomo.search.spaces.boxes.bound import Bounded, under
from lipyomo.search.spaces.boxes.bounding.collapse import collapsed
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.objective import Objective
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxation


class Undirected(Objective):
    """An objective without directions: its search starts with a single box."""

    def whole(self) -> Boxes:
        """See `Objective`."""
        whole = super().whole().take(slice(0, 1))
        still = np.zeros_like(whole.v_low)
        return replace(whole, v_low=still, v_high=still)


class Value(Undirected):
    """The value ``c . f`` of a network with smooth units.

    Parameters
    ----------
    question : ValueQuestion
    context : BoxContext, optional
        By default that of the network ``c . f``.
    """

    question: ValueQuestion

    def __init__(self, question: ValueQuestion, context: BoxContext | None = None) -> None:
        if context is None:
            network = question.network.with_functional(question.row)
            context = context_of(network, question.domain)
        super().__init__(question, context)

    def bounded(self, boxes: Boxes, cutoff: float) -> Bounded:
        """See `Objective`."""
        return bounded_by_value(self.context, boxes, cutoff)

    def values(self, points: FloatArray) -> FloatArray:
        """See `Objective`."""
        return self.question.values(points)

    def challenged(self, best: Incumbent, point: FloatArray) -> Incumbent:
        """See `Objective`."""
        return self.question.challenged(best, point)

    def first(self, rng: np.random.Generator, clock: Clock) -> Incumbent:
        """See `Objective`."""
        return self.question.first(rng, clock)

    def improved(self, best: Incumbent, boxes: Boxes, clock: Clock) -> Incumbent:
        """See `Objective`."""
        return self.question.ascended(boxes.middle, clock, best)


def context_of(network: Network, domain: Domain) -> BoxContext:
    """Make the context of a network on boxes of a domain, without directions."""
    return BoxContext.of(BoxQuestion(LipschitzProblem(network, domain, "linf", "linf")))


def bounded_by_value(context: BoxContext, boxes: Boxes, cutoff: float) -> Bounded:
    """Bound the value on boxes, and score inputs and phases."""
    known, count = relaxed(context, boxes, (boxes.v_low, boxes.v_high)), len(boxes)
    return bounded_by_rows(known, np.zeros(count, dtype=np.intp), np.full(count, cutoff))


def bounded_by_rows(known: Relaxation, rows: IntArray, cutoffs: FloatArray) -> Bounded:
    """Bound one output, or its negative, on each of N relaxed boxes (see `functions_of`)."""
    weights, shift = functions_of(known.context, rows)
    above = collapsed(known, np.zeros_like(weights), None, weights)
    return under(known, above.plus(shift, known.context.unit), cutoffs)


def functions_of(context: BoxContext, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return weights and shifts on the last stage's outputs: of all f_k, followed by all -f_k."""
    bias = context.question.problem.network.head.bias
    signs, number = np.where(rows < bias.size, 1.0, -1.0), rows % bias.size
    return context.head[number] * signs[:, None], bias[number] * signs
