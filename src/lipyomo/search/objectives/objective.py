"""The interface of objectives that are maximised by a search over phases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.problems.ranges import tolerance_of
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.objectives.context import ValueContext, ValueQuestion
from lipyomo.search.objectives.examine import chosen, region_of
from lipyomo.search.objectives.node import ValueNode
from lipyomo.search.objectives.program import NodeProgram


class PhaseObjective(ABC):
    """An objective of the search over phases; pickling it keeps `asked` only.

    Parameters
    ----------
    asked : object
        Picklable; the objective can be made from it alone.
    question : ValueQuestion
        The value that the nodes' programs bound.

    Attributes
    ----------
    question : ValueQuestion
    context : ValueContext
        The question's context with the last cutoff.
    """

    def __init__(self, asked: Any, question: ValueQuestion) -> None:
        self._asked, self.question = asked, question
        self.context = ValueContext.of(question)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._asked,)

    @cached_property
    def _program(self) -> NodeProgram:
        question = self.question
        tolerance = tolerance_of(question.scale)
        return NodeProgram(self.context.system, question.domain, question.params, tolerance)

    def cutoff(self, value: float) -> float:
        """Return the bound at or below which nodes are fathomed, if `value` is attained."""
        return float(self._asked.cutoff(value))

    @abstractmethod
    def at(self, value: float) -> ValueContext:
        """Return the context for an attained value."""

    def first(self, rng: np.random.Generator, clock: Clock) -> Incumbent:
        """Run the first heuristics, and return an incumbent."""
        return self.question.first(rng, clock)

    @abstractmethod
    def top(self, node: ValueNode, clock: Clock) -> float:
        """Return a bound of the root, once it is narrowed."""

    def within(self, nodes: Sequence[ValueNode]) -> list[ValueNode]:
        """Restrict nodes to the current domain."""
        return list(nodes)

    @abstractmethod
    def judged(self, node: ValueNode, best: Incumbent, clock: Clock) -> tuple[ValueNode, Incumbent]:
        """Solve a node's program; return the node with bound and branching, and the incumbent."""

    def challenged(self, best: Incumbent, point: FloatArray) -> Incumbent:
        """Return the better of an incumbent and a point near the given one."""
        return self.question.challenged(best, point)

    @abstractmethod
    def _on_piece(self, piece: ValueNode, best: Incumbent, clock: Clock) -> Incumbent:
        """Improve the incumbent by the program of the piece that contains it."""

    def polished(self, whole: ValueNode, best: Incumbent, clock: Clock) -> Incumbent:
        """Improve the incumbent by going from piece to piece, each time to a piece's best point."""
        for _ in range(self.question.params.steps):
            if best.point is None or clock.expired:
                break
            before = best
            best = self._on_piece(region_of(self.context, whole, best.point), before, clock)
            if not best.value > before.value:
                break
        return best


class Largest(PhaseObjective):
    """The largest value of a question.

    Parameters
    ----------
    question : ValueQuestion
    """

    def __init__(self, question: ValueQuestion) -> None:
        super().__init__(question, question)

    def at(self, value: float) -> ValueContext:
        """See `PhaseObjective`."""
        self.context = self.context.at(self.cutoff(value))
        return self.context

    def top(self, node: ValueNode, clock: Clock) -> float:
        """See `PhaseObjective`."""
        known = float(node.upper[self.context.aim])
        late = clock.expired and not self.question.is_quick
        return known if late else min(known, self._program.twins.largest)

    def judged(self, node: ValueNode, best: Incumbent, clock: Clock) -> tuple[ValueNode, Incumbent]:
        """See `PhaseObjective`."""
        found = self._program.highest(node, clock)
        if found.point is not None:
            best = self.challenged(best, found.point)
        bound = min(node.bound, float(node.upper[self.context.aim]), found.end)
        return chosen(self.context, replace(node, bound=bound), found), best

    def _on_piece(self, piece: ValueNode, best: Incumbent, clock: Clock) -> Incumbent:
        x, found = best.point, self._program.highest(piece, clock)
        if found.point is not None and x is not None:
            for step in (1.0, 1.0 + 1e-6):  # on the piece's boundary, or slightly beyond
                best = self.challenged(best, x + step * (found.point - x))
        return best
