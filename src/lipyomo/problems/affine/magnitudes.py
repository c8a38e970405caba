"""How far floating-point values of a network's pre-activations can be from the true ones.

Magnitudes are computed once, over a whole domain and with every unit at its steeper slope; they
bound those under all phases.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.affine.signal import SizeSignal, UnitMap, carry
from lipyomo.problems.domains import Domain


def steepest(layers: Sequence[Layer]) -> list[UnitMap]:
    """Maps that bound those under all phases, in magnitudes."""
    return [UnitMap.of_slopes(layer.steepest) for layer in layers]


def term_sizes(
    layers: Sequence[Layer],
    start: FloatArray,
    constants: bool = True,
    unit_maps: Sequence[UnitMap] | None = None,
) -> list[FloatArray]:
    """Sums of the absolute terms of pre-activations.

    Parameters
    ----------
    layers : sequence of Layer
    start : ndarray, shape (d,)
        Those of the inputs, or of their tangents.
    constants : bool, optional
        Whether the biases count.
    unit_maps : sequence of UnitMap, optional
        Without columns; the steepest ones if not given.

    Returns
    -------
    list of ndarray, shapes (n_i,)
        One a layer.
    """
    signal = SizeSignal(start[:, None], 1, 0 if constants else None)  # the constant adds up there
    carried = carry(signal, layers, steepest(layers) if unit_maps is None else unit_maps)
    return [np.asarray(z.matrix)[:, 0] for z in carried]


def switched_sizes(network: Network, start: FloatArray, constants: bool) -> list[FloatArray]:
    """Sums of absolute terms where both slopes of a unit count: ``left z + (right - left) (y z)``.

    Parameters
    ----------
    network : Network
    start : ndarray, shape (d,)
        Those of the inputs, or of their tangents.
    constants : bool
        Whether the biases count.

    Returns
    -------
    list of ndarray, shapes (n_i,)
        One a layer, of its pre-activations; the last of the outputs.
    """
    unit_maps = [
        UnitMap.of_slopes(layer.steepest + np.abs(layer.right - layer.left))
        for layer in network.hidden
    ]
    return term_sizes(network.layers, start, constants, unit_maps)


def coefficient_sizes(network: Network) -> FloatArray:
    """Largest sums of absolute coefficients of the pre-activations in the inputs, shape (N,)."""
    sizes = term_sizes(network.hidden, np.ones(network.input_dim), constants=False)
    return np.concatenate([np.zeros(0), *sizes])


def preactivation_errors(network: Network, domain: Domain, roughness: float = 0.0) -> FloatArray:
    """Rounding errors of pre-activations and of their linear bounds, shape (N,).

    They hold for values at a point, for the affine maps of a node in its inputs and unstable units,
    and for bounds by back-substitution (whose lines have slopes between the unit's two, and offsets
    of at most twice the steeper slope times the pre-activation).  Infinite on unbounded domains.
    The weights themselves may be off by `roughness` times those of `network`.
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
