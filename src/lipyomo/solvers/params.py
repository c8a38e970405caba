"""The numbers of this room, in one place; what solvers themselves fix is with their adapters."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.numerics.rounding import EQUAL


@dataclass(frozen=True)
class Params:
    """What each number trades.

    Attributes
    ----------
    tolerance : float
        What a solver's tolerances may make of equal numbers: a switch that is nearly an integer is
        one; a claim that a feasible point refutes by more is wrong.
    gross : float
        A point that violates the model by more is no solution, whatever a solver tolerates.
    increment : float
        By how much CBC's next solution must be better than the last; its own 1e-4 loses optima.
    most_terms : int
        Terms of a model whose steps all end within about a second: HiGHS solves larger ones in a
        process of their own.
    """

    tolerance: float = 1e-5
    gross: float = 1e-3
    increment: float = EQUAL
    most_terms: int = 250_000


PARAMS = Params()
