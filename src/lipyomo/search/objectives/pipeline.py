"""The pipeline for values of piecewise-linear networks, which implements the engine's interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

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
from lipyomo.search.objectives.node import ValueNode, arrays_of, nodes_of
from lipyomo.search.objectives.objective import PhaseObjective, chosen, narrowed


class ValuePipeline(ProvedPipeline[ValueNode]):
    """The search for a largest value or a least distance, given a `PhaseObjective`."""

    _objective: PhaseObjective

    def together(self, node: ValueNode) -> int:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return self._objective.question.params.together

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

    def process(self, task: Task[ValueNode], clock: Clock, pulse: Pulse) -> Outcome[ValueNode]:
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

    def encode(self, nodes: Sequence[ValueNode]) -> Arrays:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return super().encode(nodes) | arrays_of(nodes)

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[ValueNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return replace(super().decode(arrays), children=nodes_of(arrays))
