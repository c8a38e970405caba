"""The numbers that mixed-integer models are tuned by."""

from __future__ import annotations

import math

from lipyomo.base.numerics.rounding import EQUAL, EXACT_TOLERANCE

SHARE = 0.2
"""Largest share of the time left for the first search, for cutting the domain, and for each half of
probing, since the rest is for models; and of what a solver took, for the check of its claim."""
SECONDS = 20.0
"""Most time of the search, and of each half of probing, where there is much or no limit."""
ENOUGH_UNITS = 8
"""Cells with no more unstable units are solved as they are: a solver is done sooner than bounds."""
QUICK_NODES = 100
"""Nodes for each unstable unit that a first model may take.  Trained networks of 20 to 60 units
mostly need one to eighty; one that needs more has lost some seconds."""
INTEGRALITY = EQUAL
"""How far from an integer a switch may be: with ranges near 1, a big-M row gives way as much."""

SMALLEST = 1e-5
"""Smallest range of an input or a unit, relative to ranges near 1, that tolerances of 1e-9 are
trusted with; what is smaller relative to the terms that it sums is not brought near 1."""
LARGEST = 1.0 / SMALLEST
"""Largest coefficient, relative to ranges near 1, that these are trusted with."""
ORDINARY = math.sqrt(LARGEST)
"""Boxes that reach about as far as this, or its inverse, are measured as they are."""

# An answer is exact within `EXACT_TOLERANCE`: half of that is the solver's, the rest is room.

DOUBT = EXACT_TOLERANCE
"""By how much a solver's claim may be off, relatively: optima without duals are widened by it; an
attained value further above a bound refutes the solver."""
TARGET_GAP = 0.5 * EXACT_TOLERANCE
"""Relative gap asked of the solver when the exact constant is wanted."""
SAFETY = 0.2 * EXACT_TOLERANCE
"""Relative widening of a solver's dual bound, for its feasibility tolerances."""
ENOUGH_GAP = TARGET_GAP + 2.0 * SAFETY
"""Relative gap at which a cell is left alone; within what counts as exact."""
CUTOFF_SLACK = 0.1 * EXACT_TOLERANCE
"""Relative distance by which the cut-off stays below the value that was attained."""
