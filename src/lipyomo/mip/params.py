"""Tuning parameters of the mixed-integer models."""

from __future__ import annotations

import math

from lipyomo.base.numerics.rounding import EQUAL, EXACT_TOLERANCE

SHARE = 0.2
"""Largest share of the time left for the first search, for partitioning the domain, and for
probing, since the rest is for models; also the time for checking a solver's claim, as a share of
the solver's time."""
SECONDS = 20.0
"""Time limit of the search, and of probing, if that of the run is large."""
ENOUGH_UNITS = 8
"""Cells with no more unstable units are neither bisected nor probed: a solver is faster."""
QUICK_NODES = 100
"""Node limit of the first model per unstable unit.  Trained networks of 20 to 60 units mostly need
one to eighty; with more, some seconds are lost."""
INTEGRALITY = EQUAL
"""Integrality tolerance of switches; with ranges near 1, it relaxes big-M rows by as much."""

SMALLEST = 1e-5
"""Smallest range of an input or a unit, relative to ranges near 1, for which tolerances of 1e-9 are
trusted; pre-activations that are smaller relative to their terms are not scaled to 1."""
LARGEST = 1.0 / SMALLEST
"""Largest coefficient, relative to ranges near 1, for which such tolerances are trusted."""
ORDINARY = math.sqrt(LARGEST)
"""Inputs are not scaled if the box's largest bound is between the inverse of this and this."""

# An answer is exact within `EXACT_TOLERANCE`: half of that is for the solver, the rest is margin.

DOUBT = EXACT_TOLERANCE
"""Largest relative error of a solver's claim: optima without duals are widened by it, and an
attained value that exceeds a bound by more refutes the solver."""
TARGET_GAP = 0.5 * EXACT_TOLERANCE
"""Relative gap requested from the solver if the exact constant is wanted."""
SAFETY = 0.2 * EXACT_TOLERANCE
"""Relative widening of a solver's dual bound, for its feasibility tolerances."""
ENOUGH_GAP = TARGET_GAP + 2.0 * SAFETY
"""Relative gap at which a cell is not solved further; less than `EXACT_TOLERANCE`."""
CUTOFF_SLACK = 0.1 * EXACT_TOLERANCE
"""Relative distance of the cutoff below the attained value."""
