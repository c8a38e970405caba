"""Values of smooth and mixed networks on boxes, bounded by affine maps.

It is the search of their constants (`lipyomo.search.spaces.boxes`) without directions: the
objective is ``c . f`` itself, collapsed backwards as a whole over affine bounds of the units.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.relaxations.linear.kinds import each_kind
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.objectives.context import Question
from lipyomo.search.objectives.points import best_start, challenged
from lipyomo.search.spaces.boxes.bound import Bounded, under
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.collapse import Above
from lipyomo.search.spaces.boxes.context import Context
from lipyomo.search.spaces.boxes.context import Question as BoxQuestion
from lipyomo.search.spaces.boxes.objective import Objective
from lipyomo.search.spaces.boxes.relax import Relaxation, relaxed


class Value(Objective):
    """The value ``c . f`` of a network with smooth units.

    Parameters
    ----------
    question : Question
    context : Context, optional
        By default that of the network under c.
    """

    def __init__(self, question: Question, context: Context | None = None) -> None:
        if context is None:
            network = question.network.with_functional(question.row)
            context = Context.of(BoxQuestion(LipschitzProblem(network, question.domain)))
        super().__init__(question, context)

    def cutoff(self, value: float) -> float:
        """See `Objective`."""
        return float(self.question.cutoff(value))

    def bounded(self, boxes: Boxes, cutoff: float) -> Bounded:
        """See `Objective`."""
        return bounded(self.context, boxes, cutoff)

    def values(self, points: FloatArray) -> FloatArray:
        """See `Objective`."""
        return np.asarray(self.question.values(points))

    def challenged(self, best: Incumbent, point: FloatArray) -> Incumbent:
        """See `Objective`."""
        return challenged(self.question, best, point)

    def whole(self) -> Boxes:
        """See `Objective`: one box, without directions."""
        whole = super().whole().take(slice(0, 1))
        still = np.zeros_like(whole.v_low)
        return replace(whole, v_low=still, v_high=still)

    def first(self, rng: np.random.Generator, clock: Clock) -> Incumbent:
        """See `Objective`."""
        return best_start(self.question, rng, clock)

    def improved(self, best: Incumbent, boxes: Boxes, clock: Clock) -> Incumbent:
        """See `Objective`."""
        found = best_start(self.question, None, clock, boxes.middle)
        return max(best, found, key=lambda one: one.value)


def bounded(context: Context, boxes: Boxes, cutoff: float) -> Bounded:
    """Boxes with bounds of the value, and what these owe to each input and phase."""
    known = relaxed(context, boxes, (boxes.v_low, boxes.v_high))
    return under(known, collapsed(known), np.full(len(boxes), cutoff))


def collapsed(known: Relaxation) -> Above:
    """The value as one affine function above it, on boxes; rounding is paid for as in `relax.py`.

    Layer by layer, ``a . sigma(z) <= s . z + over`` unit by unit, and z is affine in the layer
    before.
    """
    context, layers, count = known.context, known.layers, len(known.boxes)
    network, unit = context.question.problem.network, context.unit
    a = np.repeat(network.head.dense_weight, count, axis=0)
    shift = float(network.head.bias[0])
    constant, fuzz = np.full(count, shift), np.full(count, unit * abs(shift))
    gaps: list[tuple[FloatArray, FloatArray]] = []
    for stage, layer in zip(reversed(context.stages), reversed(layers), strict=True):
        low, none = np.minimum(layer.low, layer.high), np.zeros_like(a)
        s, under, over = each_kind(stage.kinds, "lines", a, none, low, layer.high)
        constant += (over + s * stage.bias).sum(axis=1)
        fuzz += unit * (np.abs(over) + np.abs(under) + np.abs(s) * layer.reach).sum(axis=1)
        gaps.append((over - under, none))
        a = s @ stage.weight
    fuzz = (fuzz + unit * np.abs(constant)) * (1.0 + unit)
    return Above(a, np.zeros_like(a), constant + fuzz, fuzz, gaps[::-1])
