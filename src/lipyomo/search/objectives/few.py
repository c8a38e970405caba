"""Values of piecewise-linear networks with few inputs: boxes, handed over to a search over phases.

On wide domains linear programs are weak, since most units are open.  Bisecting boxes decides many
units at once, and batches of boxes are bounded by back-substitution.  Boxes with few open units are
handed over to the search over phases: one program per box closes them, or units are split.  The
number of open units at which they are handed over is learnt from the results.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.clock import Clock
from lipyomo.base.system.memory import CACHED
from lipyomo.networks.network import Network
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.relaxations.linear.layers import Stack
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
from lipyomo.search.objectives.context import ValueContext, ValueQuestion
from lipyomo.search.objectives.node import ValueNode
from lipyomo.search.objectives.objective import SPLITS, Largest
from lipyomo.search.objectives.pipeline import ValuePipeline
from lipyomo.search.spaces.bundle import Bundle, bundles, halves, joined, thin_boxes
from lipyomo.search.spaces.joint.adaptive import ENDED, EXAMINED, adapted
from lipyomo.search.spaces.joint.beside import JointTask, WithBoxes, gone_on, parted, together_of
from lipyomo.search.spaces.joint.bound import shares_in_open, within_domain
from lipyomo.search.spaces.joint.context import PARAMS, Params
from lipyomo.search.spaces.phases.node import WarmStart


@dataclass(frozen=True, eq=False)
class ValueBoxes(Bundle):
    """Boxes with upper bounds of the value.

    Attributes
    ----------
    low, high : ndarray, shape (N, d)
    bounds : ndarray, shape (N,)
        Upper bounds; minus infinity for empty boxes.
    axis : ndarray of int, shape (N,)
        The input to bisect.
    unstable : ndarray of int, shape (N,)
        Number of open units.
    """

    low: FloatArray
    high: FloatArray
    bounds: FloatArray
    axis: IntArray
    unstable: IntArray

    @classmethod
    def whole(cls, context: ValueContext) -> ValueBoxes:
        """Return the domain as a box without a bound."""
        domain, none = context.domain, np.zeros(1, dtype=np.intp)
        ends = domain.lower[None], domain.upper[None]
        return cls(*ends, np.full(1, np.inf), none, none + context.aim)


def bounded_values(context: ValueContext, boxes: ValueBoxes) -> tuple[ValueBoxes, Stack]:
    """Bound boxes by back-substitution through the whole network; also return the units' bounds.

    The bounds are sound whether they are above or below the cutoff.
    """
    domain, aim = context.domain, context.aim
    start = context.system.root_phases()
    start[aim] = OPEN  # includes points below the cutoff
    stack = Stack.unknown(np.tile(start, (len(boxes), 1)), boxes.low, boxes.high)
    within_domain(context.layers, domain, stack, np.float64)
    bounds = np.nextafter(stack.upper[:, aim] + context.cutoff, np.inf)
    bounds = np.where(stack.alive, np.fmin(bounds, boxes.bounds), -np.inf)
    axis = shares_in_open(context.layers[:-1], domain, stack).argmax(axis=1)
    unstable = (stack.phases[:, :aim] == OPEN).sum(axis=1)
    return replace(boxes, bounds=bounds, axis=axis, unstable=unstable), stack


def as_value_nodes(context: ValueContext, boxes: ValueBoxes) -> list[ValueNode]:
    """Convert the boxes above the cutoff to nodes of the search over phases.

    They have an empty warm start for dual ascent, as in the search for constants
    (`lipyomo.search.spaces.joint.halve`).
    """
    boxes, stack = bounded_values(context, boxes)
    phases, lower, upper = stack.phases, stack.lower, stack.upper
    phases[:, context.aim] = RIGHT
    lower[:, context.aim], upper[:, context.aim] = -np.inf, boxes.bounds
    none = np.zeros(0, dtype=np.intp), np.zeros((0, context.ascent.columns), dtype=np.float16)
    return [
        ValueNode(
            phases[k],
            lower[k],
            upper[k],
            boxes.low[k],
            boxes.high[k],
            float(boxes.bounds[k]),
            WarmStart(phases[k], *none),
        )
        for k in np.flatnonzero(boxes.bounds > context.cutoff)
    ]


class FewPipeline(WithBoxes):
    """The search for the largest value of a network with few inputs.

    The threshold `_near` of boxes that are handed over is a number of unstable units.

    Parameters
    ----------
    question : ValueQuestion
    seed : int, optional
    params : Params, optional
        Parameters of the search for constants with few inputs.
    """

    _beside: ValuePipeline

    def __init__(self, question: ValueQuestion, seed: int = 0, params: Params = PARAMS) -> None:
        self._objective, self._question, self._params = Largest(question), question, params
        beside = ValuePipeline(self._objective, seed)
        whole = partial(ValueBoxes.whole, self._objective.context)
        super().__init__(beside, whole, float(SPLITS.box_units))
        self._effort, self._turn = 0.0, 1.0

    @staticmethod
    def suits(network: Network) -> bool:
        """Return whether boxes may be bisected beside a search over a network's phases."""
        return network.input_dim <= HALVED and bool(network.hidden) and not network.smooth

    def recipe(self) -> Recipe[Any, Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(FewPipeline, self._question)

    # -- the root ----------------------------------------------------------------------------------

    def root(self, clock: Clock, on_progress: OnRootProgress) -> Root[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        Unless its root bound is hopeless, the search over phases runs for a moment, and the search
        over boxes is only chosen if it has a better bound after a fraction of that time.  This
        limits the cost of a wrong choice.
        """
        work, beside = clock.working(), self._beside
        found: Outcome[Any] = beside.root(clock, on_progress).outcome
        if not any(_is_wide(node) for node in found.children):
            return Root(found)
        context = self._objective.at(beside.best.value)
        start: Outcome[Any] = Outcome((bounded_values(context, ValueBoxes.whole(context))[0],))
        if not self._params.compared or self._is_hopeless(found.children):
            return Root(replace(found, children=start.children, closed=start.closed))
        found = gone_on(beside, found, work.within(self._params.pause))
        if not found.children or clock.expired:
            return Root(found)
        share = self._params.share / (1.0 - self._params.share)
        boxes = gone_on(self, start, work.within(share * work.seconds))
        if _top(boxes) < _top(found):
            found = together_of([replace(found, children=(), closed=-math.inf), boxes])
        return Root(replace(found, best=beside.best))

    def _is_hopeless(self, nodes: Sequence[ValueNode]) -> bool:
        """Return whether bounds are far above all values, relative to the range of the values."""
        question = self._question
        points = question.domain.sample(np.random.default_rng(0), self._params.few)
        values = question.values(points)
        top = max(node.bound for node in nodes)
        return bool(top - self.best.value > self._params.far * float(np.ptp(values)))

    # -- checkpoints -------------------------------------------------------------------------------

    def encode(self, nodes: Sequence[Any]) -> Arrays:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        course = np.array([self._near, self._effort, self._turn])
        return super().encode(nodes) | {"course": course}

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        self._near, self._effort, self._turn = arrays["course"].tolist()
        return super().decode(arrays)

    # -- boxes -------------------------------------------------------------------------------------

    def _halved(self, task: JointTask, clock: Clock, pulse: Pulse) -> Outcome[Any]:
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
            at_axis = np.arange(len(some)), some.axis
            middle, low, high = some.middle[at_axis], some.low[at_axis], some.high[at_axis]
            near = (some.unstable <= task.near) | ~((middle > low) & (middle < high))
            near |= thin_boxes(some, self._question.domain, self._params.least_width)
            first = np.flatnonzero(near)[: max(most, 0)]
            most -= len(first)
            counters = Counter({NODES: len(some) - int(near.sum()) + len(first)})
            if first.size:
                nodes = as_value_nodes(self._objective.at(best.value), some.take(first))
                found = self._beside.bounded(nodes, best, clock)
                best = found.best or best
                counters |= {EXAMINED: len(first), ENDED: len(first) - len(found.children)}
                done.append(found)
            near[first] = False  # the others that are near wait unchanged
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
        """Return the boxes above the cutoff, and the largest bound of the others."""
        low = boxes.bounds <= self._objective.cutoff(best.value)
        return boxes.take(~low), float(boxes.bounds[low].max(initial=-math.inf))

    def _parts(self, boxes: ValueBoxes, best: Incumbent) -> tuple[ValueBoxes, Incumbent]:
        """Bisect and bound boxes; also return a better incumbent if one is found."""
        found, _ = halves(boxes, boxes.axis)
        if not len(found):
            return found, best
        question = self._objective.question  # middles, and corners uphill
        points = question.domain.drawn_in(found.middle)
        uphill = np.sign(question.gradients(points))
        corners = np.clip(points + uphill * (found.high - found.low), found.low, found.high)
        points = np.concatenate([points, question.domain.drawn_in(corners)])
        best = self._objective.challenged(best, points[question.values(points).argmax()])
        context = self._objective.at(best.value)
        widest = max(layer.units for layer in context.layers)
        size = max(1, CACHED // widest**2)
        parts = [found.take(slice(at, at + size)) for at in range(0, len(found), size)]
        return joined([bounded_values(context, part)[0] for part in parts]), best

    def adopt(self, outcome: Outcome[Any]) -> Outcome[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        tried, met = outcome.counters.get(EXAMINED, 0), outcome.counters.get(ENDED, 0)
        self._near = adapted(1.0 + self._near, tried, met) - 1.0
        return super().adopt(outcome)

    def improve(self, effort: float, seeds: Sequence[Any], clock: Clock) -> Incumbent | None:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        Ascents start from the middles of the best boxes, more rarely the longer the search takes.
        """
        boxes, _ = parted(seeds)
        self._effort += effort
        if boxes and self._effort >= self._turn:
            self._turn = 2.0 * self._effort
            found = self._question.ascended(joined(boxes).middle, clock, self.best)
            self._beside.adopt(Outcome(best=found))
        return self.best


def _is_wide(node: ValueNode) -> bool:
    """Return whether more than a few units are open."""
    return int((node.phases == OPEN).sum()) > SPLITS.box_units


def _top(outcome: Outcome[Any]) -> float:
    """Return the largest bound of the open nodes."""
    return max((node.bound for node in outcome.children), default=-math.inf)
