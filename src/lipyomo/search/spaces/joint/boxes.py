"""Boxes with bounds of pairs of a functional and a direction."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    fall : ndarray, shape (N,)
        What halving has lowered the bound by of late, in logarithms; infinite where unknown.
    """

    low: FloatArray
    high: FloatArray
    pairs: FloatArray
    axis: IntArray
    fall: FloatArray

    @property
    def bounds(self) -> FloatArray:
        """Upper bounds, shape (N,)."""
        return np.asarray(self.pairs.max(axis=(1, 2)))

    def halves(self) -> tuple[Boxes, BoolArray]:
        """The halves of the boxes that can be halved, lower ones first; and which these are."""
        return halves(self, self.axis)

    def fallen(self, before: Boxes) -> Boxes:
        """With what is known of halves after their bounds, which were those of `before`."""
        above, now = before.bounds, self.bounds
        known = np.isfinite(above) & (now > 0.0) & (above > 0.0)
        ratio = np.where(known, above, 1.0) / np.where(known, now, 1.0)
        fall = np.where(known, np.log(np.maximum(ratio, 1.0)), np.inf)
        old = np.where(np.isfinite(before.fall), before.fall, fall)
        return replace(self, fall=0.5 * (old + fall))
