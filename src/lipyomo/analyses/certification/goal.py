"""Bounding constants that only have to be compared with a number."""

from __future__ import annotations

import math

from lipyomo.analyses.api import solve
from lipyomo.methods.registry import was_interrupted
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Progress, Result
from lipyomo.problems.settings import Settings


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
        Interrupted if this was decided before the method finished.

    Raises
    ------
    KeyboardInterrupt
        See `unless_interrupted`.
    """
    latest = [math.inf, 0.0]

    def watch(progress: Progress) -> None:
        latest[:] = progress.upper, progress.lower

    def decided() -> bool:
        return latest[0] < below or latest[1] > above

    settings = Settings(
        time_limit=seconds, progress=watch, should_stop=decided, workers=1, attain=False
    )
    result = solve(problem, method, settings)
    # Ctrl-C may come when only proofs are missing: then later rows are not started.
    return result if decided() and not result.stopped else unless_interrupted(result)


def unless_interrupted(result: Result) -> Result:
    """Return the result, or raise if it is due to Ctrl-C, so that no further row is started.

    Raises
    ------
    KeyboardInterrupt
    """
    if was_interrupted(result):
        raise KeyboardInterrupt
    return result
