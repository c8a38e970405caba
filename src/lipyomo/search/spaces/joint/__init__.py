"""The search of piecewise-linear networks with few inputs, by bisecting boxes.

On wide domains most units are unstable, and semidefinite bounds close no nodes.  Bisecting boxes
decides many units at once.  Batches of boxes are bounded by back-substitution, for each direction
and functional that may still matter (`bound.py`).  Boxes whose bounds are not far above the
incumbent are handed over to the search over phases (`halve.py`); how far above it is adapted during
the search (`adaptive.py`).  Both kinds of nodes wait in one queue (`pipeline.py`).  Where the
search over phases seems better at the start, boxes are tried beside it from time to time, and
replace it once they are ahead (`trial.py`).
"""
