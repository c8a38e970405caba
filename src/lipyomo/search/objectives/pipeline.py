"""The pipeline for values of piecewise-linear networks, which implements the engine's interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

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
from lipyomo.search.objectives.examine import chosen, narrowed
from lipyomo.search.objectives.node import ValueNode, arrays_of, nodes_of
from lipyomo.search.objectives.objective import PhaseObjective


@dataclass(frozen=True, eq=False)
class ValueTask:
    """Nodes to split.

    Attributes
    ----------
    nodes : tuple of ValueNode
    best : Incumbent
    """

    nodes: tuple[ValueNode, ...]
    best: Incumbent


class ValuePipeline(Pipeline[ValueNode, ValueTask]):
    """The search for a largest value or a least distance.

    Parameters
    ----------
    objective : PhaseObjective
    seed : int, optional

    Attributes
    ----------
    best : Incumbent
    """

    def __init__(self, objective: PhaseObjective, seed: int = 0) -> None:
        self._objective = objective
        self._rng = np.random.default_rng(seed)
        self.best = Incumbent()

    # -- of any node -------------------------------------------------------------------------------

    def cutoff(self, value: float) -> float:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return self._objective.cutoff(value)

    def together(self, node: ValueNode) -> int:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return self._objective.question.params.together

    def recipe(self) -> Recipe[ValueNode, ValueTask]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(ValuePipeline, self._objective)

    # -- the search --------------------------------------------------------------------------------

    def root(self, clock: Clock, on_progress: OnRootProgress) -> Root[ValueNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        objective = self._objective
        self.best = objective.first(self._rng, clock)
        on_progress(best=self.best)
        context = objective.at(self.best.value)
        whole = narrowed(context, [context.whole()], clock, is_root=True)
        if not whole:
            return Root(Outcome(closed=self.cutoff(self.best.value), best=self.best))
        whole = [replace(node, bound=objective.top(node, clock)) for node in whole]
        on_progress(upper=whole[0].bound)
        self.best = objective.polished(whole[0], self.best, clock)
        return Root(self.adopt(self.bounded(whole, self.best, clock)))

    def plan(self, nodes: Sequence[ValueNode], travels: bool) -> ValueTask:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return ValueTask(tuple(nodes), self.best)

    def process(self, task: ValueTask, clock: Clock, pulse: Pulse) -> Outcome[ValueNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        if clock.expired:
            return Outcome(returned=task.nodes)
        context = self._objective.at(task.best.value)
        parts = [child for node in task.nodes for child in node.sides()]
        left = narrowed(context, self._objective.within(parts), clock)
        pulse()
        found = self.bounded(left, task.best, clock)
        return replace(found, counters={NODES: len(task.nodes)})

    def bounded(
        self, nodes: Sequence[ValueNode], best: Incumbent, clock: Clock
    ) -> Outcome[ValueNode]:
        """Bound nodes by their programs, and collect better points.

        The parts by which the nodes have been narrowed are below the cutoff.
        """
        children, closed = [], self.cutoff(best.value)
        for node in nodes:
            if clock.expired:  # no time for its program: the parent's bound holds
                judged = chosen(self._objective.context, node)
            else:
                judged, best = self._objective.judged(node, best, clock)
            if judged.bound > self.cutoff(best.value) and judged.splits:
                children.append(judged)
            else:  # without unstable units rounding may leave a bound above the cutoff
                closed = max(closed, judged.bound)
        return Outcome(tuple(children), closed=closed, best=best)

    def adopt(self, outcome: Outcome[ValueNode]) -> Outcome[ValueNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        best = outcome.best
        if best is not None and best.value > self.best.value:
            self.best = best
        return replace(outcome, best=self.best)

    def prove(self, nodes: Sequence[ValueNode], cutoff: float) -> Outcome[ValueNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`; all bounds are proved already."""
        done = [node.bound for node in nodes if node.bound <= cutoff]
        left = tuple(node for node in nodes if node.bound > cutoff)
        return Outcome(returned=left, closed=max(done, default=-np.inf))

    def improve(self, effort: float, seeds: Sequence[ValueNode], clock: Clock) -> Incumbent | None:
        """See `lipyomo.search.engine.protocol.Pipeline`; here the nodes' programs find points."""
        return self.best

    # -- checkpoints -------------------------------------------------------------------------------

    def encode(self, nodes: Sequence[ValueNode]) -> Arrays:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        inputs, point = self._objective.question.domain.dimension, self.best.point
        return arrays_of(nodes) | {"best": np.zeros((0, inputs)) if point is None else point[None]}

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[ValueNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        for point in arrays["best"]:
            self.best = self._objective.challenged(self.best, point)
        return Outcome(nodes_of(arrays), best=self.best)
