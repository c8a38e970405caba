"""The digest of a network, by which a proof or a file of rows names it."""

from __future__ import annotations

import hashlib

import numpy as np
import scipy.sparse as sp

from lipyomo.network import Network


def network_digest(network: Network) -> str:
    """SHA-256 of a network's weights, biases and slopes; sparse and dense weights give the same."""
    digest = hashlib.sha256()
    for layer in network.layers:
        entries = sp.csr_array(layer.weight).copy()
        entries.sum_duplicates()
        entries.eliminate_zeros()
        entries.sort_indices()
        digest.update(np.array(entries.shape, dtype="<i8").tobytes())
        for index in (entries.indptr, entries.indices):
            digest.update(index.astype("<i8").tobytes())
        for values in (entries.data, layer.bias, layer.left, layer.right):
            digest.update((values + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()
