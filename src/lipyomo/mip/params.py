"""The numbers that mixed-integer models are tuned by."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lipyomo.result import EXACT_TOLERANCE


@dataclass(frozen=True)
class Params:
    """What the numbers of this room trade.

    Attributes
    ----------
    bounds_share : float
        Largest share of the time left for bounds of the whole domain: the rest is for models.
    few_units, few_evaluations : int
        Points of the first search where no more units than that are undecided: half as many find
        the same values on two thirds of small networks, a whole search takes longer than the model.
    preparation_share : float
        Largest share of the time left for the first search, and of the time limit for cutting the
        domain.
    incumbent_seconds : float
        Most time of the first search.
    enough_units : int
        Cells with no more undecided units are solved as they are, and get no semidefinite bounds: a
        solver is done sooner.
    most_cells : int
        Most open cells: each is a model of its own.
    tried_inputs : int
        Inputs along which a cut is tried, those with the largest influence first.
    split_functionals : int
        Most vertices of the dual ball that get a cell each: tighter models, but more of them.
    bounded_functionals : int
        Most vertices of the dual ball that get a bound each.
    wide_polytope : int
        Most inputs of a polytope that is halved: each half takes linear programs to bound its box.
    semidefinite_targets : int
        With more targets a cell gets no semidefinite bound: branch and bound shares work between
        targets, this room does not.
    probing_share, probing_seconds : float
        Most time of each half of probing.
    integrality : float
        How far from an integer a switch may be: with ranges near 1, a big-M row gives way as much.
    check_share, check_seconds : float
        Most time for the check of a solver's claim: a share of what the solver took, and seconds.
    largest : float
        Largest coefficient, relative to ranges near 1, that tolerances of 1e-9 are trusted with.
    smallest : float
        Smallest range of an input or a unit, relative to ranges near 1, that they are trusted with;
        what is smaller relative to the terms that it sums is not brought near 1.
    """

    bounds_share: float = 0.5
    few_units: int = 64
    few_evaluations: int = 16_000
    preparation_share: float = 0.2
    incumbent_seconds: float = 5.0
    enough_units: int = 8
    most_cells: int = 512
    tried_inputs: int = 4
    split_functionals: int = 64
    bounded_functionals: int = 256
    wide_polytope: int = 16
    semidefinite_targets: int = 8
    probing_share: float = 0.1
    probing_seconds: float = 20.0
    integrality: float = 1e-9
    check_share: float = 0.2
    check_seconds: float = 0.5
    largest: float = 1e6
    smallest: float = 1e-5

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
