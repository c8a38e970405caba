"""The numbers of the methods, in one place; what papers fix is an option of its method."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Params:
    """What each number trades.

    Attributes
    ----------
    free_share : float
        Of the time, for whether inputs of infinite weight move the output.
    free_gap : float
        At which that search stops: any witness will do.
    most_bytes : int
        Predicted memory from which a network is bounded and searched locally, but not branched on.
    most_terms : float
        Terms of a Pyomo model; larger ones take several gigabytes.
    most_products : int
        Rows of LipOpt's linear program; larger ones take minutes to write down.
    most_multipliers : int
        Of one of Shor's programs, whose dense system then takes about 8 GB.
    exact_units : int
        Open units of a layer for which SeqLip enumerates all slopes: each doubles the time.
    singular_order : int
        Rows or columns up to which singular values are computed, which cannot be interrupted.
    conic_order : int
        Largest matrix that conic solvers get when time is limited; they need hours for larger ones.
    quick_order : int
        Largest matrix that they get in this process, where nothing interrupts them.
    quick_seconds : float
        Likewise, the longest predicted iteration of the own interior-point method.
    slice : float
        Multiplications between two looks at the clock.
    forms_share : float
        Of the time left, for semidefinite bounds of a network that is too large to branch: the rest
        is for the local search.
    tries : int
        Points that are tried for a witness, the best first.
    tolerance : float
        Of LipSDP's descent: a bound for its own sake is worth more steps than one of many nodes.
    """

    free_share: float = 0.5
    free_gap: float = 0.999
    most_bytes: int = 1 << 31
    most_terms: float = 1e7
    most_products: int = 150_000
    most_multipliers: int = 12_000
    exact_units: int = 14
    singular_order: int = 2000
    conic_order: int = 160
    quick_order: int = 60
    quick_seconds: float = 0.02
    slice: float = 2e8
    forms_share: float = 0.8
    tries: int = 16
    tolerance: float = 1e-7


PARAMS = Params()
