"""Boxes with bounds of pairs of a functional and a direction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.search.spaces.bundle import Bundle, joined


@dataclass(frozen=True, eq=False)
class Boxes(Bundle):
    """Boxes with upper bounds of what is to be maximised on them.

    Attributes
    ----------
    low, high : ndarray, shape (N, d)
        Ends of the inputs.
    pairs : ndarray, shape (N, k, q)
        Bounds for each functional and each direction; minus infinity where a box is empty.
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

    @property
    def nbytes(self) -> int:
        """What they take."""
        return sum(int(array.nbytes) for array in self.encode().values())

    def halves(self) -> tuple[Boxes, BoolArray]:
        """The halves of the boxes that can be halved, lower ones first; and which these are."""
        number = np.arange(len(self))
        middle = self.middle[number, self.axis]
        can = (middle > self.low[number, self.axis]) & (middle < self.high[number, self.axis])
        boxes, middle = self.take(can), middle[can]
        at = np.arange(len(boxes)), boxes.axis
        low, high = boxes.low.copy(), boxes.high.copy()
        low[at], high[at] = middle, middle
        below = Boxes(boxes.low, high, boxes.pairs, boxes.axis)
        return joined([below, Boxes(low, boxes.high, boxes.pairs, boxes.axis)]), can
