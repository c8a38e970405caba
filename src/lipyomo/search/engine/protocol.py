"""The interface between engine and problem: nodes, outcomes, and the pipeline that splits nodes.

The engine maximises.  It keeps the nodes, their order, the incumbent, the time, the workers and the
files; a `Pipeline` knows what a node is.  One pipeline lives in the process that runs the search
("at home"); if tasks are sent to other processes, each of these makes its own from a `Recipe`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.kept import Arrays as Arrays

NODES = "nodes"
"""Name of the counter of split nodes, which every pipeline has."""


class Node(Protocol):
    """A node of the search tree: an immutable value."""

    @property
    def bound(self) -> float:
        """Upper bound on the node in floating point, by which the engine orders nodes."""
        ...

    @property
    def proved_bound(self) -> float:
        """Upper bound on the node that needs no further proof; not below `bound`."""
        ...

    @property
    def nbytes(self) -> int:
        """Estimated memory of the data that it must keep, in bytes."""
        ...

    @property
    def warm_bytes(self) -> int:
        """Estimated memory that `cooled` frees, in bytes."""
        ...

    def cooled(self) -> Self:
        """Return the node without data that can be recomputed."""
        ...


N = TypeVar("N", bound=Node)
T = TypeVar("T")


class Incumbent(NamedTuple):
    """The best value known to be attained.

    Attributes
    ----------
    value : float
    point : ndarray or None
        Where it is attained; the engine only passes it on.
    """

    value: float = -math.inf
    point: FloatArray | None = None

    @property
    def points(self) -> FloatArray:
        """The point as an array of one, or of none, for a checkpoint."""
        return np.zeros((0, 0)) if self.point is None else self.point[None]


@dataclass(frozen=True, eq=False)
class Outcome(Generic[N]):
    """The result of processing some nodes: children, returned and fathomed parts cover them.

    Attributes
    ----------
    children : tuple of nodes
        Parts that may still contain something better than the incumbent.
    returned : tuple of nodes
        Given nodes that were not split, because time ran out or their bound could not be proved to
        meet the cutoff; their bounds may have improved.
    closed : float
        Largest of the proved bounds of the fathomed parts; minus infinity if there are none, or
        only empty ones.
    fathomed : tuple of (node, float)
        The fathomed parts with their bounds (minus infinity for empty ones), if the pipeline was
        asked to record them.
    best : Incumbent or None
        The best point found meanwhile, if it beats the incumbent that the task was given.
    statistics : object
        What was learnt meanwhile, as an increment for `Pipeline.adopt` to add.
    counters : mapping of str to int
        Counts of the work done, to be added up.
    """

    children: tuple[N, ...] = ()
    returned: tuple[N, ...] = ()
    closed: float = -math.inf
    fathomed: tuple[tuple[N, float], ...] = ()
    best: Incumbent | None = None
    statistics: Any = None
    counters: Mapping[str, int] = field(default_factory=dict)


class Root(NamedTuple, Generic[N]):
    """The root of a search.

    Attributes
    ----------
    outcome : Outcome
        Outcome of bounding the whole problem.
    seconds : float
        Estimated time of the first nodes; infinite if there is no time for them.
    effort : float
        Effort of the primal heuristics to run after the root, as a multiple of the usual one.
    """

    outcome: Outcome[N]
    seconds: float = 0.0
    effort: float = 0.0


class Task(NamedTuple, Generic[N]):
    """Nodes to split, as most pipelines plan them.

    Attributes
    ----------
    nodes : tuple of nodes
    best : Incumbent
    known : object
        What else it takes to process them.
    """

    nodes: tuple[N, ...]
    best: Incumbent
    known: Any = None


class OnRootProgress(Protocol):
    """Callback that is told intermediate results while the root is bounded."""

    def __call__(self, upper: float = math.inf, best: Incumbent | None = None) -> None:
        """Take a proved upper bound of the whole problem, or a better point."""
        ...


Pulse = Callable[[], object]
"""Called regularly while nodes are split, so that the caller can serve other workers meanwhile."""


class Recipe(NamedTuple, Generic[N, T]):
    """Constructor and argument of a search's pipeline, to make the same one in every process.

    Attributes
    ----------
    kind : callable
        Makes the pipeline from the question; picklable, such as a class.  Workers import its module
        while they wait for their first task.
    question : object
        Its picklable argument.
    """

    kind: Callable[[Any], Pipeline[N, T]]
    question: Any

    def pipeline(self) -> Pipeline[N, T]:
        """Make the pipeline that will `process` tasks sent to this process."""
        return self.kind(self.question)


class Pipeline(Protocol[N, T]):
    """The problem-specific steps of a search.  All but `process` are called at home only.

    Subclasses inherit a default `weight`.  Those that leave out `encode` and `decode` do not
    support checkpoints.
    """

    def root(self, clock: Clock, on_progress: OnRootProgress) -> Root[N]:
        """Bound the whole problem as the root node, and run the first primal heuristics."""
        ...

    def recipe(self) -> Recipe[N, T]:
        """Return how to make this pipeline in another process; called after `root` or `decode`."""
        ...

    def cutoff(self, value: float) -> float:
        """Return the bound at or below which nodes are closed, for an incumbent of this `value`.

        It allows for the gap that is good enough, and for a cutoff given at the start.
        """
        ...

    def plan(self, nodes: Sequence[N], travels: bool) -> T:
        """Make the task of splitting some nodes.

        A task for another process can be pickled, and its outcome only depends on the task.  Other
        tasks are processed in the main process at once, and may use all that is known there.
        """
        ...

    def process(self, task: T, clock: Clock, pulse: Pulse) -> Outcome[N]:
        """Split a task's nodes; if the clock expires meanwhile, return them unsplit."""
        ...

    def adopt(self, outcome: Outcome[N]) -> Outcome[N]:
        """Add the points and statistics of an outcome of `process`, in the order of the tasks.

        Returns
        -------
        Outcome
            The same outcome, its nodes in the form in which they are kept at home.
        """
        ...

    def prove(self, nodes: Sequence[N], cutoff: float) -> Outcome[N]:
        """Prove the bounds of open nodes, and fathom those at or below the cutoff.

        The others are returned, with their `bound` proved.
        """
        ...

    def improve(self, effort: float, seeds: Sequence[N], clock: Clock) -> Incumbent | None:
        """Run primal heuristics: look for a better point, first near some of the best open nodes.

        Parameters
        ----------
        effort : float
            Multiple of the usual effort.
        seeds : sequence of nodes
        clock : Clock

        Returns
        -------
        Incumbent or None
            The best point known now, if there is any.
        """
        ...

    def together(self, node: N) -> int:
        """Return how many nodes of this size are best split together, at least 1."""
        ...

    def weight(self) -> float:
        """Return the work per node of this search, in nodes of the common size; at least 1."""
        return 1.0

    def encode(self, nodes: Sequence[N]) -> Arrays:
        """Encode nodes and all else that is known at home, for a checkpoint."""
        raise TypeError(f"{type(self).__name__} knows no checkpoints")

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[N]:
        """Restore what was encoded; the outcome holds the nodes as children, and the best point."""
        raise TypeError(f"{type(self).__name__} knows no checkpoints")


