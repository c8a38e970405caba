"""Inputs of infinite weight: moving them costs nothing, so that constants may be infinite.

The constant along the free directions alone is computed first.  If it is zero, they do not matter.
A witness of any positive value makes the constant infinite.  Otherwise there is no upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from lipyomo.base.clock import PART
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Result, Status, Witness
from lipyomo.problems.run import Run
from lipyomo.problems.settings import Settings

INFINITE = "moving an input of infinite weight changes the output: the constant is infinite"
UNKNOWN = "whether inputs of infinite weight change the output is not known: there is no upper end"


Solve = Callable[[LipschitzProblem, Settings], Result]


def with_free(run: Run, solve: Callable[[Run], Result], look: Solve) -> Result:
    """Solve a problem with free directions.

    Parameters
    ----------
    run : Run
    solve : callable
        Runs the method as if there were no free directions.
    look : callable
        An exact method, applied to the free directions alone.
    """
    witness, vanish = _moved(run, look)
    if witness is not None:
        run.raise_lower(witness)  # with its value along the free directions
        run.record(infinite=True)
        run.warn(INFINITE)
        return replace(run.result(True), lower=math.inf, status=Status.EXACT)
    found = solve(run)
    if vanish:
        return found
    warnings = [*found.warnings, UNKNOWN]
    return replace(found, upper=math.inf, basis=None, status=Status.TIME_LIMIT, warnings=warnings)


def _moved(run: Run, look: Solve) -> tuple[Witness | None, bool]:
    """Return a witness that free directions change the output, and whether they provably do not."""
    free = run.problem.free
    if free is None or free.is_constant:
        return None, True
    settings = Settings(
        time_limit=max(PART * run.clock.left, 1e-3),
        should_stop=lambda: run.clock.interrupted,
        gap=1.0 - EQUAL,  # any positive value is enough
        seed=run.settings.seed,
        workers=1,
    )
    found = look(free, settings)
    moves = found.witness is not None and found.witness.value > 0.0
    return found.witness if moves else None, found.upper == 0.0
