"""The other end of `process`: runs one method and sends messages to its standard output.

    python -m lipyomo.compare.worker

A pickled `Task` comes from standard input.  Messages are pickled tuples: ``("started",)``,
``("interval", lower, upper)`` as often as the method reports progress, and in the end
``("result", Result)`` or ``("error", kind, message)``.
"""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import dataclass, replace
from typing import BinaryIO

from lipyomo.errors import LipyomoError, MethodError
from lipyomo.memory import limit_memory
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Progress
from lipyomo.settings import Settings


@dataclass(frozen=True)
class Task:
    """What a worker is to do.

    Attributes
    ----------
    method : str
    problem : LipschitzProblem
    settings : Settings
        Without callbacks.
    memory : int, optional
        Most bytes of memory, where the system can limit it.
    """

    method: str
    problem: LipschitzProblem
    settings: Settings
    memory: int | None = None


def _channel() -> BinaryIO:
    """Standard output for messages; whatever solvers print goes to the null device."""
    channel = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    return channel


def run_task(task: Task, channel: BinaryIO) -> None:
    """Run the method and send what comes of it."""
    from lipyomo.methods.registry import methods, run_method

    def send(*message: object) -> None:
        pickle.dump(message, channel)
        channel.flush()

    def progress(moment: Progress) -> None:
        send("interval", moment.lower, moment.upper)

    methods()
    send("started")
    try:
        if task.memory is not None:
            limit_memory(task.memory)
        result = run_method(task.method, task.problem, replace(task.settings, progress=progress))
    except MethodError as error:
        send("error", "refused", str(error))
    except LipyomoError as error:
        send("error", "failed", str(error))
    except MemoryError:
        send("error", "failed", "it ran out of memory")
    else:
        send("result", result)


def main() -> None:
    """Read a task, run it."""
    channel = _channel()
    run_task(pickle.load(sys.stdin.buffer), channel)
    channel.close()


if __name__ == "__main__":
    main()
