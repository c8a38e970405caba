r"""Propagation of a derivative through a network: products of switches with bounded forms.

An arriving derivative t (adjoint or tangent) leaves a unit as ``left t + (right - left) s`` with
s = a t.  With t in [l, u]:

    l a <= s <= u a,    t - u (1 - a) <= s <= t - l (1 - a)       (LipMIP, eq. 73)

Stable units multiply by their slope, without ``switched`` variables and rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lipyomo.base.arguments import instance
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import ProblemError
from lipyomo.blocks.assemble import add_equalities, add_layers, add_variables
from lipyomo.blocks.labels import Labels
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import LEFT, OPEN
from lipyomo.relaxations.linear.derivative import ChainLimits
from lipyomo.solvers.rows import Forms, Rows


def add_chain(
    block: Any,
    name: str,
    network_block: Any,
    forms: Forms,
    limits: ChainLimits,
    backwards: bool,
    along: Network,
    labels: Labels,
) -> None:
    """Add the pass of a derivative through a network, from `forms` to variables ``block.name``.

    Parameters
    ----------
    block : BlockData
        Gets ``layer[i]``, ``name`` and its rows.
    name : str
    network_block : ReluNetworkBlock
    forms : Forms
        A functional on the outputs, or a direction of the inputs.
    limits : ChainLimits
    backwards : bool
        Whether from outputs to inputs.
    along : Network
        The network as a function of the coefficients of the directions.
    labels : Labels
        Keys of ``block.name``.
    """
    network, phases = network_block.network, network_block.layer_bounds.phases
    instance(limits, ChainLimits, "limits", ProblemError, "a ChainLimits")
    limits.check(network.hidden, len(labels))
    add_layers(block, len(network.hidden))
    order, weights = list(range(len(network.hidden))), [layer.weight for layer in along.layers]
    if backwards:
        order, weights = order[::-1], [weight.T for weight in weights[::-1]]
    forms = forms.map(weights[0])
    for i, weight in zip(order, weights[1:], strict=True):
        layer, switches = network.hidden[i], network_block.switches(i)
        known = limits.lower[i], limits.upper[i]
        passed = add_switched(block.layer[i], layer, phases[i], switches, forms, known)
        forms = passed.map(weight)
    ends = add_variables(block, name, labels, limits.end_lower, limits.end_upper)
    add_equalities(block, f"{name}_affine", labels, ends, forms)


def add_switched(
    block: Any,
    layer: Layer,
    phases: np.ndarray,
    switches: dict[int, Any],
    arriving: Forms,
    bounds: tuple[FloatArray, FloatArray],
) -> Forms:
    """Multiply the derivatives that arrive at a layer's units by the units' slopes.

    Declares ``block.arriving[k]`` and ``block.switched[k]`` with their rows.

    Parameters
    ----------
    block : BlockData
    layer : Layer
    phases : int8 array, shape (n,)
    switches : dict
        Binary variable of each unstable unit.
    arriving : Forms
        The n derivatives t, as forms.
    bounds : (ndarray, ndarray), shapes (n,)
        Of these derivatives.

    Returns
    -------
    Forms
        The n products, as forms in the new variables (and switches, where t is a number).
    """
    left, right = layer.left.tolist(), layer.right.tolist()
    number = arriving.is_constant()
    open_ = phases == OPEN
    fixed_slope = layer.slopes(phases != LEFT)
    needed = ~number & (open_ | (fixed_slope != 0.0))
    keys = np.flatnonzero(needed)
    t = add_variables(block, "arriving", keys.tolist(), bounds[0][keys], bounds[1][keys])
    add_equalities(block, "arriving_affine", keys.tolist(), t, arriving, keys)
    product = np.flatnonzero(open_ & ~number)
    low, high = np.minimum(bounds[0], 0.0)[product], np.maximum(bounds[1], 0.0)[product]
    add_variables(block, "switched", product.tolist(), low, high)
    _tie_products(block, product.tolist(), switches, bounds)
    t, s = block.arriving, block.switched
    terms: list[tuple[int, float, Any]] = []
    constant = np.zeros(arriving.size)
    values, slopes = arriving.constant.tolist(), fixed_slope.tolist()
    for k, is_open in enumerate(open_.tolist()):
        if number[k] and is_open:
            constant[k] = left[k] * values[k]
            terms.append((k, (right[k] - left[k]) * values[k], switches[k]))
        elif number[k]:
            constant[k] = slopes[k] * values[k]
        elif is_open:
            terms += [(k, left[k], t[k]), (k, right[k] - left[k], s[k])]
        elif slopes[k] != 0.0:
            terms.append((k, slopes[k], t[k]))
    return Forms.of_terms(terms, constant)


def _tie_products(
    block: Any,
    keys: list[int],
    switches: dict[int, Any],
    bounds: tuple[FloatArray, FloatArray],
) -> None:
    """Add the four rows of each product ``s = a t``."""
    upper, lower, below, above = (
        Rows(block, f"switched_{side}", keys) for side in ("upper", "lower", "below", "above")
    )
    lows, highs = (end.tolist() for end in bounds)
    for k in keys:
        a, product = switches[k], block.switched[k]
        upper.at_most(k, [1.0, -highs[k]], [product, a], 0.0)
        lower.at_least(k, [1.0, -lows[k]], [product, a], 0.0)
        triple = [product, block.arriving[k], a]
        below.at_most(k, [1.0, -1.0, -lows[k]], triple, -lows[k])
        above.at_least(k, [1.0, -1.0, -highs[k]], triple, -highs[k])
