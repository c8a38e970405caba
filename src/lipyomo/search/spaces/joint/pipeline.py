"""The search of boxes and of the nodes that they are handed over as, in one queue.

Most of what a search of phases does is left to the one beside it, which has the incumbent; here is
what becomes of boxes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import keep_memory
from lipyomo.base.clock import Clock
from lipyomo.relaxations.cascade import Cascade
from lipyomo.relaxations.semidefinite.cost import root_cost
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
from lipyomo.search.engine.protocol import Pipeline as Searching
from lipyomo.search.spaces.bundle import bundles, joined, split_at
from lipyomo.search.spaces.joint.boxes import Boxes
from lipyomo.search.spaces.joint.context import Context
from lipyomo.search.spaces.joint.halve import Halved, halved
from lipyomo.search.spaces.joint.trial import looked, tried
from lipyomo.search.spaces.phases import pipeline as phases
from lipyomo.search.spaces.phases.context import Question
from lipyomo.search.spaces.phases.node import Node
from lipyomo.search.spaces.phases.points import Points

Part: TypeAlias = "Boxes | Node"


@dataclass(frozen=True, eq=False)
class Task:
    """Boxes and nodes to split.

    Attributes
    ----------
    boxes : tuple of Boxes
    nodes : task of the search of phases, or None
    best : float
        What is attained.
    """

    boxes: tuple[Boxes, ...]
    nodes: phases.Task | None
    best: float


class Pipeline(Searching[Part, Task]):
    """Searches one problem with few inputs.

    Parameters
    ----------
    beside : lipyomo.search.spaces.phases.pipeline.Pipeline
        Of the same problem.
    context : Context
    cascade : Cascade, optional
        Bounds of the whole; none where only tasks are processed.
    """

    def __init__(
        self, beside: phases.Pipeline, context: Context, cascade: Cascade | None = None
    ) -> None:
        keep_memory()
        self._context, self._cascade = context, cascade
        self._beside = beside
        self._effort, self._turn = 0.0, 1.0

    @classmethod
    def of(cls, question: Question) -> Pipeline:
        """A pipeline that processes tasks which have travelled."""
        beside = phases.Pipeline(question)
        context = Context.of(question.problem)
        assert context is not None
        return cls(beside, context)

    def recipe(self) -> Recipe[Part, Task]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(Pipeline.of, self._beside.context.question)

    def cutoff(self, value: float) -> float:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return self._beside.cutoff(value)

    def weight(self) -> float:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return self._beside.weight()

    def together(self, node: Part) -> int:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return 4 if isinstance(node, Boxes) else self._beside.together(node)

    def nbytes(self, node: Part) -> tuple[int, int]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return (node.nbytes, 0) if isinstance(node, Boxes) else self._beside.nbytes(node)

    def cool(self, node: Part) -> Part:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return node if isinstance(node, Boxes) else self._beside.cool(node)

    # -- the root ----------------------------------------------------------------------------------

    def root(self, clock: Clock, on_progress: OnRootProgress) -> Root[Part]:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        Where the bound of the whole as a node of phases is soon there, and may be of use, boxes
        have to be below it; else they have to close half of what bounds by substitution leave, in
        logarithms.  What is not far above the incumbent is for the search of phases.
        """
        assert self._cascade is not None
        beside, whole, params = self._beside, self._cascade.value, self._context.params
        proved = whole
        found: Root[Any] | None = None
        hopeless = params.far**2 * self.cutoff(looked(self._context, beside.context))
        if self._is_short and (whole <= hopeless or not params.compared):
            found = beside.root(clock, on_progress)
            waiting = [*found.outcome.children, *found.outcome.returned]
            if not waiting:
                return self._root(found, clock, on_progress)
            whole = max(node.bound for node in waiting)
            proved = min(proved, max(found.outcome.closed, *(n.proved_bound for n in waiting)))
        if self._is_near(whole, beside.best.value) or clock.expired:
            return self._root(found, clock, on_progress)
        trial = tried(self._context, beside.context, beside.best, clock.part())
        goal = whole
        if found is None:
            goal = math.sqrt(whole * self.cutoff(trial.best.value))
        lost = trial.bound > goal or self._is_near(whole, trial.best.value)
        if lost and params.compared:
            return self._root(found, clock, on_progress)
        if trial.best.point is not None:
            beside.challenged(trial.best.point)
        best = beside.improve(1.0, [], clock)
        on_progress(upper=min(trial.bound, proved), best=best)
        return Root(replace(trial.outcome(params.bundle), best=beside.best))

    def _root(
        self, found: Root[Any] | None, clock: Clock, on_progress: OnRootProgress
    ) -> Root[Part]:
        """The root of the search of phases, which may be known."""
        return found or cast("Root[Part]", self._beside.root(clock, on_progress))

    def _is_near(self, whole: float, value: float) -> bool:
        """Whether a bound of the whole is for the search of phases, where `value` is attained."""
        params = self._context.params
        return params.compared and whole <= params.far * self.cutoff(value)

    @property
    def _is_short(self) -> bool:
        """Whether the bound of the whole as a node of phases is soon there."""
        space = self._beside.context
        cost = root_cost(
            space.targets, space.system.tangents.input_dim, self._beside.unstable_units
        )
        return cost.full < space.params.long_root

    # -- boxes and nodes ---------------------------------------------------------------------------

    def plan(self, nodes: Sequence[Part], travels: bool) -> Task:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        boxes, others = _parted(nodes)
        task = self._beside.plan(others, travels) if others else None
        return Task(boxes, task, self._beside.best.value)

    def process(self, task: Task, clock: Clock, pulse: Pulse) -> Outcome[Part]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        outcomes: list[Outcome[Any]] = []
        if task.boxes:
            outcomes.append(self._halved(joined(task.boxes), task.best, clock, pulse))
        if task.nodes is not None:
            outcomes.append(self._beside.process(task.nodes, clock, pulse))
        return _together(outcomes)

    def _halved(self, boxes: Boxes, best: float, clock: Clock, pulse: Pulse) -> Outcome[Part]:
        """What becomes of the halves of boxes."""
        context, space = self._context, self._beside.context
        rng = np.random.default_rng(0)
        points = Points(space.problem, space.presolved, rng, space.params, best)
        parts: list[Halved] = []
        rest = boxes.take(slice(0, 0))
        size = context.params.bundle
        for at in range(0, len(boxes), size):
            if clock.expired:
                rest = boxes.take(slice(at, len(boxes)))
                break
            parts.append(halved(context, space, points, boxes.take(slice(at, at + size))))
            pulse()
        left = joined([part.boxes for part in parts]) if parts else boxes.take(slice(0, 0))
        return Outcome(
            (*bundles(left, size), *(node for part in parts for node in part.nodes)),
            returned=bundles(rest, size),
            closed=max([0.0, *(part.closed for part in parts)]),
            best=points.best if points.best.value > best else None,
            counters={NODES: len(boxes) - len(rest)},
        )

    def adopt(self, outcome: Outcome[Part]) -> Outcome[Part]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        if outcome.best is not None and outcome.best.point is not None:
            self._beside.challenged(outcome.best.point)
        boxes, nodes = _parted(outcome.children)
        whole, returned = _parted(outcome.returned)
        others: Outcome[Any] = replace(outcome, children=nodes, returned=returned)
        own: Outcome[Any] = self._beside.adopt(others)
        return replace(
            own,
            children=(*boxes, *own.children),
            returned=(*whole, *own.returned),
            best=self._beside.best,
        )

    def prove(self, nodes: Sequence[Part], cutoff: float) -> Outcome[Part]:
        """See `lipyomo.search.engine.protocol.Pipeline`: bounds of boxes are proved."""
        boxes, others = _parted(nodes)
        closed, left = 0.0, []
        for node in boxes:
            done = node.bounds <= cutoff
            closed = max(closed, float(node.bounds[done].max(initial=-math.inf)))
            if not done.all():
                left.append(node.take(~done))
        outcomes: list[Outcome[Any]] = [Outcome(returned=tuple(left), closed=closed)]
        if others:
            outcomes.append(self._beside.prove(others, cutoff))
        return _together(outcomes)

    def improve(self, effort: float, seeds: Sequence[Part], clock: Clock) -> Incumbent | None:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        More rarely the longer boxes are halved, which are looked at in their middles anyway.
        """
        boxes, nodes = _parted(seeds)
        if boxes:
            self._effort += effort
            if self._effort < self._turn:
                return self._beside.best
            self._turn = 2.0 * self._effort
        return self._beside.improve(effort, nodes, clock)

    # -- checkpoints -------------------------------------------------------------------------------

    def encode(self, nodes: Sequence[Part]) -> Arrays:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        boxes, others = _parted(nodes)
        whole = joined(boxes) if boxes else self._context.whole().take(slice(0, 0))
        sizes = np.array([len(node) for node in boxes], dtype=np.int64)
        own = {f"boxes.{name}": array for name, array in whole.encode().items()}
        return self._beside.encode(others) | own | {"boxes.sizes": sizes}

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[Part]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        found: Outcome[Any] = self._beside.decode(arrays)
        if "boxes.sizes" not in arrays:
            return found
        whole = Boxes.decode({name: arrays[f"boxes.{name}"] for name in Boxes.names()})
        boxes = split_at(whole, arrays["boxes.sizes"])
        return replace(found, children=(*boxes, *found.children))


def _parted(nodes: Sequence[Part]) -> tuple[tuple[Boxes, ...], tuple[Node, ...]]:
    """Bundles of boxes, and nodes of the search of phases."""
    boxes = tuple(node for node in nodes if isinstance(node, Boxes))
    return boxes, tuple(node for node in nodes if isinstance(node, Node))


def _together(outcomes: Sequence[Outcome[Any]]) -> Outcome[Part]:
    """What became of boxes and of nodes."""
    counters: Counter[str] = Counter()
    for outcome in outcomes:
        counters.update(outcome.counters)
    found = [outcome.best for outcome in outcomes if outcome.best is not None]
    return Outcome(
        tuple(node for outcome in outcomes for node in outcome.children),
        tuple(node for outcome in outcomes for node in outcome.returned),
        max(outcome.closed for outcome in outcomes),
        tuple(piece for outcome in outcomes for piece in outcome.fathomed),
        max(found, key=lambda best: best.value, default=None),
        next((outcome.statistics for outcome in outcomes if outcome.statistics is not None), None),
        counters,
    )
