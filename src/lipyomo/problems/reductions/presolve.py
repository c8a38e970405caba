"""Presolve: networks without the units that a domain decides, for bounds and for heuristics.

On the domain of some phases the stable units are affine, so with ``y_k = max(z_k, 0)`` of the
unstable units

    z_k = G_k x + sum_{j < k} S_kj y_j + g_k,        y . f = G x + sum_j S_j y_j + g.

This is a feed-forward network again: the layers with unstable units, with one identity unit for
each later open unit and each functional, which carries its partial sum.  A convolutional network of
thousands of units with a few hundred open ones becomes a network of a few hundred.

The coefficients are rounded.  A second network has their magnitudes (sums of absolute terms), and
the error of each weight is at most `roughness` times its magnitude.

Primal heuristics only need the kinks that the domain meets.  Stable units that are zero are removed
with their weights; the others become affine, and are multiplied through if that takes less work.
This rounds, so points found are evaluated on the original network.  A trained CNN with 4,804 units,
285 of them open, becomes a dense network of 400 units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, Matrix, dense, scaled_columns, sparse_product
from lipyomo.base.clock import dense_entries
from lipyomo.base.numerics.rounding import gamma
from lipyomo.base.system.memory import BATCH
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import LEFT, OPEN, RIGHT, Phases, count_open, flat
from lipyomo.problems.affine.signal import UnitMap, unit_maps_of
from lipyomo.problems.affine.system import FlatPhases, UnitSystem
from lipyomo.problems.domains import Domain
from lipyomo.problems.reductions.reduction import Counterparts, Reduction

LEAST_UNITS = 200
"""Networks with fewer units are not presolved."""
PRESOLVED = 0.34
"""Largest share of the weights that may be left for a network with rounded weights to pay."""


@dataclass(frozen=True, eq=False)
class Presolved(Reduction):
    """A presolved network as a unit system.

    Attributes
    ----------
    system : UnitSystem
        Has bounds of its rounding errors: `magnitudes` and `roughness`.
    functionals : ndarray, shape (k, m')
        The given functionals in terms of the outputs of `network`.
    phases : ndarray of int8, shape (N',)
        Known phases of the system's units.
    """

    system: UnitSystem
    functionals: FloatArray
    phases: FlatPhases

    def restrict(self, values: npt.NDArray[Any], others: npt.ArrayLike) -> npt.NDArray[Any]:
        """Convert values (..., N) of the given network's units to the system's (..., N').

        Parameters
        ----------
        values : ndarray, shape (..., N)
        others : array_like, shape (N',) or ()
            Values for units of the system that are not units of the given network.
        """
        found = np.empty((*values.shape[:-1], self.system.count), dtype=values.dtype)
        found[...] = others
        found[..., self.units.inner] = values[..., self.units.outer]
        return found


def presolve(
    network: Network,
    functionals: FloatArray,
    domain: Domain,
    phases: Phases | None = None,
    directions: Matrix | None = None,
) -> Presolved:
    """Eliminate the units of a network that are decided on a domain.

    Parameters
    ----------
    network : Network
    functionals : ndarray, shape (k, m)
    domain : Domain
    phases : Phases, optional
        Phases that follow from the domain; by default none is known.
    directions : Matrix, shape (d, k), optional
        Directions of tangents; by default all.

    Returns
    -------
    Presolved
        The network itself if no phases are known, the domain is unbounded (as errors would be) or
        the result is not much smaller.  Otherwise all kinked units of the system are open.
    """
    widths = None
    if phases is not None and domain.is_bounded:
        widths = presolved_sizes(network, len(functionals), phases)
    if phases is None or widths is None:
        system = UnitSystem(network, functionals, domain, directions=directions)
        same = Reduction.none(network)
        known = system.root_phases() if phases is None else flat(phases)
        return Presolved(**vars(same), system=system, functionals=functionals, phases=known)
    small = multiplied_through(network, functionals, phases)
    sizes = multiplied_through(network, functionals, phases, magnitudes=True)
    terms = sum(layer.inputs + layer.units + 4 for layer in network.layers)
    eye = np.eye(len(functionals))
    system = UnitSystem(small, eye, domain, sizes, gamma(2 * terms), directions)
    way = Reduction.to(small, _unstable_units(network, phases, widths))
    return Presolved(**vars(way), system=system, functionals=eye, phases=system.root_phases())


def _unstable_units(network: Network, phases: Phases, widths: Sequence[int]) -> Counterparts:
    """Return the map of a network's unstable units to the first units of the layers that are left.

    Parameters
    ----------
    network : Network
    phases : Phases
    widths : sequence of int
        Inputs and units layer by layer, from `widths_under`.
    """
    known = flat(phases)
    counts = [count for count in (count_open((phase,)) for phase in phases) if count]
    starts = np.cumsum([0, *widths[1:-1]])
    inner = [a + np.arange(count) for a, count in zip(starts, counts, strict=True)]
    outer = np.flatnonzero(known == OPEN)
    return Counterparts.of(network, outer, np.concatenate(inner), known == RIGHT)


def presolved_sizes(network: Network, functionals: int, phases: Phases) -> list[int] | None:
    """Return inputs and units by layer after `presolve`; None where it does not pay."""
    widths = widths_under(network, functionals, phases)
    if widths is None or sum(layer.units for layer in network.hidden) < LEAST_UNITS:
        return None
    left = sum(a * b for a, b in pairwise(widths))
    if left > PRESOLVED * sum(layer.units * layer.inputs for layer in network.hidden):
        return None
    return widths


def widths_under(network: Network, functionals: int, phases: Phases) -> list[int] | None:
    """Return inputs and units by layer with decided units multiplied through; None if no open."""
    counts = [count_open((phase,)) for phase in phases]
    deep = [i for i, count in enumerate(counts) if count]
    return [network.input_dim, *(sum(counts[i:]) + functionals for i in deep)] if deep else None


def multiplied_through(
    network: Network, functionals: FloatArray, phases: Phases, magnitudes: bool = False
) -> Network:
    """Build the network of the unstable units, at least one, or that of its magnitudes.

    Only the rows (G, S, g) of the unstable units and of the functionals are formed, backwards from
    each layer.
    """
    d, layers = network.input_dim, network.layers
    unit_maps = unit_maps_of(network.hidden, phases, d)
    width = d + sum(p.units.size for p in unit_maps) + 1
    maps: list[FloatArray] = []
    for i, layer in enumerate(layers):
        start: Matrix = functionals
        if i < len(unit_maps):
            start = sp.csr_array(sp.eye_array(layer.units))[unit_maps[i].units]
        if start.shape[0]:
            start = abs(start) if magnitudes else start
            maps.append(_row_maps(start, layers[: i + 1], unit_maps, d, width, magnitudes))
    order = [p.units.size for p in unit_maps if p.units.size]
    return _chain(np.concatenate(maps), d, order, network.name)


def _row_maps(
    start: Matrix,
    layers: tuple[Layer, ...],
    unit_maps: list[UnitMap],
    d: int,
    width: int,
    magnitudes: bool,
) -> FloatArray:
    """Return the maps of ``start @ z``, with z the pre-activations of the last of the layers."""

    def part(matrix: Matrix) -> Matrix:
        return abs(matrix) if magnitudes else matrix

    found = np.zeros((start.shape[0], width))
    rows = start
    for i in range(len(layers) - 1, -1, -1):
        layer = layers[i]
        found[:, -1] += rows @ part(layer.bias)
        rows = sparse_product(rows, part(layer.weight))
        if i:
            before = unit_maps[i - 1].size if magnitudes else unit_maps[i - 1]
            found[:, before.columns] = dense(rows[:, before.units]) * before.change
            rows = scaled_columns(rows, before.slope)
    found[:, :d] = dense(rows)
    return found


def _chain(maps: FloatArray, d: int, counts: list[int], name: str) -> Network:
    """Build the network from the rows (G, S, g) of the unstable units and of the outputs."""
    layers: list[Layer] = []
    starts = np.cumsum([0, *counts]).tolist()
    for i, (start, count) in enumerate(zip(starts, [*counts, 0], strict=True)):
        rows = maps[start:]
        weight, bias = rows[:, :d], rows[:, -1]
        if i:  # add the outputs of the previous layer's open units to the partial sums
            before = rows[:, d + starts[i - 1] : d + start]
            weight, bias = np.hstack([before, np.eye(len(rows))]), np.zeros(len(rows))
        left = np.ones(len(rows))
        left[:count] = 0.0
        layers.append(Layer(weight, bias, left, 1.0))
    return Network(layers, name)


THINNED = 0.7
"""Units are multiplied through if at most this share of a pass's work is left."""


@dataclass(frozen=True, eq=False)
class Thinned(Reduction):
    """A network without decided units, the same function on the domain up to rounding.

    Attributes
    ----------
    functional : ndarray, shape (m',), or None
        The given functional in terms of the outputs of `network`.
    """

    functional: FloatArray | None


def thin(network: Network, functional: FloatArray | None, phases: Phases) -> Thinned:
    """Remove the kinks that are decided by `phases`, up to rounding.

    Parameters
    ----------
    network : Network
    functional : ndarray, shape (m,), or None
    phases : Phases
        Phases that follow from the domain.
    """
    if count_open(phases) == network.kinked_units:
        return Thinned(**vars(Reduction.none(network)), functional=functional)
    found = _without_decided(network, phases)
    rows = np.eye(network.output_dim) if functional is None else functional[None, :]
    widths = widths_under(network, len(rows), phases)
    if widths is not None:
        entries = sum(a * b for a, b in pairwise([*widths, len(rows)]))
        work = sum(dense_entries(layer.weight) for layer in found.network.layers)
        if entries <= min(THINNED * work, BATCH // 8):
            small = multiplied_through(network, rows, phases)
            found = Reduction.to(small, _unstable_units(network, phases, widths))
            functional = None if functional is None else np.ones(1)
    return Thinned(**vars(found), functional=functional)


def _without_decided(network: Network, phases: Phases) -> Reduction:
    """Remove stable units of slope zero, and the kinks of the other stable units."""
    layers, before = [], np.ones(network.input_dim, dtype=bool)
    kept = [np.zeros(0, dtype=bool)]
    for layer, phase in zip(network.hidden, phases, strict=True):
        layer.check_two_slope()
        left = np.where(phase == RIGHT, layer.right, layer.left)
        right = np.where(phase == LEFT, layer.left, layer.right)
        keep = (left != 0) | (right != 0)
        keep[:1] |= not keep.any()
        weight = layer.weight[np.flatnonzero(keep)][:, np.flatnonzero(before)]
        layers.append(Layer(weight, layer.bias[keep], left[keep], right[keep]))
        kept.append(keep)
        before = keep
    head = Layer(network.head.weight[:, np.flatnonzero(before)], network.head.bias)
    small = Network([*layers, head], network.name)
    known, place = flat(phases), np.cumsum(np.concatenate(kept)) - 1
    outer = np.flatnonzero(known == OPEN)
    return Reduction.to(small, Counterparts.of(network, outer, place[outer], known == RIGHT))
