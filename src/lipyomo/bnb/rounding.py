"""How far floating-point values of a tree's pre-activations can be from the true ones.

Magnitudes are computed once a tree, over the whole domain and with every unit at its steeper
slope; they bound those of all nodes.
"""

from __future__ import annotations

import numpy as np

from lipyomo.bnb.form import UnitSystem
from lipyomo.domains import Domain
from lipyomo.network import FloatArray

UNIT = 2.0**-52


def coefficient_sizes(system: UnitSystem) -> FloatArray:
    """Largest sums of absolute coefficients of the pre-activations in the inputs, shape (N,)."""
    sizes = np.zeros(system.count)
    signal = np.ones(system.inputs)
    for i, weight in enumerate(system.weights):
        span = system.span(i)
        sizes[span] = np.abs(weight) @ signal
        signal = _steepness(system)[span] * sizes[span]
    return sizes


def preactivation_errors(system: UnitSystem, domain: Domain) -> FloatArray:
    """Rounding errors of pre-activations and of their linear bounds, shape (N,).

    They hold for values at a point, for the affine maps of a node in its inputs and open units, and
    for bounds by back-substitution (whose lines have slopes between the unit's two, and offsets
    of at most twice the steeper slope times the pre-activation).  Infinite on unbounded domains.
    """
    errors = np.full(system.count, np.inf)
    if not domain.is_bounded:
        return errors
    signal = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
    terms = system.inputs + 8
    for i, weight in enumerate(system.weights):
        span = system.span(i)
        sizes = np.abs(weight) @ signal + np.abs(system.biases[i])
        terms += 2 * weight.shape[1] + 12
        errors[span] = terms * UNIT * sizes
        signal = 3.0 * _steepness(system)[span] * sizes
    return errors


def _steepness(system: UnitSystem) -> FloatArray:
    return np.asarray(np.maximum(np.abs(system.left), np.abs(system.right)))
