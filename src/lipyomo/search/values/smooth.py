"""The pipeline of values of smooth and mixed networks: bundles of boxes, bounded by affine maps.

It is the search of their constants (`lipyomo.search.smooth`) without directions: the objective is
``c . f`` itself, collapsed backwards as a whole over affine bounds of the units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.arrays import FloatArray
from lipyomo.bounds.kinds import each_kind
from lipyomo.problem import LipschitzProblem
from lipyomo.run import Clock
from lipyomo.search.protocol import NODES, Arrays, Incumbent, Outcome, Pulse, Recipe, Root, Tell
from lipyomo.search.smooth.ascent import drawn_in
from lipyomo.search.smooth.bound import Bounded, gaps_of
from lipyomo.search.smooth.boxes import NAMES, Boxes, at_faces, bundles, joined
from lipyomo.search.smooth.collapse import Above
from lipyomo.search.smooth.confine import confined
from lipyomo.search.smooth.context import Context
from lipyomo.search.smooth.context import Question as BoxQuestion
from lipyomo.search.smooth.cut import cut
from lipyomo.search.smooth.inputs import inputs_of
from lipyomo.search.smooth.pipeline import STUCK
from lipyomo.search.smooth.relax import Relaxed, relaxed
from lipyomo.search.smooth.split import split
from lipyomo.search.values.context import Question
from lipyomo.search.values.points import best_start, challenged


@dataclass(frozen=True, eq=False)
class Task:
    """Boxes to split, and the incumbent of the moment."""

    bundles: tuple[Boxes, ...]
    best: Incumbent


@dataclass(frozen=True, eq=False)
class SmoothRecipe:
    """Makes a pipeline for tasks that have travelled."""

    question: Question

    def pipeline(self) -> SmoothPipeline:
        """The pipeline."""
        return SmoothPipeline(self.question)


class SmoothPipeline:
    """Searches the largest value of ``c . f``.

    Parameters
    ----------
    question : Question
        Of a network with smooth units.
    seed : int, optional
    """

    def __init__(self, question: Question, seed: int = 0) -> None:
        self._question, self._rng = question, np.random.default_rng(seed)
        self._context = self._of(question)
        self._best = Incumbent()

    @staticmethod
    def _of(question: Question) -> Context:
        """What boxes are bounded in."""
        network = question.network.with_functional(question.row)
        return Context.of(BoxQuestion(LipschitzProblem(network, question.domain)))

    def _bounded(self, boxes: Boxes, cutoff: float) -> Bounded:
        """Boxes with bounds and scores."""
        return bounded(self._context, boxes, cutoff)

    def cutoff(self, value: float) -> float:
        """See `lipyomo.search.protocol.Pipeline`."""
        return self._question.cutoff(value)

    def together(self, node: Boxes) -> int:
        """See `lipyomo.search.protocol.Pipeline`."""
        return max(1, 4 * self._context.bundle // len(node))

    def weight(self) -> float:
        """See `lipyomo.search.protocol.Pipeline`."""
        return 1.0

    def nbytes(self, node: Boxes) -> tuple[int, int]:
        """See `lipyomo.search.protocol.Pipeline`."""
        return len(node) * node.nbytes, 0

    def cool(self, node: Boxes) -> Boxes:
        """See `lipyomo.search.protocol.Pipeline`."""
        return node

    def recipe(self) -> Recipe[Boxes, Task]:
        """See `lipyomo.search.protocol.Pipeline`."""
        return SmoothRecipe(self._question)

    def root(self, clock: Clock, tell: Tell) -> Root[Boxes]:
        """See `lipyomo.search.protocol.Pipeline`."""
        self._best = best_start(self._question, self._rng, clock)
        tell(best=self._best)
        context, domain = self._context, self._question.domain
        none: FloatArray = np.zeros((1, context.inputs))
        floor, ceiling = (ends[None] for ends in at_faces(context))
        scores = np.zeros((1, 2 * context.inputs + len(context.breaks)))
        whole = Boxes(
            np.full(1, np.inf), domain.lower[None], domain.upper[None], none, none, floor, ceiling,
            np.zeros(1, dtype=np.intp), scores, none, np.full(1, np.inf),
        )  # fmt: skip
        found = self._bounded(whole, self.cutoff(self._best.value)).boxes
        return Root(self.settle([found], self.cutoff(self._best.value)))

    def plan(self, nodes: Sequence[Boxes], travels: bool) -> Task:
        """See `lipyomo.search.protocol.Pipeline`."""
        return Task(tuple(nodes), self._best)

    def process(self, task: Task, clock: Clock, pulse: Pulse) -> Outcome[Boxes]:
        """See `lipyomo.search.protocol.Pipeline`."""
        context, best = self._context, task.best
        boxes, kept, rest = joined(task.bundles), [], []
        closed, stuck, size = -np.inf, 0, max(1, context.chunk // 2)
        for at in range(0, len(boxes), size):
            if clock.expired:
                rest.append(boxes.take(slice(at, len(boxes))))
                break
            cutoff = self.cutoff(best.value)
            children, unsplit = split(context, boxes.take(slice(at, at + size)))
            found = self._bounded(children, cutoff)
            bounds = found.boxes.bounds
            stuck += len(unsplit)
            done = bounds <= cutoff
            closed = max(closed, unsplit.bound, float(bounds[done].max(initial=-np.inf)))
            keep = np.flatnonzero(~done)
            if keep.size:
                closed = max(closed, cutoff)  # what is cut off
                left = cut(found.take(keep))
                points = drawn_in(self._question.domain, left.middle)
                values = self._question.values(points)
                best = challenged(self._question, best, points[values.argmax()])
                hopeless = left.bounds - values < 2.0 * found.fuzz[keep]
                stuck += int(hopeless.sum())
                closed = max(closed, left.take(hopeless).bound)
                kept.append(left.take(~hopeless))
            pulse()
        return Outcome(
            bundles(joined(kept), context.bundle) if kept else (),
            returned=bundles(joined(rest), context.bundle) if rest else (),
            closed=closed,
            best=best,
            counters={NODES: len(boxes) - sum(map(len, rest)), STUCK: stuck},
        )

    def adopt(self, outcome: Outcome[Boxes]) -> Outcome[Boxes]:
        """See `lipyomo.search.protocol.Pipeline`."""
        if outcome.best is not None and outcome.best.value > self._best.value:
            self._best = outcome.best
        return replace(outcome, best=self._best)

    def settle(self, nodes: Sequence[Boxes], cutoff: float) -> Outcome[Boxes]:
        """See `lipyomo.search.protocol.Pipeline`: all bounds are proved."""
        closed, left = -np.inf, []
        for node in nodes:
            done = node.bounds <= cutoff
            closed = max(closed, float(node.bounds[done].max(initial=-np.inf)))
            if not done.all():
                left.append(node.take(~done))
        return Outcome(returned=tuple(left), closed=closed, best=self._best)

    def improve(self, effort: float, seeds: Sequence[Boxes], clock: Clock) -> Incumbent | None:
        """See `lipyomo.search.protocol.Pipeline`: ascents from the middles of the best boxes."""
        if seeds:
            boxes = joined(seeds)
            first = np.argsort(-boxes.bounds, kind="stable")[: self._question.params.starts]
            middles = boxes.take(first).middle
            found = best_start(self._question, self._rng, clock, middles)
            self._best = max(self._best, found, key=lambda one: one.value)
        return self._best

    def encode(self, nodes: Sequence[Boxes]) -> Arrays:
        """See `lipyomo.search.protocol.Pipeline`."""
        point = self._best.point
        arrays = joined(nodes).encode() if nodes else {}
        return arrays | {"best": np.zeros((0, 0)) if point is None else point[None]}

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[Boxes]:
        """See `lipyomo.search.protocol.Pipeline`."""
        for point in arrays["best"]:
            self._best = challenged(self._question, self._best, point)
        nodes: tuple[Boxes, ...] = ()
        if "bounds" in arrays:
            whole = Boxes.decode({name: arrays[name] for name in NAMES})
            nodes = bundles(whole, self._context.bundle)
        return Outcome(nodes, best=self._best)


def bounded(context: Context, boxes: Boxes, cutoff: float) -> Bounded:
    """Boxes with bounds of the value, and what these owe to each input and phase."""
    still = boxes.v_low, boxes.v_high
    inputs = inputs_of(context, boxes, *still)
    layers = relaxed(context, boxes, inputs)
    above = collapsed(context, layers)
    cutoffs = np.full(len(boxes), cutoff)
    top = confined(context, boxes, layers, above, still, cutoffs)
    scores = gaps_of(context, boxes, layers, above, still)
    found = replace(boxes, bounds=np.minimum(top.top, boxes.bounds), scores=scores)
    return Bounded(found, top.top, top.x, above.v, top.fuzz, cutoffs)


def collapsed(context: Context, layers: Sequence[Relaxed]) -> Above:
    """The value as one affine function above it, on boxes; rounding is paid for as in `relax.py`.

    Layer by layer, ``a . sigma(z) <= s . z + over`` unit by unit, and z is affine in the layer
    before.
    """
    network = context.question.problem.network
    count, unit = len(layers[0].low), context.unit
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
