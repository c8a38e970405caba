"""The numbers of reductions."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.numerics.rounding import EQUAL


@dataclass(frozen=True)
class Params:
    """What the numbers trade.

    Attributes
    ----------
    least_units : int
        Networks with fewer units are not presolved: they are small enough as they are.
    presolved : float
        Largest share of the weights that is left where a presolved network, whose weights round, is
        worth having.
    thinned : float
        Largest share of a pass's work that is left where units are multiplied through for primal
        heuristics.
    largest_share : float
        Of one unit in another that it is merged with: numbers of a network with a kink of 5e-324
        would overflow.
    """

    least_units: int = 200
    presolved: float = 0.34
    thinned: float = 0.7
    largest_share: float = 1.0 / EQUAL


PARAMS = Params()
