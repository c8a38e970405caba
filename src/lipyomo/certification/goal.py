"""Constants that only have to be compared with a number."""

from __future__ import annotations

import math

from lipyomo.api import solve
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Progress, Result
from lipyomo.settings import Settings


def bound_until(
    problem: LipschitzProblem, method: str, below: float, above: float, seconds: float
) -> Result:
    """Solve until the constant is known to be less than `below`, or more than `above`.

    Parameters
    ----------
    problem : LipschitzProblem
    method : str
    below, above : float
    seconds : float
        Time limit.

    Returns
    -------
    Result
        Interrupted if it was decided before the method came to its own end.
    """
    latest = [math.inf, 0.0]

    def watch(progress: Progress) -> None:
        latest[:] = progress.upper, progress.lower

    def decided() -> bool:
        return latest[0] < below or latest[1] > above

    settings = Settings(
        time_limit=seconds, progress=watch, should_stop=decided, threads=1, attain=False
    )
    return solve(problem, method, settings)
