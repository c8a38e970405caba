"""The pipeline of values of smooth and mixed networks: bundles of boxes, bounded by affine maps.

It is the search of their constants (`lipyomo.search.spaces.boxes`) without directions: the
objective is ``c . f`` itself, collapsed backwards as a whole over affine bounds of the units.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.relaxations.linear.kinds import each_kind
from lipyomo.search.engine.protocol import Recipe, Root, Tell
from lipyomo.search.objectives.context import Question
from lipyomo.search.objectives.points import best_start, challenged
from lipyomo.search.spaces.boxes.bound import Bounded, under
from lipyomo.search.spaces.boxes.boxes import Boxes, at_faces
from lipyomo.search.spaces.boxes.bundled import BundlePipeline, Task
from lipyomo.search.spaces.boxes.collapse import Above
from lipyomo.search.spaces.boxes.context import Context
from lipyomo.search.spaces.boxes.context import Question as BoxQuestion
from lipyomo.search.spaces.boxes.relax import Relaxation, relaxed


class SmoothPipeline(BundlePipeline):
    """Searches the largest value of ``c . f``.

    Parameters
    ----------
    question : Question
        Of a network with smooth units.
    seed : int, optional
    """

    def __init__(self, question: Question, seed: int = 0) -> None:
        super().__init__(self._of(question))
        self._question, self._rng = question, np.random.default_rng(seed)

    @staticmethod
    def _of(question: Question) -> Context:
        """What boxes are bounded in."""
        network = question.network.with_functional(question.row)
        return Context.of(BoxQuestion(LipschitzProblem(network, question.domain)))

    def recipe(self) -> Recipe[Boxes, Task]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(SmoothPipeline, self._question)

    def _met(self, value: float) -> float:
        return self._question.cutoff(value)

    def _bounds_of(self, boxes: Boxes, cutoff: float) -> Bounded:
        return bounded(self._context, boxes, cutoff)

    def _values(self, points: FloatArray) -> FloatArray:
        return self._question.values(points)

    def _challenge(self, point: FloatArray) -> bool:
        value = self._best.value
        self._best = challenged(self._question, self._best, point)
        return self._best.value > value

    def root(self, clock: Clock, tell: Tell) -> Root[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        self._best = best_start(self._question, self._rng, clock)
        tell(best=self._best)
        return self._from_all()

    def _from_all(self) -> Root[Boxes]:
        """The root: all of the domain's box."""
        context, domain = self._context, self._question.domain
        none: FloatArray = np.zeros((1, context.inputs))
        floor, ceiling = (ends[None] for ends in at_faces(context))
        scores = np.zeros((1, 2 * context.inputs + len(context.breaks)))
        whole = Boxes(
            np.full(1, np.inf), domain.lower[None], domain.upper[None], none, none, floor, ceiling,
            np.zeros(1, dtype=np.intp), scores, none, np.full(1, np.inf),
        )  # fmt: skip
        found = self._bounds_of(whole, self.cutoff(self._best.value)).boxes
        return Root(self.adopt(self.settle([found], self.cutoff(self._best.value))))

    def _ascend_from(self, boxes: Boxes, clock: Clock) -> None:
        found = best_start(self._question, self._rng, clock, boxes.middle)
        self._best = max(self._best, found, key=lambda one: one.value)


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
