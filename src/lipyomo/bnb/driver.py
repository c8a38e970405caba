"""The loop: take the node with the largest bound, branch, and keep what may still matter."""

from __future__ import annotations

import heapq
import math
import pickle
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lipyomo.bnb.checkpoint import Checkpoint, CheckpointError, Saved
from lipyomo.bnb.counters import Counters
from lipyomo.bnb.node import Node
from lipyomo.bnb.parallel import LAST_SECONDS, Report, Task, Team, pack, unpack
from lipyomo.bnb.tree import COMMON, Expansion, Tree
from lipyomo.executors import Workers
from lipyomo.ladder import Ladder
from lipyomo.memory import machine_memory, memory_limit
from lipyomo.network import FloatArray
from lipyomo.numerics.pace import fits
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Status, close_enough
from lipyomo.run import Clock
from lipyomo.sampling.local_search import PARAMS, default_evaluations, quick_budget
from lipyomo.sampling.thinned import thinned
from lipyomo.semidefinite.root import root_cost
from lipyomo.settings import Settings

QUEUE_SHARE, LIMIT_SHARE = 8, 2
"""Waiting nodes may take one in so many bytes of the machine's memory, and of a limit if one is
set; then the search dives instead of widening."""

LEAST_QUEUE = 1000
"""Nodes that may wait in any case."""

CLIMB_SHARE = 12
"""A local search inside the tree is this many times shorter than one by itself."""

FIRST_CLIMB, CLIMB_NODES = 32.0, 48.0
"""The local search is resumed after so many nodes, and then again and again: one takes about as
long as six nodes of the size `COMMON`.  Long ones would have other processes wait for this one."""

LONG_CLIMB, MOST_LARGE, EARLY = 4.0, 48.0, 0.4
"""About the root of a large network the local search takes as many times longer as its nodes are
larger than `COMMON`, at most so many times; this share of it between the root's first bounds and
the next ones, which profit from a good incumbent.  Each part takes no more than a tenth of the time
that is left."""

ROOT_ROOM, ROOT_STEPS = 2.0, 10.0
"""The first part is left out where the root's first steps would not fit so many times into the time
left."""

GUIDES = 64
"""Most nodes that a local search begins from, among the first ones of the queue."""

CHECKPOINT_SECONDS = 120.0
"""Between two checkpoints; more where they take long to write."""

WAITING = 3
"""Nodes that wait, for each worker and each of those that it splits together: what the best ones
tell would come too late for the others."""

AT_ONCE = 4
"""One in so many of those that may be split together are, however few wait: where the incumbent is
good few ever do, and small nodes cost as much alone as four together."""


def _warm_bytes(node: Node) -> int:
    """What the multipliers of a node take."""
    return 0 if node.ascent is None else node.ascent.values.nbytes + node.ascent.keys.nbytes


