"""The pipeline of smooth and mixed networks: what the engine asks, answered by the steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.arrays import FloatArray, keep_memory
from lipyomo.regions.witness import make_witness
from lipyomo.run import Clock
from lipyomo.search.protocol import NODES, Arrays, Incumbent, Outcome, Pulse, Root, Tell
from lipyomo.search.smooth.ascent import ascended, drawn_in
from lipyomo.search.smooth.bound import bounded, least_bound
from lipyomo.search.smooth.boxes import NAMES, Boxes, bundles, joined
from lipyomo.search.smooth.chords import with_chords
from lipyomo.search.smooth.context import Context, Question
from lipyomo.search.smooth.cut import cut
from lipyomo.search.smooth.inputs import inputs_of
from lipyomo.search.smooth.ranges import global_slopes, semidefinite_bounds, slopes_on
from lipyomo.search.smooth.relax import relaxed
from lipyomo.search.smooth.split import split
from lipyomo.search.smooth.values import slopes_at

STUCK = "stuck"
"""The counter of boxes that float64 numbers are too coarse to split, or to bound any better."""


@dataclass(frozen=True, eq=False)
class Task:
    """Boxes to split.

    Attributes
    ----------
    bundles : tuple of Boxes
    value : float
        Of the incumbent.
    floor : float
        No box with a bound up to it can be told from one that float64 numbers cannot close.
    """

    bundles: tuple[Boxes, ...]
    value: float
    floor: float


@dataclass(frozen=True, eq=False)
class Recipe:
    """Makes a pipeline for tasks that have travelled."""

    question: Question

    def pipeline(self) -> Pipeline:
        """The pipeline."""
        return Pipeline(self.question)


class Pipeline:
    """Searches one problem.

    Parameters
    ----------
    question : Question
    seed : int, optional
    """

    def __init__(self, question: Question, seed: int = 0) -> None:
        keep_memory()
        self._context = Context.of(question)
        self._rng = np.random.default_rng(seed)
        self._best = Incumbent()
        self._effort, self._turn, self._floor = 0.0, 1.0, 0.0

    # -- what the engine asks of any node ----------------------------------------------------------

    def cutoff(self, value: float) -> float:
        """See `lipyomo.search.protocol.Pipeline`."""
        return max(self._context.cutoff(value), self._floor)

    def together(self, node: Boxes) -> int:
        """See `lipyomo.search.protocol.Pipeline`."""
        return max(1, 4 * self._context.bundle // len(node))

    def weight(self) -> float:
        """See `lipyomo.search.protocol.Pipeline`."""
        return 1.0

    def nbytes(self, node: Boxes) -> tuple[int, int]:
        """See `lipyomo.search.protocol.Pipeline`; every bundle counts as a full one."""
        return max(len(node), self._context.bundle) * node.nbytes, 0

    def cool(self, node: Boxes) -> Boxes:
        """See `lipyomo.search.protocol.Pipeline`."""
        return node

    def recipe(self) -> Recipe:
        """See `lipyomo.search.protocol.Pipeline`."""
        return Recipe(self._context.question)

    # -- the search --------------------------------------------------------------------------------

    def root(self, clock: Clock, tell: Tell) -> Root[Boxes]:
        """See `lipyomo.search.protocol.Pipeline`."""
        context, params = self._context, self._context.params
        first = clock.within(params.look_share * clock.left)
        self._look(context.domain.sample(self._rng, context.samples), first)
        tell(best=self._best)
        if not context.domain.is_bounded:
            bounds = semidefinite_bounds(
                context, global_slopes(context), clock, report=lambda upper: tell(upper=upper)
            )
            return Root(Outcome(closed=max(0.0, float(bounds.max())), best=self._best))
        whole = self._bounded(Boxes.whole(context), clock)
        tell(upper=max(whole.bound, 0.0))
        cutoff = self.cutoff(self._best.value)
        if context.inputs >= params.wide:
            if context.targets.input_norm == "linf" and not context.euclidean:
                within = clock.within(params.chord_share * clock.left)
                whole = with_chords(context, whole, within, cutoff)
                tell(upper=max(whole.bound, 0.0))
            if whole.bound > cutoff:
                whole = self._lowered(whole, clock.within(params.wide_share * clock.left), tell)
        keep = whole.bounds > cutoff
        closed = max(0.0, float(whole.bounds[~keep].max(initial=0.0)))
        nodes = bundles(whole.take(keep), context.bundle)
        return Root(Outcome(nodes, closed=closed, best=self._best))

    def _bounded(self, whole: Boxes, clock: Clock) -> Boxes:
        """The root's boxes with bounds; twice, since the first look decides signs.

        What there is no time for keeps its infinite bound.
        """
        context, found = self._context, []
        decides = 8 * context.inputs**2 <= context.params.bundle_bytes
        for at in range(0, len(whole), context.chunk):
            part = whole.take(slice(at, at + context.chunk))
            if at == 0 or not clock.expired:
                part = bounded(context, part, -math.inf, decide=decides).boxes
            if not clock.expired:
                part = bounded(context, part, -math.inf).boxes
            found.append(part)
        return joined(found)

    def _lowered(self, whole: Boxes, clock: Clock, tell: Tell) -> Boxes:
        """The root's boxes with semidefinite bounds, where these are less."""
        context, targets = self._context, self._context.targets
        first = whole.take(slice(0, 1))
        layers = relaxed(context, first, inputs_of(context, first, first.v_low, first.v_high))
        known = whole.bounds.reshape(-1, targets.count)  # a target may have several boxes
        bounds = semidefinite_bounds(
            context,
            slopes_on(layers),
            clock,
            known.max(axis=0),
            lambda upper: tell(upper=max(upper, 0.0)),
            self.cutoff(self._best.value),
        )
        return replace(whole, bounds=np.minimum(known, bounds).reshape(-1))

    def plan(self, nodes: Sequence[Boxes], travels: bool) -> Task:
        """See `lipyomo.search.protocol.Pipeline`.

        The worst box is looked at more closely: where it cannot be closed, the upper end will not
        be below that, and nothing else has to be.
        """
        cutoff = self.cutoff(self._best.value)
        worst = max(nodes, key=lambda node: node.bound)
        first = worst.take(np.array([worst.bounds.argmax()]))
        self._floor = max(self._floor, least_bound(self._context, first, cutoff))
        return Task(tuple(nodes), self._best.value, self._floor)

    def process(self, task: Task, clock: Clock, pulse: Pulse) -> Outcome[Boxes]:
        """See `lipyomo.search.protocol.Pipeline`."""
        context, base = self._context, self._context.cutoff(task.value)
        cutoff = max(base, task.floor)
        boxes = joined(task.bundles)
        kept: list[Boxes] = []
        rest: list[Boxes] = []
        closed, stuck, best = 0.0, int(task.floor > base), Incumbent(task.value)
        size = max(1, context.chunk // 2)
        for at in range(0, len(boxes), size):
            if clock.expired:
                rest.append(boxes.take(slice(at, len(boxes))))
                break
            children, unsplit = split(context, boxes.take(slice(at, at + size)))
            found = bounded(context, children, cutoff)
            bounds = found.boxes.bounds
            stuck += len(unsplit)
            closed = max(closed, unsplit.bound, float(bounds[bounds <= cutoff].max(initial=0.0)))
            keep = np.flatnonzero(bounds > cutoff)
            if keep.size:
                closed = max(closed, cutoff)
                left = cut(found.take(keep))
                values = self._middles(left)
                top = int(values.argmax())
                if values[top] > best.value:
                    best = Incumbent(float(values[top]), left.middle[top])
                hopeless = left.bounds - values < 2.0 * found.fuzz[keep]
                stuck += int(hopeless.sum())
                closed = max(closed, left.take(hopeless).bound)
                kept.append(left.take(~hopeless))
            pulse()
        return Outcome(
            bundles(joined(kept), context.bundle) if kept else (),
            returned=bundles(joined(rest), context.bundle) if rest else (),
            closed=closed,
            best=best if best.point is not None else None,
            counters={NODES: len(boxes) - sum(map(len, rest)), STUCK: stuck},
        )

    def adopt(self, outcome: Outcome[Boxes]) -> Outcome[Boxes]:
        """See `lipyomo.search.protocol.Pipeline`."""
        if outcome.best is not None and outcome.best.point is not None:
            self._challenge(outcome.best.point)
        return Outcome(
            outcome.children,
            outcome.returned,
            outcome.closed,
            best=self._best,
            counters=outcome.counters,
        )

    def settle(self, nodes: Sequence[Boxes], cutoff: float) -> Outcome[Boxes]:
        """See `lipyomo.search.protocol.Pipeline`: all bounds are proved."""
        closed, left = -math.inf, []
        for node in nodes:
            done = node.bounds <= cutoff
            closed = max(closed, float(node.bounds[done].max(initial=-math.inf)))
            if not done.all():
                left.append(node.take(~done) if done.any() else node)
        return Outcome(returned=tuple(left), closed=closed)

    # -- points ------------------------------------------------------------------------------------

    def improve(self, effort: float, seeds: Sequence[Boxes], clock: Clock) -> Incumbent | None:
        """See `lipyomo.search.protocol.Pipeline`.

        Ascents begin at the middles of the best boxes, more rarely the longer the search lasts.
        """
        self._effort += effort
        if self._effort >= self._turn and seeds:
            self._turn = max(self._turn, self._effort) * self._context.params.pause
            first = joined(seeds)
            order = np.argsort(-first.bounds, kind="stable")[: self._context.params.again]
            self._look(first.take(order).middle, clock)
        return self._best

    def _middles(self, boxes: Boxes) -> FloatArray:
        """Values at the boxes' middles."""
        return slopes_at(self._context, drawn_in(self._context.domain, boxes.middle)).values

    def _look(self, points: FloatArray, clock: Clock) -> None:
        """Ascend from the best of some points, and take what is found."""
        context = self._context
        values = slopes_at(context, points).values
        starts = points[np.argsort(-values)[: context.params.starts]]
        found, values = ascended(context, starts, clock)
        for k in np.argsort(-values)[: context.params.tries].tolist():
            if not values[k] > self._best.value or self._challenge(found[k]):
                break

    def _challenge(self, x: FloatArray) -> bool:
        """Whether the norm that is proved to be attained at `x` is the best so far."""
        found = make_witness(self._context.question.problem, x)
        if found is None or found.value <= self._best.value:
            return False
        self._best = Incumbent(found.value, x)
        return True

    # -- checkpoints -------------------------------------------------------------------------------

    def encode(self, nodes: Sequence[Boxes]) -> Arrays:
        """See `lipyomo.search.protocol.Pipeline`."""
        whole = joined(nodes) if nodes else Boxes.whole(self._context).take(slice(0, 0))
        point = self._best.point
        return {f"boxes.{name}": array for name, array in whole.encode().items()} | {
            "sizes": np.array([len(node) for node in nodes], dtype=np.int64),
            "best": np.zeros((0, self._context.inputs)) if point is None else point[None],
            "course": np.array([self._effort, self._turn, self._floor]),
        }

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[Boxes]:
        """See `lipyomo.search.protocol.Pipeline`."""
        whole = Boxes.decode({name: arrays[f"boxes.{name}"] for name in NAMES})
        ends = np.cumsum(arrays["sizes"]).tolist()
        nodes = tuple(
            whole.take(slice(start, end)) for start, end in zip([0, *ends], ends, strict=False)
        )
        self._effort, self._turn, self._floor = arrays["course"].tolist()
        for point in arrays["best"]:
            self._challenge(point)
        return Outcome(nodes, best=self._best)
