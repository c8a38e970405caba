"""More cores, more machines: subtrees searched by the workers of an executor.

A task is a value: some of the best waiting nodes, the incumbent's value and what the search has
learnt so far.  A worker searches below these nodes for a fixed number of splits and reports what
is left.  Its answer depends on the task alone, not on the worker or on what it did before, and
reports are merged in the order in which the tasks were made; so equal seeds and numbers of workers
give equal searches, whoever is faster, and a task whose worker died can be given to another one.
There is no barrier: while the oldest task is waited for, others are being worked on.
"""

from __future__ import annotations

import contextlib
import heapq
import multiprocessing
import pickle
import signal
import sys
import threading
import time
from collections import deque
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from lipyomo.bnb.counters import Counters
from lipyomo.bnb.experience import Experience
from lipyomo.bnb.node import Node
from lipyomo.bnb.tree import Tree
from lipyomo.executors import UNKNOWN, Workers
from lipyomo.network import FloatArray
from lipyomo.run import Clock

SHARE = 16
"""Most nodes of a task: a worker that gets few lowers them far below those that wait, and splits
few at once."""

AHEAD = 2
"""Tasks a worker that are under way or wait for it."""

_POINTS = 8
"""Points of a node that travel with it."""

_POLL_SECONDS = 0.1
_DEATHS = 2

Parcel = tuple[Node, FloatArray]
"""A node without its pool, and some points that lie in it."""


@dataclass(frozen=True)
class Task:
    """Nodes to search below.

    Attributes
    ----------
    token : str
        Of the search: workers keep its tree.
    problem : bytes
        Pickled (problem, gap, whether to record leaves, phases that follow from the domain).
    parcels : list of (Node, points)
    best : float
        Value of the incumbent.
    experience : Experience
    splits : int
        Splits to make.
    seconds : float
        Most seconds.
    floor : float
        What bounds are worth splitting: others wait whose bounds are larger.
    """

    token: str
    problem: bytes
    parcels: list[Parcel]
    best: float
    experience: Experience
    splits: int
    seconds: float
    floor: float


@dataclass(frozen=True)
class Report:
    """What became of a task.

    Attributes
    ----------
    parcels : list of (Node, points)
        Nodes left open.
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
        problem, gap, record, known = pickle.loads(task.problem)
        _kept.tree = Tree(problem, np.random.default_rng(0), gap, record, known)
        _kept.token = task.token
    tree: Tree = _kept.tree
    tree.pool.forget(task.best, np.random.default_rng(0))
    tree.region.forget()
    tree.experience = task.experience.copy()
    return tree


def search_below(task: Task) -> Report:
    """Best-first search below a task's nodes, down to its floor and for at most so many splits."""
    in_child = multiprocessing.parent_process() is not None
    if in_child and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what it means
    tree = _tree_of(task)
    deadline = tree.bounder.deadline = time.perf_counter() + task.seconds
    heap = [(-node.bound, i, node) for i, node in enumerate(unpack(tree, task.parcels))]
    heapq.heapify(heap)
    serial, splits, closed, counters = len(heap), task.splits, 0.0, Counters()
    leaves: list[tuple[Node, float]] = []
    while heap and splits > 0 and time.perf_counter() < deadline:
        best = heap[0][2]
        if best.bound < task.floor:
            break
        if best.bound <= tree.cutoff:
            expansions = [tree.close(heapq.heappop(heap)[2])]
        else:
            count = min(splits, tree.together(best), len(heap))
            nodes = [heapq.heappop(heap)[2] for _ in range(count)]
            expansions = tree.expand([node for node in nodes if node.bound > tree.cutoff])
            expansions += [tree.close(node) for node in nodes if node.bound <= tree.cutoff]
            splits -= count
        for found in expansions:
            closed = max(closed, found.closed)
            counters = counters + found.counters
            leaves += found.leaves
            for child in found.children:
                serial += 1
                heapq.heappush(heap, (-child.bound, serial, child))
    return Report(
        [pack(tree, node) for _, _, node in heap],
        closed,
        tree.pool.best_point,
        counters,
        tree.experience.since(task.experience),
        leaves,
    )


def ready() -> None:
    """Nothing: a worker that was asked for it has loaded this module."""


class Team:
    """Tasks under way on the workers of an executor, in their order.

    Parameters
    ----------
    workers : Workers
        Entered.
    """

    def __init__(self, workers: Workers[Task, Report]) -> None:
        self._workers = workers
        self._flight: deque[tuple[Task, list[Node], Future[Any] | None]] = deque()

    @property
    def room(self) -> int:
        """How many more tasks there is room for."""
        return AHEAD * (self._workers.count or UNKNOWN) - len(self._flight)

    @property
    def nodes(self) -> list[Node]:
        """The nodes of all tasks under way."""
        return [node for _, nodes, _ in self._flight for node in nodes]

    def wake(self) -> None:
        """Have the workers start, and load what they need, before there is work for them."""
        for _ in range(self._workers.count):
            with contextlib.suppress(BrokenProcessPool, RuntimeError, OSError):
                self._workers.executor.submit(ready)

    def send(self, task: Task, nodes: list[Node]) -> None:
        """Set off a task on copies of `nodes`."""
        self._flight.append((task, nodes, self._submitted(task)))

    def _submitted(self, task: Task) -> Future[Any] | None:
        """A future, or None if the executor takes no tasks any more."""
        try:
            return self._workers.executor.submit(search_below, task)
        except (BrokenProcessPool, RuntimeError, OSError):  # broken, shut down, or just breaking
            return None

    def receive(self, clock: Clock) -> Report | None:
        """The oldest task's report; None if the clock ends first.

        The task stays until `done` says that its report was taken: an interrupt in between must
        not lose its nodes.  A task whose worker died is given to another, and in the end done here.
        """
        for _ in range(_DEATHS):
            while self._flight[0][2] is not None:
                future = self._flight[0][2]
                try:
                    report: Report = future.result(timeout=_POLL_SECONDS)
                except (TimeoutError, FutureTimeout):
                    if clock.expired:
                        return None
                    continue
                except _deaths():
                    break
                return report
            self._revive()
        return search_below(self._flight[0][0])

    def done(self) -> None:
        """Forget the oldest task."""
        self._flight.popleft()

    def _revive(self) -> None:
        """Start the executor again and set off all tasks once more."""
        self._workers.restart()
        self._flight = deque(
            (task, nodes, self._submitted(task)) for task, nodes, _ in self._flight
        )

    def stop(self) -> None:
        """Forget all tasks."""
        for _, _, future in self._flight:
            if future is not None:
                future.cancel()
        self._flight.clear()


def _deaths() -> tuple[type[BaseException], ...]:
    """What a future raises whose worker died: in a pool, and on a dask cluster if one is in use."""
    known: tuple[type[BaseException], ...] = (BrokenProcessPool, CancelledError, OSError, EOFError)
    scheduler = sys.modules.get("distributed.scheduler")
    return known if scheduler is None else (*known, scheduler.KilledWorker)
