"""Methods for tests of the command line only: slow on purpose, deaf, or broken."""

from __future__ import annotations

import itertools
import time

from lipyomo.cli import entry_point
from lipyomo.methods.registry import Method, register
from lipyomo.problems.result import Guarantee, Progress, Result, Status
from lipyomo.problems.run import Run


def patient(run: Run) -> Result:
    """Report ever better intervals until told to stop."""
    settings = run.settings
    for step in itertools.count():
        lower, upper = 2 - 1 / (step + 1), 2 + 1 / (step + 1)
        if settings.progress is not None:
            settings.progress(Progress(run.clock.seconds, lower, upper, step))
        if run.clock.interrupted:
            status = Status.INTERRUPTED
            break
        if run.expired:
            status = Status.TIME_LIMIT
            break
        if (upper - lower) / upper <= settings.gap:
            status = Status.GAP
            break
        time.sleep(0.01)
    return Result(lower, upper, status, "patient", seconds=run.clock.seconds)


def deaf(run: Run) -> Result:
    """Find something once, then hear nothing."""
    run.drop_upper(2.5)
    time.sleep(60)
    return run.result()


def broken(run: Run) -> Result:
    """Fail in a way that nobody foresaw, or for want of memory."""
    if run.settings.options.get("memory"):
        raise MemoryError
    raise ZeroDivisionError("one by zero")


def above(run: Run) -> Result:
    """Give an upper bound, after its own options."""
    run.drop_upper(float(run.settings.options.get("value", 200.0)))
    return run.result()


def starved(run: Run) -> Result:
    """Give an upper bound, and run out of memory."""
    run.drop_upper(200.0)
    raise MemoryError


def enrol() -> None:
    """Put the toys into the table."""
    register(Method("patient", "Patient", Guarantee.EXACT, "test", patient, ("linf",)))
    register(Method("deaf", "Deaf", Guarantee.EXACT, "test", deaf))
    options: dict[str, object] = {"memory": False}
    register(Method("broken", "Broken", Guarantee.EXACT, "test", broken, options=options))
    register(Method("starved", "Starved", Guarantee.UPPER, "test", starved))
    options = {"value": 200.0, "count": 3, "name": "a"}
    register(
        Method("above", "Above", Guarantee.UPPER, "test", above, unbounded=False, options=options)
    )


if __name__ == "__main__":
    enrol()
    entry_point()
