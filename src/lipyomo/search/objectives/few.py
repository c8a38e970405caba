"""Values of piecewise-linear networks with few inputs: boxes, handed over to the search of phases.

On wide domains linear programs say little, since most units are open.  Halving boxes decides units
by the dozen; batches of boxes are bounded by back-substitution.  Those that leave few units open
are handed over: a program a box closes them, or units are decided one by one.  How few they have to
be is learnt from what becomes of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, keep_memory
from lipyomo.base.clock import Clock
from lipyomo.base.system.memory import CACHED
from lipyomo.networks.network import Network
from lipyomo.networks.phases import OPEN
from lipyomo.search.engine.params import HALVED
from lipyomo.search.engine.protocol import (
    NODES,
    Arrays,
    Incumbent,
    OnRootProgress,
    Outcome,
    Pulse,
    Recipe,
    Root,
)
from lipyomo.search.objectives import pipeline as phases
from lipyomo.search.objectives.context import ValueQuestion
from lipyomo.search.objectives.examine import SPLITS
from lipyomo.search.objectives.few_boxes import ValueBoxes, as_value_nodes, bounded_values
from lipyomo.search.objectives.node import Node
from lipyomo.search.objectives.points import best_start, challenged
from lipyomo.search.spaces.bundle import bundles, decoded, encoded, halves, joined, thin_boxes
from lipyomo.search.spaces.joint.context import PARAMS, Params
from lipyomo.search.spaces.joint.parts import ENDED, EXAMINED, gone_on, learnt, parted, together_of


@dataclass(frozen=True, eq=False)
class Task(phases.Task):
    """Boxes to halve beside the nodes to split.

    Attributes
    ----------
    boxes : tuple of ValueBoxes
    units : float
        Boxes with so few open units are handed over.
    """

    boxes: tuple[ValueBoxes, ...] = ()
    units: float = 0.0


class FewPipeline(phases.Pipeline):
    """Searches the largest value of a network with few inputs.

    Parameters
    ----------
    question : ValueQuestion
    seed : int, optional
    params : Params, optional
        Of the search of constants with few inputs.
    """

    def __init__(self, question: ValueQuestion, seed: int = 0, params: Params = PARAMS) -> None:
        super().__init__(question, seed)
        keep_memory()
        self._params = params
        self._units = float(SPLITS.box_units)
        self._effort, self._turn = 0.0, 1.0

    @staticmethod
    def suits(network: Network) -> bool:
        """Whether halving boxes may lead anywhere."""
        return not network.smooth and network.input_dim <= HALVED and bool(network.hidden)

    def recipe(self) -> Recipe[Any, Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(FewPipeline, self._context.question)

    def together(self, node: Any) -> int:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return 4 if isinstance(node, ValueBoxes) else super().together(node)

    def nbytes(self, node: Any) -> tuple[int, int]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return (node.nbytes, 0) if isinstance(node, ValueBoxes) else super().nbytes(node)

    def cool(self, node: Any) -> Any:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return node if isinstance(node, ValueBoxes) else super().cool(node)

    # -- the root ----------------------------------------------------------------------------------

    def root(self, clock: Clock, on_progress: OnRootProgress) -> Root[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        Where the root of the search of phases is not hopeless, that search has a moment, and boxes
        have to be ahead of it after a fraction of that: what a wrong choice costs.
        """
        work = clock.working()
        found: Outcome[Any] = super().root(clock, on_progress).outcome
        if not any(self._is_wide(node) for node in found.children):
            return Root(found)
        start = Outcome((bounded_values(self._at(self._best.value), self._whole())[0],))
        if not self._params.compared or self._is_hopeless(found.children):
            return Root(replace(found, children=start.children, closed=start.closed))
        found = self._on(found, work.within(self._params.pause))
        if not found.children or clock.expired:
            return Root(found)
        share = self._params.share / (1.0 - self._params.share)
        boxes = self._on(start, work.within(share * work.seconds))
        if _top(boxes) < _top(found):
            found = together_of([replace(found, children=(), closed=-math.inf), boxes])
        return Root(replace(found, best=self._best))

    def _is_wide(self, node: Node) -> bool:
        """Whether more than a few units are open."""
        return int((node.phases == OPEN).sum()) > SPLITS.box_units

    def _is_hopeless(self, nodes: Sequence[Node]) -> bool:
        """Whether bounds are far above all values, measured by what these differ by."""
        question = self._context.question
        points = question.domain.sample(np.random.default_rng(0), self._params.few)
        values = question.values(points)
        top = max(node.bound for node in nodes)
        return bool(top - self._best.value > self._params.far * float(np.ptp(values)))

    def _whole(self) -> ValueBoxes:
        """The domain as a box without a bound."""
        domain, none = self._context.domain, np.zeros(1, dtype=np.intp)
        ends = domain.lower[None], domain.upper[None]
        return ValueBoxes(*ends, np.full(1, np.inf), none, none + self._context.aim)

    def _on(self, found: Outcome[Any], clock: Clock) -> Outcome[Any]:
        """The search a little further."""
        return gone_on(self, found, lambda: self._best.value, clock)

    # -- checkpoints -------------------------------------------------------------------------------

    def encode(self, nodes: Sequence[Any]) -> Arrays:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        boxes, others = parted(nodes)
        course = np.array([self._units, self._effort, self._turn])
        own = encoded(boxes, self._whole().take(slice(0, 0)))
        return super().encode(others) | own | {"course": course}

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        self._units, self._effort, self._turn = arrays["course"].tolist()
        found: Outcome[Any] = super().decode(arrays)
        return replace(found, children=(*decoded(ValueBoxes, arrays), *found.children))

    # -- boxes and nodes ---------------------------------------------------------------------------

    def plan(self, nodes: Sequence[Any], travels: bool) -> Task:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        boxes, others = parted(nodes)
        return Task(others, self._best, boxes, self._units)

    def process(self, task: phases.Task, clock: Clock, pulse: Pulse) -> Outcome[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        own = cast("Task", task)
        found: list[Outcome[Any]] = [self._halved(own, clock, pulse)] if own.boxes else []
        if own.nodes or not found:
            found.append(super().process(own, clock, pulse))
        return together_of(found)

    def adopt(self, outcome: Outcome[Any]) -> Outcome[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        tried, met = outcome.counters.get(EXAMINED, 0), outcome.counters.get(ENDED, 0)
        self._units = learnt(1.0 + self._units, tried, met) - 1.0
        return super().adopt(outcome)

    def improve(self, effort: float, seeds: Sequence[Any], clock: Clock) -> Incumbent | None:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        Ascents begin in the middles of the best boxes, more rarely the longer the search lasts.
        """
        boxes, _ = parted(seeds)
        self._effort += effort
        if boxes and self._effort >= self._turn:
            self._turn = 2.0 * self._effort
            found = best_start(self._context.question, None, clock, joined(boxes).middle)
            self._best = max(self._best, found, key=lambda one: one.value)
        return self._best

    def _halved(self, task: Task, clock: Clock, pulse: Pulse) -> Outcome[Any]:
        """What becomes of boxes: handed over, or halved and bounded."""
        boxes, best, size = joined(task.boxes), task.best, self._params.bundle
        left: list[ValueBoxes] = []
        done: list[Outcome[Any]] = [Outcome(best=best)]
        rest, most = boxes.take(slice(0, 0)), self._params.handed_together
        for at in range(0, len(boxes), size):
            if clock.expired:
                rest = boxes.take(slice(at, len(boxes)))
                break
            some = boxes.take(slice(at, at + size))
            some, closed = self._above(some, best)
            near = self._is_thin(some) | (some.unstable <= task.units)
            first = np.flatnonzero(near)[: max(most, 0)]
            most -= len(first)
            counters = Counter({NODES: len(some) - int(near.sum()) + len(first)})
            if first.size:
                found = self._handed_over(some.take(first), best, clock)
                best = found.best or best
                counters |= {EXAMINED: len(first), ENDED: len(first) - len(found.children)}
                done.append(found)
            near[first] = False  # those that are left wait as they are
            waiting = some.take(near)
            near[first] = True
            parts, best = self._parts(some.take(~near), best)
            parts, other = self._above(parts, best)
            left += [waiting, parts]
            done.append(Outcome(closed=max(closed, other), best=best, counters=counters))
            pulse()
        whole = joined(left) if left else rest.take(slice(0, 0))
        back = Outcome(bundles(whole, size), bundles(rest, size))
        return together_of([back, *done])

    def _above(self, boxes: ValueBoxes, best: Incumbent) -> tuple[ValueBoxes, float]:
        """Boxes with bounds above the cutoff, and the largest bound of the others."""
        low = boxes.bounds <= self.cutoff(best.value)
        return boxes.take(~low), float(boxes.bounds[low].max(initial=-math.inf))

    def _is_thin(self, boxes: ValueBoxes) -> BoolArray:
        """Which boxes (N,) are too thin for halving to lead anywhere."""
        at = np.arange(len(boxes)), boxes.axis
        splits = (boxes.middle[at] > boxes.low[at]) & (boxes.middle[at] < boxes.high[at])
        return thin_boxes(boxes, self._context.domain, self._params.least_width) | ~splits

    def _parts(self, boxes: ValueBoxes, best: Incumbent) -> tuple[ValueBoxes, Incumbent]:
        """Halves of boxes with their bounds, and the better point if they show one."""
        found, _ = halves(boxes, boxes.axis)
        if not len(found):
            return found, best
        best = self._looked(found, best)
        context = self._at(best.value)
        widest = max(layer.units for layer in context.layers)
        size = max(1, CACHED // widest**2)
        parts = [found.take(slice(at, at + size)) for at in range(0, len(found), size)]
        return joined([bounded_values(context, part)[0] for part in parts]), best

    def _looked(self, boxes: ValueBoxes, best: Incumbent) -> Incumbent:
        """The better one of an incumbent and points of boxes: middles, and corners uphill."""
        question = self._context.question
        points = question.domain.drawn_in(boxes.middle)
        uphill = np.sign(question.gradients(points))
        corners = np.clip(points + uphill * (boxes.high - boxes.low), boxes.low, boxes.high)
        points = np.concatenate([points, question.domain.drawn_in(corners)])
        values = question.values(points)
        return challenged(question, best, points[values.argmax()])

    def _handed_over(self, boxes: ValueBoxes, best: Incumbent, clock: Clock) -> Outcome[Node]:
        """Boxes as nodes of phases, after their programs."""
        context = self._at(best.value)
        return self._bounded(context, as_value_nodes(context, boxes), best, clock)


def _top(outcome: Outcome[Any]) -> float:
    """The largest bound of what is left."""
    return max((node.bound for node in outcome.children), default=-math.inf)
