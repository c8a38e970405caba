"""What bands are made around: an activation times a number, plus its slope times another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray


class Sums(NamedTuple):
    """Functions ``F = A sigma + c sigma'``, each on an interval of its own; arrays of one shape.

    Attributes
    ----------
    A, c : ndarray
    low, high : ndarray
        Ends of the intervals, finite.
    slope : ndarray, optional
        What the slopes of bands are to be; those of chords if left out.
    """

    A: FloatArray
    c: FloatArray
    low: FloatArray
    high: FloatArray
    slope: FloatArray | None = None

    def of(self, value: FloatArray, slope: FloatArray) -> FloatArray:
        """F from sigma and sigma', or a derivative of it from two of theirs."""
        return self.A * value + self.c * slope

    @property
    def sizes(self) -> FloatArray:
        """The largest absolute values of the ends."""
        return np.maximum(np.abs(self.low), np.abs(self.high))
