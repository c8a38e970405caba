"""More cores, more machines: tasks on the workers of an executor.

A task is a value, and its outcome depends on it alone, not on the worker or on what it did before.
Outcomes are entered in the order in which the tasks were made; so equal seeds and numbers of
workers give equal searches, whoever is faster, and a task whose worker died can be given to another
one.  There is no barrier: while the oldest task is waited for, others are being worked on.

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
import uuid
from collections import deque
from concurrent.futures import CancelledError, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Generic

from lipyomo.base.clock import Clock
from lipyomo.base.system.parallel import UNKNOWN, Workers
from lipyomo.base.system.processes import MOMENT
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.search.engine.params import Params
from lipyomo.search.engine.protocol import N, Outcome, Pipeline, Pulse, Recipe, T
from lipyomo.search.engine.queue import Batch


@dataclass(frozen=True)
class Parcel(Generic[T]):
    """A task as it travels.

    Attributes
    ----------
    token : str
        Of the search: workers keep its pipeline.
    recipe : bytes
        Of the pipeline, pickled.
    task : object
    seconds : float
        After which the worker ends.
    """

    token: str
    recipe: bytes
    task: T
    seconds: float = math.inf


_kept = threading.local()


def _pipeline_of(parcel: Parcel[Any]) -> Pipeline[Any, Any]:
    """The worker's pipeline for the task's search."""
    if getattr(_kept, "token", None) != parcel.token:
        recipe: Recipe[Any, Any] = pickle.loads(parcel.recipe)
        vars(_kept).update(token=parcel.token, pipeline=recipe.pipeline())
    pipeline: Pipeline[Any, Any] = _kept.pipeline
    return pipeline


def forget() -> None:
    """Forget the pipeline of a search that is over."""
    vars(_kept).clear()


@with_one_blas_thread
def work(
    parcel: Parcel[Any], clock: Clock | None = None, pulse: Pulse = lambda: None
) -> Outcome[Any]:
    """Do a task, here or there."""
    in_child = multiprocessing.parent_process() is not None
    if in_child and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what it means
    return _pipeline_of(parcel).process(parcel.task, clock or Clock(parcel.seconds), pulse)


class _Job(Generic[N, T]):
    """A task under way: whoever does it, here or there."""

    def __init__(self, task: T, batch: Batch[N]) -> None:
        self.task, self.batch = task, batch
        self._future: Future[Outcome[N]] | None = None
        self._outcome: Outcome[N] | None = None
        self._ours = False

    @property
    def free(self) -> bool:
        """Whether nobody has it."""
        return not (self._ours or self._future)

    @property
    def remote(self) -> bool:
        """Whether a worker elsewhere has it, or has done it."""
        return self._future is not None

    @property
    def busy(self) -> bool:
        """Whether a worker elsewhere is at it, or about to be."""
        return self._future is not None and self._outcome is None and not self._future.done()

    def hand_over(self, executor: Executor, parcel: Parcel[T]) -> None:
        """Give it to a worker elsewhere."""
        self._future = executor.submit(work, parcel)

    def do(self, parcel: Parcel[T], clock: Clock, pulse: Pulse) -> None:
        """Do it here."""
        self._ours = True
        self._outcome = work(parcel, clock, pulse)

    def look(self) -> Outcome[N] | None:
        """Its outcome, if there is one by now; what a dead worker left is raised."""
        if self._outcome is None and self._future is not None and self._future.done():
            self._outcome = self._future.result()
        return self._outcome

    def wait(self, seconds: float) -> None:
        """Wait for whoever has it."""
        if self._future is None:
            time.sleep(seconds)
        else:
            wait([self._future], timeout=seconds)

    def take_back(self, lost: bool) -> None:
        """After a worker's death it is free again, if that worker had it or all are `lost`."""
        future = self._future
        if future is not None and (future.exception() is not None if future.done() else lost):
            self._future = None

    def cancel(self) -> None:
        """Nobody wants it any more."""
        if self._future is not None:
            self._future.cancel()


