"""Euclidean norms on boxes: bounds along the directions of a frame that each box has for itself.

Frames are orthonormal vectors: those of the inputs are the rows of V, those of the outputs the rows
of Y, and ``Y J V^T`` is bounded entry by entry, by sizes E, with the tangents along V
(`tangents.py`).  Then ``|J|_2 <= |E|_2``; the norm of one functional's gradient, or of the outputs'
derivative in one direction, is at most the length of the one row, or column, that is left.  Frames
come from the Jacobian in the middle of the slopes that a box leaves: the largest entry stands alone
with an error that falls with the box's width, and what the others add is of second order.

Frames are orthonormal but for rounding: with ``V V^T = I + D``, ``|V^-1|_2`` is at most
``(1 - |D|)^(-1/2)``, by which bounds are multiplied.
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
    """Upper bounds (N,) of ``|J|_2``, or of the length of a functional's gradient, on boxes.

    Parameters
    ----------
    network : Network
    switches : list of Switches, shapes (N, units)
        Slopes that boxes leave.
    functional : ndarray, shape (m,), or None
        None for the norm of the whole Jacobian.
    chains : int
        Directions that are substituted back at a time.
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
    """Upper bounds (n,) of ``|J v|_2`` for boxes and directions.

    Parameters
    ----------
    known : Tangents
    heads : ndarray, shape (N, m, d)
        Jacobians about which frames are made.
    box, along : ndarray of int, shape (n,)
        Numbers of boxes, and of directions.
    """
    direction = known.along(box, along)
    outputs = np.matmul(heads[box], direction[:, :, None])[:, :, 0]
    frames = reflected_rows(np.where(np.isfinite(outputs), outputs, 0.0))
    sizes = lengths(known.bounds(frames, box, along))
    return np.asarray(sizes * stretched(frames) * (1.0 + gamma(frames.shape[1] + 8)))


def central(network: Network, switches: Sequence[Switches]) -> FloatArray:
    """The Jacobian of what the last units give, in the middle of their slopes, shape (N, n, d)."""
    rows: FloatArray = np.eye(network.input_dim)[None]
    for layer, (left, right) in zip(network.hidden, switches, strict=True):
        rows = (0.5 * (left + right))[:, :, None] * (layer.dense_weight @ rows)
    return rows


def reflected_rows(vectors: FloatArray) -> FloatArray:
    """Orthonormal rows (N, n, n), the first of which is along a vector (N, n): a reflection."""
    n = vectors.shape[1]
    size = lengths(vectors)
    unit = np.divide(vectors, size[:, None], out=np.zeros_like(vectors), where=size[:, None] > 0)
    normal = unit.copy()
    normal[:, 0] += np.where(unit[:, 0] < 0, -1.0, 1.0)
    square = np.square(normal).sum(axis=1)
    outer = normal[:, :, None] * normal[:, None, :]
    return np.asarray(np.eye(n) - outer * (2.0 / square)[:, None, None])


def stretched(frames: FloatArray) -> FloatArray:
    """Upper bounds (N,) of the norms of the inverses of frames (N, n, n), or infinity.

    They also hold where a frame is given by its rows, of which there are as many as entries.
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
    """Frames of the outputs and of the inputs, by singular vectors of Jacobians (N, m, d)."""
    finite = np.isfinite(jacobians).all(axis=(1, 2), keepdims=True)
    left, _, right = np.linalg.svd(np.where(finite, jacobians, 0.0))
    return np.swapaxes(left, 1, 2), right


def _spectral(sizes: FloatArray) -> FloatArray:
    """Upper bounds (N,) of the norms of matrices (N, m, d) with entries of at most such sizes."""
    if min(sizes.shape[1:]) == 1:
        found = lengths(sizes.reshape(len(sizes), -1))
    else:
        finite = np.isfinite(sizes).all(axis=(1, 2))
        found = np.full(len(sizes), np.inf)
        found[finite] = np.linalg.norm(sizes[finite], 2, axis=(1, 2))
    return np.asarray(found * (1.0 + gamma(4 * sizes.shape[1] * sizes.shape[2] + 8)))
