"""Signals beside their values at the middles of boxes, and sums of products of two of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.inputs import Affine, Inputs
from lipyomo.search.spaces.boxes.quadratic import turned


class Away(NamedTuple):
    """Signals less numbers near their middles: ``turn . e +- error`` for e in [-1, 1]^D.

    Attributes
    ----------
    middle : ndarray, shape (N, n)
        These numbers.
    turn : ndarray, shape (N, n, D)
    size : ndarray, shape (N, n)
        Sums of its absolute values.
    error : ndarray, shape (N, n)
    reach : ndarray, shape (N, n)
        Largest absolute values, by all that is known.
    """

    middle: FloatArray
    turn: FloatArray
    size: FloatArray
    error: FloatArray
    reach: FloatArray

    @classmethod
    def of(cls, affine: Affine, ends: Ends, inputs: Inputs, moving: bool, unit: float) -> Away:
        """Affine functions of x, and of v where that is `moving`, and ranges of the same."""
        turn, middle = turned(affine, inputs, moving)
        middle = np.broadcast_to(middle, ends[0].shape)
        turn = np.broadcast_to(turn, (*middle.shape, turn.shape[2]))
        size = np.abs(turn).sum(axis=2)
        error = affine.radius + unit * (np.abs(middle) + affine.radius + size)
        reach = np.maximum(np.maximum(ends[1] - middle, middle - ends[0]), 0.0) * (1.0 + unit)
        return cls(middle, turn, size, np.fmin(error, (reach + size) * (1.0 + unit)), reach)

    def take(self, which: IntArray | slice) -> Away:
        """Some of the signals."""
        return Away(*(array[:, which] for array in self))

    def error_with(self, other: Away) -> FloatArray:
        """What products of ``turn . e`` are off by, one by one."""
        one = self.size * other.error + self.error * other.reach
        return np.fmin(one, self.reach * other.error + self.error * other.size)


class DeviationProducts:
    """Sums of products of deviations: ``e' matrix e +- error`` for each of N boxes.

    Attributes
    ----------
    matrix : ndarray, shape (N, D, D)
    error : ndarray, shape (N,)
    size : ndarray, shape (N,)
        Sums of absolute values of all terms of the matrix.
    """

    def __init__(self, count: int, dimension: int) -> None:
        self.matrix = np.zeros((count, dimension, dimension))
        self.error, self.size = np.zeros(count), np.zeros(count)

    def add(self, weights: FloatArray, one: Away, other: Away) -> FloatArray:
        """Add products one by one with weights (N, n); the errors (N, n) of these."""
        sizes = np.abs(weights)
        turned = np.swapaxes(one.turn * weights[:, :, None], 1, 2)
        self.matrix = self.matrix + np.matmul(turned, other.turn)
        error = sizes * one.error_with(other)
        self.error = self.error + error.sum(axis=1)
        self.size = self.size + (sizes * one.size * other.size).sum(axis=1)
        return error