class Team(Generic[N, T]):
    """Tasks under way, in their order, and who does them.

    Parameters
    ----------
    workers : Workers
        Entered.
    recipe : Recipe
    clock : Clock
    pulse : callable
        What to do now and then while this process works on a task.
    params : Params
    """

    def __init__(
        self,
        workers: Workers[Any, Any],
        recipe: Recipe[N, T],
        clock: Clock,
        pulse: Pulse,
        params: Params,
    ) -> None:
        self._workers, self._clock, self._pulse, self._params = workers, clock, pulse, params
        self._token, self._recipe = uuid.uuid4().hex, pickle.dumps(recipe)
        self._module = recipe.kind.__module__
        self._jobs: deque[_Job[N, T]] = deque()
        self._deaths = 0
        self._wake()

    def __len__(self) -> int:
        """How many tasks are under way."""
        return len(self._jobs)

    @property
    def size(self) -> int:
        """How many workers it has, as far as one knows."""
        return self._workers.count or UNKNOWN

    @property
    def most(self) -> int:
        """How many tasks keep all of them busy: in a pool of its own they need not travel far."""
        return self.size * (1 if self._workers.own else self._params.ahead)

    def send(self, task: T, batch: Batch[N]) -> None:
        """Set off a task."""
        self._jobs.append(_Job(task, batch))
        self._hand_over()

    def receive(self) -> tuple[Batch[N], Outcome[N]] | None:
        """The oldest task's batch and outcome, waited for; None if the clock ends first.

        The task stays until `done` says that its outcome was entered.
        """
        while not self._clock.expired:
            found = self.at_hand()
            if found is not None:
                return found
            free = next((job for job in self._jobs if job.free), None)
            helps = self._workers.own or self._given_up
            left = self._clock.left - MOMENT
            if free is not None and helps and left > 0:
                free.do(self._parcel(free), self._clock.within(left), self._pulse)
            else:
                self._jobs[0].wait(min(MOMENT, self._clock.left))
        return None

    def at_hand(self) -> tuple[Batch[N], Outcome[N]] | None:
        """The oldest task's batch and outcome, if it is done by now; and hand over what waits."""
        self._hand_over()
        first = self._jobs[0]
        try:
            outcome = first.look()
        except _deaths():
            self._bury()
            return None
        if outcome is None:
            return None
        if first.remote:
            self._deaths = 0
        return first.batch, outcome

    def done(self) -> None:
        """Forget the oldest task."""
        self._jobs.popleft()

    def stop(self) -> None:
        """Forget all tasks, and this process's part in them."""
        for job in self._jobs:
            job.cancel()
        self._jobs.clear()
        forget()
        with contextlib.suppress(*_deaths()):  # processes that are kept keep nothing of this search
            for _ in range(self._workers.up):
                self._workers.executor.submit(forget)

    @property
    def _given_up(self) -> bool:
        return self._deaths > self.size

    def _parcel(self, job: _Job[N, T]) -> Parcel[T]:
        seconds = self._clock.left - MOMENT
        return Parcel(self._token, self._recipe, job.task, seconds)

    def _hand_over(self) -> None:
        """Give waiting tasks to workers: of our own processes, to those that have started."""
        if self._given_up:
            return
        most = self._workers.up if self._workers.own else len(self._jobs)
        busy = sum(job.busy for job in self._jobs)
        for job in self._jobs:
            if busy < most and job.free:
                try:
                    job.hand_over(self._workers.executor, self._parcel(job))
                except _deaths():  # broken, shut down, or just breaking
                    self._bury()
                    return
                busy += 1

    def _bury(self) -> None:
        """After a worker's death: take back what it had, and start others."""
        self._deaths += 1
        for job in self._jobs:
            job.take_back(self._workers.own)
        self._workers.restart()
        if not self._given_up:
            self._wake()

    def _wake(self) -> None:
        """Have processes of our own start, and load what they need, while this one goes on."""
        with contextlib.suppress(*_deaths()):
            self._workers.call(self._module)


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
