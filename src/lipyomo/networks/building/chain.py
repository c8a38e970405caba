"""Conversion of a system of units to a chain of layers.

Units are placed at their depth.  Values that a later layer uses from further back are passed
through the layers in between by identity units.  Backwards from the outputs, each layer requests as
few of them as possible (`cover.smallest_cover`): either the values themselves or partial sums of
them.  Values that are only used together, in the same proportions, are one value: a state that is
the sum of its previous state and a change is passed as that sum.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, IntArray, compact
from lipyomo.networks.activations import Activation
from lipyomo.networks.building.budget import budget
from lipyomo.networks.building.cover import distinct_rows, parallel_columns, smallest_cover
from lipyomo.networks.building.system import Kinds, System
from lipyomo.networks.network import Curve, Layer, Network


def _range(places: IntArray) -> slice | IntArray:
    """Return contiguous ascending positions as a slice, which sparse indexing handles faster."""
    whole = places.size and places[-1] - places[0] == places.size - 1
    return slice(int(places[0]), int(places[-1]) + 1) if whole else places


def _split(lower: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    """Factor the skip connections of some rows through as few carried values as possible.

    Parameters
    ----------
    lower : csr_array, shape (rows, width)
        Coefficients of values from further back than the layer below.

    Returns
    -------
    reads : csr_array, shape (rows, k)
    carried : csr_array, shape (k, width)
        ``reads @ carried == lower``.
    """
    filled = np.flatnonzero(np.diff(lower.indptr))
    first, which = distinct_rows(sp.csr_array(lower[filled]))
    every = sp.csr_array(lower[filled[first]])
    representatives, shares = parallel_columns(every)
    unique = sp.csr_array(every[:, representatives])
    rows, columns = smallest_cover(unique)

    alone = np.zeros(representatives.size, dtype=bool)
    alone[columns] = True
    rest = sp.csr_array(unique[rows])
    rest.data = np.where(alone[rest.indices], 0.0, rest.data)
    rest.eliminate_zeros()
    rest = sp.csr_array(rest @ shares)

    of_row = np.full(unique.shape[0], -1)
    of_row[rows] = columns.size + np.arange(rows.size)
    sums = np.flatnonzero(of_row >= 0)
    selection = sp.csr_array(
        (np.ones(sums.size), (sums, of_row[sums])),
        shape=(unique.shape[0], columns.size + rows.size),
    )
    singles = sp.hstack(
        [unique[:, columns], sp.csr_array((unique.shape[0], rows.size))], format="csr"
    )
    reads_unique = sp.csr_array(singles + selection)
    spread = sp.csr_array(
        (np.ones(filled.size), (filled, which)), shape=(lower.shape[0], unique.shape[0])
    )
    carried = sp.vstack([shares[columns], rest], format="csr")
    return sp.csr_array(spread @ reads_unique), sp.csr_array(carried)


def _curves(kinds: Kinds) -> list[Curve]:
    """Group the smooth units of a layer by activation; None marks two-slope units."""
    places: dict[Activation, list[int]] = {}
    for unit in np.flatnonzero([kind is not None for kind in kinds]).tolist():
        places.setdefault(kinds[unit], []).append(unit)
    return [Curve(activation, units) for activation, units in places.items()]


def to_network(system: System, name: str, fuse: bool = True) -> Network:
    """Build the chain of layers that computes the outputs of `system`.

    Parameters
    ----------
    system : System
    name : str
        Name of the network.
    fuse : bool, optional
        Whether to fuse affine layers where that is exact.

    Returns
    -------
    Network
        As many hidden layers as the depth of the deepest unit, plus the affine head.
    """
    system = system.pruned()
    depth = system.depths()
    inputs, width = system.inputs, system.rows.shape[1]
    unit_depth = depth[inputs : width - 1]
    rows = system.output
    left: FloatArray = np.ones(rows.shape[0])
    right: FloatArray = np.ones(rows.shape[0])
    kinds: Kinds = np.full(rows.shape[0], None)
    layers: list[Layer] = []
    for level in range(int(unit_depth.max(initial=0)), 0, -1):
        budget().poll()
        members = _range(np.flatnonzero(unit_depth == level))
        weight, offset = (
            rows[:, _range(np.arange(inputs, width - 1)[members])],
            rows[:, width - 1 :],
        )
        below, slopes = system.rows[members], [system.left[members], system.right[members]]
        own = system.kinds[members]
        skipping = np.zeros(0, dtype=bool)
        if weight.nnz + offset.nnz < rows.nnz:
            skipping = (depth[rows.indices] < level) & (rows.indices < width - 1)
            skipping &= rows.data != 0.0
        if skipping.any():
            lower = rows.copy()
            lower.data[~skipping] = 0.0
            lower.eliminate_zeros()
            reads, carried = _split(lower)
            weight = sp.csr_array(sp.hstack([weight, reads]))
            below = sp.csr_array(sp.vstack([below, carried]))
            slopes = [np.concatenate([side, np.ones(carried.shape[0])]) for side in slopes]
            own = np.concatenate([own, np.full(carried.shape[0], None)])
        bias = offset.toarray().reshape(-1)
        layers.append(Layer(compact(weight), bias, left, right, _curves(kinds)))
        rows, (left, right), kinds = below, slopes, own
    bias = rows[:, width - 1 :].toarray().reshape(-1)
    layers.append(Layer(compact(sp.csr_array(rows[:, :inputs])), bias, left, right, _curves(kinds)))
    network = Network(reversed(layers), name)
    if not fuse or not any(layer.is_affine for layer in network.hidden):
        return network
    return network.fused()
