"""Boxes with bounds of pairs of a functional and a direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.search.spaces.bundle import Bundle, halves


@dataclass(frozen=True, eq=False)
class Boxes(Bundle):
    """Boxes with upper bounds of what is to be maximised on them.

    Attributes
    ----------
    low, high : ndarray, shape (N, d)
        Ends of the inputs.
    pairs : ndarray, shape (N, k, q)
        Bounds for each functional and each direction; minus infinity where a box is empty.  A
        Euclidean ball counts as one.
    axis : ndarray of int, shape (N,)
        The input that is to be halved.
    """

    low: FloatArray
    high: FloatArray
    pairs: FloatArray
    axis: IntArray

    @property
    def bounds(self) -> FloatArray:
        """Upper bounds, shape (N,)."""
        return np.asarray(self.pairs.max(axis=(1, 2)))

    def halves(self) -> tuple[Boxes, BoolArray]:
        """The halves of the boxes that can be halved, lower ones first; and which these are."""
        return halves(self, self.axis)