class ProvedPipeline(Pipeline[N, Task[N]]):
    """A search for the maximum of an objective, whose bounds need no further proof.

    Parameters
    ----------
    objective : object
        Has the `cutoff` and the `challenged` of `PhaseObjective` or `Objective`; picklable.
    seed : int, optional

    Attributes
    ----------
    best : Incumbent
    """

    def __init__(self, objective: Any, seed: int = 0) -> None:
        self._objective, self._rng = objective, np.random.default_rng(seed)
        self.best = Incumbent()

    def recipe(self) -> Recipe[N, Task[N]]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(type(self), self._objective)

    def cutoff(self, value: float) -> float:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return float(self._objective.cutoff(value))

    def plan(self, nodes: Sequence[N], travels: bool) -> Task[N]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Task(tuple(nodes), self.best)

    def adopt(self, outcome: Outcome[N]) -> Outcome[N]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        if outcome.best is not None and outcome.best.value > self.best.value:
            self.best = outcome.best
        return replace(outcome, best=self.best)

    def prove(self, nodes: Sequence[N], cutoff: float) -> Outcome[N]:
        """See `lipyomo.search.engine.protocol.Pipeline`; all bounds are proved already."""
        done = [node.bound for node in nodes if node.bound <= cutoff]
        left = tuple(node for node in nodes if node.bound > cutoff)
        return Outcome(returned=left, closed=max(done, default=-np.inf))

    def improve(self, effort: float, seeds: Sequence[N], clock: Clock) -> Incumbent | None:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return self.best

    def encode(self, nodes: Sequence[N]) -> Arrays:
        """Encode the best point; subclasses add the nodes."""
        return {"best": self.best.points}

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[N]:
        """Restore the best point, evaluating it again."""
        for point in arrays["best"]:
            self.best = self._objective.challenged(self.best, point)
        return Outcome(best=self.best)
