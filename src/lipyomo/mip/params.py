"""The numbers that mixed-integer models are tuned by."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.base.tolerances import EXACT_TOLERANCE


@dataclass(frozen=True)
class Params:
    """What the numbers of this room trade.

    Attributes
    ----------
    share : float
        Largest share of the time left for the first search, for cutting the domain, and for each
        half of probing, since the rest is for models; and of what a solver took, for
        the check of its claim.
    seconds : float
        Most time of the search, and of each half of probing, where there is much or no limit.
    enough_units : int
        Cells with no more undecided units are solved as they are, and get no semidefinite bounds: a
        solver is done sooner.
    integrality : float
        How far from an integer a switch may be: with ranges near 1, a big-M row gives way as much.
    smallest : float
        Smallest range of an input or a unit, relative to ranges near 1, that tolerances of 1e-9 are
        trusted with; what is smaller relative to the terms that it sums is not brought near 1.
    """

    share: float = 0.2
    seconds: float = 20.0
    enough_units: int = 8
    integrality: float = EQUAL
    smallest: float = 1e-5

    @property
    def largest(self) -> float:
        """Largest coefficient, relative to ranges near 1, that these are trusted with."""
        return 1.0 / self.smallest

    @property
    def ordinary(self) -> float:
        """Boxes that reach about as far as this, or its inverse, are measured as they are."""
        return math.sqrt(self.largest)

    # An answer is exact within `EXACT_TOLERANCE`: half of that is the solver's, the rest is room.

    @property
    def doubt(self) -> float:
        """By how much a solver's word may be off, relatively.

        Optima without duals are widened by it; an attained value further above a bound refutes the
        solver.
        """
        return EXACT_TOLERANCE

    @property
    def target_gap(self) -> float:
        """Relative gap asked of the solver when the exact constant is wanted."""
        return 0.5 * EXACT_TOLERANCE

    @property
    def safety(self) -> float:
        """Relative widening of a solver's dual bound, for its feasibility tolerances."""
        return 0.2 * EXACT_TOLERANCE

    @property
    def enough_gap(self) -> float:
        """Relative gap at which a cell is left alone; within what counts as exact."""
        return self.target_gap + 2.0 * self.safety

    @property
    def cutoff_slack(self) -> float:
        """Relative distance by which the cut-off stays below the value that was attained."""
        return 0.1 * EXACT_TOLERANCE


PARAMS = Params()
