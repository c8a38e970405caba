"""Status and progress of solves, common to all solvers."""

from __future__ import annotations

import enum
from dataclasses import dataclass

INFINITE = 1e20
"""Solvers treat larger numbers as infinite."""


class SolveStatus(enum.Enum):
    """The status of a solve, with the same meaning for every solver."""

    OPTIMAL = "optimal"
    """Incumbent and dual bound agree to 1e-9 (relative or absolute)."""
    GAP = "gap reached"
    """The requested `rel_gap` or `abs_gap` was reached, but incumbent and bound still differ."""
    TIME_LIMIT = "time limit"
    LIMIT = "other limit"
    """Another limit: nodes, solutions, iterations, memory, cutoff."""
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    INFEASIBLE_OR_UNBOUNDED = "infeasible or unbounded"
    """The solver could not tell which of the two."""
    INTERRUPTED = "interrupted"
    """Ctrl-C, or the caller's stop event; incumbent and bound are the latest ones."""
    LICENCE = "licence missing"
    SIZE_LIMIT = "size limit of the free licence"
    ERROR = "solver error"
    """The solver crashed, refused the model, or contradicted itself: no result can be trusted."""

    @property
    def proven(self) -> bool:
        """Whether the solver has completed the requested proof."""
        ends = SolveStatus.OPTIMAL, SolveStatus.GAP, SolveStatus.INFEASIBLE, SolveStatus.UNBOUNDED
        return self in ends


_WORDS = {
    SolveStatus.OPTIMAL: "optimal optimaltolerance modelempty gaplimit",
    SolveStatus.INFEASIBLE: "infeasible",
    SolveStatus.UNBOUNDED: "unbounded",
    SolveStatus.INFEASIBLE_OR_UNBOUNDED: "inforunbd infeasibleorunbounded unboundedorinfeasible",
    SolveStatus.TIME_LIMIT: "timelimit aborttimelimit timelimitfeasible timelimitinfeasible",
    SolveStatus.INTERRUPTED: "interrupt interrupted highsinterrupt userinterrupt terminate "
    "abortuser abortfeasible abortinfeasible",
    SolveStatus.LIMIT: "objectivebound objectivetarget cutoff",
}
"""The solvers' own names of statuses: ``kTimeLimit``, ``TIME_LIMIT``, ``MIP_time_limit_feasible``,
in small letters without their prefixes."""


def ended(solver: str, name: str) -> tuple[SolveStatus, str]:
    """Convert a solver's own name of a status, and return a message if it is an error.

    Unknown names that contain "limit" become `SolveStatus.LIMIT`, others are errors.
    """
    word = name.removeprefix("k").removeprefix("MIP").replace("_", "").lower()
    limited = SolveStatus.LIMIT if "limit" in word else SolveStatus.ERROR
    found = (status for status, words in _WORDS.items() if word in words.split())
    status = next(found, limited)
    return status, f"{solver} ended with {name}" if status is SolveStatus.ERROR else ""


@dataclass(frozen=True)
class SolveProgress:
    """A progress report of a running solve.

    Parameters
    ----------
    incumbent : float or None
        Objective of the best solution so far, in the model's sense.
    bound : float
        Dual bound so far, in the model's sense; infinite while there is none.
    nodes : int
        Branch-and-bound nodes so far.
    seconds : float
        Wall-clock seconds since the start of the solve.
    """

    incumbent: float | None
    bound: float
    nodes: int
    seconds: float
