"""More cores, more machines: batches of nodes split by the workers of an executor.

A task is a value: some of the best waiting nodes, the incumbent's value and what the search has
learnt so far.  A worker splits these nodes and reports their children.  Its answer depends on the
task alone, not on the worker or on what it did before, and reports are merged in the order in which
the tasks were made; so equal seeds and numbers of workers give equal searches, whoever is faster,
and a task whose worker died can be given to another one.  There is no barrier: while the oldest
task is waited for, others are being worked on.

Tasks are small and few: what one does not know of those under way costs nodes.  The process that
makes the tasks of a pool of its own works on them as well, and in between takes in what others have
found and sets off what follows, so that nobody waits for it.  So it need not wait until other
processes have started, and when they are started changes nothing in the answer.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import pickle
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace

import numpy as np
from threadpoolctl import threadpool_limits

from lipyomo.bnb.counters import Counters
from lipyomo.bnb.experience import Experience
from lipyomo.bnb.node import Node
from lipyomo.bnb.tree import Tree
from lipyomo.executors import UNKNOWN, Workers
from lipyomo.network import FloatArray
from lipyomo.run import Clock

AHEAD = 2
"""Tasks that a worker elsewhere has: one is worked on, another one waits, so that it has not to."""

LAST_SECONDS = 0.3
"""What workers have found so long before the end still arrives."""

_POINTS = 8
"""Points of a node that travel with it."""

_POLL_SECONDS = 0.1

_DEATHS = 2
"""Deaths of workers in a row after which this process does all tasks."""

Parcel = tuple[Node, FloatArray]
"""A node without its pool, and some points that lie in it."""


@dataclass(frozen=True)
class Task:
    """Nodes to split.

    Attributes
    ----------
    token : str
        Of the search: workers keep its tree.
    problem : bytes
        Pickled (problem, gap, whether to record leaves, phases that follow from the domain, cutoff,
        known pairs of units).
    parcels : list of (Node, points)
    plans : list of list of int
        Units of each node whose splits are to be tried.
    best : float
        Value of the incumbent.
    experience : Experience
    seconds : float
        After which iterations stop.
    """

    token: str
    problem: bytes
    parcels: list[Parcel]
    plans: list[list[int]]
    best: float
    experience: Experience
    seconds: float = math.inf


@dataclass(frozen=True)
class Report:
    """What became of a task.

    Attributes
    ----------
    parcels : list of (Node, points)
        Children that are still open.
    closed : float
        Largest bound of those closed.
    best : ndarray or None
        A better point, if one was found.
    counters : Counters
    experience : Experience
        What was learnt.
    leaves : list of (Node, float)
        Closed nodes, if they are recorded.
    """

    parcels: list[Parcel]
    closed: float
    best: FloatArray | None
    counters: Counters
    experience: Experience
    leaves: list[tuple[Node, float]] = field(default_factory=list)


def pack(tree: Tree, node: Node) -> Parcel:
    """A node as it travels between processes."""
    nothing = np.zeros(0, dtype=np.int64)
    return replace(node, pool=nothing), tree.pool.points[node.pool[:_POINTS]]


def unpack(tree: Tree, parcels: list[Parcel]) -> list[Node]:
    """Travelled nodes, their points entered into this process's pool."""
    entered = tree.pool.adopt([points for _, points in parcels])
    pairs = zip(parcels, entered, strict=True)
    return [replace(node, pool=numbers) for (node, _), numbers in pairs]


_kept = threading.local()


def _tree_of(task: Task) -> Tree:
    """The worker's tree for the task's search, as if it were new."""
    if getattr(_kept, "token", None) != task.token:
        # a worker a core: BLAS threads of their own would take the cores from each other
        threadpool_limits(limits=1, user_api="blas")
        problem, gap, record, known, cutoff, pairs = pickle.loads(task.problem)
        rng = np.random.default_rng(0)
        _kept.tree = Tree(problem, rng, gap, record, known, cutoff)
        _kept.tree.take_pairs(*pairs)
        _kept.token = task.token
    tree: Tree = _kept.tree
    tree.pool.forget(task.best, np.random.default_rng(0))
    tree.region.forget()
    tree.experience = task.experience.copy()
    return tree


def forget() -> None:
    """Forget the tree of a search that is over."""
    vars(_kept).clear()


def split(task: Task, attend: Callable[[], object] = lambda: None) -> Report:
    """Split a task's nodes, and call `attend` now and then."""
    in_child = multiprocessing.parent_process() is not None
    if in_child and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what it means
    tree = _tree_of(task)
    tree.bounder.clock, tree.attend = Clock(task.seconds), attend
    expansions = tree.expand(unpack(tree, task.parcels), task.plans)
    return Report(
        [pack(tree, child) for found in expansions for child in found.children],
        max(found.closed for found in expansions),
        tree.pool.best_point,
        sum((found.counters for found in expansions), start=Counters()),
        tree.experience.since(task.experience),
        [leaf for found in expansions for leaf in found.leaves],
    )


