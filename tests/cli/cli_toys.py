"""Methods for tests of the command line only: slow on purpose, deaf, or broken."""

from __future__ import annotations

import itertools
import math
import time

from lipyomo.cli import entry_point
from lipyomo.methods.registry import Method, register
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee, Progress, Result, Status
from lipyomo.settings import Settings


def patient(problem: LipschitzProblem, settings: Settings) -> Result:
    """Report ever better intervals until told to stop."""
    started = time.perf_counter()
    lower, upper = 1.0, 3.0
    for step in itertools.count():
        seconds = time.perf_counter() - started
        lower, upper = 2 - 1 / (step + 1), 2 + 1 / (step + 1)
        if settings.progress is not None:
            settings.progress(Progress(seconds, lower, upper, step))
        if settings.should_stop is not None and settings.should_stop():
            status = Status.INTERRUPTED
            break
        if seconds > settings.time_limit:
            status = Status.TIME_LIMIT
            break
        if (upper - lower) / upper <= settings.gap:
            status = Status.GAP
            break
        time.sleep(0.01)
    return Result(lower, upper, status, "patient", seconds=time.perf_counter() - started)


def deaf(problem: LipschitzProblem, settings: Settings) -> Result:
    """Report once, then hear nothing."""
    if settings.progress is not None:
        settings.progress(Progress(0.0, 1.5, 2.5))
    time.sleep(60)
    return Result(0.0, math.inf, Status.BOUNDS, "deaf")


def broken(problem: LipschitzProblem, settings: Settings) -> Result:
    """Fail in a way that nobody foresaw, or for want of memory."""
    if settings.options.get("memory"):
        raise MemoryError
    raise ZeroDivisionError("one by zero")


def above(problem: LipschitzProblem, settings: Settings) -> Result:
    """Give an upper bound, after its own options."""
    upper = float(settings.options.get("value", 7.0))
    return Result(0.0, upper, Status.BOUNDS, "above", Guarantee.UPPER)


def enrol() -> None:
    """Put the toys into the table."""
    register(Method("patient", "Patient", Guarantee.EXACT, "test", patient, ("linf",)))
    register(Method("deaf", "Deaf", Guarantee.EXACT, "test", deaf))
    options: dict[str, object] = {"memory": False}
    register(Method("broken", "Broken", Guarantee.EXACT, "test", broken, options=options))
    options = {"value": 7.0, "count": 3, "name": "a"}
    register(Method("above", "Above", Guarantee.UPPER, "test", above, options=options))


if __name__ == "__main__":
    enrol()
    entry_point()
