"""Quadratic functions on cubes: sums of products of affine functions with errors, and their ranges.

A sum of many products of small numbers is far less than the sum of their sizes, in few inputs even
more so: with ``p_i = P_i . e`` and ``q_i = Q_i . e`` it is ``e' (sum of w_i P_i Q_i') e``, where
entries of different signs cancel out before anything is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.search.spaces.boxes.inputs import Affine, Inputs, times
from lipyomo.search.spaces.boxes.on_cubes import pairs_of
from lipyomo.search.spaces.boxes.stacked import Quadratics


@dataclass(frozen=True, eq=False)
class Deviations:
    """Signals less a number: ``turn . e + offset +- away`` for e in [-1, 1]^D.

    Attributes
    ----------
    turn : ndarray, shape (N, n, D)
    offset, away : ndarray, shape (N, n)
    """

    turn: FloatArray
    offset: FloatArray
    away: FloatArray

    @classmethod
    def of(
        cls, affine: Affine, middle: FloatArray, inputs: Inputs, moving: bool, unit: float
    ) -> Deviations:
        """Affine functions of x, and of v where that is `moving`, less `middle` (N, n)."""
        turn, offset = turned(affine, inputs, moving)
        offset = offset - middle
        size = np.abs(offset) + np.abs(middle) + affine.radius + np.abs(turn).sum(axis=2)
        return cls(turn, offset, affine.radius + unit * size)

    def take(self, which: IntArray) -> Deviations:
        """Some of the signals."""
        return Deviations(self.turn[:, which], self.offset[:, which], self.away[:, which])

    def times(self, other: Deviations) -> Quadratic:
        """Products of these with others, one by one."""
        pairs = self.turn[:, :, :, None] * other.turn[:, :, None, :]
        linear = self.offset[:, :, None] * other.turn + other.offset[:, :, None] * self.turn
        size, more = (np.abs(p.turn).sum(axis=2) + np.abs(p.offset) for p in (self, other))
        error = self.away * (more + other.away) + other.away * size
        whole = (size + self.away) * (more + other.away)
        matrix = pairs.reshape(*pairs.shape[:2], -1)
        return Quadratic(self.offset * other.offset, linear, matrix, error, whole)


def turned(affine: Affine, inputs: Inputs, moving: bool) -> tuple[FloatArray, FloatArray]:
    """Coefficients (N, n, D) of e, and values where it is zero.

    It is x, or (x, v), from its middle in radii.
    """
    x, v, _ = inputs
    turn, offset = affine.x * x.radius[:, None], affine.constant + times(affine.x, x.middle)
    if affine.v is not None:
        offset = offset + times(affine.v, v.middle)
    if moving:
        count, rows = max(len(offset), len(v.radius)), turn.shape[1]
        more = np.zeros((count, rows, v.radius.shape[1]))
        if affine.v is not None:
            more = more + affine.v * v.radius[:, None]
        turn = np.concatenate([np.broadcast_to(turn, (count, *turn.shape[1:])), more], axis=2)
    return turn, offset


@dataclass(frozen=True, eq=False)
class Quadratic:
    """Functions ``constant + linear . e + e' matrix e +- error`` for e in [-1, 1]^D.

    Attributes
    ----------
    constant, error : ndarray, shape (N, n)
    linear : ndarray, shape (N, n, D)
    matrix : ndarray, shape (N, n, D D)
    size : ndarray, shape (N, n)
        Sums of absolute values of all terms that they are made of.
    """

    constant: FloatArray
    linear: FloatArray
    matrix: FloatArray
    error: FloatArray
    size: FloatArray

    def plus(self, other: Quadratic) -> Quadratic:
        """Sums."""
        return Quadratic(
            self.constant + other.constant,
            self.linear + other.linear,
            self.matrix + other.matrix,
            self.error + other.error,
            self.size + other.size,
        )

    def take(self, which: IntArray) -> Quadratic:
        """Some of the functions."""
        parts = self.constant, self.linear, self.matrix, self.error, self.size
        return Quadratic(*(part[:, which] for part in parts))

    def sums(self, rows: FloatArray) -> Quadratic:
        """Sums of multiples, for rows (N or 1, k, n) of coefficients."""
        sizes = np.abs(rows)
        return Quadratic(
            times(rows, self.constant),
            np.matmul(rows, self.linear),
            np.matmul(rows, self.matrix),
            times(sizes, self.error),
            times(sizes, self.size),
        )

    def range(self, unit: float) -> tuple[FloatArray, FloatArray]:
        """Ends, rounding included, where all that matters is that they are narrow."""
        matrix = _symmetric(self.matrix, self.linear.shape[-1])
        diagonal = np.diagonal(matrix, axis1=2, axis2=3)
        rest = np.abs(matrix).sum(axis=(2, 3)) - np.abs(diagonal).sum(axis=2)
        away = np.abs(self.linear).sum(axis=2) + rest + self.error
        away = away + 8.0 * unit * (self.size + np.abs(self.constant))
        low, high = (end(diagonal, 0.0).sum(axis=2) for end in (np.minimum, np.maximum))
        return self.constant + low - away, self.constant + high + away

    def extremes(self, convex: BoolArray, unit: float) -> tuple[FloatArray, FloatArray]:
        """See `Quadratics.extremes`."""
        return self.stacked().extremes(convex, unit)

    def stacked(self) -> Quadratics:
        """The same with the axes of e first."""
        linear = np.ascontiguousarray(np.moveaxis(self.linear, 2, 0))
        square = np.moveaxis(self.matrix, 2, 0)
        square = square.reshape(len(linear), len(linear), *square.shape[1:])
        index, pairs = np.arange(len(linear)), pairs_of(len(linear))
        bends = [square[index, index], *(square[a, b][None] + square[b, a] for a, b in pairs)]
        return Quadratics(self.constant, linear, np.concatenate(bends), self.error, self.size)


def _symmetric(matrix: FloatArray, count: int) -> FloatArray:
    """Symmetric parts, shape (N, n, D, D)."""
    square = matrix.reshape(*matrix.shape[:2], count, count)
    return np.asarray(0.5 * (square + np.swapaxes(square, 2, 3)))