@dataclass
class _Job:
    """A task under way: whoever does it, here or there."""

    task: Task
    nodes: list[Node]
    future: Future[Report] | None = None
    report: Report | None = None
    ours: bool = False

    @property
    def free(self) -> bool:
        """Whether nobody has it."""
        return not (self.ours or self.future)

    @property
    def done(self) -> bool:
        """Whether whoever had it is done with it."""
        return self.report is not None or (self.future is not None and self.future.done())


class Team:
    """Tasks under way, in their order, and who does them.

    Parameters
    ----------
    workers : Workers
        Entered.
    clock : Clock
    attend : callable
        What to do now and then while this process works on a task.
    """

    def __init__(
        self, workers: Workers[Task, Report], clock: Clock, attend: Callable[[], object]
    ) -> None:
        self._workers, self._clock, self._attend = workers, clock, attend
        self._jobs: deque[_Job] = deque()
        self._deaths = 0
        self._wake()

    @property
    def size(self) -> int:
        """How many workers it has, as far as one knows."""
        return self._workers.count or UNKNOWN

    @property
    def most(self) -> int:
        """How many tasks keep all of them busy: in a pool of its own they need not travel far."""
        return self.size * (1 if self._workers.own else AHEAD)

    @property
    def tasks(self) -> int:
        """How many are under way."""
        return len(self._jobs)

    @property
    def nodes(self) -> list[Node]:
        """The nodes of all tasks under way."""
        return [node for job in self._jobs for node in job.nodes]

    def send(self, task: Task, nodes: list[Node]) -> None:
        """Set off a task on copies of `nodes`."""
        self._jobs.append(_Job(task, nodes))
        self._hand_over()

    def receive(self) -> Report | None:
        """The oldest task's report, waited for; None if the clock ends first.

        The task stays until `done` says that its report was taken: an interrupt in between must
        not lose its nodes.
        """
        while not self._clock.expired:
            report = self.at_hand()
            if report is not None:
                return report
            first = self._jobs[0]
            free = next((job for job in self._jobs if job.free), None)
            helps = self._workers.own or self._deaths > _DEATHS
            if free is not None and helps and self._clock.left > LAST_SECONDS:
                free.ours = True
                free.report = split(self._timed(free.task), self._attend)
            elif first.future is not None:
                wait([first.future], timeout=_POLL_SECONDS)
            else:
                time.sleep(min(_POLL_SECONDS, self._clock.left))
        return None

    def at_hand(self) -> Report | None:
        """The oldest task's report, if there is one by now; and hand over what waits."""
        self._hand_over()
        first = self._jobs[0]
        if first.report is None and first.future is not None and first.future.done():
            try:
                first.report = first.future.result()
                self._deaths = 0
            except _deaths():
                self._bury()
        return first.report

    def done(self) -> None:
        """Forget the oldest task."""
        self._jobs.popleft()

    def stop(self) -> None:
        """Forget all tasks, and this process's part in them."""
        for job in self._jobs:
            if job.future is not None:
                job.future.cancel()
        self._jobs.clear()
        forget()
        with contextlib.suppress(*_deaths()):  # processes that are kept keep nothing of this search
            for _ in range(self._workers.up):
                self._workers.executor.submit(forget)

    def _timed(self, task: Task) -> Task:
        return replace(task, seconds=self._clock.left - LAST_SECONDS)

    def _hand_over(self) -> None:
        """Give waiting tasks to workers: of our own processes, to those that have started."""
        if self._deaths > _DEATHS:
            return
        most = self._workers.up if self._workers.own else len(self._jobs)
        busy = sum(job.future is not None and not job.done for job in self._jobs)
        for job in self._jobs:
            if busy < most and job.free:
                try:
                    job.future = self._workers.executor.submit(split, self._timed(job.task))
                except _deaths():  # broken, shut down, or just breaking
                    self._bury()
                    return
                busy += 1

    def _bury(self) -> None:
        """After a worker's death: take back what it had, and start others."""
        self._deaths += 1
        own = self._workers.own
        for job in self._jobs:
            if job.future is not None:
                lost = job.future.exception() is not None if job.future.done() else own
                job.future = None if lost else job.future
        self._workers.restart()
        if self._deaths <= _DEATHS:
            self._wake()

    def _wake(self) -> None:
        """Have processes of our own start, and load what they need, while this one goes on."""
        with contextlib.suppress(*_deaths()):
            self._workers.call(__name__)


def _deaths() -> tuple[type[BaseException], ...]:
    """What comes of a worker's death: in a pool, and on a dask cluster if one is in use."""
    known: tuple[type[BaseException], ...] = (
        BrokenProcessPool,
        CancelledError,
        RuntimeError,
        OSError,
        EOFError,
    )
    scheduler = sys.modules.get("distributed.scheduler")
    return known if scheduler is None else (*known, scheduler.KilledWorker)
