"""Networks without the units that a domain decides: one known up to a bit, and one for points.

On the domain of some phases the stable units are affine, so that with ``y_k = max(z_k, 0)`` of the
unstable units

    z_k = G_k x + sum_{j < k} S_kj y_j + g_k,        y . f = G x + sum_j S_j y_j + g.

That is a chain again: the layers that hold unstable units, and one identity unit for each later
open unit and each functional, which carries what is known of its sum so far.  A convolutional
network of thousands of units with a few hundred open ones becomes a network of a few hundred.

The coefficients are rounded.  Beside the network stands one of magnitudes (sums of absolute terms),
and each weight is off by at most `roughness` times its magnitude.

A search for points needs of a network the kinks that the domain meets.  Units that the domain
decides need no flips and no rows.  Those that are off there go, and so do their weights; the others
become affine, and where that takes less work are multiplied through.  That rounds: its points are
evaluated anew.  A trained CNN with 4,804 units, 285 of them open, so becomes a dense network of 400
units.
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
"""Networks with fewer units are small enough as they are."""
PRESOLVED = 0.34
"""Largest share of the weights that is left where a network whose weights round is worth having."""


@dataclass(frozen=True, eq=False)
class Presolved(Reduction):
    """The units that phases leave of a network, as a system.

    Attributes
    ----------
    system : UnitSystem
        Knows its rounding errors: `magnitudes` and `roughness`.
    functionals : ndarray, shape (k, m')
        Of the outputs of `network`, in the place of the given ones.
    phases : ndarray of int8, shape (N',)
        Known phases of the system's units.
    """

    system: UnitSystem
    functionals: FloatArray
    phases: FlatPhases

    def restrict(self, values: npt.NDArray[Any], others: npt.ArrayLike) -> npt.NDArray[Any]:
        """Values (..., N') of the system's units from those (..., N) of the given network's.

        Parameters
        ----------
        values : ndarray, shape (..., N)
        others : array_like, shape (N',) or ()
            Values of the system's units that are none of the given network's.
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
    """What phases that follow from a domain leave of a network.

    Parameters
    ----------
    network : Network
    functionals : ndarray, shape (k, m)
    domain : Domain
    phases : Phases, optional
        By default nothing is known.
    directions : Matrix, shape (d, k), optional
        Of tangents; by default all.

    Returns
    -------
    Presolved
        The network itself where nothing is known, the domain is unbounded (so that errors are) or
        what is left is not much smaller.  Else all kinked units of the system are open.
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
    """The unstable units of a network, which are the first ones of the layers that are left.

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
    """Inputs and units layer by layer that `presolve` would leave; None where it does not pay."""
    widths = widths_under(network, functionals, phases)
    if widths is None or sum(layer.units for layer in network.hidden) < LEAST_UNITS:
        return None
    left = sum(a * b for a, b in pairwise(widths))
    if left > PRESOLVED * sum(layer.units * layer.inputs for layer in network.hidden):
        return None
    return widths


def widths_under(network: Network, functionals: int, phases: Phases) -> list[int] | None:
    """Inputs and units layer by layer once the decided ones are multiplied through, if any."""
    counts = [count_open((phase,)) for phase in phases]
    deep = [i for i, count in enumerate(counts) if count]
    return [network.input_dim, *(sum(counts[i:]) + functionals for i in deep)] if deep else None


def multiplied_through(
    network: Network, functionals: FloatArray, phases: Phases, magnitudes: bool = False
) -> Network:
    """The chain of the unstable units, of which there are some, or that of its magnitudes.

    Only the rows (G, S, g) of the unstable units, then of the functionals, are formed, from each
    layer backwards.
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
    """Maps of ``start @ z`` with z the pre-activations of the last of the layers."""

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
    """The chain of layers of unstable units, given the rows (G, S, g) of all and of the outputs."""
    layers: list[Layer] = []
    starts = np.cumsum([0, *counts]).tolist()
    for i, (start, count) in enumerate(zip(starts, [*counts, 0], strict=True)):
        rows = maps[start:]
        weight, bias = rows[:, :d], rows[:, -1]
        if i:  # what is known of each sum so far, and the units of the layer before
            before = rows[:, d + starts[i - 1] : d + start]
            weight, bias = np.hstack([before, np.eye(len(rows))]), np.zeros(len(rows))
        left = np.ones(len(rows))
        left[:count] = 0.0
        layers.append(Layer(weight, bias, left, 1.0))
    return Network(layers, name)


THINNED = 0.7
"""Largest share of a pass's work that is left where units are multiplied through."""


@dataclass(frozen=True, eq=False)
class Thinned(Reduction):
    """The unstable units that phases leave of a network, but for rounding.

    Attributes
    ----------
    functional : ndarray, shape (m',), or None
        Of the outputs of `network`, in the place of a given one.
    """

    functional: FloatArray | None


def thin(network: Network, functional: FloatArray | None, phases: Phases) -> Thinned:
    """The same on a domain, but for rounding, with the unstable units of `phases` as only kinks.

    Parameters
    ----------
    network : Network
    functional : ndarray, shape (m,), or None
    phases : Phases
        That follow from the domain.
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
    """Without the stable units that pass nothing on, and without the kinks of the others."""
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
