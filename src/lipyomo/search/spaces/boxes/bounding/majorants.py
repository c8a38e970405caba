"""Affine functions above quadratic forms ``e' Q e`` on cubes, chosen along with a linear function.

For any N that is negative semidefinite, and any point p,

    e' Q e <= 2 (N p) . e - p' N p + above,

where `above` is the sum of the positive parts of the diagonal of Q - N, and of the sizes of all its
other entries.  N is either Q with its diagonal lowered until it is dominant, or the part of Q with
negative eigenvalues, whichever gives the smaller bound; p is near the maximiser of the concave
function that remains.  The second N is computed as ``V min(w, 0) V'``: for any V and w, this is
negative semidefinite in exact arithmetic, and Q - N is bounded as it is.  The rounding errors of
sums with it are relative to the sizes of its terms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import TINY
from lipyomo.search.spaces.boxes.relaxing.inputs import times

SWEEPS = 8
"""How often each entry of a point is updated.  Two are too few near interior maxima of forms that
are far from diagonal, and there is only one form for each box."""


class CubeTangents(NamedTuple):
    """Functions ``slope . e + constant`` of N cubes.

    Attributes
    ----------
    slope : ndarray, shape (N, D)
    constant : ndarray, shape (N,)
    size : ndarray, shape (N,)
        The rounding error of these, divided by the relative error of sums.
    """

    slope: FloatArray
    constant: FloatArray
    size: FloatArray


@np.errstate(over="ignore", invalid="ignore")  # an overflow gives no bound
def tangents(matrix: FloatArray, linear: FloatArray) -> CubeTangents:
    """Compute affine functions above ``e' matrix e`` for e in [-1, 1]^D.

    Parameters
    ----------
    matrix : ndarray, shape (N, D, D)
        Not symmetric in general.
    linear : ndarray, shape (N, D)
        Linear functions; their sums with the results should have small maxima.
    """
    Q = 0.5 * (matrix + np.swapaxes(matrix, 1, 2))
    index = np.arange(Q.shape[1])
    diagonal, sizes = Q[:, index, index], np.abs(Q)
    lowered = Q.copy()
    lowered[:, index, index] = np.minimum(diagonal, np.abs(diagonal) - sizes.sum(axis=2))
    found = _tangents(Q, lowered, linear, np.zeros(len(Q)))
    known = np.isfinite(Q).all(axis=(1, 2), keepdims=True)
    w, V = np.linalg.eigh(np.where(known, Q, 0.0))
    scaled, turned = V * np.minimum(w, 0.0)[:, None], np.swapaxes(V, 1, 2)
    terms = np.matmul(np.abs(scaled), np.abs(turned)).sum(axis=(1, 2))
    other = _tangents(Q, np.matmul(scaled, turned), linear, terms)
    tops = [np.abs(linear + one.slope).sum(axis=1) + one.constant for one in (found, other)]
    less = tops[1] < tops[0]
    return CubeTangents(
        np.where(less[:, None], other.slope, found.slope),
        np.where(less, other.constant, found.constant),
        np.where(less, other.size, found.size),
    )


def _tangents(Q: FloatArray, N: FloatArray, linear: FloatArray, terms: FloatArray) -> CubeTangents:
    """Compute these for one N each, whose entries are sums of terms with sizes up to `terms`."""
    index = np.arange(Q.shape[1])
    left = np.abs(Q - N)
    rises = Q[:, index, index] - N[:, index, index]
    above = left.sum(axis=(1, 2)) - np.abs(rises).sum(axis=1) + np.maximum(rises, 0.0).sum(axis=1)
    bend, beside = N[:, index, index], 2.0 * N
    beside[:, index, index] = 0.0
    steep = 0.5 / np.maximum(-bend.T, TINY)  # where N has no curvature, an end is best
    rows, start = np.ascontiguousarray(beside.transpose(1, 2, 0)), linear.T  # entries of e first
    p = np.zeros(start.shape)
    for _ in range(SWEEPS):
        for k in index.tolist():
            rise = start[k] + (rows[k] * p).sum(axis=0)
            (rise * steep[k]).clip(-1.0, 1.0, out=p[k])
    point = np.ascontiguousarray(p.T)
    slope = 2.0 * times(N, point)
    constant = above - 0.5 * (point * slope).sum(axis=1)
    size = np.abs(Q).sum(axis=(1, 2)) + np.abs(N).sum(axis=(1, 2)) + terms
    return CubeTangents(slope, constant, 8.0 * size)