Tell = Callable[[FloatArray | None, float, int, str], None]
"""Called with a better point (or None), the bound so far, the number of nodes, and a message."""


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
    open_units : int
        Units that the bounds of the domain left open.
    promises : ndarray, shape (N,), optional
        What splits on each unit promised on average.
    starved : bool
        Whether memory ran out.
    """

    lower: float
    upper: float
    point: FloatArray | None
    status: Status
    counters: Counters
    root: float
    open_units: int = 0
    promises: FloatArray | None = None
    starved: bool = False


class Search:
    """Branch and bound on a problem without frozen inputs.

    Parameters
    ----------
    problem : LipschitzProblem
    settings : Settings
        Uses gap, threads (processes), executor, dask, seed, checkpoint and resume; time_limit and
        should_stop where no clock is given.
    clock : Clock, optional
    tell : callable, optional
        Hears of better points and bounds.
    record : bool, optional
        Keep every closed node in `leaves`.
    ladder : Ladder, optional
        Bounds that the root starts from.
    report : callable, optional
        Called with proved bounds of the whole problem.
    checkpoint : Checkpoint, optional
        Where to keep the state, instead of one that follows `settings`.
    cutoff : float, optional
        A bound that is to be proved: nodes with bounds up to it are closed from the start.

    Attributes
    ----------
    tree : Tree
    leaves : list of (Node, float)
        Closed nodes with their bounds (minus infinity for empty ones), if they are recorded.
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        settings: Settings,
        clock: Clock | None = None,
        tell: Tell | None = None,
        record: bool = False,
        ladder: Ladder | None = None,
        report: Callable[[float], object] | None = None,
        checkpoint: Checkpoint | None = None,
        cutoff: float = 0.0,
    ) -> None:
        self._settings, self._cutoff = settings, cutoff
        self._ladder, self._report = ladder, report
        self._clock = clock or Clock(settings.time_limit, settings.should_stop)
        self._tell = tell
        self._record = record
        if checkpoint is None and settings.checkpoint is not None:
            resume, overwrite = settings.resume, settings.overwrite
            checkpoint = Checkpoint(settings.checkpoint, problem, resume, overwrite)
        self._checkpoint = checkpoint
        before = None if checkpoint is None else checkpoint.before
        known, self._saved_state = None, None if before is None else before[1]
        if self._saved_state is not None:
            known = self._saved_state.known
            if record and known is not None:
                raise CheckpointError(
                    f"'{settings.checkpoint}' was written by a search that proves nothing"
                )
        elif ladder is not None and not record:
            known = np.concatenate([np.zeros(0, dtype=np.int8), *ladder.bounds.phases])
        rng = np.random.default_rng(settings.seed)
        self.tree = Tree(problem, rng, settings.gap, record, known, cutoff)
        self.tree.bounder.clock = self._clock
        if ladder is not None:
            self.tree.searched = thinned(problem, ladder.bounds.phases)
        self.leaves: list[tuple[Node, float]] = []
        self._counters = Counters()
        self._closed = 0.0
        self._root = np.inf
        self._open_units = 0
        self._heap: list[tuple[float, int, Node]] = []
        self._stack: list[Node] = []
        self._serial = 0
        self._capacity = LEAST_QUEUE
        self._warm, self._warm_room = 0, math.inf
        self._taken: list[Node] = []
        self._team: Team | None = None
        self._evaluations = default_evaluations(self.tree.searched) // CLIMB_SHARE
        self._next_climb = FIRST_CLIMB
        self._told = 0.0
        self._node_seconds = 0.0
        self._saved = 0.0
        self._starved = False
        shared = settings.executor is not None or settings.dask is not None
        self._several = shared or (settings.threads or 1) > 1

    def run(self) -> Outcome:
        """Search until the interval is a point, or time is up, or the user has enough."""
        complete = False
        try:
            self._begin()
            if self._several and self._waiting():
                self._search_together()
            while self._waiting() and not self._clock.expired:
                self._expand_next()
            complete = not self._waiting()
        except (KeyboardInterrupt, MemoryError) as error:
            self._starved = isinstance(error, MemoryError)
            self._clock.stop()
        if np.isfinite(self._root):
            self._save()
        return self._outcome(self._final_upper(complete))

    def _expand_next(self) -> None:
        """Replace the best nodes by their children."""
        if self._clock.left < self._node_seconds:  # what is left is for the lower end
            self.tree.climb(self._evaluations, self._clock, self._promising())
            self._note()
            return
        began = self._clock.seconds
        self._take_batch()
        for found in self.tree.expand(self._taken, self.tree.plan(self._taken)):
            self._merge(found)
        self._taken = []
        self._node_seconds = self._clock.seconds - began
        self._after(self._promising())

    def _promising(self) -> list[Node]:
        """Some of the best waiting nodes."""
        return [node for _, _, node in self._heap[:GUIDES] if node.candidates.size]

    def _begin(self) -> None:
        """Start at the root, or where a checkpoint left off."""
        tree = self.tree
        if self._saved_state is not None:
            self._restore(self._saved_state)
            self._saved_state = None
        else:
            tree.climb(*quick_budget(tree.searched, self._clock))
            self._note()
            if self._ladder is not None:
                self._open_units = self._ladder.bounds.unstable
            found = tree.root(self._clock, self._ladder, self._report, self._climb_early)
            self._open_units, self._node_seconds = tree.open_at_root, 2.0 * tree.root_seconds
            self._root = max([node.bound for node in found.children], default=found.closed)
            self._set_capacity(found.children)
            self._merge(found)
            if found.children:
                self._climb_long(1.0 - EARLY)
        self._note()

    @property
    def _root_seconds(self) -> float:
        """About how long the root takes until its bounds fall slowly."""
        problem = self.tree.problem
        cost = root_cost(self.tree.targets, problem.network.input_dim, self._open_units)
        return cost.closed + 2.0 * cost.proof + ROOT_STEPS * cost.approach

    def _climb_early(self) -> None:
        """Look for points once the root has bounds, if there is time for the next ones."""
        if fits(ROOT_ROOM * self._root_seconds, self._clock.left):
            self._climb_long(EARLY)

    def _climb_long(self, share: float) -> None:
        """Look for points of a large network longer than of a small one."""
        larger = min(self._scale, MOST_LARGE) - 1.0
        if larger > 0.0:
            evaluations = int(share * LONG_CLIMB * larger * self._evaluations)
            self.tree.climb(evaluations, self._clock.within(PARAMS.quick_time * self._clock.left))
            self._note()

    def _set_capacity(self, nodes: list[Node]) -> None:
        """Half of the room is for what a node cannot do without, half for multipliers."""
        room = min(machine_memory() / QUEUE_SHARE, memory_limit() / LIMIT_SHARE) / 2
        for node in nodes[:1]:
            node_bytes = 4096 + node.phases.nbytes * 40 + 8 * (node.low.size * 4)
            self._capacity = max(LEAST_QUEUE, int(room / node_bytes))
            self._warm_room = max(room, LEAST_QUEUE * _warm_bytes(node))

    @property
    def _scale(self) -> float:
        """How many nodes of the size `COMMON` the root amounts to."""
        units = self._open_units
        size = units**2 * min(self.tree.problem.network.input_dim, units)
        return math.sqrt(max(size / COMMON, 1.0))

    @property
    def _nodes(self) -> float:
        """How many nodes of the size `COMMON` those so far amount to."""
        return self._counters.nodes * self._scale

    def _after(self, guides: list[Node]) -> None:
        """What is done now and then: local search from some nodes on, news, checkpoints."""
        nodes = self._nodes
        if nodes >= self._next_climb:
            more = 1.0 + (nodes - self._next_climb) / CLIMB_NODES
            self._next_climb = nodes + CLIMB_NODES
            self.tree.climb(int(self._evaluations * more), self._clock, guides)
        self._note()
        if self._checkpoint is not None:
            began = self._clock.seconds
            if began - self._saved >= CHECKPOINT_SECONDS:
                self._save()
                # no more than a twentieth of the time goes into writing
                took = self._clock.seconds - began
                self._saved = self._clock.seconds + max(0.0, 20.0 * took - CHECKPOINT_SECONDS)

    # -- the queue ---------------------------------------------------------------------------------

    def _push(self, node: Node) -> None:
        if len(self._heap) >= self._capacity:
            self._stack.append(node)
            return
        self._serial += 1
        heapq.heappush(self._heap, (-node.bound, self._serial, node))
        self._warm += _warm_bytes(node)  # those that have left count until the next look
        if self._warm > self._warm_room:
            self._cool()

    def _cool(self) -> None:
        """Drop the multipliers of those that will wait longest: they are found again."""
        self._heap.sort()
        self._warm = 0
        for place, (key, serial, node) in enumerate(self._heap):
            more = _warm_bytes(node)
            if more and self._warm + more > self._warm_room / 2:
                self._heap[place] = key, serial, replace(node, ascent=None)
            else:
                self._warm += more

    def _waiting(self) -> bool:
        """Whether a node waits whose bound is above the cutoff; those below it are closed."""
        while self._stack or self._heap:
            top = self._stack[-1].bound if self._stack else -self._heap[0][0]
            if top > self.tree.cutoff:
                return True
            node = self._stack[-1] if self._stack else self._heap[-1][2]
            self._taken = [node]  # noted before it leaves: an interrupt must not lose it
            (self._stack or self._heap).pop()
            self._merge(self.tree.close(node))
            self._taken = []
        return False

    def _take_batch(self) -> None:
        """Take the next nodes: the stack of a full queue is emptied depth first."""
        best = self._stack[-1] if self._stack else self._heap[0][2]
        workers = 1 if self._team is None else self._team.size
        together = self.tree.together(best)
        share = len(self._heap) // (WAITING * workers)
        least = min(together // AT_ONCE, -(-len(self._heap) // workers))
        stack, heap, dives = self._stack, self._heap, bool(self._stack)
        most = together if dives else min(together, max(share, least))
        self._taken = []
        while (stack if dives else heap) and len(self._taken) < max(most, 1):
            node = stack[-1] if dives else heap[0][2]
            if self._taken and node.bound <= self.tree.cutoff:
                break
            self._taken.append(node)  # noted before it leaves: an interrupt must not lose it
            if dives:
                stack.pop()
            else:
                heapq.heappop(heap)

    def _merge(self, found: Expansion) -> None:
        """Enter what became of a node."""
        self._counters = self._counters + found.counters
        self._closed = max(self._closed, found.closed)
        self.leaves += found.leaves
        for child in found.children:
            self._push(child)

    # -- several workers ---------------------------------------------------------------------------

    def _search_together(self) -> None:
        """Let workers search, until nothing waits or the clock ends."""
        settings = self._settings
        with Workers[Task, Report](
            settings.threads, settings.executor, settings.dask, helping=True
        ) as workers:
            team = self._team = Team(workers, self._clock, self._attend)
            try:
                while (self._waiting() or team.nodes) and self._clock.left > LAST_SECONDS:
                    if not team.tasks and len(self._heap) + len(self._stack) < 2:
                        self._expand_next()
                        continue
                    self._fill(team)
                    report = team.receive()
                    if report is None:
                        return
                    self._take_in(team, report)
            finally:
                for node in team.nodes:
                    self._push(node)
                team.stop()
                self._team = None

    def _fill(self, team: Team) -> None:
        """Set off as many tasks as there is room for."""
        while team.tasks < team.most and self._waiting():
            self._take_batch()
            team.send(self._task(), self._taken)
            self._taken = []

    def _take_in(self, team: Team, report: Report) -> None:
        """Enter what came of the oldest task, and set off another one before anything else."""
        self._merge_report(report)
        team.done()
        guides = self._promising()
        self._fill(team)
        self._after(guides)

    def _attend(self) -> None:
        """Keep others busy while this process works on a task: at the same points of the search."""
        team = self._team
        while team is not None and (report := team.at_hand()) is not None:
            self._take_in(team, report)

    def _task(self) -> Task:
        """The nodes that were taken, and all else that their parts depend on."""
        tree = self.tree
        parcels, plans = [pack(tree, node) for node in self._taken], tree.plan(self._taken)
        return Task(*self._content, parcels, plans, tree.pool.best, tree.experience.copy())

    @cached_property
    def _content(self) -> tuple[str, bytes]:
        """What all tasks have in common, and its name."""
        tree = self.tree
        gap, pairs = self._settings.gap, tree.known_pairs
        content = (tree.problem, gap, self._record, tree.known, self._cutoff, pairs)
        return uuid.uuid4().hex, pickle.dumps(content)

    def _merge_report(self, report: Report) -> None:
        tree = self.tree
        if report.best is not None:
            tree.pool.challenge(report.best)
        tree.experience.add(report.experience)
        nodes = unpack(tree, report.parcels)
        self._merge(Expansion(nodes, report.closed, report.leaves, report.counters))

    # -- checkpoints -------------------------------------------------------------------------------

    def _save(self) -> None:
        if self._checkpoint is None:
            return
        pool = self.tree.pool
        nodes = [node for _, _, node in self._heap] + self._stack + self._under_way()
        saved = Saved(
            nodes,
            pool.points[: pool.count],
            pool.on[: pool.count],
            pool.best_point,
            self._closed,
            self._root,
            self._open_units,
            self._next_climb,
            self._counters,
            self.tree.experience,
            self.tree.known,
            *self.tree.known_pairs,
        )
        self._checkpoint.save(saved)

    def _under_way(self) -> list[Node]:
        """Nodes that are neither waiting nor done."""
        return self._taken + ([] if self._team is None else self._team.nodes)

    def _restore(self, saved: Saved) -> None:
        pool = self.tree.pool
        self.tree.take_pairs(saved.pairs, saved.chosen)
        pool.restore(saved.points, saved.on)
        if saved.best is not None:
            pool.challenge(saved.best)
        self._open_units, self._next_climb = saved.open_units, saved.next_climb
        self._counters, self.tree.experience = saved.counters, saved.experience
        self._set_capacity(saved.nodes)
        for node in saved.nodes:
            self._push(node)
        self._closed, self._root = saved.closed, saved.root  # last: from now on this is written

    # -- reporting ---------------------------------------------------------------------------------

    def _note(self) -> None:
        """Tell the caller of a better point at once, of the bound whenever a node is done."""
        if self._tell is None:
            return
        best = self.tree.pool.best
        point = self.tree.pool.best_point if best > self._told else None
        self._told = best
        waiting = len(self._heap) + len(self._stack)
        self._tell(point, self._upper(), self._counters.nodes, f"{waiting} open nodes")

    def _upper(self) -> float:
        """The bound so far, not all of it proved yet."""
        if not np.isfinite(self._root):
            return np.inf
        top = -self._heap[0][0] if self._heap else 0.0
        rest = [node.bound for node in self._stack + self._under_way()]
        return max([top, self._closed, self.tree.pool.best, *rest])

    def _final_upper(self, complete: bool) -> float:
        """Largest proved bound over closed and open nodes, whatever is attained."""
        if not complete and not np.isfinite(self._root):
            return np.inf
        # Nodes that were under way when an interrupt came stay in the books, whatever it cut short;
        # that some of them, or of their children, wait as well is no harm.
        waiting = [node for _, _, node in self._heap] + self._stack + self._under_way()
        heap = [(-node.bound, i) for i, node in enumerate(waiting)]
        heapq.heapify(heap)
        proved: set[int] = set()
        while heap:
            bound, i = heap[0]
            if i in proved or -bound <= self._closed:
                break
            proved.add(i)
            heapq.heapreplace(heap, (-self.tree.proved_bound(waiting[i]), i))
        top = -heap[0][0] if heap else 0.0
        return max(top, self._closed)

    def _outcome(self, upper: float) -> Outcome:
        lower = self.tree.pool.best
        if close_enough(lower, upper):
            status = Status.EXACT
        elif self._clock.interrupted:
            status = Status.INTERRUPTED
        else:
            status = Status.TIME_LIMIT if self._clock.expired else Status.GAP
        return Outcome(
            lower,
            upper,
            self.tree.pool.best_point,
            status,
            self._counters,
            self._root,
            self._open_units,
            self.tree.promises,
            self._starved,
        )
