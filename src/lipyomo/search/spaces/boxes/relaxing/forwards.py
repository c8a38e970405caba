"""Affine bounds of pre-activations carried from layer to layer, for values on narrow boxes.

With ``z = C x + c +- r`` of a layer, its outputs are ``h = slope z + middle +- away``, sums over
their branches, and so the next layer's z are

    W (slope C) x + W (slope c + middle) + b +- |W| (|slope| r + away).

This costs as much as evaluating a few points, whereas substituting rows back through all layers
(`relax.py`) costs a matrix product for each layer.  The errors of units add up in absolute values
here; they are of second order in the width of the box with either method.

Rounding.  All sums here are over one layer: each has an error of at most unit times the sum of its
terms' sizes (`BoxContext.unit` covers longer ones), which is added to the radius at each layer.
"""

from __future__ import annotations

import numpy as np

from lipyomo.search.spaces.boxes.relaxing.inputs import Affine, Inputs, times
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxed
from lipyomo.search.spaces.boxes.structure.stage import Stage


def carried(stage: Stage, before: tuple[Stage, Relaxed], inputs: Inputs, unit: float) -> Affine:
    """Return the pre-activations of a layer as functions of x.

    Parameters
    ----------
    stage : Stage
    before : (Stage, Relaxed)
        The layer before, with its lines.
    inputs : Inputs
    unit : float
    """
    weight, sizes, bias, off = stage.weight, stage.sizes, stage.bias, stage.off
    if stage.copies is not None:
        fresh = stage.copies.fresh
        weight, sizes, bias, off = weight[fresh], sizes[fresh], bias[fresh], off[fresh]
    own, layer = before
    assert layer.value is not None
    slope, middle, away = layer.value  # the part of the bias is in the middle
    pre, steep = layer.pre, np.abs(slope)
    size = times(np.abs(pre.x), inputs.x.size) + np.abs(pre.constant) + np.abs(own.bias)
    turned = own.own(np.swapaxes(pre.x, 1, 2)) * slope[:, None]  # (N, d, branches)
    x = np.matmul(own.sums(turned), weight.T)
    h = own.sums(slope * own.own(pre.constant - own.bias)) + middle
    radius = own.sums(steep * own.own(pre.radius)) + away
    whole = own.sums(steep * own.own(size)) + np.abs(middle) + radius
    constant = h @ weight.T + bias
    radius = radius @ sizes.T + unit * (whole @ sizes.T + np.abs(bias) + off)
    found = Affine(np.swapaxes(x, 1, 2), None, constant, radius)
    return found if stage.copies is None else found.copied(pre, stage.copies)
