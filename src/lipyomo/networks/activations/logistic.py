"""The logistic function and its mirror image, from which several activations are made.

``p = 1 / (1 + exp(-y))`` and ``q = 1 - p``, both from e = exp(-|y|) <= 1, so that neither loses its
relative precision: e is off by 8 u, ``1 / (1 + e)`` by 10 u, ``e / (1 + e)`` by 19 u.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations.elementary import exp


def logistic(y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P and q at `y`; relative errors below 20 u."""
    e = exp(-np.abs(y))
    large = 1.0 / (1.0 + e)
    small = e * large
    right = y >= 0.0
    return np.where(right, large, small), np.where(right, small, large)
