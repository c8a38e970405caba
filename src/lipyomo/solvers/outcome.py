"""Normalised answers and results of solves.

Solvers differ in the sign of infinite bounds, in the gap left by "optimal", and in whether bound
and incumbent are consistent.  Here all of that is derived from the numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyomo.common.collections import ComponentMap
from pyomo.contrib.solver.common.results import SolutionStatus, TerminationCondition

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import SolverError
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.solvers.matrices import LinearModel
from lipyomo.solvers.status import INFINITE, SolveStatus
from lipyomo.solvers.supervise import RunReport

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


@dataclass(frozen=True, eq=False)
class SolveOutcome:
    """The result of a solve, with the same status and sign conventions for every solver.

    Parameters
    ----------
    status : SolveStatus
    incumbent : float or None
        Objective of the best solution, recomputed from the model's numbers; None without one.
    bound : float
        Dual bound in the model's sense: no feasible point is better (up to the solver's
        floating-point tolerances).  ``+inf`` (maximisation) or ``-inf`` (minimisation) if there is
        none; with the opposite sign if the model is infeasible.
    nodes : int
        Branch-and-bound nodes.
    seconds : float
        Wall-clock seconds of the solver, including the transfer of the model.
    log : str
        The solver's log.
    solver : str
        The registered name of the solver.
    version : str
    message : str
        Additional information, mostly on errors.
    violation : float
        Largest violation of a constraint, a bound or an integrality by the incumbent.
    notes : tuple of str
        Why other solvers were skipped.
    results : Results
        Pyomo's results.
    """

    status: SolveStatus
    incumbent: float | None
    bound: float
    nodes: int
    seconds: float
    log: str
    solver: str
    version: str
    message: str
    violation: float
    notes: tuple[str, ...]
    results: Any

    @property
    def gap(self) -> float:
        """``|incumbent - bound| / max(|incumbent|, 1e-10)``; infinite if one of them is missing."""
        if self.incumbent is None or not math.isfinite(self.bound):
            return math.inf
        return abs(self.incumbent - self.bound) / max(abs(self.incumbent), 1e-10)

    @property
    def solution(self) -> ComponentMap:
        """Values of the model's variables.

        Raises
        ------
        SolverError
            If there is no incumbent.
        """
        self._need_incumbent()
        return self.results.solution_loader.get_vars()

    def value(self, var: Any) -> float:
        """Return the value of one variable; of a fixed or unused one, its current value."""
        self._need_incumbent()
        return float(self.results.solution_loader.get_vars([var])[var])

    def load(self) -> None:
        """Write the incumbent into the model's variables (and its dual suffixes, if any)."""
        self._need_incumbent()
        self.results.solution_loader.load_solution()

    def _need_incumbent(self) -> None:
        if self.incumbent is None:
            raise SolverError(
                f"{self.solver} found no solution ({self.status.value}); "
                "ask for `outcome.incumbent` first, or allow more time"
            )


def outcome_of(
    results: Any, solver: str, maximise: bool, seconds: float, notes: tuple[str, ...] = ()
) -> SolveOutcome:
    """Convert Pyomo's `Results`, of the adapters of this package or any other one.

    Parameters
    ----------
    results : Results
    solver : str
        The registered name.
    maximise : bool
        The sense of the model.
    seconds : float
        Wall-clock seconds, used if the results have none.
    notes : tuple of str
    """
    extra, wall_time = results.extra_info, results.timing_info.wall_time
    if extra.get("status") is not None:
        status = extra.get("status").value()
        incumbent, bound = results.incumbent_objective, results.objective_bound
        nodes, message, violation = extra.nodes, extra.message, extra.violation
    else:
        status, nodes, violation = status_of(results.termination_condition), 0, math.nan
        incumbent, bound = results.incumbent_objective, results.objective_bound
        there = results.solution_loader is not None and results.solution_status.value > 0
        if status is SolveStatus.OPTIMAL and incumbent is None and there:
            # A model without an objective, for which any feasible point is optimal.
            incumbent = bound = 0.0
        answer = consistent_answer(status, incumbent, bound, maximise)
        status, incumbent, bound, message = answer
    return SolveOutcome(
        status=status,
        incumbent=incumbent,
        bound=bound,
        nodes=nodes,
        seconds=seconds if wall_time is None else wall_time,
        log=results.solver_log or "",
        solver=solver,
        version=".".join(str(part) for part in results.solver_version or ()),
        message=message,
        violation=violation,
        notes=notes,
        results=results,
    )
