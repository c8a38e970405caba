"""Solve the same problem with a second solver and compare the intervals."""

from __future__ import annotations

from dataclasses import replace

from lipyomo.analyses.api import solve
from lipyomo.base.decimals import interval
from lipyomo.base.errors import SolverError
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Result
from lipyomo.problems.settings import Settings


def cross_check(
    problem: LipschitzProblem, method: str, settings: Settings, first: Result, solver: str
) -> Result:
    """Solve with another solver; add its interval to the result as ``details['cross_check']``.

    Raises
    ------
    SolverError
        If the two intervals are disjoint, or the method used no solver.
    """
    if first.solver is None:
        raise SolverError(
            f"method {method} used no MIP or LP solver, so there is nothing to cross-check.  "
            "Remedy: leave out --cross-check, or choose --method mip"
        )
    second = solve(problem, method, replace(settings, solver=solver))
    slack = EXACT_TOLERANCE * max(abs(first.lower), abs(second.lower), 1e-9)
    if first.lower > second.upper + slack or second.lower > first.upper + slack:
        raise SolverError(
            f"the solvers disagree: {first.solver} says {interval(first.lower, first.upper)}, "
            f"{second.solver} says {interval(second.lower, second.upper)}.  Remedy: trust the "
            "larger lower end, which is attained, and report the model"
        )
    same = [f"both runs of the cross-check used {first.solver}"]
    agreement = {
        "solver": second.solver,
        "lower": second.lower,
        "upper": second.upper,
        "status": str(second.status),
        "seconds": second.seconds,
    }
    return first.noting(*same if second.solver == first.solver else (), cross_check=agreement)
