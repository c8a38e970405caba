"""What a solve can end in, and what a running solve reports: the words that all solvers share."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

INFINITE = 1e20
"""From here on solvers mean infinity."""


class SolveStatus(enum.Enum):
    """How a solve ended.

    The words mean the same for every solver; `SolveOutcome` holds the numbers.
    """

    OPTIMAL = "optimal"
    """Incumbent and dual bound agree to 1e-9 (relative or absolute): nothing is left to prove."""
    GAP = "gap reached"
    """The requested `rel_gap` or `abs_gap` was reached, but incumbent and bound still differ."""
    TIME_LIMIT = "time limit"
    LIMIT = "other limit"
    """A limit set through a native option: nodes, solutions, iterations, memory, cut-off."""
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    INFEASIBLE_OR_UNBOUNDED = "infeasible or unbounded"
    """The solver ran out of time before it could tell which of the two."""
    INTERRUPTED = "interrupted"
    """Ctrl-C, or the caller's stop event; incumbent and bound are those reached by then."""
    LICENCE = "licence missing"
    SIZE_LIMIT = "size limit of the free licence"
    ERROR = "solver error"
    """The solver crashed, refused the model, or contradicted itself: trust nothing of it."""

    @property
    def proven(self) -> bool:
        """Whether the solver did all that it was asked to prove."""
        return self in _PROVEN


_PROVEN = frozenset(
    {SolveStatus.OPTIMAL, SolveStatus.GAP, SolveStatus.INFEASIBLE, SolveStatus.UNBOUNDED}
)


def ended(solver: str, word: str, known: Mapping[str, SolveStatus]) -> tuple[SolveStatus, str]:
    """What a solver's own word for its ending means, and a message if that is an error.

    Words that are not known stand for a limit if they say so.
    """
    limited = SolveStatus.LIMIT if "limit" in word.lower() else SolveStatus.ERROR
    status = known.get(word, limited)
    return status, f"{solver} ended with {word}" if status is SolveStatus.ERROR else ""


@dataclass(frozen=True)
class Progress:
    """One live report of a running solve.

    Parameters
    ----------
    incumbent : float or None
        Objective of the best solution so far, in the model's sense.
    bound : float
        Dual bound so far, in the model's sense; infinite while there is none.
    nodes : int
        Branch-and-bound nodes so far.
    seconds : float
        Wall-clock seconds since the solver was started.
    """

    incumbent: float | None
    bound: float
    nodes: int
    seconds: float
