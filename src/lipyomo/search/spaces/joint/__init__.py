"""The search of piecewise-linear networks with few inputs: boxes, handed over as nodes of phases.

On wide domains most units are open, and semidefinite bounds close nothing.  Halving boxes decides
units by the dozen; batches of boxes are bounded by back-substitution, for each direction and
functional that may still matter (`bound.py`).  Boxes whose bounds are not far above the incumbent
are closed by semidefinite bounds (`close.py`), or handed over to the search of phases
(`handover.py`); how far that leads is learnt (`reach.py`).  Both kinds of nodes wait in one queue
(`pipeline.py`).  Where the search of phases seems the better one to begin with, boxes go on beside
it now and then, and take over once they are ahead (`trial.py`).
"""
