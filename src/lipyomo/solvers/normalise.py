"""Normalisation of the solvers' answers.

Solvers differ in the sign of infinite bounds, in the gap left by "optimal", and in whether bound
and incumbent are consistent.  Here all of that is derived from the numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyomo.contrib.solver.common.results import SolutionStatus, TerminationCondition

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.solvers.matrices import LinearModel
from lipyomo.solvers.runs import RunReport
from lipyomo.solvers.status import INFINITE, SolveStatus

TOLERANCE = 1e-5
"""Largest difference, due to a solver's tolerances, of numbers that count as equal."""
GROSS = 1e-3
"""Violation beyond which a solver's point is rejected."""


@dataclass(frozen=True)
class Final:
    """A normalised answer; see `SolveOutcome` for the fields."""

    status: SolveStatus
    x: FloatArray | None
    incumbent: float | None
    bound: float
    violation: float
    message: str


def no_bound(maximise: bool) -> float:
    """Return the trivial bound: +inf for a maximisation, -inf for a minimisation."""
    return math.inf if maximise else -math.inf


def normalise(model: LinearModel, report: RunReport, start: FloatArray | None) -> Final:
    """Derive status, incumbent and bound from a solver's report.

    Parameters
    ----------
    model : LinearModel
    report : RunReport
    start : numpy.ndarray, optional
        The start passed to the solver.  If it is complete and feasible, the answer must not
        contradict it.

    Returns
    -------
    Final
    """
    x = report.x
    incumbent = None if x is None else model.objective(x)
    violation = 0.0 if x is None else model.violation(x)
    status, message = report.status, report.message
    if violation > GROSS:
        x = incumbent = None
        message = f"the solver's point violates the model by {violation:.3g} and is dropped"
    status, incumbent, bound, message = consistent_answer(
        status, incumbent, report.bound, model.maximise, message
    )
    complete = start is not None and not np.isnan(start).any() and model.violation(start) <= EQUAL
    if start is not None and complete and status is not SolveStatus.ERROR:
        witness = model.objective(start)
        beyond = witness - bound if model.maximise else bound - witness
        if beyond > TOLERANCE * max(1.0, abs(witness)):
            message = (
                f"the solver claims {report.status.value} with the bound {bound!r}, but the given "
                f"start is feasible with the objective {witness!r}; solve again with another solver"
            )
            status, bound = SolveStatus.ERROR, no_bound(model.maximise)
    return Final(status, x, incumbent, bound, violation, message)


def consistent_answer(
    status: SolveStatus,
    incumbent: float | None,
    bound: float | None,
    maximise: bool,
    message: str = "",
) -> tuple[SolveStatus, float | None, float, str]:
    """Return status, incumbent, a valid dual bound and the message, as they follow from numbers."""
    nothing = no_bound(maximise)
    if status is SolveStatus.INFEASIBLE:
        return status, None, -nothing, message  # the supremum over the empty set
    if status is SolveStatus.UNBOUNDED:
        return status, None, nothing, message
    unknown = bound is None or math.isnan(bound) or abs(bound) >= INFINITE
    if bound is None or unknown or status is SolveStatus.ERROR:
        bound = nothing
    elif incumbent is not None:
        # Due to tolerances the incumbent may exceed the bound, which is then widened.
        bound = max(bound, incumbent) if maximise else min(bound, incumbent)
    if status in (SolveStatus.OPTIMAL, SolveStatus.GAP):
        if incumbent is None:
            message = message or "the solver claims an optimum but returned no solution"
            return SolveStatus.ERROR, None, nothing, message
        closed = abs(incumbent - bound) <= EQUAL * max(1.0, abs(incumbent))
        status = SolveStatus.OPTIMAL if closed else SolveStatus.GAP
    return status, incumbent, bound, message


CONDITIONS = {
    SolveStatus.OPTIMAL: TerminationCondition.convergenceCriteriaSatisfied,
    SolveStatus.GAP: TerminationCondition.convergenceCriteriaSatisfied,
    SolveStatus.TIME_LIMIT: TerminationCondition.maxTimeLimit,
    SolveStatus.LIMIT: TerminationCondition.iterationLimit,
    SolveStatus.INFEASIBLE: TerminationCondition.provenInfeasible,
    SolveStatus.UNBOUNDED: TerminationCondition.unbounded,
    SolveStatus.INFEASIBLE_OR_UNBOUNDED: TerminationCondition.infeasibleOrUnbounded,
    SolveStatus.INTERRUPTED: TerminationCondition.interrupted,
    SolveStatus.LICENCE: TerminationCondition.licensingProblems,
    SolveStatus.SIZE_LIMIT: TerminationCondition.licensingProblems,
    SolveStatus.ERROR: TerminationCondition.error,
}
"""Pyomo's termination condition for each status."""


def status_of(condition: Any) -> SolveStatus:
    """Return the status for a `TerminationCondition` of other adapters."""
    if condition is TerminationCondition.objectiveLimit:
        return SolveStatus.LIMIT
    found = (status for status, known in CONDITIONS.items() if condition is known)
    return next(found, SolveStatus.ERROR)


def pyomo_solution_status(final: Final) -> Any:
    """Return Pyomo's `SolutionStatus`."""
    if final.x is None:
        return SolutionStatus.noSolution
    if final.status in (SolveStatus.OPTIMAL, SolveStatus.GAP):
        return SolutionStatus.optimal
    return SolutionStatus.feasible
