"""Euclidean norms: an affine bound along one pair of directions, and what is across is O(h).

With unit vectors y of the outputs and v of the inputs, chosen by the Jacobian at the box's middle,
the Jacobian J(x) has in orthonormal bases that begin with them the blocks

    [ y.J v     y.J across ]        and  |J|_2 <= | [ M  a ] |
    [ across.J v     rest  ]                      | [ b  c ] |_2

where M, a, b, c bound the norms of the blocks on the box.  M is the affine bound; the others follow
from an interval of J: a and b are O(h), and what they add to M is O(h^2).  For an output in another
norm there is no b and c (y is its functional), for another input norm no a and c (v is an open
direction).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipyomo.arrays import FloatArray, lengths
from lipyomo.numerics.rounding import gamma
from lipyomo.search.smooth.boxes import Boxes
from lipyomo.search.smooth.context import Context
from lipyomo.search.smooth.relax import Relaxed
from lipyomo.search.smooth.values import jacobians, steepest
from lipyomo.targets import ALL

HALVINGS = 40
"""Steps of the bisection for what M may be; it ends within 1e-12 on the sound side."""


@dataclass(frozen=True, eq=False)
class Frame:
    """The directions of N boxes.

    Attributes
    ----------
    rows, errors : ndarray, shape (N, n_L)
        The functional times the last weights, and what that may be off by.
    v_low, v_high : ndarray, shape (N, d)
        Ends of the direction.
    y : ndarray, shape (N, m), or None
        The functional where the output's norm is Euclidean.
    """

    rows: FloatArray
    errors: FloatArray | None
    v_low: FloatArray
    v_high: FloatArray
    y: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Across:
    """Bounds (N,) of what is not along a frame's directions, and of ``-y . J v``."""

    a: FloatArray
    b: FloatArray
    c: FloatArray
    minus: FloatArray
    open_part: FloatArray
    """What each open entry of the direction adds to b, shape (N, d)."""

    def norm(self, m: FloatArray) -> FloatArray:
        """The norm of the matrix of bounds, rounded up; minus infinity where M is."""
        m = np.where(np.isfinite(m), np.maximum(np.maximum(m, self.minus), 0.0), m)
        with np.errstate(invalid="ignore"):
            total = m * m + self.a**2 + self.b**2 + self.c**2
            twice = 2.0 * np.abs(m * self.c - self.a * self.b)
            root = np.sqrt(np.maximum(total - twice, 0.0)) * np.sqrt(total + twice)
            norm = np.sqrt(0.5 * (total + root)) * (1.0 + gamma(16))
        across = np.maximum(np.maximum(self.a, self.b), self.c) > 0
        return np.where(np.isfinite(m), np.where(across, norm, m), m)

    def cutoffs(self, cutoff: float) -> FloatArray:
        """Numbers (N,) such that the norm is at most `cutoff` where M is at most that."""
        low, high = np.full(len(self.a), -np.inf), np.full(len(self.a), cutoff)
        if not np.isfinite(cutoff):
            return low
        top = self.norm(high) <= cutoff
        reachable = self.norm(np.zeros(len(self.a))) <= cutoff
        start = np.zeros(len(self.a))
        for _ in range(HALVINGS):
            middle = 0.5 * (start + high)
            fits = self.norm(middle) <= cutoff
            start, high = np.where(fits, middle, start), np.where(fits, high, middle)
        return np.where(top, cutoff, np.where(reachable, start, low))


