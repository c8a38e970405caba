"""Objectives that are maximised by a search over phases, and the steps that all of them share.

The steps for a batch of nodes: propagate -> tighten -> bound -> choose the branching.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.problems.ranges import tolerance_of
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.relaxations.linear.preactivation import follow, propagate
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.objectives.context import ValueContext, ValueQuestion
from lipyomo.search.objectives.node import ValueNode
from lipyomo.search.objectives.program import Answer, NodeProgram
from lipyomo.search.spaces.phases.params import Params as Splits
from lipyomo.search.spaces.phases.tighten import tighten

SPLITS = Splits()
"""Parameters that decide when boxes are split, as in searches for constants."""


def narrowed(
    context: ValueContext, nodes: Sequence[ValueNode], clock: Clock, is_root: bool = False
) -> list[ValueNode]:
    """Bound all pre-activations and the aim, given the cutoff; roughly once the time is up.

    Returns
    -------
    list of ValueNode
        The nodes that may contain a value above the cutoff, narrowed to the part that may.
    """
    stack, aim, domain = Stack.of(nodes), context.aim, context.domain
    np.subtract(stack.upper[:, aim], context.cutoff, out=stack.upper[:, aim])
    stack.upper[:, aim] = np.nextafter(stack.upper[:, aim], np.inf)
    stack.lower[:, aim] = -np.inf
    warm_start = [node.warm_start for node in nodes]
    same = bool((stack.low == domain.lower).all() and (stack.high == domain.upper).all())
    if is_root:
        propagate(context.layers, domain, stack, stop=clock.steps())
    elif not all(warm_start) or not same:
        propagate(context.layers, domain, stack, intervals=False, first=int(same))
    stack.decide_and_cut(context.kinked)
    before = stack.phases.copy()
    none = [None] * len(nodes)
    with np.errstate(over="ignore", invalid="ignore"):  # NaN bounds are ignored
        warm_start = tighten(
            context.ascent,
            context.system,
            stack,
            warm_start,
            none,
            aim=aim,
            stop=lambda: clock.expired,
        )
    follow(context.layers, domain, stack, before)
    stack.upper[:, aim] = np.nextafter(stack.upper[:, aim] + context.cutoff, np.inf)
    return [
        replace(
            node,
            phases=stack.phases[b].copy(),
            lower=stack.lower[b].copy(),
            upper=stack.upper[b].copy(),
            warm_start=warm_start[b],
        )
        for b, node in enumerate(nodes)
        if stack.alive[b]
    ]


def chosen(context: ValueContext, node: ValueNode, found: Answer | None = None) -> ValueNode:
    """Choose how to split a node, if possible.

    With few inputs and many unstable units it is the longest side of its box, which decides many
    units at once; otherwise the unit with the most costly relaxation, or the most balanced range.
    """
    domain = context.domain
    still = np.flatnonzero(node.phases == OPEN)
    if domain.dimension <= SPLITS.box_inputs and still.size > SPLITS.box_units:
        width = (node.high - node.low) / (domain.upper - domain.lower)
        if width.max() > SPLITS.least_width:
            return replace(node, axis=int(width.argmax()))
    if found is not None and found.scores.max(initial=0.0) > 0.0:
        return replace(node, unit=int(found.units[found.scores.argmax()]))
    if not still.size:
        return node
    reach = np.minimum(node.upper, -node.lower)[still]
    return replace(node, unit=int(still[reach.argmax()]))


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
            before, system = best, self.context.system
            pattern = np.concatenate([z > 0 for z in system.network.preactivations(best.point)])
            phases = np.where(system.kinked, pattern, RIGHT).astype(np.int8)
            piece = replace(whole, phases=phases, warm_start=None)  # around the point
            best = self._on_piece(piece, before, clock)
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
