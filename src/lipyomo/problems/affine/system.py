"""The hidden units of a network in one numbering, and its form under a partial pattern.

Write ``y_k = max(z_k, 0)`` for an unstable unit k; its output is ``left z_k + (right - left) y_k``.
Stable units are eliminated, so with F unstable units

    z_k = G_k x + S_k y + g_k         for every unit k, decided or open,
    outputs = G x + S y + g,

S strictly triangular.  The tangents obey the same maps without the offsets: ``u_k = G_k v + S_k s``
with ``s_k = (switch of k) * u_k``.  The same form therefore serves the linear programs (in x and y)
and the semidefinite bound (in v and s).

Rounding errors of pre-activations are bounded by magnitudes, which are computed once, over the
whole domain and with every unit at its steeper slope, and hold under all phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray, Matrix
from lipyomo.base.numerics.exact import product_is_exact
from lipyomo.base.numerics.rounding import UNIT, gamma
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import OPEN, RIGHT, Phases
from lipyomo.problems.affine.signal import FloatSignal, SizeSignal, UnitMap, carry, unit_maps_of
from lipyomo.problems.domains import Domain


def steepest(layers: Sequence[Layer]) -> list[UnitMap]:
    """Return maps of the steeper slopes, which bound those under all phases in magnitude."""
    return [UnitMap.of_slopes(layer.steepest) for layer in layers]


def term_sizes(
    layers: Sequence[Layer],
    start: FloatArray,
    constants: bool = True,
    unit_maps: Sequence[UnitMap] | None = None,
) -> list[FloatArray]:
    """Return the sums of absolute terms of the pre-activations.

    Parameters
    ----------
    layers : sequence of Layer
    start : ndarray, shape (d,)
        Magnitudes of the inputs, or of their tangents.
    constants : bool, optional
        Whether to include the biases.
    unit_maps : sequence of UnitMap, optional
        Without columns; by default those of the steeper slopes.

    Returns
    -------
    list of ndarray, shapes (n_i,)
        One for each layer.
    """
    signal = SizeSignal(start[:, None], 1, 0 if constants else None)  # biases go to column 0
    carried = carry(signal, layers, steepest(layers) if unit_maps is None else unit_maps)
    return [np.asarray(z.matrix)[:, 0] for z in carried]


def switched_sizes(network: Network, start: FloatArray, constants: bool) -> list[FloatArray]:
    """Return sums of absolute terms with units written as ``left z + (right - left) (y z)``.

    Parameters
    ----------
    network : Network
    start : ndarray, shape (d,)
        Magnitudes of the inputs, or of their tangents.
    constants : bool
        Whether to include the biases.

    Returns
    -------
    list of ndarray, shapes (n_i,)
        For the pre-activations of each hidden layer; the last one for the outputs.
    """
    unit_maps = [
        UnitMap.of_slopes(layer.steepest + np.abs(layer.right - layer.left))
        for layer in network.hidden
    ]
    return term_sizes(network.layers, start, constants, unit_maps)


def coefficient_sizes(network: Network) -> FloatArray:
    """Bound the sums of absolute coefficients of pre-activations in the inputs, shape (N,)."""
    sizes = term_sizes(network.hidden, np.ones(network.input_dim), constants=False)
    return np.concatenate([np.zeros(0), *sizes])


def preactivation_errors(network: Network, domain: Domain, roughness: float = 0.0) -> FloatArray:
    """Bound the rounding errors of pre-activations and of their linear bounds, shape (N,).

    The bounds hold for values at a point, for the affine maps of a node in its inputs and unstable
    units, and for bounds by back-substitution (whose lines have slopes between the unit's two, and
    offsets of at most twice the steeper slope times the pre-activation).  They are infinite on
    unbounded domains.  The weights may be off by `roughness` times those of `network`.
    """
    layers = network.hidden
    if not domain.is_bounded:
        return np.full(sum(layer.units for layer in layers), np.inf)
    reach = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
    unit_maps = [UnitMap.of_slopes(3.0 * layer.steepest) for layer in layers]
    terms = network.input_dim + 8
    errors = [np.zeros(0)]
    sizes = term_sizes(layers, reach, unit_maps=unit_maps)
    for depth, (layer, size) in enumerate(zip(layers, sizes, strict=True)):
        terms += 2 * layer.inputs + 12
        relative = terms * UNIT + (depth + 2) * roughness
        errors.append(relative * size)
    return np.concatenate(errors)


FlatPhases = npt.NDArray[np.int8]
"""Phases of all hidden units in one array, shape (N,)."""


class UnitSystem:
    """The hidden units of a network, numbered 0..N-1 through all layers.

    Parameters
    ----------
    network : Network
    functionals : ndarray, shape (k, m)
        Rows y; the gradients of ``y . f`` are bounded.
    domain : Domain
        The domain over which rounding errors are bounded.
    magnitudes : Network, optional
        Bounds of the weights' magnitudes before cancellation; `network` if the weights are exact.
    roughness : float, optional
        Error bound of the weights relative to `magnitudes`.
    directions : Matrix, shape (d, k), optional
        Directions of the tangents; by default all inputs, k = d.

    Attributes
    ----------
    tangents : Network
        The network as a function of directions.
    starts : list of int
        First unit of each layer, and N at the end.
    left, right : ndarray, shape (N,)
        Slopes.
    kinked : ndarray of bool, shape (N,)
    head : ndarray, shape (k, n_L)
        The functionals pulled back to the last hidden layer.
    head_errors : ndarray, shape (k, n_L)
        Bounds of their rounding errors.
    errors : ndarray, shape (N,)
        Bounds of the rounding errors of pre-activations and of their linear bounds over the domain;
        infinite if it is unbounded.
    layer_of : ndarray of int, shape (N,)
    """

    def __init__(
        self,
        network: Network,
        functionals: FloatArray,
        domain: Domain,
        magnitudes: Network | None = None,
        roughness: float = 0.0,
        directions: Matrix | None = None,
    ) -> None:
        for layer in network.hidden:
            layer.check_two_slope()
        self.network, self.roughness = network, roughness
        self.magnitudes = network if magnitudes is None else magnitudes
        self.directions = directions
        self.tangents = network if directions is None else network.with_directions(directions)
        counts = [layer.units for layer in network.hidden]
        self.starts = [0, *np.cumsum(counts).tolist()]
        self._spans = [slice(a, b) for a, b in pairwise(self.starts)]
        empty: FloatArray = np.zeros(0)
        self.left = np.concatenate([empty, *(layer.left for layer in network.hidden)])
        self.right = np.concatenate([empty, *(layer.right for layer in network.hidden)])
        self.kinked = self.left != self.right
        head = self.tangents.head.weight
        self.head = np.asarray(functionals @ head)
        self.head_errors: FloatArray = np.zeros(self.head.shape)
        if self.roughness or not product_is_exact(functionals, head):
            sizes = np.asarray(np.abs(functionals) @ abs(self.tangent_magnitudes.head.weight))
            self.head_errors = (gamma(network.output_dim) + self.roughness) * sizes
        self.inputs = network.input_dim
        self.count = self.starts[-1]
        self.errors = preactivation_errors(self.magnitudes, domain, self.roughness)
        self.layer_of = np.repeat(np.arange(len(counts)), counts)

    @cached_property
    def map_errors(self) -> FloatArray:
        """Error bounds of the entries of `NodeForm.maps` under any phases, shape (N, d + N + 1).

        The columns are those of all inputs, of all units, and of the constant.
        """
        layers = self.magnitudes.hidden
        start = SizeSignal.inputs(self.inputs, self.count)
        columns = self.inputs + np.arange(self.count)
        unit_maps = [  # every unit has an own variable
            UnitMap(
                layer.steepest,
                np.arange(layer.units),
                columns[span],
                np.abs(layer.right - layer.left),
            )
            for layer, span in zip(layers, self._spans, strict=True)
        ]
        sizes = np.zeros((self.count, start.width))
        terms = 0
        for i, z in enumerate(carry(start, layers, unit_maps)):
            terms += layers[i].inputs + 6
            relative = gamma(terms) + (i + 2) * self.roughness
            sizes[self.span(i)] = relative * np.asarray(z.matrix)
        return sizes

    @cached_property
    def tangent_magnitudes(self) -> Network:
        """Bounds of the magnitudes of the weights of `tangents`."""
        if self.directions is None:
            return self.magnitudes
        first, *rest = self.magnitudes.layers
        sizes = Network([first.with_map(first.sizes, first.bias), *rest])
        return sizes.with_directions(abs(self.directions))

    @cached_property
    def rough(self) -> list[FloatArray] | None:
        """Error bounds of the weights of `tangents`, by layer; None if they are exact."""
        if not self.roughness:
            return None
        found = [self.roughness * layer.dense_weight for layer in self.tangent_magnitudes.hidden]
        if self.directions is not None and found:
            found[0] = found[0] * (1.0 + gamma(2 * self.inputs + 4) / self.roughness)
        return found

    @property
    def weight_errors(self) -> FloatArray | None:
        """Error bounds of the pre-activations if the weights are not exact, else None."""
        return self.errors if self.roughness else None

    @property
    def depth(self) -> int:
        """Number of hidden layers."""
        return len(self._spans)

    def span(self, layer: int) -> slice:
        """Return the slice of the units of a layer."""
        return self._spans[layer]

    def root_phases(self) -> FlatPhases:
        """Return the phases with every kinked unit open."""
        return np.where(self.kinked, np.int8(OPEN), np.int8(RIGHT)).astype(np.int8)

    def split(self, phases: FlatPhases) -> Phases:
        """Split the phases by layer."""
        return tuple(phases[span] for span in self._spans)

    def unit_maps(self, phases: FlatPhases, first: int | None = None) -> list[UnitMap]:
        """Return the map of each layer's units under `phases`.

        Open units have the columns from `first` on, by default after those of the inputs.
        """
        first = self.inputs if first is None else first
        return unit_maps_of(self.network.hidden, self.split(phases), first)

    def form(self, phases: FlatPhases) -> NodeForm:
        """Eliminate the stable units of `phases`."""
        unstable_units = np.flatnonzero(phases == OPEN)
        start = FloatSignal.inputs(self.inputs, unstable_units.size)
        maps = np.empty((self.count, start.width))
        unit_maps = self.unit_maps(phases)
        last = start
        for i, z in enumerate(carry(start, self.network.hidden, unit_maps)):
            last = z
            maps[self.span(i)] = z.matrix
        objective = self.head
        if self.depth:
            objective = np.asarray(self.head @ last.past(unit_maps[-1]).matrix)[:, :-1]
            objective = along_directions(objective, self.directions)
        return NodeForm(unstable_units, self.inputs, maps, objective, self.directions)


def along_directions(rows: FloatArray, directions: Matrix | None) -> FloatArray:
    """Convert rows over the inputs and further variables to rows over directions (d, k)."""
    if directions is None:
        return rows
    d, k = directions.shape
    found = np.empty((len(rows), rows.shape[1] - d + k))
    found[:, :k] = rows[:, :d] @ directions
    found[:, k:] = rows[:, d:]
    return found


@dataclass(frozen=True, eq=False)
class NodeForm:
    """A network under a partial pattern, with the stable units eliminated.

    Attributes
    ----------
    units : ndarray of int, shape (F,)
        The unstable units.
    variables : int
        Number d of inputs of the pre-activations.
    maps : ndarray, shape (N, d + F + 1)
        Rows ``(G_k, S_k, g_k)`` of all units.
    objective : ndarray, shape (k, d' + F)
        Rows of the functionals' tangents, in d' directions.
    directions : Matrix, shape (d, d'), or None
        None for all inputs, d' = d.
    """

    units: npt.NDArray[np.int64]
    variables: int
    maps: FloatArray
    objective: FloatArray
    directions: Matrix | None = None

    @property
    def inputs(self) -> int:
        """Number d' of directions."""
        return self.variables if self.directions is None else int(self.directions.shape[1])

    @cached_property
    def rows(self) -> FloatArray:
        """Tangents of the unstable units, shape (F, d' + F)."""
        return along_directions(self.maps[self.units, :-1], self.directions)

    @property
    def jacobian(self) -> FloatArray:
        """Gradients (k, d') of the functionals if no unit is unstable."""
        return self.objective[:, : self.inputs]
