"""The loop: take the node with the largest bound, branch, and keep what may still matter."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, field

import numpy as np

from lipyomo.bnb.counters import Counters
from lipyomo.bnb.node import Node
from lipyomo.bnb.parallel import SHARE, Workers, can_fork, unpack
from lipyomo.bnb.tree import Tree
from lipyomo.network import FloatArray
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Progress, Status, close_enough
from lipyomo.run import Clock
from lipyomo.sampling.local_search import default_evaluations
from lipyomo.settings import Settings

QUEUE_BYTES = 1 << 30
"""Memory that waiting nodes may take before the search dives instead of widening."""

LEAST_QUEUE = 1000
"""Nodes that may wait in any case."""

PARALLEL_AFTER = 100
"""Splits after which further processes are worth starting."""

CLIMB_SHARE, FIRST_SHARE = 6, 4
"""A local search inside the tree is this many times shorter than one by itself, and the first one,
before any bound is known, this many times shorter again."""

CLIMB_GROWTH = 1.5
"""The local search is resumed whenever the number of nodes has grown by this factor."""

_REPORT_SECONDS = 0.5


@dataclass
class Outcome:
    """What a search found.

    Attributes
    ----------
    lower, upper : float
        The interval; `upper` is proved.
    point : ndarray or None
        Where `lower` is attained (in the inputs that can move).
    status : Status
    counters : Counters
    root : float
        Bound of the root node.
    history : list of (seconds, lower, upper)
    open_units : int
        Units that the bounds of the domain left open.
    """

    lower: float
    upper: float
    point: FloatArray | None
    status: Status
    counters: Counters
    root: float
    history: list[tuple[float, float, float]] = field(default_factory=list)
    open_units: int = 0


class Search:
    """Branch and bound on a problem without frozen inputs.

    Parameters
    ----------
    problem : LipschitzProblem
    settings : Settings
        Uses time_limit, gap, threads (processes), seed, progress and should_stop.
    record : bool, optional
        Keep every leaf of the tree in ``tree.leaves`` (for tests).
    """

    def __init__(self, problem: LipschitzProblem, settings: Settings, record: bool = False) -> None:
        self._settings = settings
        self._start = time.perf_counter()
        self.tree = Tree(problem, np.random.default_rng(settings.seed), settings.gap)
        self.tree.bounder.deadline = self._start + settings.time_limit
        if record:
            self.tree.leaves = []
        self._heap: list[tuple[float, int, Node]] = []
        self._stack: list[Node] = []
        self._serial = 0
        self._capacity = LEAST_QUEUE
        self._history: list[tuple[float, float, float]] = []
        self._reported = -np.inf
        self._root = np.inf
        self._taken: list[Node] = []
        self._workers: Workers | None = None
        self._threads = settings.threads or 1
        self._clock = Clock(settings.time_limit, settings.should_stop)
        self._evaluations = default_evaluations(problem) // CLIMB_SHARE
        self._next_climb = 1.0

    def run(self) -> Outcome:
        """Search until the interval is a point, or time is up, or the user has enough."""
        tree = self.tree
        status = Status.EXACT
        try:
            tree.climb(self._evaluations // FIRST_SHARE, self._clock)
            roots = tree.root()
            self._root = max([node.bound for node in roots], default=tree.closed)
            for node in roots:
                node_bytes = 4096 + node.phases.nbytes * 40 + 8 * (node.low.size * 4)
                if node.ascent is not None:
                    node_bytes += node.ascent.values.nbytes
                self._capacity = max(LEAST_QUEUE, QUEUE_BYTES // node_bytes)
                self._push(node)
            self._note()
            while self._take():
                stop = self._stop_reason()
                if stop is not None:
                    status = stop
                    break
                if len(self._taken) == 1:
                    children = tree.expand(self._taken[0])
                else:
                    children = self._round()
                for child in children:
                    self._push(child)
                self._taken = []
                self._climb_again()
                self._note()
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        finally:
            if self._workers is not None:
                self._workers.close()
        for node in self._taken:  # not finished (some children may wait as well, which is no harm)
            self._push(node)
        upper = self._final_upper(status)
        return self._outcome(upper, status)

    def _climb_again(self) -> None:
        """Search locally each time the number of nodes has grown by `CLIMB_GROWTH`."""
        nodes = self.tree.counters.nodes
        if nodes >= self._next_climb:
            self._next_climb = 4.0 + CLIMB_GROWTH * nodes
            self.tree.climb(self._evaluations, self._clock)

    # -- the queue ---------------------------------------------------------------------------------

    def _push(self, node: Node) -> None:
        if len(self._heap) >= self._capacity:
            self._stack.append(node)
            return
        self._serial += 1
        heapq.heappush(self._heap, (-node.bound, self._serial, node))

    def _take(self) -> bool:
        """Take the next node (or one share a worker); False when every bound is met.

        A full queue is emptied depth first.  Nodes are noted as taken before they leave the queue:
        an interrupt in between must not lose them.
        """
        while self._stack:
            node = self._stack[-1]
            self._taken = [node]
            self._stack.pop()
            if node.bound > self.tree.cutoff:
                return True
            self._prune(node)
        self._taken = []
        if not self._heap:
            return False
        if -self._heap[0][0] <= self.tree.cutoff:
            for _, _, node in self._heap:
                self._prune(node)
            self._heap.clear()
            return False
        for _ in range(self._share()):
            if not self._heap or -self._heap[0][0] <= self.tree.cutoff:
                break
            self._taken.append(self._heap[0][2])
            heapq.heappop(self._heap)
        return True

    def _share(self) -> int:
        """How many nodes to take: one, or as many as the workers get in a round."""
        if self._threads == 1 or len(self._heap) < SHARE * self._threads:
            return 1
        if self._workers is None:
            if self.tree.counters.nodes < PARALLEL_AFTER or not can_fork():
                return 1
            tree, settings = self.tree, self._settings
            self._workers = Workers(
                tree.problem,
                self._threads,
                settings.seed,
                settings.gap,
                tree.bounder.deadline,
                tree.leaves is not None,
            )
        return SHARE * self._threads

    def _round(self) -> list[Node]:
        """Let the workers search below the taken nodes; the nodes that are left open."""
        tree = self.tree
        assert self._workers is not None
        try:
            reports = self._workers.round(tree, self._taken)
        except (EOFError, OSError):  # a worker died: go on alone
            self._workers.close()
            self._workers, self._threads = None, 1
            return self._taken
        nodes = []
        for report in reports:
            if report.best is not None:
                tree.pool.challenge(report.best)
            tree.closed = max(tree.closed, report.closed)
            tree.credit(report.counters)
            if tree.leaves is not None:
                tree.leaves += report.leaves
            nodes += [unpack(tree, parcel) for parcel in report.parcels]
        return nodes

    def _prune(self, node: Node) -> None:
        """Close a waiting node that a new incumbent has overtaken, by a proved bound."""
        self.tree.close_proved(node)

    def _open_bound(self) -> float:
        top = -self._heap[0][0] if self._heap else 0.0
        return max([top, *(node.bound for node in self._stack)])

    # -- stopping and reporting --------------------------------------------------------------------

    def _stop_reason(self) -> Status | None:
        settings = self._settings
        if time.perf_counter() - self._start >= settings.time_limit:
            return Status.TIME_LIMIT
        if settings.should_stop is not None and settings.should_stop():
            return Status.INTERRUPTED
        return None

    def _note(self) -> None:
        """Extend the history, and tell the caller now and then."""
        seconds = time.perf_counter() - self._start
        lower = self.tree.pool.best
        upper = max(self._open_bound(), self.tree.closed, lower)
        if not self._history or (lower, upper) != self._history[-1][1:]:
            pause = max(0.02, 0.005 * seconds)  # the list grows like the logarithm of the time
            late = not self._history or seconds - self._history[-1][0] >= pause
            if late or lower != self._history[-1][1]:
                self._history.append((seconds, lower, upper))
        if self._settings.progress is not None and seconds - self._reported >= _REPORT_SECONDS:
            self._reported = seconds
            waiting = len(self._heap) + len(self._stack)
            self._settings.progress(
                Progress(seconds, lower, upper, self.tree.counters.nodes, f"{waiting} open nodes")
            )

    def _final_upper(self, status: Status) -> float:
        """Largest proved bound over closed and open nodes."""
        if status is not Status.EXACT and not np.isfinite(self._root):
            return np.inf
        waiting = [node for _, _, node in self._heap] + self._stack
        heap = [(-node.bound, i) for i, node in enumerate(waiting)]
        heapq.heapify(heap)
        proved: set[int] = set()
        while heap:
            bound, i = heap[0]
            if i in proved or -bound <= self.tree.closed:
                break
            proved.add(i)
            heapq.heapreplace(heap, (-self.tree.proved_bound(waiting[i]), i))
        top = -heap[0][0] if heap else 0.0
        return max(top, self.tree.closed, self.tree.pool.best)

    def _outcome(self, upper: float, status: Status) -> Outcome:
        tree = self.tree
        lower = tree.pool.best
        if close_enough(lower, upper):
            status = Status.EXACT
        elif status is Status.EXACT:
            status = Status.GAP
        seconds = time.perf_counter() - self._start
        self._history.append((seconds, lower, upper))
        return Outcome(
            lower,
            upper,
            tree.pool.best_point,
            status,
            tree.counters,
            self._root,
            self._history,
            tree.open_at_root,
        )
