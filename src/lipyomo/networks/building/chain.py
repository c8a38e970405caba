"""From the system of units to a chain of layers.

Units are placed at their depth.  What a later layer reads from further back is carried past the
layers in between by identity units.  Going backwards from the outputs, each layer asks for the
fewest of them (`cover.smallest_cover`): either the values themselves or partial sums of them.
Values that are only ever read together, in the same proportions, are one value: a state that is a
sum of its former state and of a change is carried as that sum.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, IntArray, settled
from lipyomo.networks.activations import Activation
from lipyomo.networks.building.budget import budget
from lipyomo.networks.building.cover import distinct_rows, parallel_columns, smallest_cover
from lipyomo.networks.building.system import Kinds, System
from lipyomo.networks.network import Curve, Layer, Network


def _range(places: IntArray) -> slice | IntArray:
    """Rising places as a slice if none is missing: sparse matrices take it several times faster."""
    whole = places.size and places[-1] - places[0] == places.size - 1
    return slice(int(places[0]), int(places[-1]) + 1) if whole else places


def _split(lower: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
    """Factor the skipped part of some rows through as few carried values as possible.

    Parameters
    ----------
    lower : csr_array, shape (rows, width)
        What the rows read from further back than the layer below.

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
    """The smooth units of a layer, by their activations (None where units have two slopes)."""
    places: dict[Activation, list[int]] = {}
    for unit in np.flatnonzero([kind is not None for kind in kinds]).tolist():
        places.setdefault(kinds[unit], []).append(unit)
    return [Curve(activation, units) for activation, units in places.items()]


def to_network(system: System, name: str, fuse: bool = True) -> Network:
    """The chain of layers that computes the outputs of `system`.

    Parameters
    ----------
    system : System
    name : str
        Name of the network.
    fuse : bool, optional
        Whether affine layers are put together where that does not round.

    Returns
    -------
    Network
        As many layers as the deepest unit asks for, plus the affine head.
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
        layers.append(Layer(settled(weight), bias, left, right, _curves(kinds)))
        rows, (left, right), kinds = below, slopes, own
    bias = rows[:, width - 1 :].toarray().reshape(-1)
    layers.append(Layer(settled(sp.csr_array(rows[:, :inputs])), bias, left, right, _curves(kinds)))
    network = Network(reversed(layers), name)
    if not fuse or not any(layer.is_affine for layer in network.hidden):
        return network
    return network.fused()
