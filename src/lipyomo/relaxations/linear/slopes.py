"""The derivatives of a smooth network as those of one with two-slope units.

On a domain the slope of each smooth unit lies in a range [a, b].  A Jacobian is affine in the slope
of each single unit, so its norm is convex in it, and the largest norm over all slopes in their
ranges is attained at ends of these: at a *pattern* of the network whose units have the slopes a and
b and may take either, whatever their pre-activation is.  All upper bounds over open switches
(FastLip, CROWN of derivatives, LipSDP and other semidefinite ones) are bounds over these patterns.
What else is known of two-slope units does not hold: the phase of a unit says nothing of the sign of
its pre-activation, so that no bound may look at pre-activations again.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.network import Layer, Network
from lipyomo.relaxations.linear.layers import LayerBounds


def slope_ranges(
    layer: Layer, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Sound ranges of the smooth units' slopes; those of two-slope units below and above zero.

    Parameters
    ----------
    layer : Layer
    lower, upper : ndarray, shape (..., units)
        Of the pre-activations; may be infinite.

    Returns
    -------
    ndarray, ndarray, shapes (..., units)
    """
    left, right = (np.broadcast_to(s, lower.shape).copy() for s in (layer.left, layer.right))
    for curve in layer.curves:
        ends = lower[..., curve.units], upper[..., curve.units]
        left[..., curve.units], right[..., curve.units] = curve.activation.slope_range(*ends)
    return left, right


def with_slopes(network: Network, bounds: LayerBounds) -> Network:
    """The network with two-slope units whose patterns bound the Jacobians of a smooth network.

    Parameters
    ----------
    network : Network
    bounds : LayerBounds
        Of its pre-activations.

    Returns
    -------
    Network
        `network` itself if it has no smooth units.  Its values are not those of `network`.
    """
    if not network.smooth:
        return network
    ranges = zip(network.hidden, bounds.lower, bounds.upper, strict=True)
    hidden = [
        Layer(layer.weight, layer.bias, *slope_ranges(layer, *ends)) for layer, *ends in ranges
    ]
    return Network([*hidden, network.head], network.name)
