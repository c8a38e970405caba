"""Normalised results of solves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pyomo.common.collections import ComponentMap

from lipyomo.base.errors import SolverError
from lipyomo.solvers.normalise import consistent_answer, status_of
from lipyomo.solvers.status import SolveStatus


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
        status, incumbent, bound, message = _of_foreign(results, maximise)
        nodes, violation = 0, math.nan
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


def _of_foreign(results: Any, maximise: bool) -> tuple[SolveStatus, float | None, float, str]:
    """Return status, incumbent, bound and message of results of other adapters."""
    status = status_of(results.termination_condition)
    incumbent, bound = results.incumbent_objective, results.objective_bound
    there = results.solution_loader is not None and results.solution_status.value > 0
    if status is SolveStatus.OPTIMAL and incumbent is None and there:
        # A model without an objective, for which any feasible point is optimal.
        incumbent = bound = 0.0
    return consistent_answer(status, incumbent, bound, maximise)
