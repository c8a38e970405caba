"""Kinks of the first layer that touch a cell from outside: decided in exact arithmetic.

What rounding adds to a range leaves such a unit open, and no halving closes it; but the pieces of a
kink on a face belong to the cells inside which they have an interior.
"""

from __future__ import annotations

import numpy as np

from lipyomo.analyses.maps.pieces import Pieces
from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.exact import affine_value
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.relaxations.linear.layers import PhaseBatch


def with_faces(pieces: Pieces, phases: PhaseBatch, low: FloatArray, high: FloatArray) -> PhaseBatch:
    """Phases (n, N) of cells (n, d), with the units of the first layer that only touch them.

    A unit with pre-activations at or above zero on the whole cell is on its right side, one with
    pre-activations at or below zero on its left.
    """
    if not pieces.network.hidden:
        return phases
    found, layer = phases.copy(), pieces.network.hidden[0]
    weight, bias = layer.dense_weight, layer.bias
    middle, radius = 0.5 * (low + high), 0.5 * (high - low)
    values, reach = middle @ weight.T + bias, radius @ np.abs(weight).T
    room = pieces.errors[: layer.units]
    open_ = phases[:, : layer.units] == OPEN
    for side, gap in ((RIGHT, values - reach), (LEFT, -values - reach)):
        sign = 1.0 if side == RIGHT else -1.0
        for cell, unit in zip(*np.nonzero(open_ & (np.abs(gap) <= room)), strict=True):
            row = sign * weight[unit]
            corner = np.where(row > 0, low[cell], high[cell])  # where the row is least
            if affine_value(row, corner, sign * float(bias[unit])) >= 0:
                found[cell, unit] = side
    return found
