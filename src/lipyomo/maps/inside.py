"""Which systems of a few linear inequalities have an interior in a box: many small ones at once.

For rows ``a_i . y + c_i``, y in [-1, 1]^d, Newton steps along the central path of

    maximise  tau t + sum_i log(a_i . y + c_i - t) + sum_j log(1 - y_j^2)

raise t, the least row.  Every step is asked two things that need no trust in it: whether all rows
are positive at y, and whether the multipliers ``m_i`` in proportion to ``1 / (a_i . y + c_i - t)``
prove that no y has all rows at or above zero, since ``m . c + |m . a|_1 < 0``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.arrays import BoolArray, FloatArray
from lipyomo.numerics.rounding import EQUAL, gamma

FASTER = 5.0
"""Factor between two steps of the weight of t; 3 to 8 need about as many steps."""

REACH = 0.95
"""Share of the way to the nearest wall that a step may go: with 0.98 maps take 1.25 of the time."""


class Inside(NamedTuple):
    """What is known of N systems.

    Attributes
    ----------
    found : ndarray of bool, shape (N,)
        All rows are positive, by more than their errors, at a point.
    empty : ndarray of bool, shape (N,)
        No point has all rows at or above zero.
    points : ndarray, shape (N, d)
        The points; others mean nothing.
    """

    found: BoolArray
    empty: BoolArray
    points: FloatArray


def inside(rows: FloatArray, right: FloatArray, errors: FloatArray) -> Inside:
    """Look for points of [-1, 1]^d at which all rows are positive.

    Parameters
    ----------
    rows : ndarray, shape (N, k, d)
    right : ndarray, shape (N, k)
        The rows are ``rows . y + right``.
    errors : ndarray, shape (N, k)
        What each may be off by anywhere in the box, rounding of the sums here included; at least
        the smallest positive number, so that nothing is divided by zero.
    """
    count, k, d = rows.shape
    scale = np.maximum(np.abs(rows).sum(axis=2) + np.abs(right), errors)
    a, c, room = rows / scale[:, :, None], right / scale, errors / scale
    found, empty = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    points = np.zeros((count, d))
    left = np.arange(count)
    y, t = np.zeros((count, d)), c.min(axis=1, initial=0.0) - 1.0
    tau = float(k + 2 * d)
    most = tau / EQUAL  # beyond it steps are rounding
    while tau < most:
        values = np.matmul(a, y[:, :, None])[:, :, 0] + c
        inverse = 1.0 / (values - t[:, None])
        m = inverse / inverse.sum(axis=1, keepdims=True)
        across = np.abs(np.matmul(m[:, None, :], a)[:, 0]).sum(axis=1)
        none = (m * c).sum(axis=1) + across + (m * room).sum(axis=1) < 0
        some = (values > room).all(axis=1)
        found[left[some]], empty[left[none]] = True, True
        points[left[some]] = y[some]
        go = ~(some | none)
        if not go.any():
            break
        if not go.all():
            a, c, room, y, t, left = a[go], c[go], room[go], y[go], t[go], left[go]
            inverse = inverse[go]
        dy, dt = _step(a, inverse, y, tau)
        change = np.matmul(a, dy[:, :, None])[:, :, 0] - dt[:, None]
        worst = np.maximum(
            np.max(-change * inverse, axis=1),
            np.max(np.maximum(dy / (1.0 - y), -dy / (1.0 + y)), axis=1),
        )
        far = np.minimum(1.0, REACH / np.maximum(worst, REACH))
        y, t = y + far[:, None] * dy, t + far * dt
        tau *= FASTER
    return Inside(found, empty, points)


def _step(
    a: FloatArray, inverse: FloatArray, y: FloatArray, tau: float
) -> tuple[FloatArray, FloatArray]:
    """Newton steps (N, d), (N,) of y and t."""
    d = y.shape[1]
    squares = inverse * inverse
    hessian = np.empty((len(a), d + 1, d + 1))
    weighted = squares[:, :, None] * a
    hessian[:, :d, :d] = np.matmul(np.swapaxes(a, 1, 2), weighted)
    above, below = 1.0 / (1.0 - y), 1.0 / (1.0 + y)
    hessian[:, range(d), range(d)] += above * above + below * below
    hessian[:, :d, d] = hessian[:, d, :d] = -weighted.sum(axis=1)
    hessian[:, d, d] = squares.sum(axis=1)
    diagonal = hessian[:, range(d + 1), range(d + 1)]
    ridge = gamma(len(a[0]) + d) * diagonal.max(axis=1, keepdims=True)  # more than its rounding
    hessian[:, range(d + 1), range(d + 1)] = diagonal + ridge
    gradient = np.empty((len(a), d + 1, 1))
    gradient[:, :d, 0] = np.matmul(inverse[:, None, :], a)[:, 0] - above + below
    gradient[:, d, 0] = tau - inverse.sum(axis=1)
    step = np.linalg.solve(hessian, gradient)[:, :, 0]
    return step[:, :d], step[:, d]
