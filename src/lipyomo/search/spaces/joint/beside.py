"""Boxes and the nodes of a search over phases, in one queue.

The search over phases is a pipeline of its own and holds the incumbent.  This module deals with
bundles of boxes, whatever quantity their bounds are of.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from lipyomo.base.arrays import keep_memory
from lipyomo.base.clock import Clock
from lipyomo.search.engine.protocol import Arrays, Incumbent, Outcome, Pipeline, Pulse
from lipyomo.search.spaces.bundle import Bundle, decoded, encoded, with_proved

TOGETHER = 4
"""The largest number of bundles that are split together."""


@dataclass(frozen=True, eq=False)
class JointTask:
    """Boxes and nodes to split.

    Attributes
    ----------
    boxes : tuple of Bundle
    nodes : task of the search over phases, or None
    best : Incumbent
    near : object
        Which boxes are near enough to be handed over.
    """

    boxes: tuple[Any, ...]
    nodes: Any
    best: Incumbent
    near: Any


class WithBoxes(Pipeline[Any, JointTask]):
    """A search over phases with boxes beside its nodes.

    Parameters
    ----------
    beside : Pipeline
        The search over phases, with its `best` point.
    whole : callable
        Returns the whole domain as a bundle.
    near : object
        Which boxes are near enough to be handed over at the start.
    """

    def __init__(self, beside: Any, whole: Callable[[], Bundle], near: Any) -> None:
        keep_memory()
        self._beside, self._whole, self._near = beside, whole, near

    @property
    def best(self) -> Incumbent:
        """The best known point."""
        found: Incumbent = self._beside.best
        return found

    def cutoff(self, value: float) -> float:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return float(self._beside.cutoff(value))

    def weight(self) -> float:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return float(self._beside.weight())

    def together(self, node: Any) -> int:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return TOGETHER if isinstance(node, Bundle) else self._beside.together(node)

    def plan(self, nodes: Sequence[Any], travels: bool) -> JointTask:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        boxes, others = self._parted(nodes)
        task = self._beside.plan(others, travels) if others else None
        return JointTask(boxes, task, self._beside.best, self._near)

    def process(self, task: JointTask, clock: Clock, pulse: Pulse) -> Outcome[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        found = [self._halved(task, clock, pulse)] if task.boxes else []
        if task.nodes is not None:
            found.append(self._split(task.nodes, clock, pulse))
        return together_of(found) if found else Outcome()

    @abstractmethod
    def _halved(self, task: JointTask, clock: Clock, pulse: Pulse) -> Outcome[Any]:
        """Process the boxes of a task."""

    def _split(self, task: Any, clock: Clock, pulse: Pulse) -> Outcome[Any]:
        """Process nodes of the search over phases."""
        found: Outcome[Any] = self._beside.process(task, clock, pulse)
        return found

    def adopt(self, outcome: Outcome[Any]) -> Outcome[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        boxes, nodes = parted(outcome.children)
        whole, returned = parted(outcome.returned)
        own = self._beside.adopt(replace(outcome, children=nodes, returned=returned))
        return replace(
            own,
            children=(*boxes, *own.children),
            returned=(*whole, *own.returned),
            best=self._beside.best,
        )

    def prove(self, nodes: Sequence[Any], cutoff: float) -> Outcome[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`; bounds of boxes are proved already."""
        boxes, others = self._parted(nodes)
        outcomes: list[Outcome[Any]] = [with_proved(boxes, cutoff)]
        if others:
            outcomes.append(self._beside.prove(others, cutoff))
        return together_of(outcomes)

    def encode(self, nodes: Sequence[Any]) -> Arrays:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        boxes, others = self._parted(nodes)
        return {**self._beside.encode(others), **encoded(boxes, self._whole())}

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        found = self._beside.decode(arrays)
        return replace(found, children=(*decoded(type(self._whole()), arrays), *found.children))

    def _parted(self, nodes: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Separate bundles of boxes from the nodes that are still needed."""
        return parted(nodes)


def parted(nodes: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Separate bundles of boxes from nodes of a search over phases."""
    boxes = tuple(node for node in nodes if isinstance(node, Bundle))
    return boxes, tuple(node for node in nodes if not isinstance(node, Bundle))


def gone_on(pipeline: Any, outcome: Outcome[Any], clock: Clock) -> Outcome[Any]:
    """Continue with the nodes of an outcome until time is up or all that is left is closed."""
    nodes = [*outcome.children, *outcome.returned]
    done = [replace(outcome, children=(), returned=())]
    while nodes and not clock.expired:
        nodes.sort(key=lambda node: -node.bound)
        if not nodes[0].bound > pipeline.cutoff(pipeline.best.value):
            break
        count = pipeline.together(nodes[0])
        task = pipeline.plan(nodes[:count], travels=False)
        found = pipeline.adopt(pipeline.process(task, clock, lambda: None))
        nodes = [*found.children, *found.returned, *nodes[count:]]
        done.append(replace(found, children=(), returned=()))
    return replace(together_of(done), children=tuple(nodes))


def together_of(outcomes: Sequence[Outcome[Any]]) -> Outcome[Any]:
    """Combine the outcomes of boxes and of nodes."""
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
