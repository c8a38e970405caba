"""What pipelines of boxes share, be it constants, values or Lie derivatives that they search.

A node is a bundle of boxes; all bounds are proved, so that settling it is a comparison.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.clock import Clock
from lipyomo.search.engine.protocol import NODES, Arrays, Incumbent, Outcome, Pipeline, Pulse
from lipyomo.search.spaces.boxes.bound import Bounded
from lipyomo.search.spaces.boxes.boxes import NAMES, Boxes, bundles, joined
from lipyomo.search.spaces.boxes.context import Context
from lipyomo.search.spaces.boxes.cut import cut
from lipyomo.search.spaces.boxes.split import split

STUCK = "stuck"
"""The counter of boxes that float64 numbers are too coarse to split, or to bound any better."""


@dataclass(frozen=True, eq=False)
class Task:
    """Boxes to split.

    Attributes
    ----------
    bundles : tuple of Boxes
    best : Incumbent
    floor : float
        No box with a bound up to it can be told from one that float64 numbers cannot close.
    """

    bundles: tuple[Boxes, ...]
    best: Incumbent
    floor: float = -math.inf


class BundlePipeline(Pipeline[Boxes, Task]):
    """Splits and cuts bundles of boxes; what bounds them, and what points are worth, differs.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._best, self._floor = Incumbent(), -math.inf
        self._effort, self._turn = 0.0, 1.0

    # -- what differs ------------------------------------------------------------------------------

    @abstractmethod
    def _met(self, value: float) -> float:
        """What bounds have to exceed in order to matter, but for rounding."""

    @abstractmethod
    def _bounds_of(self, boxes: Boxes, cutoff: float) -> Bounded:
        """Boxes with bounds and scores."""

    @abstractmethod
    def _values(self, points: FloatArray) -> FloatArray:
        """Values at points (n, d) of the domain, in floating point."""

    @abstractmethod
    def _challenge(self, point: FloatArray) -> bool:
        """Whether what is proved to be attained at `point` is the best so far."""

    @abstractmethod
    def _ascend_from(self, boxes: Boxes, clock: Clock) -> None:
        """Ascend from the middles of boxes, and take what is found."""

    def _looked(self, found: Bounded, left: Boxes, best: Incumbent) -> tuple[Incumbent, BoolArray]:
        """After a look at boxes, and what was left of them: the best point, to be challenged still.

        And which boxes (N,) are hopeless: all that their bounds are above values is rounding.
        """
        points = np.where(np.isnan(found.points), left.middle, found.points)
        points = self._context.domain.drawn_in(points)
        values = self._values(points)
        top = int(values.argmax())
        if values[top] > best.value:
            best = Incumbent(float(values[top]), self._given(points[top]))
        return best, left.bounds - values < 2.0 * found.fuzz

    def _examined(self, boxes: Boxes, best: Incumbent, clock: Clock) -> tuple[BoolArray, Incumbent]:
        """Which boxes (N,) hold nothing that counts, and the best point, if a proved one is better.

        Where float64 points do not show what is attained in a box.
        """
        return np.zeros(len(boxes), dtype=bool), best

    def _given(self, point: FloatArray) -> FloatArray:
        """A point (d,) of the given domain for one that boxes have ends for."""
        return point

    # -- what the engine asks ----------------------------------------------------------------------

    def cutoff(self, value: float) -> float:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return max(self._met(value), self._floor)

    def together(self, node: Boxes) -> int:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return max(1, 4 * self._context.bundle // len(node))

    def nbytes(self, node: Boxes) -> tuple[int, int]:
        """See `lipyomo.search.engine.protocol.Pipeline`; every bundle counts as a full one."""
        return max(len(node), self._context.bundle) * node.nbytes, 0

    def plan(self, nodes: Sequence[Boxes], travels: bool) -> Task:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Task(tuple(nodes), self._best, self._floor)

    def process(self, task: Task, clock: Clock, pulse: Pulse) -> Outcome[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        context, met, best = self._context, self._met(task.best.value), task.best
        cutoff, proved = max(met, task.floor), task.best
        boxes = joined(task.bundles)
        kept: list[Boxes] = []
        rest: list[Boxes] = []
        closed, stuck = -math.inf, int(task.floor > met)
        size = max(1, context.chunk // 2)
        for at in range(0, len(boxes), size):
            if clock.expired:
                rest.append(boxes.take(slice(at, len(boxes))))
                break
            children, unsplit = split(context, boxes.take(slice(at, at + size)))
            found = self._bounds_of(children, cutoff)
            bounds = found.boxes.bounds
            stuck += len(unsplit)
            done = bounds <= cutoff
            closed = max(closed, unsplit.bound, float(bounds[done].max(initial=-math.inf)))
            keep = np.flatnonzero(~done)
            if keep.size:
                closed = max(closed, cutoff)  # what is cut off
                some = found.take(keep)
                left = cut(some)
                empty, proved = self._examined(left, proved, clock)
                if empty.any():
                    some, left = some.take(np.flatnonzero(~empty)), left.take(~empty)
                if not len(left):
                    continue
                best, hopeless = self._looked(some, left, best)
                stuck += int(hopeless.sum())
                closed = max(closed, left.take(hopeless).bound)
                kept.append(left.take(~hopeless))
            pulse()
        return Outcome(
            bundles(joined(kept), context.bundle) if kept else (),
            returned=bundles(joined(rest), context.bundle) if rest else (),
            closed=closed,
            best=proved if proved.value > task.best.value else best,
            counters={NODES: len(boxes) - sum(map(len, rest)), STUCK: stuck},
        )

    def adopt(self, outcome: Outcome[Boxes]) -> Outcome[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        best = outcome.best
        if best is not None and best.point is not None and best.value > self._best.value:
            self._challenge(best.point)
        return replace(outcome, best=self._best)

    def settle(self, nodes: Sequence[Boxes], cutoff: float) -> Outcome[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`: all bounds are proved."""
        closed, left = -math.inf, []
        for node in nodes:
            done = node.bounds <= cutoff
            closed = max(closed, float(node.bounds[done].max(initial=-math.inf)))
            if not done.all():
                left.append(node.take(~done) if done.any() else node)
        return Outcome(returned=tuple(left), closed=closed)

    def improve(self, effort: float, seeds: Sequence[Boxes], clock: Clock) -> Incumbent | None:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        Ascents begin at the middles of the best boxes, more rarely the longer the search lasts.
        """
        self._effort += effort
        if self._effort >= self._turn and seeds:
            self._turn = max(self._turn, self._effort) * self._context.params.pause
            first = joined(seeds)
            order = np.argsort(-first.bounds, kind="stable")[: self._context.params.again]
            self._ascend_from(first.take(order), clock)
        return self._best

    # -- checkpoints -------------------------------------------------------------------------------

    def encode(self, nodes: Sequence[Boxes]) -> Arrays:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        whole = joined(nodes) if nodes else Boxes.whole(self._context).take(slice(0, 0))
        point = self._best.point
        return {f"boxes.{name}": array for name, array in whole.encode().items()} | {
            "sizes": np.array([len(node) for node in nodes], dtype=np.int64),
            "best": np.zeros((0, self._context.inputs)) if point is None else point[None],
            "course": np.array([self._effort, self._turn, self._floor]),
        }

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        whole = Boxes.decode({name: arrays[f"boxes.{name}"] for name in NAMES})
        ends = np.cumsum(arrays["sizes"]).tolist()
        nodes = tuple(
            whole.take(slice(start, end)) for start, end in zip([0, *ends], ends, strict=False)
        )
        self._effort, self._turn, self._floor = arrays["course"].tolist()
        for point in arrays["best"]:
            self._challenge(point)
        return Outcome(nodes, best=self._best)
