"""Relaxation of the layers on boxes: affine bounds of values and tangents, ranges of Jacobians.

`relax.py` goes through the layers; the other files have the kinds of units, products and rows.
"""
