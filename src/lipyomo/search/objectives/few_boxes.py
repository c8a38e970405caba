"""Boxes with bounds of values of piecewise-linear networks, and their conversion to nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.clock import Clock
from lipyomo.base.system.memory import CACHED
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.search.engine.protocol import NODES, Incumbent, Outcome, Pulse
from lipyomo.search.objectives.context import ValueContext
from lipyomo.search.objectives.node import ValueNode
from lipyomo.search.objectives.objective import Largest
from lipyomo.search.spaces.bundle import Bundle, bundles, halves, joined, thin_boxes
from lipyomo.search.spaces.joint.adaptive import ENDED, EXAMINED
from lipyomo.search.spaces.joint.beside import JointTask, together_of
from lipyomo.search.spaces.joint.bound import shares_in_open, within_domain
from lipyomo.search.spaces.joint.context import Params
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
    (`lipyomo.search.spaces.joint.handover`).
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


@dataclass(frozen=True, eq=False)
class Halving:
    """Processes boxes: hands them over, or bisects and bounds them.

    Attributes
    ----------
    objective : Largest
    params : Params
    handed : callable
        Processes nodes of the search over phases, given the incumbent and a clock.
    """

    objective: Largest
    params: Params
    handed: Callable[[Sequence[ValueNode], Incumbent, Clock], Outcome[ValueNode]]

    def run(self, task: JointTask, clock: Clock, pulse: Pulse) -> Outcome[Any]:
        """Process a task's boxes."""
        boxes, best, size = joined(task.boxes), task.best, self.params.bundle
        left: list[ValueBoxes] = []
        done: list[Outcome[Any]] = [Outcome(best=best)]
        rest, most = boxes.take(slice(0, 0)), self.params.handed_together
        for at in range(0, len(boxes), size):
            if clock.expired:
                rest = boxes.take(slice(at, len(boxes)))
                break
            some = boxes.take(slice(at, at + size))
            some, closed = self._above(some, best)
            near = self._is_thin(some) | (some.unstable <= task.near)
            first = np.flatnonzero(near)[: max(most, 0)]
            most -= len(first)
            counters = Counter({NODES: len(some) - int(near.sum()) + len(first)})
            if first.size:
                nodes = as_value_nodes(self.objective.at(best.value), some.take(first))
                found = self.handed(nodes, best, clock)
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
        low = boxes.bounds <= self.objective.cutoff(best.value)
        return boxes.take(~low), float(boxes.bounds[low].max(initial=-math.inf))

    def _is_thin(self, boxes: ValueBoxes) -> BoolArray:
        """Return which boxes (N,) are too thin for bisection."""
        at, domain = (np.arange(len(boxes)), boxes.axis), self.objective.question.domain
        splits = (boxes.middle[at] > boxes.low[at]) & (boxes.middle[at] < boxes.high[at])
        return thin_boxes(boxes, domain, self.params.least_width) | ~splits

    def _parts(self, boxes: ValueBoxes, best: Incumbent) -> tuple[ValueBoxes, Incumbent]:
        """Bisect and bound boxes; also return a better incumbent if one is found."""
        found, _ = halves(boxes, boxes.axis)
        if not len(found):
            return found, best
        best = self._evaluated(found, best)
        context = self.objective.at(best.value)
        widest = max(layer.units for layer in context.layers)
        size = max(1, CACHED // widest**2)
        parts = [found.take(slice(at, at + size)) for at in range(0, len(found), size)]
        return joined([bounded_values(context, part)[0] for part in parts]), best

    def _evaluated(self, boxes: ValueBoxes, best: Incumbent) -> Incumbent:
        """Return the better of an incumbent and points of boxes: middles, and corners uphill."""
        question = self.objective.question
        points = question.domain.drawn_in(boxes.middle)
        uphill = np.sign(question.gradients(points))
        corners = np.clip(points + uphill * (boxes.high - boxes.low), boxes.low, boxes.high)
        points = np.concatenate([points, question.domain.drawn_in(corners)])
        return self.objective.challenged(best, points[question.values(points).argmax()])
