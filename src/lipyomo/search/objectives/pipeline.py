"""The pipeline of values of piecewise-linear networks: what the engine asks, answered by steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.problems.ranges import tolerance_of
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
from lipyomo.search.objectives.context import Context, ValueQuestion
from lipyomo.search.objectives.examine import chosen, narrowed, region_of
from lipyomo.search.objectives.node import Node, arrays_of, nodes_of
from lipyomo.search.objectives.points import best_start, challenged
from lipyomo.search.objectives.program import NodeProgram


@dataclass(frozen=True, eq=False)
class Task:
    """Nodes to split.

    Attributes
    ----------
    nodes : tuple of Node
    best : Incumbent
    """

    nodes: tuple[Node, ...]
    best: Incumbent


class Pipeline(Searching[Node, Task]):
    """Searches the largest value.

    Parameters
    ----------
    question : ValueQuestion
    seed : int, optional
    """

    def __init__(self, question: ValueQuestion, seed: int = 0) -> None:
        self._context = Context.of(question)
        self._rng = np.random.default_rng(seed)
        self._best = Incumbent()

    @cached_property
    def _program(self) -> NodeProgram:
        question, system = self._context.question, self._context.system
        tolerance = tolerance_of(question.scale)
        return NodeProgram(system, question.domain, question.params, tolerance)

    # -- what the engine asks of any node ----------------------------------------------------------

    def cutoff(self, value: float) -> float:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return self._context.question.cutoff(value)

    def together(self, node: Node) -> int:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return self._context.question.params.together

    def nbytes(self, node: Node) -> tuple[int, int]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        kept = 1024 + 17 * node.phases.size + 16 * node.low.size
        return kept, 0 if node.warm_start is None else node.warm_start.nbytes

    def cool(self, node: Node) -> Node:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return replace(node, warm_start=None)

    def recipe(self) -> Recipe[Node, Task]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(Pipeline, self._context.question)

    # -- the search --------------------------------------------------------------------------------

    def root(self, clock: Clock, on_progress: OnRootProgress) -> Root[Node]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        self._best = best_start(self._context.question, self._rng, clock)
        on_progress(best=self._best)
        context = self._at(self._best.value)
        whole = narrowed(context, [context.whole()], is_root=True)
        if not whole:
            return Root(Outcome(closed=context.cutoff, best=self._best))
        whole = [
            replace(node, bound=min(node.bound, self._program.twins.largest)) for node in whole
        ]
        on_progress(upper=min(float(whole[0].upper[context.aim]), whole[0].bound))
        self._polish(context, whole[0])
        outcome = self._bounded(context, whole, self._best, clock)
        return Root(self.adopt(outcome))

    def plan(self, nodes: Sequence[Node], travels: bool) -> Task:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Task(tuple(nodes), self._best)

    def process(self, task: Task, clock: Clock, pulse: Pulse) -> Outcome[Node]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        if clock.expired:
            return Outcome(returned=task.nodes)
        context = self._at(task.best.value)
        parts = [child for node in task.nodes for child in node.sides()]
        left = narrowed(context, self._within(context, parts))
        pulse()
        found = self._bounded(context, left, task.best, clock)
        return replace(found, counters={NODES: len(task.nodes)})

    def _within(self, context: Context, nodes: Sequence[Node]) -> list[Node]:
        """What of some nodes lies in the domain."""
        return list(nodes)

    def _bounded(
        self, context: Context, nodes: Sequence[Node], best: Incumbent, clock: Clock
    ) -> Outcome[Node]:
        """Nodes after their programs, with a better point if they have one.

        What is not in them, but in the nodes that they were narrowed from, is below the cutoff.
        """
        children, closed = [], self.cutoff(best.value)
        for node in nodes:
            if clock.expired:  # no time for its program: what the parent knew holds
                judged = chosen(context, node)
            else:
                judged, best = self._judged(context, node, best)
            if judged.bound > self.cutoff(best.value) and judged.splits:
                children.append(judged)
            else:  # without unstable units rounding may leave a bound above the cutoff
                closed = max(closed, judged.bound)
        return Outcome(tuple(children), closed=closed, best=best)

    def _judged(self, context: Context, node: Node, best: Incumbent) -> tuple[Node, Incumbent]:
        """A node after its program, with what to split it on, and the incumbent after that."""
        found = self._program.highest(node)
        if found.point is not None:
            best = self._challenged(best, found.point)
        bound = min(node.bound, float(node.upper[context.aim]), found.end)
        return chosen(context, replace(node, bound=bound), found), best

    def adopt(self, outcome: Outcome[Node]) -> Outcome[Node]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        best = outcome.best
        if best is not None and best.value > self._best.value:
            self._best = best
        return replace(outcome, best=self._best)

    def prove(self, nodes: Sequence[Node], cutoff: float) -> Outcome[Node]:
        """See `lipyomo.search.engine.protocol.Pipeline`: all bounds are proved."""
        done = [node.bound for node in nodes if node.bound <= cutoff]
        left = tuple(node for node in nodes if node.bound > cutoff)
        return Outcome(returned=left, closed=max(done, default=-np.inf))

    def _at(self, value: float) -> Context:
        """The context under the cutoff that follows from an attained value."""
        self._context = self._context.at(self._context.question.cutoff(value))
        return self._context

    # -- checkpoints -------------------------------------------------------------------------------

    def encode(self, nodes: Sequence[Node]) -> Arrays:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        inputs, point = self._context.domain.dimension, self._best.point
        return arrays_of(nodes) | {"best": np.zeros((0, inputs)) if point is None else point[None]}

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[Node]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        for point in arrays["best"]:
            self._best = self._challenged(self._best, point)
        return Outcome(nodes_of(arrays), best=self._best)

    # -- points ------------------------------------------------------------------------------------

    def improve(self, effort: float, seeds: Sequence[Node], clock: Clock) -> Incumbent | None:
        """See `lipyomo.search.engine.protocol.Pipeline`: programs of nodes find the points."""
        return self._best

    def _polish(self, context: Context, whole: Node) -> None:
        """Go from piece to piece: the largest value on the piece around the best point."""
        for _ in range(context.question.params.steps):
            x, value = self._best.point, self._best.value
            assert x is not None
            found = self._program.highest(region_of(context, whole, x))
            if found.point is None:
                return
            for step in (1.0, 1.0 + 1e-6):  # on its edge, or a little beyond
                self._best = self._challenged(self._best, x + step * (found.point - x))
            if not self._best.value > value:
                return

    def _challenged(self, best: Incumbent, point: FloatArray) -> Incumbent:
        """The better one of an incumbent and a point of the domain near the given one."""
        return challenged(self._context.question, best, point)
