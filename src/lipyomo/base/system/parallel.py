"""Execution of parallel jobs: in this process, a pool of processes, dask, or any executor.

Everything that runs in parallel goes through `concurrent.futures.Executor`, so that a cluster is
one argument away: ``dask.distributed.Client.get_executor()`` and ``mpi4py.futures`` are executors.
"""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from typing import Any, Generic, TypeVar, cast

from lipyomo.base.arguments import whole_number
from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.extras import require
from lipyomo.base.system.imports import importing
from lipyomo.base.system.processes import Interpreter, reason, without_messages
from lipyomo.base.system.threads import usable_cores, with_one_blas_thread

Job = TypeVar("Job")
Value = TypeVar("Value")

AHEAD = 2
"""Jobs per worker that are submitted before any is finished."""

PER_CORE = 32
"""Limit of processes for each core; each takes a tenth of a gigabyte."""

UNKNOWN = 16
"""Assumed number of workers of an executor of the user."""


class InlineExecutor(Executor):
    """An executor that runs every call immediately, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call the function and return a completed future."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except LipyomoError as error:
            future.set_exception(error)
        return future


@with_one_blas_thread
def _called(
    send: object, function: Callable[..., Value], *arguments: object, **keywords: object
) -> Value:
    """Call a function in a process of a `Crew`; with one process per core, one thread each."""
    return without_messages(send, function, *arguments, **keywords)


class Crew(Executor):
    """An executor that runs calls in processes of its own, which are started on demand.

    Each process is a fresh interpreter, since threads of solver libraries do not survive a fork.
    They ignore Ctrl-C.  If a process dies, only its own call fails (`BrokenProcessPool`); a new
    process is started for the next one.

    Parameters
    ----------
    processes : int
        Largest number at a time.
    """

    def __init__(self, processes: int) -> None:
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="crew")
        self._idle: list[Interpreter] = []
        self._busy: set[Interpreter] = set()
        self._lock = threading.Lock()
        self._killed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call of a module-level function."""
        return self._threads.submit(self._call, pickle.dumps((_called, (fn, *args), kwargs)))

    def _call(self, content: bytes) -> Any:
        with self._lock:
            if self._killed:
                raise BrokenProcessPool("the processes have been ended")
            process = self._idle.pop() if self._idle else Interpreter()
            self._busy.add(process)
        alive = False
        try:
            process.send(content)
            answer = process.receive()
            alive = True
            kind, said = pickle.loads(answer)
            alive = kind != "crashed"
        except (EOFError, OSError) as error:
            if alive:  # reading the answer has failed, not the process
                raise
            raise BrokenProcessPool(reason(process.code())) from error
        finally:
            with self._lock:
                self._busy.discard(process)
                if alive:
                    self._idle.append(process)
            if not alive:
                process.kill()
        if kind == "crashed":
            raise BrokenProcessPool(said)
        if kind == "failed":
            raise said
        return said

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls, and end the processes: immediately, unless `wait` is True."""
        if not wait:
            self.kill()
        self._threads.shutdown(wait, cancel_futures=cancel_futures)
        self.kill()

    def kill(self) -> None:
        """End all processes, busy or not."""
        with self._lock:
            self._killed = True
            processes = [*self._idle, *self._busy]
            self._idle.clear()
        for process in processes:
            process.kill()


class Carried(Generic[Job, Value]):
    """A function that is pickled once, and unpickled once in every process that calls it.

    So its state (a network, computed constants) is kept from one job to the next.
    """

    def __init__(self, function: Callable[[Job], Value]) -> None:
        self._content = pickle.dumps(function)
        self._key = hashlib.sha256(self._content).digest()

    @with_one_blas_thread
    def __call__(self, job: Job) -> Value:
        """Call the function in the worker process."""
        if self._key not in _CARRIED:
            _CARRIED.clear()
            _CARRIED[self._key] = pickle.loads(self._content)
        return cast(Value, _CARRIED[self._key](job))


_CARRIED: dict[bytes, Callable[[Any], Any]] = {}
"""The function that this process called last, by its digest."""


class WorkerDied(LipyomoError):
    """A worker process died without an answer, twice on the same job."""


PATIENCE = 10.0
"""Timeout in seconds for the answer of a dask scheduler."""


def check_scheduler(address: str, seconds: float = math.inf) -> None:
    """Check that a dask scheduler answers; fails sooner than a client would.

    Parameters
    ----------
    address : str
        Addresses without a port are not checked.
    seconds : float, optional
        Time limit of the whole computation.

    Raises
    ------
    LipyomoError
        If no scheduler answers.
    """
    place = re.fullmatch(r"(?:(?:tcp|tls|wss?)://)?\[?([^/]+?)\]?:(\d+)/?", address)
    if place is None:
        return
    try:
        socket.create_connection((place[1], int(place[2])), _patience(seconds)).close()
    except (OSError, OverflowError, ValueError) as error:
        raise _silent(address, error) from None


def _patience(seconds: float) -> float:
    return min(PATIENCE, max(seconds, 1.0))


def _silent(address: str, error: Exception) -> LipyomoError:
    return LipyomoError(
        f"no dask scheduler answers at '{address}' ({error}).  Remedy: start one with "
        "'dask scheduler', and workers with 'dask worker ADDRESS'"
    )


class Workers(Generic[Job, Value]):
    """A context manager that runs jobs on workers.

    Parameters
    ----------
    workers : int, optional
        Number of processes; one per core by default.  With 1, everything runs in this process.
    executor : concurrent.futures.Executor, optional
        Used instead, and left open.
    dask : str, optional
        Address of a dask scheduler (``tcp://host:8786``), used instead; needs the extra ``[dask]``,
        and lipyomo on its workers.
    jobs : int, optional
        Number of jobs, if known: no more processes than that are started.
    helping : bool, optional
        The caller processes jobs as well, so that one process fewer is started.
    time_limit : float, optional
        Time limit of the whole computation in seconds; also limits the wait for a dask scheduler.

    Attributes
    ----------
    own : bool
        Whether this context starts its own processes.
    count : int
        Number of workers; 0 if unknown.
    processes : int
        Number of workers that are processes started by this context.

    Raises
    ------
    LipyomoError
        If the number of workers is not positive, or far beyond that of the cores, or the scheduler
        cannot be reached.
    """

    def __init__(
        self,
        workers: int | None = None,
        executor: Executor | None = None,
        dask: str | None = None,
        jobs: int | None = None,
        helping: bool = False,
        time_limit: float = math.inf,
    ) -> None:
        if workers is not None and whole_number(workers, "workers", LipyomoError, None) < 1:
            raise LipyomoError(f"at least one worker is needed, not {workers}")
        if executor is not None and dask is not None:
            raise LipyomoError("give an executor or the address of a dask scheduler, not both")
        self._executor, self._address = executor, dask
        self._patience = _patience(time_limit)
        self._client: Any = None
        self.own = executor is None and dask is None
        asked = workers or usable_cores()
        most = asked if jobs is None else max(1, jobs)
        self.count = min(asked, most) if self.own else workers or 0
        if self.own and self.count > PER_CORE * usable_cores():
            raise LipyomoError(
                f"{self.count} workers are too many processes for {usable_cores()} cores.  Remedy: "
                "one for each core"
            )
        self.processes = self.count - helping if self.own else 0
        self._helping = helping
        self._calls: list[Future[int]] = []

    def __enter__(self) -> Workers[Job, Value]:
        if self._address is not None:
            self._connect(self._address)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.own and self._executor is not None:
            wait = kind is None and not self._helping
            self._executor.shutdown(wait=wait, cancel_futures=True)
        if self._client is not None:
            self._client.close()

    @property
    def executor(self) -> Executor:
        """The executor, created at first use."""
        if self._executor is None:
            self._executor = InlineExecutor() if self.count == 1 else Crew(self.processes)
        return self._executor

    def call(self, module: str) -> None:
        """Start this context's own processes in advance, which takes half a second.

        Parameters
        ----------
        module : str
            Name of the module that they import; it may be imported here at the same time.
        """
        if self.processes:
            for _ in range(self.processes - len(self._calls)):
                self._calls.append(self.executor.submit(_load, module))

    @property
    def up(self) -> int:
        """Number of processes started by `call` that are ready."""
        return len({call.result() for call in self._calls if call.done() and not call.exception()})

    def restart(self) -> None:
        """Discard the processes after one has died; new ones are started on demand."""
        if self.own and self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor, self._calls = None, []

    def _connect(self, address: str) -> None:
        check_scheduler(address, self._patience)
        distributed = require("distributed", "A sweep on a cluster")
        try:
            self._client = distributed.Client(address, timeout=f"{self._patience}s")
        except (OSError, ValueError, TimeoutError) as error:
            raise _silent(address, error) from None
        self._executor = self._client.get_executor(pure=False)
        threads = sum(self._client.nthreads().values())
        self.count = self.count or max(1, threads)

    def run(
        self, function: Callable[[Job], Value], jobs: Iterable[Job]
    ) -> Iterator[tuple[int, Value | LipyomoError]]:
        """Call `function` on every job, and yield results as they finish.

        A job whose worker died is retried once.

        Parameters
        ----------
        function : callable
            Takes one job; both must be picklable.
        jobs : iterable
            Consumed as workers become free, so that it may be long.

        Yields
        ------
        (int, value or LipyomoError)
            Position of the job, and its result or error; other errors are raised.
        """
        waiting = iter(enumerate(jobs))
        running: dict[Future[Value], tuple[int, Job]] = {}
        again: set[int] = set()
        inline = isinstance(self.executor, InlineExecutor)
        function = function if inline else Carried(function)
        room = 1 if inline else AHEAD * (self.count or UNKNOWN)
        try:
            while True:
                while len(running) < room:
                    entry = next(waiting, None)
                    if entry is None:
                        break
                    running[self.executor.submit(function, entry[1])] = entry
                if not running:
                    return
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(finished, key=lambda done: running[done][0]):
                    index, job = running.pop(future)
                    error = future.exception()
                    if not (isinstance(error, BrokenProcessPool) and self.own):
                        yield index, error if isinstance(error, LipyomoError) else future.result()
                    elif index in again:
                        yield (
                            index,
                            WorkerDied(
                                f"its worker process ended without an answer, twice: {error}.  "
                                "Remedy: if memory ran out, use fewer workers or a smaller domain"
                            ),
                        )
                    else:
                        again.add(index)
                        running[self.executor.submit(function, job)] = index, job
        finally:
            for future in running:
                future.cancel()


def _load(module: str) -> int:
    """Import a module and return the id of this process."""
    with importing():
        import_module(module)
    return os.getpid()
