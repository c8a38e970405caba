"""Reductions: smaller networks that stand for a given one, each a value with the way back.

`merge.py` does what comes before any bound and rounds nothing: inputs that cannot move are frozen,
affine layers put together and multiples of a unit merged.  Its branches need phases
that follow from a domain, and round: `presolve.py` has those for bounds, whose error is known, and
those for primal heuristics.
"""
