"""Ellipsoids that hold the tangents of one layer after the other: LipSDP in closed form.

If the tangents u of a layer lie in ``{u : u^T Sigma^{-1} u <= 1}`` and its units pass on
``s = M u + R e`` with ``|e_k| <= |u_k|`` (M the middle and R half the spread of the slopes; R is
zero on decided units), then for any T >= 0 on the open units with ``T^{1/2} Sigma T^{1/2} < I``

    u^T (Sigma^{-1} - T) u + e^T T e <= u^T Sigma^{-1} u <= 1,

so that s lies in the ellipsoid of ``M (Sigma^{-1} - T)^{-1} M + R T^{-1} R``.  This is the
layer-wise decomposition of LipSDP by Xu and Sivaranjani (ECLipsE, NeurIPS 2024), for two
slopes and for decided units.  A multiple of T is tried in a few sizes and shapes, and the one
that looks best from the next layer is kept.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lipyomo.network import FloatArray, Layer, Network
from lipyomo.phases import OPEN, RIGHT, Phases
from lipyomo.semidefinite.reduce import IntArray

_SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_UNIT = 2.0**-52


def _inflated(matrix: FloatArray, steps: float) -> FloatArray:
    """A symmetric matrix above the exact one, given `steps` rounding errors of its trace."""
    matrix = 0.5 * (matrix + matrix.T)
    matrix[np.diag_indices(len(matrix))] += steps * _UNIT * float(np.trace(matrix))
    return matrix


def _passed(
    sigma: FloatArray, middle: FloatArray, half: FloatArray, t: FloatArray, share: float
) -> FloatArray:
    """The ellipsoid of s for one T; `t` is zero on decided units."""
    root = np.sqrt(t)
    inner = np.eye(len(t)) - root[:, None] * sigma * root
    bent = sigma * root
    wider = sigma + bent @ np.linalg.solve(inner, bent.T)
    wider = middle[:, None] * wider * middle
    is_open = t > 0
    spread = np.zeros(len(t))
    spread[is_open] = np.square(half[is_open]) / t[is_open]
    wider[np.diag_indices(len(t))] += spread
    return _inflated(wider, 64.0 * len(t) / (1.0 - share) ** 2)


def _shapes(sigma: FloatArray, is_open: IntArray) -> list[FloatArray]:
    """T with ``T^{1/2} Sigma T^{1/2} <= I``: one multiplier a layer, and one a unit."""
    inner = np.abs(sigma[np.ix_(is_open, is_open)])
    sums = inner.sum(axis=1) * (1.0 + 1e-9) + 1e-300
    shapes = []
    for sizes in (np.full(len(sums), sums.max(initial=0.0)), sums):
        t = np.zeros(len(sigma))
        t[is_open] = 1.0 / sizes
        shapes.append(t)
    largest = float(np.linalg.eigvalsh(sigma[np.ix_(is_open, is_open)])[-1]) if len(sums) else 0.0
    if largest > 0:
        t = np.zeros(len(sigma))
        t[is_open] = 1.0 / (largest * (1.0 + 1e-9))
        shapes.append(t)
    return shapes


def _through(
    layer: Layer, phase: npt.NDArray[np.int8], sigma: FloatArray, ahead: FloatArray
) -> FloatArray:
    """The ellipsoid after the units of a layer, as tight as it looks from the matrix `ahead`."""
    decided = np.where(phase == RIGHT, layer.right, layer.left)
    is_open = np.flatnonzero(phase == OPEN)
    middle, half = decided.copy(), np.zeros(layer.units)
    middle[is_open] = 0.5 * (layer.left + layer.right)[is_open]
    half[is_open] = 0.5 * np.abs(layer.right - layer.left)[is_open]
    if is_open.size == 0:
        return _inflated(middle[:, None] * sigma * middle, 8.0)
    best, best_size = None, np.inf
    for shape in _shapes(sigma, is_open):
        for share in _SHARES:
            found = _passed(sigma, middle, half, share * shape, share)
            size = float(np.linalg.eigvalsh(ahead @ found @ ahead.T)[-1])
            if size < best_size:
                best, best_size = found, size
    assert best is not None
    return best


def forward_ellipsoids(
    network: Network, phases: Phases, start: FloatArray, functionals: FloatArray
) -> FloatArray:
    """Carry an ellipsoid of directions to functionals of the outputs.

    Parameters
    ----------
    network : Network
    phases : Phases
    start : ndarray, shape (d,)
        The directions lie in ``{v : sum_j v_j^2 / start_j <= 1}``.
    functionals : ndarray, shape (k, m)

    Returns
    -------
    ndarray, shape (k, k)
        G such that ``|y^T C J v|^2 <= y^T G y`` for all y, with C the functionals.
    """
    last = functionals @ network.head.dense_weight
    matrices = [layer.dense_weight for layer in network.hidden] + [last]
    first = matrices[0] * np.sqrt(start)
    sigma = _inflated(first @ first.T, 4.0 * first.shape[1])
    for layer, phase, ahead in zip(network.hidden, phases, matrices[1:], strict=True):
        passed = _through(layer, phase, sigma, ahead)
        sigma = _inflated(ahead @ passed @ ahead.T, 8.0 * sum(ahead.shape))
    return sigma
