"""The loop: take the node with the largest bound, branch, and keep what may still matter."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, field

import numpy as np

from lipyomo.network import FloatArray
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Progress, Status, close_enough
from lipyomo.search.node import Node
from lipyomo.search.tree import Counters, Tree
from lipyomo.settings import Settings

QUEUE_BYTES = 1 << 30
"""Memory that waiting nodes may take before the search dives instead of widening."""

LEAST_QUEUE = 1000
"""Nodes that may wait in any case."""

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
        Uses time_limit, gap, seed, progress and should_stop.
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

    def run(self) -> Outcome:
        """Search until the interval is a point, or time is up, or the user has enough."""
        tree = self.tree
        current: Node | None = None
        status = Status.EXACT
        try:
            tree.pool.seed()
            roots = tree.root()
            self._root = max([node.bound for node in roots], default=tree.closed)
            for node in roots:
                node_bytes = 4096 + node.phases.nbytes * 40 + 8 * (node.low.size * 4)
                self._capacity = max(LEAST_QUEUE, QUEUE_BYTES // node_bytes)
                self._push(node)
            self._note()
            while True:
                current = self._pop()
                if current is None:
                    break
                stop = self._stop_reason()
                if stop is not None:
                    status = stop
                    break
                children = tree.expand(current)
                current = None
                for child in children:
                    self._push(child)
                self._note()
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        if current is not None:
            self._push(current)
        upper = self._final_upper(status)
        return self._outcome(upper, status)

    # -- the queue ---------------------------------------------------------------------------------

    def _push(self, node: Node) -> None:
        if len(self._heap) >= self._capacity:
            self._stack.append(node)
            return
        self._serial += 1
        heapq.heappush(self._heap, (-node.bound, self._serial, node))

    def _pop(self) -> Node | None:
        """The next node, or None when every bound is met; a full queue is emptied depth first."""
        while self._stack:
            node = self._stack.pop()
            if node.bound > self.tree.cutoff:
                return node
            self._prune(node)
        if not self._heap:
            return None
        if -self._heap[0][0] <= self.tree.cutoff:
            for _, _, node in self._heap:
                self._prune(node)
            self._heap.clear()
            return None
        return heapq.heappop(self._heap)[2]

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
            late = not self._history or seconds - self._history[-1][0] >= 0.02
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
