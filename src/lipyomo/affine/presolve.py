"""A network with the units that a domain decides multiplied through: small, and known up to a bit.

On the domain of some phases the decided units are affine, so that with ``y_k = max(z_k, 0)`` of the
open units

    z_k = G_k x + sum_{j < k} S_kj y_j + g_k,        y . f = G x + sum_j S_j y_j + g.

That is a chain again: the layers that hold open units, and one identity unit for each later open
unit and each functional, which carries what is known of its sum so far.  A convolutional network of
thousands of units with a few hundred open ones becomes a network of a few hundred.

The coefficients are rounded.  Beside the network stands one of magnitudes (sums of absolute terms),
and each weight is off by at most `roughness` times its magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.affine.signal import UnitMap, unit_maps_of
from lipyomo.arrays import dense, product, scaled_columns
from lipyomo.network import FloatArray, Layer, Matrix, Network
from lipyomo.numerics.rounding import gamma
from lipyomo.phases import OPEN, Phases

PAYS = 0.34
"""Largest share of the weights that is left where a presolved network is worth having."""

LEAST_UNITS = 200
"""Networks with fewer units are small enough as they are."""


@dataclass(frozen=True)
class Presolved:
    """A network under some phases.

    Attributes
    ----------
    network : Network
        Its outputs are the functionals.
    magnitudes : Network
        Of the same shape.
    roughness : float
    units : ndarray of int, shape (N',)
        The unit of the original network that each hidden unit is; -1 for identities.
    """

    network: Network
    magnitudes: Network
    roughness: float
    units: npt.NDArray[np.int64]


def presolved_sizes(network: Network, functionals: int, phases: Phases) -> list[int] | None:
    """Inputs and units layer by layer that `presolved` would leave; None where it does not pay."""
    widths = widths_under(network, functionals, phases)
    if widths is None or sum(layer.units for layer in network.hidden) < LEAST_UNITS:
        return None
    left = sum(a * b for a, b in pairwise(widths))
    if left > PAYS * sum(layer.units * layer.inputs for layer in network.hidden):
        return None
    return widths


def widths_under(network: Network, functionals: int, phases: Phases) -> list[int] | None:
    """Inputs and units layer by layer once the decided ones are multiplied through, if any."""
    counts = [int(np.count_nonzero(phase == OPEN)) for phase in phases]
    deep = [i for i, count in enumerate(counts) if count]
    return [network.input_dim, *(sum(counts[i:]) + functionals for i in deep)] if deep else None


def presolved(network: Network, functionals: FloatArray, phases: Phases) -> Presolved | None:
    """Multiply the decided units of `phases` through; None where that does not pay.

    Parameters
    ----------
    network : Network
    functionals : ndarray, shape (k, m)
    phases : Phases
        That follow from the domain.
    """
    widths = presolved_sizes(network, len(functionals), phases)
    if widths is None:
        return None
    terms = sum(layer.inputs + layer.units + 4 for layer in network.layers)
    open_units = [np.flatnonzero(phase == OPEN) for phase in phases]
    starts = np.cumsum([0, *(layer.units for layer in network.hidden)])
    kept: list[npt.NDArray[np.int64]] = []
    deep = [i for i, units in enumerate(open_units) if units.size]
    for i, width in zip(deep, widths[1:], strict=True):
        kept += [starts[i] + open_units[i], np.full(width - open_units[i].size, -1)]
    return Presolved(
        multiplied_through(network, functionals, phases),
        multiplied_through(network, functionals, phases, True),
        gamma(2 * terms),
        np.concatenate(kept).astype(np.int64),
    )


def multiplied_through(
    network: Network, functionals: FloatArray, phases: Phases, magnitudes: bool = False
) -> Network:
    """The chain of the open units, of which there are some, or that of its magnitudes.

    Only the rows (G, S, g) of the open units, then of the functionals, are formed, from each layer
    backwards.
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
        rows = product(rows, part(layer.weight))
        if i:
            before = unit_maps[i - 1].size if magnitudes else unit_maps[i - 1]
            found[:, before.columns] = dense(rows[:, before.units]) * before.change
            rows = scaled_columns(rows, before.slope)
    found[:, :d] = dense(rows)
    return found


def _chain(maps: FloatArray, d: int, counts: list[int], name: str) -> Network:
    """The chain of layers of open units, given the rows (G, S, g) of all and of the outputs."""
    layers: list[Layer] = []
    total, first = len(maps), 0
    for count in counts:
        rows = maps[first:]
        if not layers:
            weight, bias = rows[:, :d], rows[:, -1]
        else:
            own = counts[len(layers) - 1]
            before = d + first - own
            weight = np.hstack([rows[:, before : before + own], np.eye(total - first)])
            bias = np.zeros(total - first)
        left = np.ones(total - first)
        left[:count] = 0.0
        layers.append(Layer(weight, bias, left, 1.0))
        first += count
    own, rows = counts[-1], maps[first:]
    before = d + first - own
    weight = np.hstack([rows[:, before : before + own], np.eye(total - first)])
    layers.append(Layer(weight, np.zeros(total - first)))
    return Network(layers, name)
