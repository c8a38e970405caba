"""One method in a process of its own, that can be killed without harm to anything else."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from lipyomo.compare.worker import Task
from lipyomo.result import Result

START = 120.0
"""Seconds that the interpreter may take to start and import."""

POLL = 0.1
"""Seconds between two looks at whether to stop."""

GRACE = 3.0
"""Seconds beyond its time limit in which a method may still hand over its result."""


@dataclass(frozen=True)
class Outcome:
    """What became of a task.

    Attributes
    ----------
    result : Result or None
        None if it failed, refused or was killed.
    kind : str
        ``done``, ``refused``, ``failed``, ``killed`` or ``interrupted``.
    message : str
    seconds : float
        Since the method began.
    lower, upper : float
        The last interval that it reported.
    """

    result: Result | None
    kind: str
    message: str
    seconds: float
    lower: float = 0.0
    upper: float = float("inf")


class MethodProcess:
    """A task in its own process.

    Parameters
    ----------
    task : Task
        Its time limit is enforced from outside as well.
    """

    def __init__(self, task: Task) -> None:
        self._limit = task.settings.time_limit
        threads = str(task.settings.threads or 1)
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lipyomo.compare.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | dict.fromkeys(names, threads),
            start_new_session=True,
        )
        self._messages: queue.Queue[tuple[object, ...]] = queue.Queue()
        plain = replace(task.settings, progress=None, should_stop=None)
        payload = pickle.dumps(replace(task, settings=plain))
        threading.Thread(target=self._feed, args=(payload,), daemon=True).start()
        threading.Thread(target=self._listen, daemon=True).start()

    def _feed(self, payload: bytes) -> None:
        assert self._process.stdin is not None
        try:
            with self._process.stdin as pipe:
                pipe.write(payload)
        except BrokenPipeError:
            return  # the process died; `wait` tells

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            while True:
                try:
                    self._messages.put(pickle.load(pipe))
                except (EOFError, OSError, ValueError, pickle.UnpicklingError):
                    break
        self._messages.put(("end",))

    def wait(self, stop: Callable[[], bool] = lambda: False) -> Outcome:
        """Wait for the result, at most until the time limit is over.

        Parameters
        ----------
        stop : callable, optional
            Polled; True ends the method, and what it has reported is its answer.
        """
        began, lower, upper = time.monotonic(), 0.0, float("inf")
        deadline = began + START
        try:
            while True:
                left = deadline - time.monotonic()
                try:
                    message = self._messages.get(timeout=min(max(left, 0.0), POLL))
                except queue.Empty:
                    spent = time.monotonic() - began
                    if stop():
                        text = "stopped; the interval is the last one that it reported"
                        return Outcome(None, "interrupted", text, spent, lower, upper)
                    if left > POLL:
                        continue
                    text = f"killed after {self._limit:g} s, its time limit"
                    return Outcome(None, "killed", text, spent, lower, upper)
                if message[0] == "started":
                    began = time.monotonic()
                    deadline = began + min(self._limit + GRACE, threading.TIMEOUT_MAX / 2)
                elif message[0] == "interval":
                    lower = max(lower, float(str(message[1])))
                    upper = min(upper, float(str(message[2])))
                else:
                    return self._final(message, time.monotonic() - began, lower, upper)
        finally:
            self.kill()

    def _final(
        self, message: tuple[object, ...], spent: float, lower: float, upper: float
    ) -> Outcome:
        if message[0] == "result" and isinstance(message[1], Result):
            return Outcome(message[1], "done", "", spent, lower, upper)
        if message[0] == "error":
            return Outcome(None, str(message[1]), str(message[2]), spent, lower, upper)
        code = self._process.wait()
        text = f"its process ended by itself (code {code}); it may have run out of memory"
        return Outcome(None, "failed", text, spent, lower, upper)

    def kill(self) -> None:
        """End the process and all of its children."""
        try:
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        except ProcessLookupError:
            pass  # it is gone already
        self._process.wait()
