"""The search of piecewise-linear networks with few inputs: boxes, handed over as nodes of phases.

On wide domains most units are open, and semidefinite bounds close nothing.  Halving boxes decides
units by the dozen; batches of boxes are bounded by back-substitution, for each direction and
functional that may still matter (`bound.py`).  Boxes whose bounds are not far above the incumbent
are handed over to the search of phases (`handover.py`); both kinds of nodes wait in one queue
(`pipeline.py`).
"""
