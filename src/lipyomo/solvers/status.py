"""Status and progress of solves, common to all solvers."""

from __future__ import annotations

import enum
from collections.abc import Mapping
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
        return self in _PROVEN


_PROVEN = frozenset(
    {SolveStatus.OPTIMAL, SolveStatus.GAP, SolveStatus.INFEASIBLE, SolveStatus.UNBOUNDED}
)


def ended(solver: str, word: str, known: Mapping[str, SolveStatus]) -> tuple[SolveStatus, str]:
    """Convert a solver's own status, and return a message if it is an error.

    Unknown words that contain "limit" become `SolveStatus.LIMIT`, others are errors.
    """
    limited = SolveStatus.LIMIT if "limit" in word.lower() else SolveStatus.ERROR
    status = known.get(word, limited)
    return status, f"{solver} ended with {word}" if status is SolveStatus.ERROR else ""


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
