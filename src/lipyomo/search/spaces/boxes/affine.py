"""Affine functions of (x, v) on boxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.search.spaces.boxes.inputs import times


@dataclass(frozen=True, eq=False)
class Affine:
    """Functions ``x . X + v . V + c +- r`` of (x, v) in boxes; V is None where v does not matter.

    Attributes
    ----------
    x, v : ndarray, shape (N or 1, n, d)
    constant, radius : ndarray, shape (N, n)
    """

    x: FloatArray
    v: FloatArray | None
    constant: FloatArray
    radius: FloatArray

    def take(self, which: IntArray | slice) -> Affine:
        """Some of the functions."""
        v = None if self.v is None else self.v[:, which]
        return Affine(self.x[:, which], v, self.constant[:, which], self.radius[:, which])


def at(affine: Affine, x: FloatArray, v: FloatArray) -> FloatArray:
    """Affine functions at points (N, d) and directions (N, d), shape (N, n)."""
    found = affine.constant + times(affine.x, x)
    return found if affine.v is None else found + times(affine.v, v)


def centred(low: FloatArray, high: FloatArray, unit: float) -> tuple[FloatArray, FloatArray]:
    """``middle +- radius`` around [low, high]."""
    middle = 0.5 * (low + high)
    radius = np.maximum(high - middle, middle - low)
    return middle, np.maximum(radius, 0.0) * (1.0 + unit)
