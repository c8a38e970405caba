"""Calls in processes of their own, which can be ended at any moment.

Some solvers compute in C code that neither looks at a clock nor lets Python hear Ctrl-C.  The
process is a fresh interpreter, so that scripts need no guard around their main part.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar, cast

from lipyomo.errors import LipyomoError, ProcessDied, SolverError

Value = TypeVar("Value")

Message: TypeAlias = tuple[Any, ...]

POLL = 0.05
"""Seconds between two questions whether to stop."""

WATCH = 1.0
"""Seconds between two looks at whether the process that asked is still there."""


class Child:
    """A context with a call in a process of its own, which ends with it; iterate over its messages.

    They are tuples: ``("idle",)`` now and then while nothing comes, what the function tells, and
    last ``("done", value)``, ``("failed", error)`` for an error of lipyomo, or ``("died", code)``.

    Parameters
    ----------
    function : callable
        Of a module.  Its first argument is a function that sends its own arguments as a message.
    *arguments
        They travel by pickle, and so do messages.
    threads : int, optional
        Of the linear algebra.
    """

    def __init__(
        self, function: Callable[..., Any], *arguments: object, threads: int | None = None
    ) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        if threads is not None:
            names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
            environment |= dict.fromkeys(names, str(threads))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lipyomo.apart", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for this process alone
        )
        self._messages: queue.Queue[Message] = queue.Queue()
        content = pickle.dumps((function, arguments))
        threading.Thread(target=self._talk, args=(content,), daemon=True).start()

    def _talk(self, content: bytes) -> None:
        """Hand the call over, and listen until the process closes its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            with self._process.stdin as pipe:
                pipe.write(content)
            with self._process.stdout as pipe:
                while True:
                    self._messages.put(pickle.load(pipe))
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            self._messages.put(("died", self._process.wait()))

    def __iter__(self) -> Iterator[Message]:
        while True:
            try:
                yield self._messages.get(timeout=POLL)
            except queue.Empty:
                yield ("idle",)

    def answers(self) -> Iterator[Message]:
        """The messages up to ``("done", value)``.

        Raises
        ------
        ProcessDied
        LipyomoError
            As the function raised it.
        """
        for message in self:
            if message[0] == "failed":
                raise message[1]
            if message[0] == "died":
                raise ProcessDied("the solver's process died: it may have run out of memory")
            yield message
            if message[0] == "done":
                return

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process and all of its children."""
        try:
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        except ProcessLookupError:
            pass  # it is gone already
        self._process.wait()


def apart(function: Callable[..., Value], *arguments: object, stop: Callable[[], bool]) -> Value:
    """Call a function of a module in a process of its own.

    Parameters
    ----------
    function : callable
    *arguments
        They travel by pickle, and so does the value.
    stop : callable
        Polled; True ends the process.

    Returns
    -------
    value

    Raises
    ------
    SolverError
        If it was stopped, or the process died.
    LipyomoError
        As `function` raised it.
    """
    with Child(_unheard, function, *arguments) as child:
        for kind, *said in child.answers():
            if kind == "done":
                return cast(Value, said[0])
            if stop():
                break
    raise SolverError("the solver was stopped before it had an answer")


def _unheard(tell: object, function: Callable[..., Value], *arguments: object) -> Value:
    """Call a function that has nothing to tell on its way."""
    return function(*arguments)


def end_with(parent: int) -> None:
    """End this process once the one that started it is gone: a killed one could not say so."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """The other process: the call from standard input, its messages to standard output."""
    end_with(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what solvers print is no answer

    turn = threading.Lock()

    def tell(*message: object) -> None:
        with turn:  # a solver's thread may tell, too
            pickle.dump(message, answers)
            answers.flush()

    function, arguments = pickle.load(sys.stdin.buffer)
    try:
        tell("done", function(tell, *arguments))
    except LipyomoError as error:
        tell("failed", error)


if __name__ == "__main__":
    main()
