"""What is maximised on nodes of phases: how they are bounded, and what points are worth."""

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
from lipyomo.search.objectives.context import Context, ValueQuestion
from lipyomo.search.objectives.examine import chosen, region_of
from lipyomo.search.objectives.node import Node
from lipyomo.search.objectives.program import NodeProgram


class PhaseObjective(ABC):
    """An objective of the search of phases; it travels as what is asked alone.

    Parameters
    ----------
    asked : object
        Picklable; the objective can be made from it.
    question : ValueQuestion
        The value that nodes have programs of.

    Attributes
    ----------
    question : ValueQuestion
    context : Context
        Of it, under the last cutoff.
    """

    def __init__(self, asked: Any, question: ValueQuestion) -> None:
        self._asked, self.question = asked, question
        self.context = Context.of(question)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._asked,)

    @cached_property
    def _program(self) -> NodeProgram:
        question = self.question
        tolerance = tolerance_of(question.scale)
        return NodeProgram(self.context.system, question.domain, question.params, tolerance)

    @abstractmethod
    def cutoff(self, value: float) -> float:
        """What bounds have to exceed in order to matter, where `value` is attained."""

    @abstractmethod
    def at(self, value: float) -> Context:
        """The context under the cutoff that follows from an attained value."""

    @abstractmethod
    def first(self, rng: np.random.Generator, clock: Clock) -> Incumbent:
        """The first look for points."""

    @abstractmethod
    def top(self, node: Node) -> float:
        """A bound of the whole, once it is narrowed."""

    def within(self, nodes: Sequence[Node]) -> list[Node]:
        """What of some nodes lies in the domain."""
        return list(nodes)

    @abstractmethod
    def judged(self, node: Node, best: Incumbent) -> tuple[Node, Incumbent]:
        """A node after its program, with what to split it on, and the incumbent after that."""

    @abstractmethod
    def challenged(self, best: Incumbent, point: FloatArray) -> Incumbent:
        """The better one of an incumbent and a point near the given one."""

    @abstractmethod
    def _on_piece(self, piece: Node, best: Incumbent) -> Incumbent:
        """The incumbent after the program of a piece that holds it."""

    def polished(self, whole: Node, best: Incumbent) -> Incumbent:
        """The incumbent after going from piece to piece, each time to the best point of one."""
        for _ in range(self.question.params.steps):
            if best.point is None:
                break
            before = best
            best = self._on_piece(region_of(self.context, whole, best.point), before)
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

    def cutoff(self, value: float) -> float:
        """See `PhaseObjective`."""
        return self.question.cutoff(value)

    def at(self, value: float) -> Context:
        """See `PhaseObjective`."""
        self.context = self.context.at(self.cutoff(value))
        return self.context

    def first(self, rng: np.random.Generator, clock: Clock) -> Incumbent:
        """See `PhaseObjective`."""
        return self.question.first(rng, clock)

    def top(self, node: Node) -> float:
        """See `PhaseObjective`."""
        return min(float(node.upper[self.context.aim]), self._program.twins.largest)

    def judged(self, node: Node, best: Incumbent) -> tuple[Node, Incumbent]:
        """See `PhaseObjective`."""
        found = self._program.highest(node)
        if found.point is not None:
            best = self.challenged(best, found.point)
        bound = min(node.bound, float(node.upper[self.context.aim]), found.end)
        return chosen(self.context, replace(node, bound=bound), found), best

    def challenged(self, best: Incumbent, point: FloatArray) -> Incumbent:
        """See `PhaseObjective`."""
        return self.question.challenged(best, point)

    def _on_piece(self, piece: Node, best: Incumbent) -> Incumbent:
        x, found = best.point, self._program.highest(piece)
        if found.point is not None and x is not None:
            for step in (1.0, 1.0 + 1e-6):  # on its edge, or a little beyond
                best = self.challenged(best, x + step * (found.point - x))
        return best
