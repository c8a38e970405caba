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
    scores : ndarray, shape (N, d)
        The input with the largest one is to be halved.
    fall : ndarray, shape (N,)
        What halving has lowered the bound by of late, in logarithms; infinite where unknown.
    """

    low: FloatArray
    high: FloatArray
    pairs: FloatArray
    scores: FloatArray
    fall: FloatArray

    @property
    def bounds(self) -> FloatArray:
        """Upper bounds, shape (N,)."""
        return np.asarray(self.pairs.max(axis=(1, 2)))

    def halves(self) -> tuple[Boxes, BoolArray]:
        """The halves of the boxes that can be halved, lower ones first; and which these are.

        An input that is halved is worth half of what it was, until halves are bounded.
        """
        axis, scores = self.scores.argmax(axis=1), self.scores.copy()
        scores[np.arange(len(self)), axis] *= 0.5
        return halves(replace(self, scores=scores), axis)

    def are_far(self, cutoff: float, count: float) -> BoolArray:
        """Which boxes are to be halved more than so many times until their bound is the cutoff."""
        if not cutoff > 0.0:
            return np.zeros(len(self), dtype=bool)
        above = np.log(np.maximum(self.bounds / cutoff, 1.0))
        return np.asarray(np.isfinite(above) & (above > count * self.fall))

    def fallen(self, before: Boxes, times: IntArray) -> Boxes:
        """With what is known of parts after their bounds, which were those of `before`.

        Parameters
        ----------
        before : Boxes
        times : ndarray of int, shape (N,)
            How often they were halved since.
        """
        above, now = before.bounds, self.bounds
        known = np.isfinite(above) & (now > 0.0) & (above > 0.0)
        with np.errstate(over="ignore"):  # a bound near nothing: as much as is not known
            ratio = np.where(known, above, 1.0) / np.where(known, now, 1.0)
        fall = np.where(known, np.log(np.maximum(ratio, 1.0)) / times, np.inf)
        old = np.where(np.isfinite(before.fall), before.fall, fall)
        return replace(self, fall=0.5 * (old + fall))
