"""Euclidean norms: an affine bound along one pair of directions, and O(h) bounds across them.

With unit vectors y of the outputs and v of the inputs, chosen by the Jacobian at the box's middle,
the Jacobian J(x) has in orthonormal bases that begin with them the blocks

    [ y.J v     y.J across ]        and  |J|_2 <= | [ M  a ] |
    [ across.J v     rest  ]                      | [ b  c ] |_2

where M, a, b, c bound the norms of the blocks on the box.  M is the affine bound; the others follow
from affine bounds of the entries of J (`relaxing/gradient.py`): a and b are O(h), and add only
O(h^2) to M.  For an output in another norm there are no b and c (y is its functional), for another
input norm no a and c (v is an undecided direction).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, lengths
from lipyomo.base.numerics.rounding import EQUAL, gamma
from lipyomo.search.spaces.boxes.boxes import Boxes, Frame
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.relaxing.gradient import Enclosed
from lipyomo.search.spaces.boxes.values import jacobians, steepest_pairs

HALVINGS = int(np.ceil(-np.log2(EQUAL)))
"""Steps of the bisection for the largest allowed M; it ends within EQUAL on the safe side."""


class Across(NamedTuple):
    """Bounds (N,) of the blocks across a frame's directions, and of ``-y . J v``."""

    a: FloatArray
    b: FloatArray
    c: FloatArray
    minus: FloatArray
    open_part: FloatArray
    """What each undecided entry of the direction adds to b, shape (N, d)."""

    def norm(self, m: FloatArray) -> FloatArray:
        """Return the norm of the matrix of bounds, rounded up; minus infinity where M is."""
        m = np.where(np.isfinite(m), np.maximum(np.maximum(m, self.minus), 0.0), m)
        with np.errstate(invalid="ignore"):
            total = m * m + self.a**2 + self.b**2 + self.c**2
            twice = 2.0 * np.abs(m * self.c - self.a * self.b)
            root = np.sqrt(np.maximum(total - twice, 0.0)) * np.sqrt(total + twice)
            norm = np.sqrt(0.5 * (total + root)) * (1.0 + gamma(16))
        across = np.maximum(np.maximum(self.a, self.b), self.c) > 0
        return np.where(np.isfinite(m), np.where(across, norm, m), m)

    def cutoffs(self, cutoff: FloatArray) -> FloatArray:
        """Return numbers (N,): where M is at most that, the norm is at most `cutoff` (N,)."""
        low, high = np.full(len(self.a), -np.inf), cutoff
        if not np.isfinite(cutoff).any():
            return low
        top = self.norm(high) <= cutoff
        reachable = self.norm(np.zeros(len(self.a))) <= cutoff
        start = np.zeros(len(self.a))
        for _ in range(HALVINGS):
            middle = 0.5 * (start + high)
            fits = self.norm(middle) <= cutoff
            start, high = np.where(fits, middle, start), np.where(fits, high, middle)
        return np.where(top, cutoff, np.where(reachable, start, low))


def euclidean_frame(context: BoxContext, boxes: Boxes) -> Frame:
    """Return the directions along which boxes are bounded if a norm is Euclidean."""
    round_out, middle = context.targets.whole_ball, boxes.middle
    phases = boxes.floor, boxes.ceiling
    if not round_out:
        rows = context.rows[boxes.rows]
        y, v = steepest_pairs(jacobians(context, middle, rows[:, None, :], phases), "l2")
        v = np.where(y < 0, -v, v)  # along the gradient, not opposite to it
        return Frame(rows, context.row_errors[boxes.rows], v, v)
    jacobian = jacobians(context, middle, context.head, phases)
    y, v = steepest_pairs(jacobian, context.targets.norm)
    v_low, v_high = v, v
    if context.targets.norm != "l2":
        v_low, v_high = boxes.v_low, boxes.v_high
        along = np.where(v[:, :1] * v_low[:, :1] < 0, -v, v)  # as the first entry that is known
        v = np.where(v_low < v_high, along, v_low)
        outputs = np.matmul(jacobian, v[:, :, None])[:, :, 0]
        size = lengths(outputs)[:, None]
        y = np.divide(outputs, size, out=y.copy(), where=size > 0)
    errors = gamma(y.shape[1]) * (np.abs(y) @ np.abs(context.head))
    return Frame(y @ context.head, errors, v_low, v_high, y)


def across(context: BoxContext, frame: Frame, found: Enclosed) -> Across:
    """Bound the blocks across the directions of a frame, given the Jacobian of its rows."""
    zero = np.zeros(len(frame.rows))
    size = lengths(lengths(np.abs(found.middle) + found.radius))
    more = 4.0 * context.unit * size  # covers all sums below, and rounded unit vectors
    y = np.ones((len(zero), 1)) if frame.y is None else frame.y
    v, v_radius = 0.5 * (frame.v_low + frame.v_high), 0.5 * (frame.v_high - frame.v_low)
    reach = np.abs(v) + v_radius
    more = more * np.maximum(lengths(reach), 1.0)
    parts = np.concatenate([found.middle[:, :, None], found.slopes], axis=2)  # of 1 and of delta
    gradients = np.matmul(y[:, None, None, :], np.swapaxes(parts, 1, 2))[:, :, 0]
    outputs = np.matmul(parts, v[:, None, :, None])[..., 0]
    along = np.matmul(gradients, v[:, :, None])[:, :, 0]
    if context.targets.norm == "l2":
        away = lengths(lengths(found.rest)) + more
        a = _largest(gradients - along[:, :, None] * v[:, None, :]) + away
        b = c = zero
        if frame.y is not None:
            b = _largest(np.swapaxes(outputs, 1, 2) - along[:, :, None] * y[:, None, :]) + away
            slopes = lengths(np.abs(found.slopes).sum(axis=2).reshape(len(zero), -1))
            c = _second(found.middle) + a + b + slopes + away
        minus = np.abs(along[:, 1:]).sum(axis=1) - along[:, 0] + away
        return Across(a, b, c, minus, np.zeros_like(v))
    away = lengths(np.matmul(found.rest, reach[:, :, None])[:, :, 0]) + more
    rest = parts - y[:, :, None, None] * gradients[:, None]
    opened = np.matmul(np.abs(rest), v_radius[:, None, :, None])[..., 0].sum(axis=2)
    b = _largest(np.swapaxes(outputs, 1, 2) - along[:, :, None] * y[:, None, :])
    open_part = lengths(np.abs(rest).sum(axis=2), axis=1) * v_radius
    minus = np.abs(along[:, 1:]).sum(axis=1) - along[:, 0] + away
    minus += np.matmul(np.abs(gradients), v_radius[:, :, None])[:, :, 0].sum(axis=1)
    return Across(zero, b + lengths(opened) + away, zero, minus, open_part)


def _largest(parts: FloatArray) -> FloatArray:
    """Bound ``|p_0 + sum_i delta_i p_i|`` over delta in [-1, 1]^d, for p (N, 1 + d, k)."""
    whole = np.abs(parts[:, 0]) + np.abs(parts[:, 1:]).sum(axis=1)
    return np.asarray(np.minimum(lengths(whole), lengths(parts).sum(axis=1)))


def _second(middle: FloatArray) -> FloatArray:
    """Return the second singular value of each matrix (N, m, d)."""
    if min(middle.shape[1:]) < 2:
        return np.zeros(len(middle))
    return np.asarray(np.linalg.svd(middle, compute_uv=False)[:, 1])
