"""Units that are multiples of each other share one kink: they are merged, without rounding.

If unit j of a layer has c times the weights and the bias of unit i, then ``z_j = c z_i``, and its
output is ``h_j = P h_i + Q z_j`` with numbers P and Q that follow from the slopes.  A ReLU with
c > 0 gives ``h_j = c h_i``, one with c < 0 gives ``h_j = |c| h_i + z_j``.  The kink of unit j is
gone: it becomes an identity, or is not needed at all.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from lipyomo.arrays import FloatArray, Matrix, dense
from lipyomo.network import Layer, Network
from lipyomo.numerics.exactness import product_is_exact

_MOST = 1e9
"""Largest share of a unit in another: numbers of a network with a kink of 5e-324 would overflow."""

_ALIKE = 1e-12
"""Relative difference up to which the fingerprints of two rows may be those of multiples."""


def merged(network: Network) -> Network:
    """The same function with one kink for all units of a layer that are multiples of each other.

    Parameters
    ----------
    network : Network
        Fused.

    Returns
    -------
    Network
        `network` itself if there is nothing to merge.  Number for number the same function: where
        the weights of the next layer would round, an affine layer stands in between.
    """
    position = 0
    while position < len(network.hidden):
        layer, after = network.layers[position : position + 2]
        # an affine layer stands where weights would round: its rows are what others need
        found = None if layer.is_affine else _merged_layer(layer)
        if found is None:
            position += 1
        else:  # once more: kinks that are gone leave identities, which may be alike as well
            tail = _after(found[1], after)
            few = _used(found[0], tail[0])
            chain = [*network.layers[:position], *few, *tail[1:], *network.layers[position + 2 :]]
            network = Network(chain, network.name).fused()
    return network


def _after(spread: sp.csr_array, layer: Layer) -> list[Layer]:
    """The next layer on what is left of its inputs, and what stands before it if it must round.

    Rows whose weights add up without rounding take them; the others get the old inputs back.
    """
    rows = sp.csr_array(layer.weight)
    exact = np.ones(layer.units, dtype=bool)
    if not product_is_exact(rows, spread):
        exact[:] = [product_is_exact(rows[[k]], spread) for k in range(layer.units)]
    weight = sp.diags_array(exact.astype(float)) @ (rows @ spread)
    if exact.all():
        return [Layer(_like(layer.weight, weight), layer.bias, layer.left, layer.right)]
    own = sp.diags_array((~exact).astype(float)) @ rows
    kept = sp.eye_array(spread.shape[1], format="csr")
    old = sp.csr_array(sp.vstack([kept, spread]))
    both = sp.csr_array(sp.hstack([weight, own]))
    used = np.flatnonzero(abs(both).sum(axis=0) > 0)
    first = Layer(old[used], np.zeros(used.size))
    return [first, Layer(_like(layer.weight, both[:, used]), layer.bias, layer.left, layer.right)]


def _used(layer: Layer, after: Layer) -> tuple[Layer, Layer]:
    """Both layers without the units of the first that the second does not look at."""
    sizes = np.asarray(abs(after.weight).sum(axis=0)).reshape(-1)
    keep = np.flatnonzero(sizes > 0)
    if not 0 < keep.size < layer.units:
        return layer, after
    fewer = Layer(layer.weight[keep], layer.bias[keep], layer.left[keep], layer.right[keep])
    return fewer, Layer(after.weight[:, keep], after.bias, after.left, after.right)


def _like(given: Matrix, found: sp.csr_array) -> Matrix:
    """Sparse or dense, as given."""
    return found.toarray() if isinstance(given, np.ndarray) else sp.csr_array(found)


def _merged_layer(layer: Layer) -> tuple[Layer, sp.csr_array] | None:
    """The layer with fewer kinks, and the matrix from its units to the old ones."""
    shares: dict[int, tuple[int, float, float]] = {}
    for group in _alike(layer):
        leaders: list[int] = []
        for unit in group:
            for leader in leaders:
                share = _share(layer, leader, unit)
                if share is not None:
                    shares[unit] = (leader, *share)
                    break
            else:
                leaders.append(unit)
    if not shares:
        return None
    kept = [unit for unit in range(layer.units) if unit not in shares or shares[unit][2] != 0]
    place = {unit: k for k, unit in enumerate(kept)}
    spread = sp.lil_array((layer.units, len(kept)))
    left, right = layer.left[kept].copy(), layer.right[kept].copy()
    for unit in range(layer.units):
        if unit not in shares:
            spread[unit, place[unit]] = 1.0
            continue
        leader, of_leader, of_own = shares[unit]
        spread[unit, place[leader]] = of_leader
        if of_own != 0:
            spread[unit, place[unit]] = of_own
            left[place[unit]] = right[place[unit]] = 1.0
    return Layer(layer.weight[kept], layer.bias[kept], left, right), sp.csr_array(spread)


def _alike(layer: Layer) -> list[list[int]]:
    """Groups of units whose rows may be multiples of each other."""
    if not layer.inputs:
        return []
    weights = abs(layer.weight)
    largest = weights.max(axis=1)
    largest = largest.toarray() if sp.issparse(largest) else largest
    sizes = np.maximum(np.abs(layer.bias), np.asarray(largest).reshape(-1))
    rng = np.random.default_rng(0)
    mixed = np.asarray(weights @ rng.uniform(1.0, 2.0, layer.inputs))
    mixed = mixed + np.abs(layer.bias) * rng.uniform(1.0, 2.0)
    usable = np.flatnonzero(sizes > 0)
    prints = mixed[usable] / sizes[usable]
    order = np.argsort(prints, kind="stable")
    apart = np.diff(prints[order]) > _ALIKE * layer.units * prints[order][1:]
    begins = np.concatenate([[0], np.flatnonzero(apart) + 1])
    ends = np.concatenate([begins[1:], [order.size]])
    several = np.flatnonzero(ends - begins > 1)
    parts = [usable[order[begins[k] : ends[k]]] for k in several]
    return [part[np.lexsort((part, -sizes[part]))].tolist() for part in parts]  # large ones lead


def _share(layer: Layer, leader: int, unit: int) -> tuple[float, float] | None:
    """(P, Q) with ``h_unit = P h_leader + Q z_unit``; None if there are no such float64 numbers.

    Identities are shared among themselves.
    """
    first, second = _row(layer, leader), _row(layer, unit)
    pivot = int(np.argmax(np.abs(first)))
    ratio = Fraction(float(second[pivot])) / Fraction(float(first[pivot]))
    c = _as_float(ratio)
    if c is None or c == 0 or not np.array_equal(c * first, second):
        return None
    if not product_is_exact(np.array([[c]]), first[None, :]):
        return None
    if not (layer.kinked[leader] and layer.kinked[unit]):
        return None if layer.kinked[leader] or layer.kinked[unit] else (c, 0.0)
    low, high = Fraction(float(layer.left[leader])), Fraction(float(layer.right[leader]))
    own = Fraction(float(layer.left[unit])), Fraction(float(layer.right[unit]))
    below, above = own if ratio > 0 else own[::-1]  # in terms of the leader's sign
    of_leader = ratio * (above - below) / (high - low)
    of_own = above - of_leader * high / ratio
    found = _as_float(of_leader), _as_float(of_own)
    if found[0] is None or found[1] is None or max(map(abs, (of_leader, of_own))) > _MOST:
        return None
    return found[0], found[1]


def _row(layer: Layer, unit: int) -> FloatArray:
    """A unit's weights and bias, dense."""
    return np.append(dense(layer.weight[[unit]]).reshape(-1), layer.bias[unit])


def _as_float(value: Fraction) -> float | None:
    """The number as a float64 number, if it is one."""
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if Fraction(found) == value else None
