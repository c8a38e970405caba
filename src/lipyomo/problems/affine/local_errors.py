"""Error bounds of the affine maps of one node, for the ranges of its variables there.

`lipyomo.problems.affine.system.preactivation_errors` holds under all phases, and multiplies
absolute weights from layer to layer.  For deep networks this is far too pessimistic.  Here each
layer's own errors are propagated by the node's maps,

    delta_i = W_i D_{i-1} delta_{i-1} + r_i,        |r_i| <= gamma (|W_i| p_{i-1} + |b_i|),

with D the slopes of units (the left one of an unstable unit, whose y is a variable), and p the
sums of absolute terms of the units' outputs.  So ``|delta_i| <= sum over k of |J_ik| |r_k|``, with
the Jacobian J_ik of layer i by layer k.  This Jacobian is computed in float64, too: its errors are
at most gamma times products of absolute weights, and are multiplied by the bounds of r_k.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import gamma
from lipyomo.problems.affine.system import FlatPhases, NodeForm, UnitSystem


def local_errors(
    system: UnitSystem, form: NodeForm, phases: FlatPhases, reach: FloatArray
) -> FloatArray:
    """Bound the errors of the `maps` of a form on its node, shape (N,), for exact weights.

    Parameters
    ----------
    system : UnitSystem
    form : NodeForm
        The form of the phases.
    phases : ndarray of int8, shape (N,)
    reach : ndarray, shape (d + F,)
        The largest absolute values of the variables; no bounds follow from infinite ones.

    Returns
    -------
    ndarray, shape (N,)
        Bounds of the distance of ``maps @ (w, 1)``, in exact arithmetic, from the pre-activations,
        with a margin for eight more operations on each entry.  NaN or infinite without a bound.
    """
    layers, unit_maps = system.network.hidden, system.unit_maps(phases)
    terms = sum(layer.inputs + 12 for layer in layers) + form.maps.shape[1]
    unit = gamma(2 * terms)
    with np.errstate(over="ignore", invalid="ignore"):
        sizes = np.abs(form.maps) @ np.append(reach, 1.0)
        found = gamma(8 + reach.size) * sizes
        own = total = np.zeros(layers[0].units if layers else 0)  # the first layer's maps are exact
        known = own
        jacobian = np.zeros((own.size, 0))
        for i, layer in enumerate(layers[1:]):
            passing, span = unit_maps[i], system.span(i)
            passed = np.abs(passing.slope) * sizes[span]
            passed[passing.units] += np.abs(passing.change) * reach[passing.columns]
            jacobian = np.hstack([jacobian, np.eye(span.stop - span.start)])
            jacobian = np.asarray(layer.weight @ (passing.slope[:, None] * jacobian))
            rest = layer.sizes @ (np.abs(passing.slope) * total)
            own = unit * (layer.sizes @ passed + np.abs(layer.bias))
            found[system.span(i + 1)] += (np.abs(jacobian) @ known + own) * (1.0 + unit)
            found[system.span(i + 1)] += unit * rest
            known, total = np.append(known, own), rest + own
    return np.asarray(found)
