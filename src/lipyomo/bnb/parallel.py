"""More cores: processes that each work on a share of the best nodes, in rounds.

In a round every worker takes some of the best waiting nodes and searches below them for a fixed
number of splits.  Rounds end together and their results are merged in a fixed order, so that
equal seeds and numbers of workers give equal searches.  Workers are forked, which needs no pickled
problem; where there is no fork, the search stays in one process.
"""

from __future__ import annotations

import heapq
import multiprocessing
import signal
import time
from dataclasses import dataclass, field, fields, replace
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess

import numpy as np

from lipyomo.bnb.counters import Counters
from lipyomo.bnb.node import Node
from lipyomo.bnb.tree import Tree
from lipyomo.network import FloatArray
from lipyomo.problem import LipschitzProblem

SHARE = 6
"""Nodes that a worker is given in a round."""

SPLITS = 40
"""Splits that a worker makes in a round."""

_POINTS = 4
"""Points of a node that travel with it."""

Parcel = tuple[Node, FloatArray]
"""A node without its pool, and some points that lie in it."""


@dataclass
class Report:
    """What a worker did in a round.

    Attributes
    ----------
    parcels : list of (Node, points)
        Nodes left open.
    closed : float
        Largest bound of those it closed.
    best : ndarray or None
        A better point, if it found one.
    counters : Counters
        Of this round.
    leaves : list
        Closed nodes, if they are recorded.
    """

    parcels: list[Parcel]
    closed: float
    best: FloatArray | None
    counters: Counters
    leaves: list[tuple[Node, float]] = field(default_factory=list)


def pack(tree: Tree, node: Node) -> Parcel:
    """A node as it travels between processes."""
    nothing = np.zeros(0, dtype=np.int64)
    return replace(node, pool=nothing), tree.pool.points[node.pool[:_POINTS]]


def unpack(tree: Tree, parcel: Parcel) -> Node:
    """A travelled node, its points entered into this process's pool."""
    node, points = parcel
    return replace(node, pool=tree.pool.adopt(points))


def difference(after: Counters, before: Counters) -> Counters:
    """What was done between two readings."""
    return Counters(
        *(getattr(after, item.name) - getattr(before, item.name) for item in fields(Counters))
    )


def search_below(tree: Tree, nodes: list[Node], splits: int) -> Report:
    """Best-first search below `nodes`, for at most `splits` splits."""
    before, known = tree.counters, tree.pool.best
    tree.closed = 0.0
    if tree.leaves is not None:
        tree.leaves = []
    heap = [(-node.bound, i, node) for i, node in enumerate(nodes)]
    heapq.heapify(heap)
    serial = len(heap)
    while heap and splits > 0 and time.perf_counter() < tree.bounder.deadline:
        node = heapq.heappop(heap)[2]
        if node.bound <= tree.cutoff:
            tree.close_proved(node)
            continue
        splits -= 1
        for child in tree.expand(node):
            serial += 1
            heapq.heappush(heap, (-child.bound, serial, child))
    return Report(
        [pack(tree, node) for _, _, node in heap],
        tree.closed,
        tree.pool.best_point if tree.pool.best > known else None,
        difference(tree.counters, before),
        tree.leaves or [],
    )


def _serve(
    connection: Connection,
    problem: LipschitzProblem,
    seed: int,
    gap: float,
    deadline: float,
    record: bool,
) -> None:
    """A worker's life: rounds until it is told to go."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    tree = Tree(problem, np.random.default_rng(seed), gap)
    tree.bounder.deadline = deadline
    tree.leaves = [] if record else None
    while True:
        task = connection.recv()
        if task is None:
            return
        best, parcels = task
        tree.pool.best = max(tree.pool.best, best)
        connection.send(search_below(tree, [unpack(tree, item) for item in parcels], SPLITS))


class Workers:
    """Forked processes that search below nodes.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    count : int
    seed : int
    gap : float
    deadline : float
        Value of ``time.perf_counter()`` at which they stop.
    record : bool
        Report closed nodes.
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        count: int,
        seed: int,
        gap: float,
        deadline: float,
        record: bool,
    ) -> None:
        context = multiprocessing.get_context("fork")
        self._connections: list[Connection] = []
        self._processes: list[ForkProcess] = []
        for k in range(count):
            here, there = context.Pipe()
            process = context.Process(
                target=_serve,
                args=(there, problem, seed + 1 + k, gap, deadline, record),
                daemon=True,
            )
            process.start()
            there.close()
            self._connections.append(here)
            self._processes.append(process)

    @property
    def count(self) -> int:
        """Number of processes."""
        return len(self._processes)

    def round(self, tree: Tree, nodes: list[Node]) -> list[Report]:
        """Share `nodes` out, wait, and return the reports in the workers' order.

        Raises
        ------
        EOFError, OSError
            If a worker died.
        """
        for k, connection in enumerate(self._connections):
            parcels = [pack(tree, node) for node in nodes[k :: self.count]]
            connection.send((tree.pool.best, parcels))
        return [connection.recv() for connection in self._connections]

    def close(self) -> None:
        """End all processes."""
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.terminate()
            process.join()


def can_fork() -> bool:
    """Whether this platform can fork."""
    return "fork" in multiprocessing.get_all_start_methods()
