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
    bound = true_bound(status, report.bound, incumbent, model.maximise)

    witness = _start_objective(model, start)
    if witness is not None and _contradicts(model.maximise, status, bound, witness):
        status = SolveStatus.ERROR
        message = (
            f"the solver claims {report.status.value} with the bound {bound!r}, but the given "
            f"start is feasible with the objective {witness!r}; solve again with another solver"
        )
        bound = no_bound(model.maximise)
    elif status in (SolveStatus.OPTIMAL, SolveStatus.GAP):
        if incumbent is None:
            status = SolveStatus.ERROR
            message = message or "the solver claims an optimum but returned no solution"
            bound = no_bound(model.maximise)
        else:
            status = ending(incumbent, bound)
    if status is SolveStatus.UNBOUNDED:
        incumbent = None
    return Final(status, x, incumbent, bound, violation, message)


def ending(incumbent: float, bound: float) -> SolveStatus:
    """Return OPTIMAL if incumbent and bound agree up to `EQUAL`, otherwise GAP."""
    closed = abs(incumbent - bound) <= EQUAL * max(1.0, abs(incumbent))
    return SolveStatus.OPTIMAL if closed else SolveStatus.GAP


def true_bound(
    status: SolveStatus, bound: float | None, incumbent: float | None, maximise: bool
) -> float:
    """Return a valid dual bound in the model's sense."""
    nothing = no_bound(maximise)
    if status is SolveStatus.INFEASIBLE:
        # The supremum over the empty set.
        return -nothing
    if status in (SolveStatus.ERROR, SolveStatus.UNBOUNDED):
        return nothing
    if bound is None or math.isnan(bound) or abs(bound) >= INFINITE:
        return nothing
    if incumbent is not None:
        # Due to tolerances the incumbent may exceed the bound, which is then widened.
        bound = max(bound, incumbent) if maximise else min(bound, incumbent)
    return bound


def _start_objective(model: LinearModel, start: FloatArray | None) -> float | None:
    """Return the objective of the start if it is complete and feasible."""
    if start is None or np.isnan(start).any() or model.violation(start) > EQUAL:
        return None
    return model.objective(start)


def _contradicts(maximise: bool, status: SolveStatus, bound: float, witness: float) -> bool:
    """Return whether a feasible objective value lies clearly beyond the claimed bound."""
    if status is SolveStatus.ERROR:
        return False
    beyond = witness - bound if maximise else bound - witness
    return beyond > TOLERANCE * max(1.0, abs(witness))


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
