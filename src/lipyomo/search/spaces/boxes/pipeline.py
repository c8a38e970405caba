"""The pipeline of a search over boxes, for any objective; it implements the engine's interface.

A node is a bundle of boxes.  All bounds are proved, so proving a node is a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import keep_memory
from lipyomo.base.clock import Clock
from lipyomo.search.engine.protocol import (
    NODES,
    Arrays,
    Incumbent,
    OnRootProgress,
    Outcome,
    Pipeline,
    Pulse,
    Recipe,
    Root,
)
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.objective import Objective
from lipyomo.search.spaces.boxes.split import cut, split, split_again, split_up, with_little_left
from lipyomo.search.spaces.bundle import bundles, decoded, encoded, joined, with_proved

STUCK = "stuck"
"""Name of the counter of boxes too small for float64 numbers to split or to bound any better."""


@dataclass(frozen=True, eq=False)
class BoxTask:
    """Boxes to split.

    Attributes
    ----------
    bundles : tuple of Boxes
    best : Incumbent
    floor : float
        A value below which the final upper bound cannot get because of rounding; boxes with bounds
        up to it are closed.
    known : object
        Further data that the objective needs.
    """

    bundles: tuple[Boxes, ...]
    best: Incumbent
    floor: float
    known: Any


class BoxPipeline(Pipeline[Boxes, BoxTask]):
    """Branch and bound over boxes: splits bundles of boxes, bounds the children, and cuts them.

    Parameters
    ----------
    objective : Objective
    seed : int, optional
    """

    def __init__(self, objective: Objective[Any], seed: int = 0) -> None:
        keep_memory()
        self._objective, self._context = objective, objective.context
        self._rng = np.random.default_rng(seed)
        self._best, self._floor = Incumbent(), -math.inf
        self._effort, self._turn = 0.0, 1.0
        self._plans = 0

    def recipe(self) -> Recipe[Boxes, BoxTask]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(BoxPipeline, self._objective)

    def root(self, clock: Clock, on_progress: OnRootProgress) -> Root[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        objective = self._objective
        self._best = objective.first(self._rng, clock)
        on_progress(best=self._best)
        whole, closed = objective.root(self._best, clock, on_progress)
        keep = whole.bounds > self.cutoff(self._best.value)
        closed = max(closed, float(whole.bounds[~keep].max(initial=-math.inf)))
        nodes = bundles(whole.take(keep), self._context.batches.bundle)
        return Root(Outcome(nodes, closed=closed, best=self._best))

    def cutoff(self, value: float) -> float:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return max(self._objective.cutoff(value), self._floor)

    def together(self, node: Boxes) -> int:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return max(1, 4 * self._context.batches.bundle // len(node))

    def plan(self, nodes: Sequence[Boxes], travels: bool) -> BoxTask:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        After one, two, four, ... plans, since it takes as long as some boxes do, `floor` checks
        whether rounding allows the worst box to be closed.  If it does not, the final bound will
        not be below the floor, and other boxes need not be either.
        """
        objective = self._objective
        self._plans += 1
        if self._plans.bit_count() == 1:
            worst = max(nodes, key=lambda node: node.bound)
            first = worst.take(np.array([worst.bounds.argmax()]))
            self._floor = max(self._floor, objective.floor(first, self.cutoff(self._best.value)))
        return BoxTask(tuple(nodes), self._best, self._floor, objective.known)

    def process(self, task: BoxTask, clock: Clock, pulse: Pulse) -> Outcome[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        context, objective, best = self._context, self._objective, task.best
        objective.update(task.known)
        met = objective.cutoff(best.value)
        cutoff, proved = max(met, task.floor), task.best
        boxes = joined(task.bundles)
        kept: list[Boxes] = []
        rest: list[Boxes] = []
        closed, stuck = -math.inf, int(task.floor > met)
        size = max(1, context.batches.chunk // 2)
        again, far = 0, objective.far(cutoff)
        multiplies = far < math.inf
        for at in range(0, len(boxes), size):
            if clock.expired:
                rest.append(boxes.take(slice(at, len(boxes))))
                break
            children, unsplit = split(context, boxes.take(slice(at, at + size)))
            children, count = split_again(context, children, far)
            again += count
            children, count = split_up(context, children)
            again += count
            found = objective.bounded(children, cutoff)
            bounds = found.boxes.bounds
            stuck += len(unsplit)
            done = bounds <= cutoff
            closed = max(closed, unsplit.bound, float(bounds[done].max(initial=-math.inf)))
            keep = np.flatnonzero(~done)
            if keep.size:
                closed = max(closed, cutoff)  # covers what the cuts remove
                some = found.take(keep)
                left = cut(some)
                if multiplies and len(children) >= context.batches.few:
                    left = with_little_left(children.take(keep), left)
                empty, proved = objective.examined(left, proved, clock)
                if empty.any():
                    some, left = some.take(np.flatnonzero(~empty)), left.take(~empty)
                if not len(left):
                    continue
                best, hopeless = objective.evaluated(some, left, best)
                stuck += int(hopeless.sum())
                closed = max(closed, left.take(hopeless).bound)
                kept.append(left.take(~hopeless))
            pulse()
        return Outcome(
            bundles(joined(kept), context.batches.bundle) if kept else (),
            returned=bundles(joined(rest), context.batches.bundle) if rest else (),
            closed=closed,
            best=proved if proved.value > task.best.value else best,
            counters={NODES: again + len(boxes) - sum(map(len, rest)), STUCK: stuck},
        )

    def adopt(self, outcome: Outcome[Boxes]) -> Outcome[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        best = outcome.best
        if best is not None and best.point is not None and best.value > self._best.value:
            self._best = self._objective.challenged(self._best, best.point)
        return replace(outcome, best=self._best)

    def prove(self, nodes: Sequence[Boxes], cutoff: float) -> Outcome[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`; all bounds are proved already."""
        return with_proved(nodes, cutoff)

    def improve(self, effort: float, seeds: Sequence[Boxes], clock: Clock) -> Incumbent | None:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        Ascents start from the middles of the best boxes, more rarely the longer the search takes.
        """
        self._effort += effort
        if self._effort >= self._turn and seeds:
            self._turn = 2.0 * self._effort
            first = joined(seeds)
            order = np.argsort(-first.bounds, kind="stable")[: self._context.params.again]
            self._best = self._objective.improved(self._best, first.take(order), clock)
        return self._best

    # -- checkpoints -------------------------------------------------------------------------------

    def encode(self, nodes: Sequence[Boxes]) -> Arrays:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        point = self._best.point
        return encoded(nodes, Boxes.whole(self._context)) | {
            "best": np.zeros((0, self._context.inputs)) if point is None else point[None],
            "course": np.array([self._effort, self._turn, self._floor]),
        }

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        self._effort, self._turn, self._floor = arrays["course"].tolist()
        for point in arrays["best"]:
            self._best = self._objective.challenged(self._best, point)
        return Outcome(decoded(Boxes, arrays), best=self._best)
