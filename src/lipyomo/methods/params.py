"""The numbers of the methods, in one place; what papers fix is an option of its method."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.problems.problem import LOOKS


@dataclass(frozen=True)
class Params:
    """What each number trades.

    Attributes
    ----------
    most_terms : float
        Terms of a Pyomo model; larger ones take several gigabytes.
    most_products : int
        Rows of LipOpt's linear program; larger ones take minutes to write down.
    exact_units : int
        Open units of a layer for which SeqLip enumerates all slopes: each doubles the time.
    singular_order : int
        Rows or columns up to which singular values are computed, which cannot be interrupted.
    conic_order : int
        Largest matrix that conic solvers get when time is limited; they need hours for larger ones.
    quick_order : int
        Largest matrix that they get in this process, where nothing interrupts them.
    tries : int
        Points that are tried for a witness, the best first.
    """

    most_terms: float = 1e7
    most_products: int = 150_000
    exact_units: int = 14
    singular_order: int = 2000
    conic_order: int = 160
    quick_order: int = 60
    tries: int = LOOKS


PARAMS = Params()
