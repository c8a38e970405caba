"""Affine and quadratic upper bounds of the objective over relaxed layers, and their maxima.

`collapse.py` propagates the objective backwards, `rows_over_roots.py` bounds some networks in one
step, and `confine.py` maximises affine bounds over boxes and half-spaces.
"""
