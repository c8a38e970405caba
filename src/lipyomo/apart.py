"""One call in a process of its own, which can be ended at any moment.

Some solvers compute in C code that neither looks at a clock nor lets Python hear Ctrl-C.  The
process is a fresh interpreter, so that scripts need no guard around their main part.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TypeVar, cast

from lipyomo.errors import LipyomoError, SolverError

Value = TypeVar("Value")

POLL = 0.05
"""Seconds between two questions whether to stop."""


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
    process = subprocess.Popen(
        [sys.executable, "-m", "lipyomo.apart"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # Ctrl-C is for this process alone
    )
    answers: list[bytes] = []
    content = pickle.dumps((function, arguments))

    def talk() -> None:
        answers.append(process.communicate(content)[0])

    thread = threading.Thread(target=talk, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(POLL)
            if stop():
                raise SolverError("the solver was stopped before it had an answer")
    finally:
        process.kill()
        thread.join()
    if process.returncode or not answers[0]:
        raise SolverError("the solver's process died: it may have run out of memory")
    good, value = pickle.loads(answers[0])
    if not good:
        raise value
    return cast(Value, value)


def main() -> None:
    """The other process: the call from standard input, its outcome to standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what solvers print is no answer
    function, arguments = pickle.load(sys.stdin.buffer)
    try:
        outcome = True, function(*arguments)
    except LipyomoError as error:
        outcome = False, error
    with answers:
        pickle.dump(outcome, answers)


if __name__ == "__main__":
    main()