def framed(context: Context, boxes: Boxes) -> Frame:
    """The directions along which boxes are bounded."""
    if not context.euclidean:
        errors = context.row_errors[boxes.rows] if context.row_errors.any() else None
        return Frame(context.rows[boxes.rows], errors, boxes.v_low, boxes.v_high)
    round_out, middle = context.targets.rows[0] == ALL, boxes.middle
    if not round_out:
        rows = context.rows[boxes.rows]
        _, v = steepest(jacobians(context, middle, rows[:, None, :]), "l2")
        return Frame(rows, context.row_errors[boxes.rows], v, v)
    jacobian = jacobians(context, middle, context.head)
    y, v = steepest(jacobian, context.targets.input_norm)
    v_low, v_high = v, v
    if context.targets.input_norm != "l2":
        v_low, v_high = boxes.v_low, boxes.v_high
        v = np.where(v_low < v_high, v, v_low)
        outputs = np.matmul(jacobian, v[:, :, None])[:, :, 0]
        size = lengths(outputs)[:, None]
        y = np.divide(outputs, size, out=y.copy(), where=size > 0)
    errors = gamma(y.shape[1]) * (np.abs(y) @ np.abs(context.head))
    return Frame(y @ context.head, errors, v_low, v_high, y)


def across(context: Context, layers: Sequence[Relaxed], frame: Frame) -> Across:
    """What is not along the directions of a frame."""
    unit, zero = context.unit, np.zeros(len(frame.rows))
    if not context.euclidean:
        return Across(zero, zero, zero, zero - np.inf, np.zeros_like(frame.v_low))
    rows = frame.rows[:, None, :] if frame.y is None else context.head[None]
    errors = None if frame.errors is None or frame.y is not None else frame.errors[:, None, :]
    middle, radius = _intervals(context, layers, rows, errors)
    size = lengths(lengths(middle)) + lengths(lengths(radius))
    more = 4.0 * unit * size  # of all sums below, and of unit vectors that are not quite so
    v, v_radius = 0.5 * (frame.v_low + frame.v_high), 0.5 * (frame.v_high - frame.v_low)
    y = np.ones((len(zero), 1)) if frame.y is None else frame.y
    gradient = np.matmul(y[:, None, :], middle)[:, 0]
    along = (gradient * v).sum(axis=1)
    none = np.zeros_like(v)
    if context.targets.input_norm == "l2":
        away = lengths(lengths(radius))
        a = lengths(gradient - along[:, None] * v) + away + more
        b = c = zero
        if frame.y is not None:
            outputs = np.matmul(middle, v[:, :, None])[:, :, 0]
            b = lengths(outputs - along[:, None] * y) + away + more
            c = _second(middle) + a + b + more
        return Across(a, b, c, away - along + more, none)
    reach = np.abs(v) + v_radius
    away = lengths(np.matmul(radius, reach[:, :, None])[:, :, 0])
    outputs = np.matmul(middle, v[:, :, None])[:, :, 0]
    rest = middle - y[:, :, None] * gradient[:, None, :]
    open_part = lengths(rest, axis=1) * v_radius
    scaled = np.abs(rest) * v_radius[:, None, :]
    b = lengths(outputs - along[:, None] * y) + lengths(scaled.sum(axis=2)) + away + more * 4.0
    minus = (np.abs(gradient) * v_radius).sum(axis=1) - along + away + more * lengths(reach)
    return Across(zero, b + more * lengths(reach), zero, minus, open_part)


def _second(middle: FloatArray) -> FloatArray:
    """The second singular value of each matrix (N, m, d)."""
    if min(middle.shape[1:]) < 2:
        return np.zeros(len(middle))
    return np.asarray(np.linalg.svd(middle, compute_uv=False)[:, 1])


def _intervals(
    context: Context, layers: Sequence[Relaxed], rows: FloatArray, errors: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Middle and radius (N, k, d) of ``rows . J(x)`` on boxes."""
    unit = context.unit
    middle = rows
    radius = np.zeros_like(rows) if errors is None else errors
    for stage, layer in zip(reversed(context.stages), reversed(layers), strict=True):
        rate, rr = layer.rate[:, None, :], layer.rate_radius[:, None, :]
        size = np.abs(middle) * np.abs(rate)
        radius = np.abs(middle) * rr + radius * (np.abs(rate) + rr) + unit * size
        middle = (middle * rate) @ stage.weight
        radius = (radius * (1.0 + unit)) @ stage.sizes + unit * (size @ stage.sizes)
    return middle, radius * (1.0 + unit)
