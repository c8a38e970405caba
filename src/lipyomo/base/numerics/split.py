"""Matrices split by sign, and ranges of affine maps that are safe against rounding.

Every range is widened by `lipyomo.base.numerics.rounding.gamma` times the sum of the absolute
products; this is zero where all terms are zero, so that a unit that only touches its kink stays
stable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, Matrix
from lipyomo.base.numerics.rounding import gamma

AnyMatrix: TypeAlias = "Matrix | sp.csc_array"


def apply_rows(matrix: AnyMatrix, rows: FloatArray) -> FloatArray:
    """Return ``matrix @ row`` for rows of shape (..., n_in), shape (..., n_out)."""
    flat = rows.reshape(-1, rows.shape[-1])
    if isinstance(matrix, np.ndarray):
        return np.asarray(flat @ matrix.T).reshape(*rows.shape[:-1], matrix.shape[0])
    return np.asarray((matrix @ flat.T).T).reshape(*rows.shape[:-1], matrix.shape[0])


def pull_back(rows: FloatArray, matrix: AnyMatrix) -> FloatArray:
    """Return ``rows @ matrix`` for functionals of shape (..., n_out), shape (..., n_in)."""
    flat = rows.reshape(-1, rows.shape[-1])
    return np.asarray(flat @ matrix).reshape(*rows.shape[:-1], matrix.shape[1])


@dataclass(frozen=True, eq=False)
class SplitMatrix:
    """A matrix with its positive and negative parts.

    Attributes
    ----------
    full, positive, negative : ndarray or sparse array, shape (n_out, n_in)
    terms : int
        Largest number of entries in a row.
    """

    full: AnyMatrix
    positive: AnyMatrix
    negative: AnyMatrix
    terms: int

    @classmethod
    def of(cls, matrix: AnyMatrix) -> SplitMatrix:
        """Split `matrix`."""
        if isinstance(matrix, np.ndarray):
            positive, negative = np.maximum(matrix, 0.0), np.minimum(matrix, 0.0)
            return cls(matrix, positive, negative, matrix.shape[1])
        longest = int(np.diff(matrix.tocsr().indptr).max(initial=0))
        return cls(matrix, matrix.maximum(0.0), matrix.minimum(0.0), longest)

    @cached_property
    def size(self) -> AnyMatrix:
        """Absolute values."""
        return abs(self.full)

    @cached_property
    def transposed(self) -> SplitMatrix:
        """The transpose."""
        full = self.full.T  # counting the entries of its rows would not pay off
        return SplitMatrix(full, self.positive.T, self.negative.T, full.shape[1])

    def range(
        self, lower: FloatArray, upper: FloatArray, bias: FloatArray | float = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """Enclose ``matrix @ h + bias`` over ``lower <= h <= upper``, safe against rounding.

        Parameters
        ----------
        lower, upper : ndarray, shape (..., n_in)
            May be infinite.
        bias : ndarray, shape (n_out,), optional

        Returns
        -------
        ndarray, ndarray, shapes (..., n_out)
        """
        ends: FloatArray = np.empty((4, *lower.shape))
        ends[0], ends[1] = lower, upper
        infinite = ~np.isfinite(ends[:2])
        unbounded = bool(infinite.any())
        if unbounded:
            ends[:2][infinite] = 0.0
        np.abs(ends[:2], out=ends[2:])
        up, down = apply_rows(self.positive, ends), apply_rows(self.negative, ends)
        size = np.abs(bias)
        error = gamma(self.terms)
        low = up[0] + down[1] + bias - error * (up[2] - down[3] + size)
        high = up[1] + down[0] + bias + error * (up[3] - down[2] + size)
        if unbounded:
            marks = infinite.astype(np.float64)
            up, down = apply_rows(self.positive, marks), apply_rows(self.negative, marks)
            low = np.where(up[0] - down[1] > 0, -np.inf, low)
            high = np.where(up[1] - down[0] > 0, np.inf, high)
        return low, high
