"""The digest of a network, which identifies it in proofs and other files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arrays import Matrix
from lipyomo.base.system.memory import BATCH
from lipyomo.networks.network import Network


def network_digest(network: Network) -> str:
    """SHA-256 of a network's weights, biases, slopes and smooth units.

    Sparse and dense weights have the same digest.  Activations are hashed by name, including all
    parameters.
    """
    digest = hashlib.sha256()
    for layer in network.layers:
        digest.update(np.array(layer.weight.shape, dtype="<i8").tobytes())
        sizes = [np.zeros(1), *(np.diff(block.indptr) for block in _blocks(layer.weight))]
        digest.update(np.cumsum(np.concatenate(sizes)).astype("<i8").tobytes())
        for block in _blocks(layer.weight):
            digest.update(block.indices.astype("<i8").tobytes())
        for block in _blocks(layer.weight):
            digest.update(_plain(block.data))
        for values in (layer.bias, layer.left, layer.right):
            digest.update(_plain(values))
        for curve in layer.curves:
            digest.update(curve.activation.name.encode())
            digest.update(curve.units.astype("<i8").tobytes())
    return digest.hexdigest()


def _plain(values: npt.NDArray[np.float64]) -> bytes:
    """Convert numbers to bytes, without negative zeros."""
    return (values + 0.0).astype("<f8").tobytes()


def _blocks(weight: Matrix) -> Iterator[sp.csr_array]:
    """Yield the rows of a matrix without zeros, in blocks."""
    rows, columns = weight.shape
    step = max(1, BATCH // (8 * max(columns, 1)))
    source = weight if isinstance(weight, np.ndarray) else sp.csr_array(weight)
    for first in range(0, rows, step):
        block = sp.csr_array(source[first : first + step], copy=True)
        block.sum_duplicates()
        block.eliminate_zeros()
        block.sort_indices()
        yield block
