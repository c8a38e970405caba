"""The pipeline of a search over boxes, for any objective; it implements the engine's interface.

A node is a bundle of boxes.  All bounds are proved, so proving a node is a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    ProvedPipeline,
    Pulse,
    Root,
    Task,
)
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.objective import Objective
from lipyomo.search.spaces.boxes.split import cut, split, split_again, split_up, with_little_left
from lipyomo.search.spaces.bundle import bundles, decoded, encoded, joined, with_proved

STUCK = "stuck"
"""Name of the counter of boxes too small for float64 numbers to split or to bound any better."""


class BoxPipeline(ProvedPipeline[Boxes]):
    """Branch and bound over boxes: splits bundles of boxes, bounds the children, and cuts them.

    Parameters
    ----------
    objective : Objective
    seed : int, optional
    """

    def __init__(self, objective: Objective, seed: int = 0) -> None:
        keep_memory()
        super().__init__(objective, seed)
        self._context, self._floor = objective.context, -math.inf
        self._effort, self._turn = 0.0, 1.0
        self._plans = 0

    def root(self, clock: Clock, on_progress: OnRootProgress) -> Root[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        objective = self._objective
        self.best = objective.first(self._rng, clock)
        on_progress(best=self.best)
        whole, closed = objective.root(self.best, clock, on_progress)
        keep = whole.bounds > self.cutoff(self.best.value)
        closed = max(closed, float(whole.bounds[~keep].max(initial=-math.inf)))
        nodes = bundles(whole.take(keep), self._context.batches.bundle)
        return Root(Outcome(nodes, closed=closed, best=self.best))

    def cutoff(self, value: float) -> float:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return max(super().cutoff(value), self._floor)

    def together(self, node: Boxes) -> int:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return max(1, 4 * self._context.batches.bundle // len(node))

    def plan(self, nodes: Sequence[Boxes], travels: bool) -> Task[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        After one, two, four, ... plans, since it takes as long as some boxes do, `floor` checks
        whether rounding allows the worst box to be closed.  If it does not, the final bound will
        not be below the floor, and other boxes need not be either: those with bounds up to it are
        closed.
        """
        objective = self._objective
        self._plans += 1
        if self._plans.bit_count() == 1:
            worst = max(nodes, key=lambda node: node.bound)
            first = worst.take(np.array([worst.bounds.argmax()]))
            self._floor = max(self._floor, objective.floor(first, self.cutoff(self.best.value)))
        return Task(tuple(nodes), self.best, (self._floor, objective.known))

    def process(self, task: Task[Boxes], clock: Clock, pulse: Pulse) -> Outcome[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        context, objective, best = self._context, self._objective, task.best
        floor, known = task.known
        objective.update(known)
        met = objective.cutoff(best.value)
        cutoff, proved = max(met, floor), task.best
        boxes = joined(task.nodes)
        kept: list[Boxes] = []
        rest: list[Boxes] = []
        closed, stuck = -math.inf, int(floor > met)
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
        if best is not None and best.point is not None and best.value > self.best.value:
            best = self._objective.challenged(self.best, best.point)
        return super().adopt(replace(outcome, best=best))

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
            self.best = self._objective.improved(self.best, first.take(order), clock)
        return self.best

    # -- checkpoints -------------------------------------------------------------------------------

    def encode(self, nodes: Sequence[Boxes]) -> Arrays:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return super().encode(nodes) | {
            **encoded(nodes, Boxes.whole(self._context)),
            "course": np.array([self._effort, self._turn, self._floor]),
        }

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        self._effort, self._turn, self._floor = arrays["course"].tolist()
        return replace(super().decode(arrays), children=decoded(Boxes, arrays))
