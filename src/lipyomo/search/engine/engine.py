"""The branch-and-bound loop: split the nodes with the largest bounds, and keep the open children.

It knows no networks.  It manages the time, the queue of nodes (`queue.py`), the workers that split
them (`workers.py`), the incumbent and the upper bound (`Standing`), and checkpoints
(`checkpoint.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.kept import Kept
from lipyomo.base.system.parallel import Workers
from lipyomo.base.system.processes import MOMENT
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.search.engine.params import Params
from lipyomo.search.engine.protocol import NODES, Arrays, Incumbent, N, Outcome, Pipeline, T
from lipyomo.search.engine.queue import Batch, Queue
from lipyomo.search.engine.workers import Team

_NUMBERS, _COUNTER = "engine.numbers", "engine.counters."


@dataclass(frozen=True, eq=False)
class Standing:
    """The state of a search apart from its open nodes; immutable, updates return a new one.

    Attributes
    ----------
    best : Incumbent
    closed : float
        Largest bound of the fathomed parts.
    whole : float
        Least proved upper bound of the whole problem that the root has reported.
    root : float
        Bound of the root; infinite until it is known.
    next_improvement : float
        Amount of work at which the primal heuristics run next.
    counters : mapping of str to int
    """

    best: Incumbent = field(default_factory=Incumbent)
    closed: float = -math.inf
    whole: float = math.inf
    root: float = math.inf
    next_improvement: float = 0.0
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def nodes(self) -> int:
        """Number of nodes split so far."""
        return self.counters.get(NODES, 0)

    def with_best(self, best: Incumbent | None) -> Standing:
        """Return the state with this incumbent, if it is better."""
        if best is not None and best.value > self.best.value:
            return replace(self, best=best)
        return self

    def after(self, outcome: Outcome[Any]) -> Standing:
        """Return the state after an outcome."""
        counters = dict(self.counters)
        for name, count in outcome.counters.items():
            counters[name] = counters.get(name, 0) + count
        closed = max(self.closed, outcome.closed)
        return replace(self.with_best(outcome.best), closed=closed, counters=counters)

    def upper(self, waiting: float) -> float:
        """Return the current upper bound, given that of the open nodes; it need not be proved."""
        known = math.isfinite(self.root)
        return max(waiting, self.closed, self.best.value) if known else math.inf

    def proved_upper(self, waiting: Iterable[float]) -> float:
        """Return the proved upper bound of the whole problem, given those of the open nodes."""
        known = math.isfinite(self.root)
        return min(max([self.closed, *waiting]), self.whole) if known else self.whole

    def encode(self) -> Arrays:
        """Encode it for a checkpoint, without the incumbent, which the pipeline encodes."""
        numbers = self.closed, self.whole, self.root, self.next_improvement
        arrays: Arrays = {_NUMBERS: np.array(numbers)}
        for name, count in self.counters.items():
            arrays[_COUNTER + name] = np.array(count)
        return arrays

    @classmethod
    def decode(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Standing:
        """Restore what `encode` has written."""
        counters = {
            name.removeprefix(_COUNTER): int(value)
            for name, value in arrays.items()
            if name.startswith(_COUNTER)
        }
        closed, whole, root, next_improvement = arrays[_NUMBERS].tolist()
        return cls(Incumbent(), closed, whole, root, next_improvement, counters)


OnProgress = Callable[[FloatArray | None, float, int, str], object]
"""Callback that takes a better point (or None), the current bound, the nodes split, a message."""


class Found(NamedTuple, Generic[N]):
    """The result of a search.

    Attributes
    ----------
    best : Incumbent
    upper : float
        A proved upper bound of the whole problem.
    complete : bool
        Whether no node is left that may contain something above the cutoff.
    root : float
        Bound of the root.
    counters : mapping of str to int
    fathomed : list of (node, float)
        Fathomed parts with their bounds, if the pipeline recorded them.
    starved : bool
        Whether memory ran out.
    """

    best: Incumbent
    upper: float
    complete: bool
    root: float
    counters: Mapping[str, int]
    fathomed: list[tuple[N, float]]
    starved: bool = False


class Engine(Generic[N, T]):
    """Branch and bound.

    Parameters
    ----------
    pipeline : Pipeline
    clock : Clock
    workers : Workers, optional
        A context that is not entered yet; by default this process does everything.
    checkpoint : Kept, optional
        Written periodically and at the end; the search resumes from the state it holds, if any.
    on_progress : callable, optional
        Called with better points and current bounds, which need not be proved yet.
    report : callable, optional
        Called with proved upper bounds of the whole problem.
    params : Params, optional
    """

    def __init__(
        self,
        pipeline: Pipeline[N, T],
        clock: Clock,
        *,
        workers: Workers[Any, Any] | None = None,
        checkpoint: Kept | None = None,
        on_progress: OnProgress | None = None,
        report: Callable[[float], object] | None = None,
        params: Params | None = None,
    ) -> None:
        self._pipeline, self._clock = pipeline, clock
        self._workers, self._checkpoint = workers, checkpoint
        self._on_progress, self._report = on_progress, report
        self._params = params = params or Params()
        self._queue: Queue[N] = Queue(params)
        self._standing = Standing(next_improvement=params.first_improvement)
        self._fathomed: list[tuple[N, float]] = []
        self._team: Team[N, T] | None = None
        self._node_seconds = 0.0
        self._reported = -math.inf
        self._saves_at = 0.0

    @with_one_blas_thread
    def run(self) -> Found[N]:
        """Search until no node is left, the time is up, or the user interrupts.

        An interrupt or lack of memory ends the search; the bounds of the open nodes are then
        proved.  A second interrupt also ends that, and the bounds proved so far are used.
        """
        starved = False
        try:
            try:
                self._search()
                self._save()
                return self._found(self._proved_upper())
            except (KeyboardInterrupt, MemoryError) as error:
                starved = isinstance(error, MemoryError)
                self._clock.stop()
                self._save()
                return self._found(self._proved_upper(), starved)
        except (KeyboardInterrupt, MemoryError):
            self._clock.stop()
            standing, bounds = self._standing, [node.proved_bound for node in self._queue.nodes]
            return self._found(standing.proved_upper(bounds), starved)

    # -- the loop ----------------------------------------------------------------------------------

    def _search(self) -> None:
        self._begin()
        if self._workers is not None and self._fathom_waiting():
            self._search_together(self._workers)
        while self._fathom_waiting() and not self._clock.expired:
            self._split_next()

    @property
    def _cutoff(self) -> float:
        return self._pipeline.cutoff(self._standing.best.value)

    def _begin(self) -> None:
        """Start at the root, or from the state of a checkpoint."""
        state = None if self._checkpoint is None else self._checkpoint.state
        nodes, effort = list[N](), 0.0
        if state is not None:
            known = Standing.decode(state)
            self._standing, bound = replace(known, root=math.inf), known.root
            self._enter(Batch(), self._pipeline.decode(state))
        else:
            root = self._pipeline.root(self._clock, self._take_root_progress)
            self._node_seconds, effort = root.seconds, root.effort
            nodes = [*root.outcome.children, *root.outcome.returned]
            bound = max([node.bound for node in nodes], default=root.outcome.closed)
            self._enter(Batch(), root.outcome)
        # known only now that the nodes cover the whole problem
        self._standing = replace(self._standing, root=bound)
        if nodes and effort:
            self._improve(effort, [])
        self._note()

    def _fathom_waiting(self) -> bool:
        """Fathom the next nodes while they are not above the cutoff; return whether one is left."""
        while (node := self._queue.next) is not None:
            cutoff = self._cutoff
            if node.bound > cutoff:
                return True
            batch = self._queue.take_last(self._pipeline.together(node), cutoff)
            self._enter(batch, self._pipeline.prove(batch, cutoff))
        return False

    def _split_next(self) -> None:
        """Replace the best nodes by their children."""
        left = self._clock.left
        if left < self._node_seconds:  # no time for a node: improve the lower bound instead
            self._improve(1.0, self._seeds)
            self._note()
            return
        began = self._clock.seconds
        batch = self._take(left / self._node_seconds if self._node_seconds else math.inf)
        task = self._pipeline.plan(batch, travels=False)
        outcome = self._pipeline.process(task, self._clock, lambda: None)
        self._enter(batch, self._pipeline.adopt(outcome))
        self._node_seconds = (self._clock.seconds - began) / max(len(batch), 1)
        self._after_batch(self._seeds)

    def _take(self, fit: float = math.inf) -> Batch[N]:
        """Take the next batch: large if many nodes are open, or if a full queue must be emptied.

        It has at most `fit` nodes, for which there is time.
        """
        queue, params, together = self._queue, self._params, self._together
        workers = 1 if self._team is None else self._team.size
        share = queue.ordered // (params.waiting * workers)
        least = min(together // params.waiting, -(-queue.ordered // workers))
        most = together if queue.dives else min(together, max(share, least))
        return queue.take(max(int(min(most, fit)), 1), self._cutoff)

    @property
    def _seeds(self) -> list[N]:
        """Some of the best open nodes."""
        return self._queue.first(self._params.waiting * self._together)

    @property
    def _together(self) -> int:
        """How many nodes of the next one's size are best split together."""
        node = self._queue.next
        return 1 if node is None else self._pipeline.together(node)

    def _enter(self, batch: Batch[N], outcome: Outcome[N]) -> None:
        """Enter the outcome of a batch; only then is the batch removed from the queue."""
        self._standing = self._standing.after(outcome)
        self._fathomed.extend(outcome.fathomed)
        self._queue.enter(batch, [*outcome.children, *outcome.returned])

    def _after_batch(self, seeds: list[N]) -> None:
        """Run what follows a batch when it is due: primal heuristics, on_progress, checkpoint."""
        work = self._standing.nodes * self._pipeline.weight()
        if work >= self._standing.next_improvement:
            often = self._params.improvement
            more = 1.0 + (work - self._standing.next_improvement) / often
            self._standing = replace(self._standing, next_improvement=work + often)
            self._improve(more, seeds)
        self._note()
        began = self._clock.seconds
        if self._checkpoint is not None and began >= self._saves_at:
            self._save()
            now = self._clock.seconds
            pause = (now - began) / self._params.checkpoint_share
            self._saves_at = now + max(pause, self._params.checkpoint_seconds)

    def _improve(self, effort: float, seeds: list[N]) -> None:
        """Look for a better incumbent."""
        found = self._pipeline.improve(effort, seeds, self._clock)
        self._standing = self._standing.with_best(found)

    # -- several workers ---------------------------------------------------------------------------

    def _search_together(self, workers: Workers[Any, Any]) -> None:
        """Search with workers until no node is open or the time is nearly up."""
        with workers:
            team = Team[N, T](
                workers, self._pipeline.recipe(), self._clock, self._attend, self._params
            )
            self._team = team
            try:
                while (self._fathom_waiting() or len(team)) and self._clock.left > MOMENT:
                    if not len(team) and len(self._queue) < 2:
                        self._split_next()
                        continue
                    self._fill(team)
                    received = team.receive()
                    if received is None:
                        return
                    self._take_in(team, *received)
            finally:
                self._queue.give_back()
                team.stop()
                self._team = None

    def _fill(self, team: Team[N, T]) -> None:
        """Send tasks until all workers are busy."""
        while len(team) < team.most and self._fathom_waiting():
            batch = self._take()
            team.send(self._pipeline.plan(batch, travels=True), batch)

    def _take_in(self, team: Team[N, T], batch: Batch[N], outcome: Outcome[N]) -> None:
        """Enter the outcome of the oldest task, and send another task before anything else.

        Nodes that a better incumbent closes then leave the queue before the next outcome is
        entered, however early it arrives.  As the size of a batch depends on the queue, this makes
        searches reproducible.
        """
        self._enter(batch, self._pipeline.adopt(outcome))
        team.done()
        seeds = self._seeds
        self._fill(team)
        self._after_batch(seeds)
        self._fathom_waiting()

    def _attend(self) -> None:
        """Serve the other workers while this process works on a task of its own.

        Outcomes are entered in the order of the tasks here as well, so searches stay reproducible.
        """
        team = self._team
        while team is not None and len(team) and (received := team.at_hand()) is not None:
            self._take_in(team, *received)

    # -- what is known -----------------------------------------------------------------------------

    def _take_root_progress(self, upper: float = math.inf, best: Incumbent | None = None) -> None:
        """Take intermediate results of the root."""
        if upper < self._standing.whole:
            self._standing = replace(self._standing, whole=upper)
            if self._report is not None:
                self._report(upper)
        if best is not None:
            self._standing = self._standing.with_best(best)
            self._note()

    def _note(self) -> None:
        """Report the current bound, and the incumbent's point if it is new."""
        if self._on_progress is None:
            return
        standing = self._standing
        best = standing.best
        point = best.point if best.value > self._reported else None
        self._reported = best.value
        upper = standing.upper(self._queue.bound)
        self._on_progress(point, upper, standing.nodes, f"{len(self._queue)} open nodes")

    def _proved_upper(self) -> float:
        """Return the largest bound of the fathomed parts and of the open nodes, once proved.

        Open nodes are proved in the order of their bounds.  If that takes long, it stops at bounds
        that are lower than the result by far more than the rounding error of a bound.
        """
        top, params, pipeline = self._standing.closed, self._params, self._pipeline
        end = self._clock.seconds + MOMENT
        left = sorted(self._queue.nodes, key=lambda node: -node.bound)
        while left and math.isfinite(self._standing.root):
            low = left[0].bound < top - params.proof_margin * abs(top)
            if low and self._clock.seconds > end:
                break
            most = pipeline.together(left[0])
            outcome = pipeline.prove(left[:most], self._cutoff)
            top = max([top, outcome.closed, *(node.bound for node in outcome.returned)])
            left = left[most:]
        return self._standing.proved_upper([top])

    def _save(self) -> None:
        """Write a checkpoint, if there is a file and the root is known."""
        if self._checkpoint is not None and math.isfinite(self._standing.root):
            nodes = self._pipeline.encode(self._queue.nodes)
            self._checkpoint.save(nodes | self._standing.encode())

    def _found(self, upper: float, starved: bool = False) -> Found[N]:
        standing = self._standing
        complete = math.isfinite(standing.root) and not self._queue.nodes
        return Found(
            standing.best,
            upper,
            complete,
            standing.root,
            standing.counters,
            self._fathomed,
            starved,
        )
