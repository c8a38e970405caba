"""Exact reductions before any bound: the result is the same function in exact arithmetic.

Frozen inputs are moved into the first biases.  Affine layers are multiplied into the next ones.
Units that are multiples of each other have the same kink and are merged.

If unit j of a layer has c times the weights and the bias of unit i, then ``z_j = c z_i``.  If every
row of the next layer combines such units to a multiple of the same two slopes, they are replaced by
one two-slope unit: ``relu(x) - a relu(-x)`` is one LeakyReLU, ``relu(x) - relu(-x)`` needs no unit.
Otherwise the output of j is ``h_j = P h_i + Q z_j`` with numbers P and Q that follow from the
slopes.  A ReLU with c > 0 gives ``h_j = c h_i``, one with c < 0 gives ``h_j = |c| h_i + z_j``.
Unit j has no kink any more: it becomes an identity, or is removed.

Smooth units of the same activation are merged if c = 1, and if c = -1 when the activation satisfies
``sigma(-z) = P sigma(z) + Q z``: (-1, 0) if it is odd, (1, -1) for softplus.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias
from weakref import WeakSet

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, Matrix
from lipyomo.base.numerics.exact import entries_are_exact, product_is_exact, sum_is_exact
from lipyomo.base.numerics.rounding import EQUAL, gamma
from lipyomo.networks.activations import Activation
from lipyomo.networks.layer import fused_layers
from lipyomo.networks.naming import some
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.reductions.reduction import Counterparts, Reduction

LARGEST_SHARE = 1.0 / EQUAL
"""Limit of P and Q: a kink of 5e-324 would overflow."""

Multiples: TypeAlias = tuple[IntArray, FloatArray]
"""Units (k,), and their ratios (k,) to the first one."""

_MERGED: WeakSet[Network] = WeakSet()
"""Networks that cannot be merged further."""


def fuse(network: Network) -> Reduction:
    """Fuse the affine layers of a network, as `Network.fused`.

    Units with two equal slopes, and those without inputs, lose their kink.
    """
    chain, places = fused_layers(network.layers)
    small = network.with_layers(chain)
    if small is network:
        return Reduction.none(network)
    before = np.cumsum([0, *(layer.units for layer in network.layers)])
    after = np.cumsum([0, *(layer.units for layer in chain)])
    outer: list[IntArray] = [np.zeros(0, dtype=np.intp)]
    inner = outer.copy()
    for i, place in places.items():
        kept = np.flatnonzero(chain[place].bent)
        outer.append(before[i] + kept)
        inner.append(after[place] + kept)
    sides = np.concatenate([np.zeros(0), *(layer.bias for layer in network.hidden)]) > 0
    return Reduction.to(
        small, Counterparts.of(network, np.concatenate(outer), np.concatenate(inner), sides)
    )


@dataclass(frozen=True, eq=False)
class _Merger:
    """A layer with fewer kinks, and the map back to its units.

    Attributes
    ----------
    layers : list of Layer
        The layer, an affine one in between if weights would round, and the next one.
    kept : ndarray of int, shape (n',)
        The units that are left.
    leaders : ndarray of int, shape (n,)
        The unit that each unit is merged with, or itself.
    turned : ndarray of bool, shape (n,)
        Whether a unit is a negative multiple of its leader.
    """

    layers: list[Layer]
    kept: IntArray
    leaders: IntArray
    turned: BoolArray

    def units(self, network: Network, position: int) -> Counterparts:
        """Return the map of all units of a network whose layer at `position` was merged."""
        counts = [layer.units for layer in network.hidden]
        start, stop, end = (sum(counts[:i]) for i in (position, position + 1, len(counts)))
        shift = sum(layer.units for layer in self.layers[:-1]) - counts[position]
        before, behind = np.arange(start), np.arange(stop, end)
        own = np.isin(self.leaders, self.kept)
        outer = np.concatenate([before, start + np.flatnonzero(own), behind])
        place = start + np.searchsorted(self.kept, self.leaders[own])
        turned = np.zeros(end, dtype=bool)
        turned[start:stop] = self.turned
        # units of a removed kink are all on the sides that a single point would give them
        return Counterparts(
            tuple(counts),
            outer,
            np.concatenate([before, place, behind + shift]),
            turned[outer],
            ~turned,
        )


def merge(network: Network) -> Reduction:
    """Merge the units of each layer that are multiples of each other.

    Parameters
    ----------
    network : Network
        Fused.

    Returns
    -------
    Reduction
        To the network itself if there is nothing to merge.  The function is exactly the same: if
        the weights of the next layer would round, an affine layer is put in between.
    """
    found = Reduction.none(network)
    if network in _MERGED:
        return found
    position = 0
    while position < len(network.hidden):
        layer, after = network.layers[position : position + 2]
        classes = list(_classes(layer))
        if layer.is_affine:  # it prevents rounding: only equal rows may be merged
            merger = _equal(layer, after, classes)
        else:
            merger = _joined(layer, after, classes) or _shared(layer, after, classes)
        if merger is None:
            position += 1
        else:  # repeat: removed kinks leave identities, which may be multiples as well
            chain = [*network.layers[:position], *merger.layers, *network.layers[position + 2 :]]
            few = Reduction.to(network.with_layers(chain), merger.units(network, position))
            found = found.then(few).then(fuse(few.network))
            network = found.network
    _MERGED.add(network)
    return found


@np.errstate(all="ignore")
def _joined(layer: Layer, after: Layer, classes: Sequence[Multiples]) -> _Merger | None:
    """Replace units by a single one where it serves all rows of the next layer; None if nowhere."""
    classes = [found for found in classes if not layer.curved[found[0]].any()]
    if not classes:
        return None
    weight = sp.csc_array(after.weight)
    weight.sum_duplicates()
    left, right, kept = layer.left.copy(), layer.right.copy(), np.ones(layer.units)
    leaders, turned = np.arange(layer.units), np.zeros(layer.units, dtype=bool)
    readers: list[IntArray] = []
    columns: list[IntArray] = []
    values: list[FloatArray] = []
    for units, ratios in classes:
        own = np.column_stack([layer.left[units], layer.right[units]])
        own = np.where(ratios[:, None] > 0, own, own[:, ::-1])  # below and above the first's kink
        scale = np.broadcast_to(ratios[:, None], own.shape)
        seen = _sides(weight, units, scale * own) if entries_are_exact(scale, own).all() else None
        if seen is None:
            continue
        who, sides = seen
        found = _one_unit(sides)
        if found is not None:
            first = units[0]
            (left[first], right[first]), multiples = found
            leaders[units], turned[units], kept[units] = first, ratios < 0, 0.0
            readers.append(who)
            columns.append(np.full(who.size, first))
            values.append(multiples)
    if kept.all():
        return None
    where = np.concatenate(readers), np.concatenate(columns)
    added = sp.csc_array((np.concatenate(values), where), shape=weight.shape)
    rows = _like(after.weight, weight @ sp.diags_array(kept) + added)
    joined = Layer(layer.weight, layer.bias, left, right, layer.curves)
    layers, used = _used(joined, after.with_map(rows, after.bias))
    return _Merger(layers, used, leaders, turned)


def _sides(
    weight: sp.csc_array, units: IntArray, slopes: FloatArray
) -> tuple[IntArray, FloatArray] | None:
    """Return the rows that use any of some units, and their total slopes; None if these round."""
    read = weight[:, units].tocoo()
    order = np.argsort(read.row, kind="stable")
    who, starts, counts = np.unique(read.row[order], return_index=True, return_counts=True)
    factor, other = np.broadcast_arrays(read.data[order, None], slopes[read.col[order]])
    terms, total = factor * other, np.zeros((who.size, 2))
    exact = bool(entries_are_exact(factor, other).all())
    for k in range(int(counts.max(initial=0))):
        more = np.flatnonzero(counts > k)
        term = terms[starts[more] + k]
        exact = exact and sum_is_exact(total[more], term)
        total[more] += term
    return (who, total) if exact else None


def _one_unit(sides: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return two slopes of which all pairs `sides` (n, 2) are multiples, and the factors (n,)."""
    if not sides.any():
        return np.ones(2), np.zeros(len(sides))
    steep = sides[np.argmax(np.abs(sides).max(axis=1))]
    side = int(np.argmax(np.abs(steep)))
    # normalise one slope to one if that is exact
    for own in (steep / (steep[1] if steep[1] != 0.0 else np.abs(steep).max()), steep):
        multiples = sides[:, side] / own[side]
        factor, slopes = np.broadcast_arrays(multiples[:, None], own)
        if (factor * slopes == sides).all() and entries_are_exact(factor, slopes).all():
            return own, multiples
    return None


def _after(spread: sp.csr_array, layer: Layer) -> list[Layer]:
    """Rewrite the next layer for the merged inputs, with an affine layer before it if necessary.

    Rows whose weights add up exactly use the merged inputs; the others get the old inputs back.
    """
    rows = sp.csr_array(layer.weight)
    exact = np.ones(layer.units, dtype=bool)
    if not product_is_exact(rows, spread):
        exact[:] = [product_is_exact(rows[[k]], spread) for k in range(layer.units)]
    weight = sp.diags_array(exact.astype(float)) @ (rows @ spread)
    if exact.all():
        return [layer.with_map(_like(layer.weight, weight), layer.bias)]
    own = sp.diags_array((~exact).astype(float)) @ rows
    kept = sp.eye_array(spread.shape[1], format="csr")
    old = sp.csr_array(sp.vstack([kept, spread]))
    both = sp.csr_array(sp.hstack([weight, own]))
    used = np.flatnonzero(abs(both).sum(axis=0) > 0)
    first = Layer(old[used], np.zeros(used.size))
    return [first, layer.with_map(_like(layer.weight, both[:, used]), layer.bias)]


def _used(layer: Layer, after: Layer) -> tuple[list[Layer], IntArray]:
    """Remove units that the next layer does not use; return both layers and the kept units."""
    sizes = np.asarray(after.sizes.sum(axis=0)).reshape(-1)
    keep = np.flatnonzero(sizes > 0)
    if keep.size == layer.units:
        return [layer, after], keep
    if keep.size:
        fewer = layer.selected(keep)
    else:  # keep one identity, which is removed when layers are fused
        keep = np.array([0])
        fewer = Layer(layer.weight[keep], layer.bias[keep])
    return [fewer, after.with_map(after.weight[:, keep], after.bias)], keep


def _like(given: Matrix, found: sp.csr_array) -> Matrix:
    """Return `found` as a sparse or dense matrix, like `given`."""
    return found.toarray() if isinstance(given, np.ndarray) else sp.csr_array(found)


def _shared(layer: Layer, after: Layer, classes: Sequence[Multiples]) -> _Merger | None:
    """Express units by others, ``h_j = P h_i + Q z_j``, so that fewer kinks are left; else None."""
    shares: dict[int, tuple[int, float, float]] = {}
    leaders, turned = np.arange(layer.units), np.zeros(layer.units, dtype=bool)
    for units, ratios in classes:
        known: list[tuple[int, Fraction]] = []
        for unit, size in zip(units.tolist(), map(Fraction, ratios.tolist()), strict=True):
            for leader, other in known:
                share = _share(layer, leader, unit, size / other)
                if share is not None:
                    shares[unit] = (leader, *share)
                    leaders[unit], turned[unit] = leader, size / other < 0
                    break
            else:
                known.append((unit, size))
    if not shares:
        return None
    kept = [unit for unit in range(layer.units) if unit not in shares or shares[unit][2] != 0]
    place = {unit: k for k, unit in enumerate(kept)}
    spread = sp.lil_array((layer.units, len(kept)))  # from the new units to the old ones
    left, right = layer.left.copy(), layer.right.copy()
    bent = []
    for unit in range(layer.units):
        if unit not in shares:
            spread[unit, place[unit]] = 1.0
            bent.append(unit)
            continue
        leader, of_leader, of_own = shares[unit]
        spread[unit, place[leader]] = of_leader
        if of_own != 0:
            spread[unit, place[unit]] = of_own
        left[unit] = right[unit] = 1.0
    first, *rest = _after(sp.csr_array(spread), after)
    curves = layer.restricted(np.array(bent))
    few = Layer(layer.weight, layer.bias, left, right, curves).selected(np.array(kept))
    layers, used = _used(few, first)
    return _Merger([*layers, *rest], np.array(kept)[used], leaders, turned)


def _equal(layer: Layer, after: Layer, classes: Sequence[Multiples]) -> _Merger | None:
    """Merge equal units of an affine layer if the weights add up exactly; else None."""
    groups = [units[ratios == ratio] for units, ratios in classes for ratio in np.unique(ratios)]
    same = [(units, np.ones(units.size)) for units in groups if units.size > 1]
    merger = _shared(layer, after, same)
    return merger if merger is not None and len(merger.layers) == 2 else None


def _classes(layer: Layer) -> Iterator[Multiples]:
    """Yield classes of units that are multiples of the first one, with their ratios."""
    for group in _alike(layer):
        part = layer.weight[group]
        if not isinstance(part, np.ndarray):  # without the columns that none of them uses
            used, columns = np.unique(part.indices, return_inverse=True)
            shape = (len(group), used.size)
            part = sp.csr_array((part.data, columns, part.indptr), shape=shape).toarray()
        rows = np.column_stack([part, layer.bias[group]])
        left = np.arange(len(group))
        while left.size > 1:
            first = rows[left[0]]
            pivot = int(np.argmax(np.abs(first)))
            with np.errstate(all="ignore"):
                ratios = rows[left, pivot] / first[pivot]
                same = (ratios[:, None] * first == rows[left]).all(axis=1) & (ratios != 0)
            factor, other = np.broadcast_arrays(ratios[:, None], first)
            same &= entries_are_exact(factor, other).all(axis=1)
            same[0] = True
            if same.sum() > 1:
                yield np.array(group)[left[same]], ratios[same]
            left = left[~same]


def _alike(layer: Layer) -> list[list[int]]:
    """Return groups of units whose rows may be multiples, by hashes of their absolute values."""
    if not layer.inputs:
        return []
    weights = layer.sizes
    largest = weights.max(axis=1)
    largest = largest.toarray() if sp.issparse(largest) else largest
    sizes = np.maximum(np.abs(layer.bias), np.asarray(largest).reshape(-1))
    rng = np.random.default_rng(0)
    mixed = np.asarray(weights @ rng.uniform(1.0, 2.0, layer.inputs))
    mixed = mixed + np.abs(layer.bias) * rng.uniform(1.0, 2.0)
    usable = np.flatnonzero(sizes > 0)
    prints = mixed[usable] / sizes[usable]
    order = np.argsort(prints, kind="stable")
    rounding = 2.0 * gamma(layer.inputs + 1)  # of the sums of two rows that are multiples
    differ = np.diff(prints[order]) > rounding * prints[order][1:]
    begins = np.concatenate([[0], np.flatnonzero(differ) + 1])
    ends = np.concatenate([begins[1:], [order.size]])
    several = np.flatnonzero(ends - begins > 1)
    parts = [usable[order[begins[k] : ends[k]]] for k in several]
    return [part[np.lexsort((part, -sizes[part]))].tolist() for part in parts]  # large ones first


def _share(layer: Layer, leader: int, unit: int, ratio: Fraction) -> tuple[float, float] | None:
    """Return (P, Q) with ``h_unit = P h_leader + Q z_unit``; None if they are no float64 numbers.

    The pre-activation of the unit is `ratio` times the leader's.  Identities are merged with
    identities only, and smooth units with those of the same activation.
    """
    if layer.curved[leader] or layer.curved[unit]:
        shared = [c.activation for c in layer.curves if leader in c.units and unit in c.units]
        return _reflected(shared[0], ratio) if shared else None
    if not (layer.kinked[leader] and layer.kinked[unit]):
        c = None if layer.kinked[leader] or layer.kinked[unit] else _as_float(ratio)
        return None if c is None else (c, 0.0)
    low, high = Fraction(float(layer.left[leader])), Fraction(float(layer.right[leader]))
    own = Fraction(float(layer.left[unit])), Fraction(float(layer.right[unit]))
    below, above = own if ratio > 0 else own[::-1]  # in terms of the leader's sign
    of_leader = ratio * (above - below) / (high - low)
    of_own = above - of_leader * high / ratio
    found = _as_float(of_leader), _as_float(of_own)
    large = max(abs(of_leader), abs(of_own)) > LARGEST_SHARE
    return None if found[0] is None or found[1] is None or large else (found[0], found[1])


def _reflected(activation: Activation, ratio: Fraction) -> tuple[float, float] | None:
    """Return (P, Q) with ``sigma(ratio z) = P sigma(z) + Q ratio z`` for all z, if known."""
    if ratio == 1:
        return 1.0, 0.0
    if ratio == -1 and activation.reflection is not None:
        of_value, of_argument = activation.reflection
        return of_value, -of_argument
    return None


def _as_float(value: Fraction) -> float | None:
    """Convert a number that is exactly a float64 number; None for others."""
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if Fraction(found) == value else None


def exactly(network: Network, domain: Domain, kept: BoolArray | None = None) -> Reduction:
    """Eliminate frozen inputs, fuse and merge a network, all exactly.

    Inputs that are `kept`, shape (d,), are not eliminated.
    """
    if kept is None:
        return _exactly(network, domain)
    return _without(network, domain, domain.frozen & ~kept)


@lru_cache(maxsize=2)  # constants and values of one network are often asked about in turn
def _exactly(network: Network, domain: Domain) -> Reduction:
    return _without(network, domain, domain.frozen)


def _without(network: Network, domain: Domain, frozen: BoolArray) -> Reduction:
    """Eliminate frozen inputs (d,), fuse and merge."""
    found = freeze(network, frozen, np.where(frozen, domain.upper, 0.0))
    found = found.then(fuse(found.network))
    return found.then(merge(found.network))


def freeze(
    network: Network, fixed: BoolArray, values: FloatArray, rounding: bool = False
) -> Reduction:
    """Fix some inputs: the network as a function of the others.

    Parameters
    ----------
    network : Network
    fixed : ndarray of bool, shape (d,)
    values : ndarray, shape (d,)
        Values of the fixed inputs.
    rounding : bool, optional
        Whether the biases of the first layer may round.  By default the function is exactly the
        same: if they would round, a first layer of identities inserts the fixed values instead.
    """
    if not fixed.any():
        return Reduction.none(network)
    first, held, move = network.layers[0], np.flatnonzero(fixed), np.flatnonzero(~fixed)
    weight = first.weight if isinstance(first.weight, np.ndarray) else first.weight.tocsc()
    own, given = weight[:, held], np.asarray(values, dtype=np.float64)[held]
    shift = np.asarray(own @ given)
    exact = product_is_exact(own, given[:, None]) and sum_is_exact(shift, first.bias)
    full = np.where(fixed, values, 0.0)
    if exact or rounding:
        begun = [first.with_map(weight[:, move], first.bias + shift)]
        units = Counterparts.same(network)
    else:
        shape = (first.inputs, move.size)
        places = sp.csr_array((np.ones(move.size), (move, np.arange(move.size))), shape=shape)
        begun = [Layer(places, full), first]
        units = Counterparts.same(network, first.inputs)
    names = some(network.input_names, move)
    small = Network([*begun, *network.layers[1:]], network.name, input_names=names)
    return Reduction(small, ~fixed, full, units)
