"""What the engine asks of a problem: nodes, outcomes, and the pipeline that makes these of those.

The engine maximises.  It keeps the nodes, their order, the incumbent, the time, the workers and the
files; a `Pipeline` knows what a node is.  There is one pipeline in the process that searches (at
home) and, if tasks travel, one more in every process that works on them, made from a `Recipe`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy.typing as npt

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.kept import Arrays as Arrays

NODES = "nodes"
"""The counter of nodes that were split, which every pipeline has."""


class Node(Protocol):
    """A part of what is searched; a value that is never written to."""

    @property
    def bound(self) -> float:
        """Upper bound on the node, in floating point: by it the engine orders nodes."""
        ...

    @property
    def proved_bound(self) -> float:
        """Upper bound on the node that needs no further proof; not below `bound`."""
        ...

    @property
    def nbytes(self) -> int:
        """About the bytes that it cannot do without."""
        ...

    @property
    def warm_bytes(self) -> int:
        """About those that `cooled` frees."""
        ...

    def cooled(self) -> Self:
        """The node without what can be found again."""
        ...


N = TypeVar("N", bound=Node)
T = TypeVar("T")


@dataclass(frozen=True)
class Incumbent:
    """The best that is known to be attained.

    Attributes
    ----------
    value : float
    point : ndarray or None
        Where; the engine only hands it on.
    """

    value: float = -math.inf
    point: FloatArray | None = None


@dataclass(frozen=True)
class Outcome(Generic[N]):
    """What became of some nodes: `children`, `returned` and what was fathomed cover them.

    Attributes
    ----------
    children : tuple of nodes
        Parts that may still hold something better than the incumbent.
    returned : tuple of nodes
        Given nodes that come back, since time ran out or no proof met the cutoff (they may know
        better bounds than before).
    closed : float
        Largest bound among the parts that were fathomed, every one of them proved; minus infinity
        if there are none, or only empty ones.
    fathomed : tuple of (node, float)
        Those parts with their bounds (minus infinity for empty ones), where the pipeline was asked
        to record them.
    best : Incumbent or None
        The best point that was found on the way, if it beats what the task knew.
    statistics : object
        What was learnt on the way, as a difference that adds up; for `Pipeline.adopt`.
    counters : mapping of str to int
        What was done; they add up.
    """

    children: tuple[N, ...] = ()
    returned: tuple[N, ...] = ()
    closed: float = -math.inf
    fathomed: tuple[tuple[N, float], ...] = ()
    best: Incumbent | None = None
    statistics: Any = None
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Root(Generic[N]):
    """The beginning of a search.

    Attributes
    ----------
    outcome : Outcome
        Of the whole.
    seconds : float
        About how long the first nodes will take; infinite if there is no time for them.
    effort : float
        Of a look for points once the root is known, in times as long as usual.
    """

    outcome: Outcome[N]
    seconds: float = 0.0
    effort: float = 0.0


class OnRootProgress(Protocol):
    """Hears what is known while the root takes long."""

    def __call__(self, upper: float = math.inf, best: Incumbent | None = None) -> None:
        """Hear of a proved bound of the whole, or of a better point."""
        ...


Pulse = Callable[[], object]
"""A sign of life, given now and then while nodes are split: others are attended to meanwhile."""


@dataclass(frozen=True, eq=False)
class Recipe(Generic[N, T]):
    """How to make a pipeline for the tasks of one search, equal in every process.

    Attributes
    ----------
    kind : callable
        Makes the pipeline from the question; picklable, like a class.  Workers load its module
        while they wait for their first task.
    question : object
        Picklable.
    """

    kind: Callable[[Any], Pipeline[N, T]]
    question: Any

    def pipeline(self) -> Pipeline[N, T]:
        """A pipeline that `process`es tasks which have travelled."""
        return self.kind(self.question)


class Pipeline(Protocol[N, T]):
    """What a search does with nodes.  All but `process` is asked at home only.

    A pipeline that is declared to be one inherits `weight`, and may leave out `encode`
    and `decode`: then it knows no checkpoints.
    """

    def root(self, clock: Clock, on_progress: OnRootProgress) -> Root[N]:
        """The whole as a node, bounded; the first look for points belongs to it."""
        ...

    def recipe(self) -> Recipe[N, T]:
        """How to make this pipeline elsewhere; asked after `root` or `decode`."""
        ...

    def cutoff(self, value: float) -> float:
        """What bounds have to exceed in order to matter, where `value` is attained.

        It counts the gap that is good enough, and a cutoff to start from.
        """
        ...

    def plan(self, nodes: Sequence[N], travels: bool) -> T:
        """A task: to split some nodes, with all that its outcome depends on.

        A task that travels is a value that can be pickled, and its outcome depends on it alone; one
        that stays is processed at home at once, and may use whatever is known there.
        """
        ...

    def process(self, task: T, clock: Clock, pulse: Pulse) -> Outcome[N]:
        """Split a task's nodes; where the clock ends meanwhile they are returned."""
        ...

    def adopt(self, outcome: Outcome[N]) -> Outcome[N]:
        """Take in what an outcome of `process` found and statistics, in the order of tasks.

        Returns
        -------
        Outcome
            The same with nodes as they are kept at home.
        """
        ...

    def prove(self, nodes: Sequence[N], cutoff: float) -> Outcome[N]:
        """Prove the bounds of waiting nodes, and fathom those at or below the cutoff.

        The others are returned; their `bound` is proved.
        """
        ...

    def improve(self, effort: float, seeds: Sequence[N], clock: Clock) -> Incumbent | None:
        """Primal heuristics: look for a better point, near some of the best waiting nodes first.

        Parameters
        ----------
        effort : float
            Times as long as usual.
        seeds : sequence of nodes
        clock : Clock

        Returns
        -------
        Incumbent or None
            The best that is known now, if there is any.
        """
        ...

    def together(self, node: N) -> int:
        """How many nodes like this one are worth splitting together, at least 1."""
        ...

    def weight(self) -> float:
        """How many nodes of a common size one of this search amounts to, at least 1."""
        return 1.0

    def encode(self, nodes: Sequence[N]) -> Arrays:
        """Nodes, and what else is known at home, for a checkpoint; asked where there is one."""
        raise TypeError(f"{type(self).__name__} knows no checkpoints")

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[N]:
        """Know again what was encoded: the nodes are the outcome's children, with the best."""
        raise TypeError(f"{type(self).__name__} knows no checkpoints")
