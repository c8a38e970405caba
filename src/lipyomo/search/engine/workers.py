"""Parallel search: tasks on the workers of an executor, on several cores or machines.

A task is a value, and its outcome depends on it alone, not on the worker or its history.  Outcomes
are entered in the order in which the tasks were made.  So equal seeds and numbers of workers give
equal searches, whichever worker is faster, and a task whose worker died can be given to another.
There is no barrier: while the engine waits for the oldest task, workers process the others.

Tasks are small and few, as results that are not known yet cost additional nodes.  With a pool of
its own, the process that makes the tasks also works on them, and meanwhile enters outcomes of the
others and sends new tasks, so that no worker waits for it.  So it need not wait until the other
processes have started, and the time at which they start does not change the answer.
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
from typing import Any, Generic, NamedTuple

from lipyomo.base.clock import Clock
from lipyomo.base.system.parallel import UNKNOWN, Workers
from lipyomo.base.system.processes import MOMENT
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.search.engine.params import Params
from lipyomo.search.engine.protocol import N, Outcome, Pipeline, Pulse, Recipe, T
from lipyomo.search.engine.queue import Batch


class Parcel(NamedTuple, Generic[T]):
    """A task as it is sent to a worker.

    Attributes
    ----------
    token : str
        Identifies the search, whose pipeline workers keep from task to task.
    recipe : bytes
        The pickled recipe of the pipeline.
    task : object
    seconds : float
        Time limit of the task.
    """

    token: str
    recipe: bytes
    task: T
    seconds: float = math.inf


_kept = threading.local()


def _pipeline_of(parcel: Parcel[Any]) -> Pipeline[Any, Any]:
    """Return this worker's pipeline for the search of the task."""
    if getattr(_kept, "token", None) != parcel.token:
        recipe: Recipe[Any, Any] = pickle.loads(parcel.recipe)
        vars(_kept).update(token=parcel.token, pipeline=recipe.pipeline())
    pipeline: Pipeline[Any, Any] = _kept.pipeline
    return pipeline


def forget() -> None:
    """Delete the pipeline that is kept for a search, which is over."""
    vars(_kept).clear()


@with_one_blas_thread
def work(
    parcel: Parcel[Any], clock: Clock | None = None, pulse: Pulse = lambda: None
) -> Outcome[Any]:
    """Process a task, in this process or in a worker."""
    in_child = multiprocessing.parent_process() is not None
    if in_child and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides how to react
    return _pipeline_of(parcel).process(parcel.task, clock or Clock(parcel.seconds), pulse)


class _Job(Generic[N, T]):
    """A task with its batch, and the state of its execution in this process or in a worker."""

    def __init__(self, task: T, batch: Batch[N]) -> None:
        self.task, self.batch = task, batch
        self._future: Future[Outcome[N]] | None = None
        self._outcome: Outcome[N] | None = None
        self._ours = False

    @property
    def free(self) -> bool:
        """Whether it is not assigned yet."""
        return not (self._ours or self._future)

    @property
    def remote(self) -> bool:
        """Whether it was given to a worker of the executor."""
        return self._future is not None

    @property
    def busy(self) -> bool:
        """Whether a worker of the executor has it and is not done."""
        return self._future is not None and self._outcome is None and not self._future.done()

    def hand_over(self, executor: Executor, parcel: Parcel[T]) -> None:
        """Submit it to the executor."""
        self._future = executor.submit(work, parcel)

    def do(self, parcel: Parcel[T], clock: Clock, pulse: Pulse) -> None:
        """Process it in this process."""
        self._ours = True
        self._outcome = work(parcel, clock, pulse)

    def poll(self) -> Outcome[N] | None:
        """Return its outcome if it is done; raise the exception if its worker died."""
        if self._outcome is None and self._future is not None and self._future.done():
            self._outcome = self._future.result()
        return self._outcome

    def wait(self, seconds: float) -> None:
        """Wait for its outcome, at most for the given seconds."""
        if self._future is None:
            time.sleep(seconds)
        else:
            wait([self._future], timeout=seconds)

    def take_back(self, lost: bool) -> None:
        """After a worker's death, make it free again if it failed, or is pending and `lost`."""
        future = self._future
        if future is not None and (future.exception() is not None if future.done() else lost):
            self._future = None

    def cancel(self) -> None:
        """Cancel it if it has not started yet."""
        if self._future is not None:
            self._future.cancel()


class Team(Generic[N, T]):
    """The tasks in process, in their order, and the workers that process them.

    Parameters
    ----------
    workers : Workers
        An entered context.
    recipe : Recipe
    clock : Clock
    pulse : callable
        Called regularly while this process works on a task.
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
        """Number of tasks in process."""
        return len(self._jobs)

    @property
    def size(self) -> int:
        """Number of workers, or a guess if the executor does not tell."""
        return self._workers.count or UNKNOWN

    @property
    def most(self) -> int:
        """How many tasks keep all workers busy: in our own pool one each, as transit is short."""
        return self.size * (1 if self._workers.own else self._params.ahead)

    def send(self, task: T, batch: Batch[N]) -> None:
        """Add a task, and submit it if a worker is free."""
        self._jobs.append(_Job(task, batch))
        self._hand_over()

    def receive(self) -> tuple[Batch[N], Outcome[N]] | None:
        """Wait for the oldest task's batch and outcome; return None if the clock expires first.

        The task is kept until `done` is called, once its outcome has been entered.
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
        """Submit waiting tasks, and return the oldest task's batch and outcome if it is done."""
        self._hand_over()
        first = self._jobs[0]
        try:
            outcome = first.poll()
        except _deaths():
            self._bury()
            return None
        if outcome is None:
            return None
        if first.remote:
            self._deaths = 0
        return first.batch, outcome

    def done(self) -> None:
        """Remove the oldest task, whose outcome was entered."""
        self._jobs.popleft()

    def stop(self) -> None:
        """Cancel all tasks, and free the pipelines that this search has left in this process."""
        for job in self._jobs:
            job.cancel()
        self._jobs.clear()
        forget()

    @property
    def _given_up(self) -> bool:
        return self._deaths > self.size

    def _parcel(self, job: _Job[N, T]) -> Parcel[T]:
        seconds = self._clock.left - MOMENT
        return Parcel(self._token, self._recipe, job.task, seconds)

    def _hand_over(self) -> None:
        """Submit waiting tasks; to a pool of our own, only as many as processes have started."""
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
        """After a worker's death, take back its tasks and restart the workers."""
        self._deaths += 1
        for job in self._jobs:
            job.take_back(self._workers.own)
        self._workers.restart()
        if not self._given_up:
            self._wake()

    def _wake(self) -> None:
        """Let processes of our own start and import what they need, in the background."""
        with contextlib.suppress(*_deaths()):
            self._workers.call(self._module)


def _deaths() -> tuple[type[BaseException], ...]:
    """Return the exceptions that a worker's death causes, in a pool or on a dask cluster."""
    known: tuple[type[BaseException], ...] = (
        BrokenProcessPool,
        CancelledError,
        RuntimeError,
        OSError,
        EOFError,
    )
    scheduler = sys.modules.get("distributed.scheduler")
    return known if scheduler is None else (*known, scheduler.KilledWorker)
