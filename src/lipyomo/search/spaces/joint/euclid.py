"""Euclidean norms on boxes: bounds along the directions of a frame of each box.

Frames are orthonormal vectors: those of the inputs are the rows of V, those of the outputs the rows
of Y.  ``Y J V^T`` is bounded entry by entry by a matrix E of sizes, with the tangents along V
(`tangents.py`).  Then ``|J|_2 <= |E|_2``; the norm of one functional's gradient, or of the outputs'
derivative in one direction, is at most the length of the single row or column that is left.  Frames
are computed from the Jacobian with the middle of the slopes that a box allows.  Then the largest
entry stands alone, with an error that shrinks with the width of the box, and the others contribute
only in second order.

Frames are orthonormal only up to rounding: with ``V V^T = I + D``, ``|V^-1|_2`` is at most
``(1 - |D|)^(-1/2)``, and bounds are multiplied by this.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray, lengths
from lipyomo.base.numerics.rounding import gamma
from lipyomo.networks.network import Network
from lipyomo.relaxations.linear.relax import Switches
from lipyomo.search.spaces.joint.tangents import Tangents


def norms_on(
    network: Network,
    switches: list[Switches],
    functional: FloatArray | None,
    chains: int,
) -> FloatArray:
    """Bound ``|J|_2``, or the length of a functional's gradient, on boxes from above, (N,).

    Parameters
    ----------
    network : Network
    switches : list of Switches, shapes (N, units)
        The slopes that boxes allow.
    functional : ndarray, shape (m,), or None
        None for the norm of the whole Jacobian.
    chains : int
        The number of directions that are substituted back at a time.
    """
    outputs = network.head.dense_weight @ central(network, switches)
    stretch: FloatArray = np.ones(len(outputs))
    if functional is None:
        left, right = _singular(outputs)
        stretch = stretched(left)
        most = np.arange(len(left))
    else:
        gradient = np.where(np.isfinite(outputs), outputs, 0.0)
        right = reflected_rows(np.asarray(functional @ gradient))
        left, most = functional[None, None], np.zeros(len(right), dtype=np.intp)
    known = Tangents.of(network, switches, right)
    count, d = right.shape[:2]
    sizes = np.empty((count, left.shape[1], d))
    box, along = np.repeat(np.arange(count), d), np.tile(np.arange(d), count)
    for at in range(0, box.size, chains):
        i, j = box[at : at + chains], along[at : at + chains]
        sizes[i, :, j] = known.bounds(left[most[i]], i, j)
    return _spectral(sizes) * stretch * stretched(right) * (1.0 + gamma(4))


def lengths_along(known: Tangents, heads: FloatArray, box: IntArray, along: IntArray) -> FloatArray:
    """Bound ``|J v|_2`` for boxes and directions from above, shape (n,).

    Parameters
    ----------
    known : Tangents
    heads : ndarray, shape (N, m, d)
        The Jacobians from which frames are computed.
    box, along : ndarray of int, shape (n,)
        Indices of boxes, and of directions.
    """
    direction = known.along(box, along)
    outputs = np.matmul(heads[box], direction[:, :, None])[:, :, 0]
    frames = reflected_rows(np.where(np.isfinite(outputs), outputs, 0.0))
    sizes = lengths(known.bounds(frames, box, along))
    return np.asarray(sizes * stretched(frames) * (1.0 + gamma(frames.shape[1] + 8)))


def central(network: Network, switches: Sequence[Switches]) -> FloatArray:
    """Return the Jacobian of the last hidden layer with the middle slopes, shape (N, n, d)."""
    rows: FloatArray = np.eye(network.input_dim)[None]
    for layer, (left, right) in zip(network.hidden, switches, strict=True):
        rows = (0.5 * (left + right))[:, :, None] * (layer.dense_weight @ rows)
    return rows


def reflected_rows(vectors: FloatArray) -> FloatArray:
    """Return orthonormal rows (N, n, n), the first along a vector (N, n), by a reflection."""
    n = vectors.shape[1]
    size = lengths(vectors)
    unit = np.divide(vectors, size[:, None], out=np.zeros_like(vectors), where=size[:, None] > 0)
    normal = unit.copy()
    normal[:, 0] += np.where(unit[:, 0] < 0, -1.0, 1.0)
    square = np.square(normal).sum(axis=1)
    outer = normal[:, :, None] * normal[:, None, :]
    return np.asarray(np.eye(n) - outer * (2.0 / square)[:, None, None])


def stretched(frames: FloatArray) -> FloatArray:
    """Bound the norms of the inverses of frames (N, n, n) from above, (N,); infinity if impossible.

    A frame is square, so that the bounds also hold for its transpose.
    """
    n = frames.shape[1]
    defect = np.abs(frames @ np.swapaxes(frames, 1, 2) - np.eye(n))
    size = np.abs(frames)
    defect += gamma(n + 2) * (size @ np.swapaxes(size, 1, 2) + 1.0)
    off = lengths(lengths(defect)) * (1.0 + gamma(n * n + 4))
    inside = off < 0.5
    root = np.sqrt(1.0 - np.where(inside, off, 0.0))
    return np.where(inside, (1.0 + gamma(8)) / root, np.inf)


def _singular(jacobians: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return frames of the outputs and of the inputs: singular vectors of Jacobians (N, m, d)."""
    finite = np.isfinite(jacobians).all(axis=(1, 2), keepdims=True)
    left, _, right = np.linalg.svd(np.where(finite, jacobians, 0.0))
    return np.swapaxes(left, 1, 2), right


def _spectral(sizes: FloatArray) -> FloatArray:
    """Bound norms of matrices with entries of at most these sizes (N, m, d) from above, (N,)."""
    if min(sizes.shape[1:]) == 1:
        found = lengths(sizes.reshape(len(sizes), -1))
    else:
        finite = np.isfinite(sizes).all(axis=(1, 2))
        found = np.full(len(sizes), np.inf)
        found[finite] = np.linalg.norm(sizes[finite], 2, axis=(1, 2))
    return np.asarray(found * (1.0 + gamma(4 * sizes.shape[1] * sizes.shape[2] + 8)))
