"""Exact membership in the dual ball of an output norm."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from lipyomo.network import FloatArray
from lipyomo.norms import CrossOutput, L1Output, L2Output, LinfOutput, OutputNorm


def in_dual_ball(norm: OutputNorm, functional: FloatArray) -> bool | None:
    """Whether a functional y has dual norm at most one, without rounding.

    Parameters
    ----------
    norm : OutputNorm
    functional : ndarray, shape (m,)

    Returns
    -------
    bool or None
        None where only vertices are recognised (cross(i), norms of the user) and y is not one.

    Notes
    -----
    The dual ball of the cross norm, conv{+-e_i, e_i - e_j}, is where the positive entries sum to
    at most one and the negative ones to at least minus one.  A Euclidean functional may be longer
    than one by rounding: its gradient is divided by its exact length.
    """
    y = [Fraction(float(entry)) for entry in functional]
    if isinstance(norm, L2Output):
        return sum((entry * entry for entry in y), Fraction(0)) <= 1 + Fraction(1, 1 << 40)
    if isinstance(norm, L1Output):
        return all(abs(entry) <= 1 for entry in y)
    if isinstance(norm, LinfOutput):
        return sum(map(abs, y), Fraction(0)) <= 1
    if isinstance(norm, CrossOutput) and norm.label is None:
        up = sum((entry for entry in y if entry > 0), Fraction(0))
        down = sum((entry for entry in y if entry < 0), Fraction(0))
        return up <= 1 and down >= -1
    vertices = norm.vertices(functional.size)
    if vertices is None or not functional.any():
        return None if functional.any() else True
    known = np.vstack([vertices, -vertices])
    return True if bool((known == functional).all(axis=1).any()) else None
