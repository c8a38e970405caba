"""Reductions: smaller networks equivalent to a given one, with maps back to its points and units.

`merge.py` has the exact reductions before any bound: frozen inputs are eliminated, affine layers
fused and units that are multiples of each other merged.  `presolve.py` has reductions by phases
that follow from a domain, which round: those for bounds, with known errors, and those for primal
heuristics.
"""
