"""Weights split by sign, with ranges of affine maps that hold in floating-point arithmetic.

Every range below is widened by `lipyomo.numerics.rounding.gamma` times the sum of the absolute
products: where all terms are zero the widening is zero as well, so that a unit which only touches
its kink stays decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from lipyomo.network import FloatArray, Layer, Matrix
from lipyomo.numerics.rounding import UNIT, gamma

Part: TypeAlias = "Matrix | sp.csc_array"


def apply_rows(matrix: Part, rows: FloatArray) -> FloatArray:
    """``matrix @ row`` for rows of shape (..., n_in), giving (..., n_out)."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(rows @ matrix.T)
    flat = rows.reshape(-1, rows.shape[-1])
    return np.asarray((matrix @ flat.T).T).reshape(*rows.shape[:-1], matrix.shape[0])


def pull_back(rows: FloatArray, matrix: Part) -> FloatArray:
    """``rows @ matrix`` for functionals of shape (..., n_out), giving (..., n_in)."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(rows @ matrix)
    flat = rows.reshape(-1, rows.shape[-1])
    return np.asarray(flat @ matrix).reshape(*rows.shape[:-1], matrix.shape[1])


@dataclass(frozen=True)
class Range:
    """A range of an affine map.

    Attributes
    ----------
    lower, upper : ndarray, shape (..., n_out)
        Safe against rounding.
    reach : ndarray, shape (..., n_out)
        At least the sum of the absolute terms, over all points of the argument's range.
    """

    lower: FloatArray
    upper: FloatArray
    reach: FloatArray


@dataclass(frozen=True, eq=False)
class SplitMatrix:
    """A matrix with its positive and negative part.

    Attributes
    ----------
    full, positive, negative : ndarray or sparse array, shape (n_out, n_in)
    terms : int
        Most entries that a row adds up.
    """

    full: Part
    positive: Part
    negative: Part
    terms: int

    @classmethod
    def of(cls, matrix: Part) -> SplitMatrix:
        """Split `matrix`."""
        if isinstance(matrix, np.ndarray):
            positive, negative = np.maximum(matrix, 0.0), np.minimum(matrix, 0.0)
            return cls(matrix, positive, negative, matrix.shape[1])
        longest = int(np.diff(matrix.tocsr().indptr).max(initial=0))
        return cls(matrix, matrix.maximum(0.0), matrix.minimum(0.0), longest)

    @cached_property
    def transposed(self) -> SplitMatrix:
        """The transpose."""
        full = self.full.T
        longest = full.shape[1]
        if not isinstance(full, np.ndarray):
            longest = int(np.diff(full.tocsr().indptr).max(initial=0))
        return SplitMatrix(full, self.positive.T, self.negative.T, longest)

    def range(self, lower: FloatArray, upper: FloatArray, bias: FloatArray | float = 0.0) -> Range:
        """Range of ``matrix @ h + bias`` over ``lower <= h <= upper``.

        Parameters
        ----------
        lower, upper : ndarray, shape (B, n_in)
            May be infinite.
        bias : ndarray, shape (n_out,), optional
        """
        ends = np.stack([lower, upper])
        infinite = ~np.isfinite(ends)
        unbounded = bool(infinite.any())
        if unbounded:
            ends = np.where(infinite, 0.0, ends)
        stacked = np.concatenate([ends, np.abs(ends)])
        up, down = apply_rows(self.positive, stacked), apply_rows(self.negative, stacked)
        size = np.abs(bias)
        low_size = up[2] - down[3] + size
        high_size = up[3] - down[2] + size
        error = gamma(self.terms)
        low = up[0] + down[1] + bias - error * low_size
        high = up[1] + down[0] + bias + error * high_size
        reach = low_size + high_size
        if unbounded:
            marks = infinite.astype(np.float64)
            up, down = apply_rows(self.positive, marks), apply_rows(self.negative, marks)
            to_low, to_high = up[0] - down[1] > 0, up[1] - down[0] > 0
            low = np.where(to_low, -np.inf, low)
            high = np.where(to_high, np.inf, high)
            reach = np.where(to_low | to_high, np.inf, reach)
        return Range(low, high, reach)


@dataclass(frozen=True, eq=False)
class LayerParts:
    """What the bounds need of a layer again and again.

    Attributes
    ----------
    split : SplitMatrix
    bias_size : ndarray, shape (units,)
    rounding : ndarray, shape (units,)
        Relative error of multiplying with a slope; zero where all slopes are 0, 1 or -1.
    """

    split: SplitMatrix
    bias_size: FloatArray
    rounding: FloatArray


_PARTS: WeakKeyDictionary[Layer, LayerParts] = WeakKeyDictionary()


def parts_of(layer: Layer) -> LayerParts:
    """The (remembered) parts of `layer`."""
    found = _PARTS.get(layer)
    if found is None:
        easy = np.isin(layer.left, (-1.0, 0.0, 1.0)) & np.isin(layer.right, (-1.0, 0.0, 1.0))
        found = LayerParts(
            SplitMatrix.of(layer.weight), np.abs(layer.bias), np.where(easy, 0.0, UNIT)
        )
        _PARTS[layer] = found
    return found
