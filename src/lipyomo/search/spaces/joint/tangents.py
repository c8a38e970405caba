"""Ranges of tangents on boxes, for many directions at once.

A tangent ``t = s u`` with s in c +- b is ``c u`` up to ``b |u|``.  Rows of a later layer are taken
back through ``c u`` to rows in the direction v, which are the same for all directions: these only
differ in what they add to the errors, and in the end.

Rounding.  A row X of a layer's t becomes ``fl(fl(X c) W)``.  On tangents t' of the layer before,
that differs from what it stands for by at most ``unit |X| |c| pace``, where pace >= |W| |t'| is the
size of all that u is made of, and unit pays for the lengths of all sums on the way.  So
``unit |c| pace`` is added to what a unit is off by, once, and all rows are sound.  The last sum,
over v, is off by unit times the sum of its absolute terms.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT, gamma
from lipyomo.networks.network import Network
from lipyomo.relaxations.linear.interval import Switches

Ranges = list[tuple[FloatArray, FloatArray]]
"""Least and largest tangents of each hidden layer, shapes (N, units, q)."""


def tangent_ranges(network: Network, switches: list[Switches], directions: FloatArray) -> Ranges:
    """Ranges of the derivatives of all pre-activations along directions.

    Parameters
    ----------
    network : Network
    switches : list of Switches, shapes (N, n_i)
        Of its hidden layers, on N boxes.
    directions : ndarray, shape (q, d)
    """
    unit = gamma(sum(network.sizes) + 8 * len(network.layers))
    weights = [layer.dense_weight for layer in network.hidden]
    middles: list[FloatArray] = []
    errors: list[FloatArray] = []
    found: Ranges = []
    size = np.abs(directions.T)[None]  # of what enters the layer
    low = high = directions.T[None]
    for k, weight in enumerate(weights):
        pace = np.abs(weight) @ size
        rows: FloatArray = np.broadcast_to(weight, (len(switches[k].left), *weight.shape))
        error: FloatArray = np.zeros((1, 1, 1))
        for j in range(k - 1, -1, -1):
            error = error + np.abs(rows) @ errors[j]
            rows = _product(rows * middles[j][:, None, :], weights[j])
        middle = rows @ directions.T
        error = error * (1.0 + unit) + unit * (np.abs(rows) @ np.abs(directions.T) + np.abs(middle))
        least, most = middle - error, middle + error
        if k:
            positive, negative = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
            room = unit * pace
            least = np.maximum(least, positive @ low + negative @ high - room)
            most = np.minimum(most, positive @ high + negative @ low + room)
            least = np.minimum(least, most)
        left, right = switches[k].left, switches[k].right
        centre = 0.5 * (left + right)
        spread = 0.5 * np.abs(right - left) + UNIT * (left != right) * (abs(left) + abs(right))
        own = spread[:, :, None] * np.maximum(np.abs(least), np.abs(most))
        middles.append(centre)
        errors.append(own * (1.0 + 4.0 * UNIT) + unit * np.abs(centre)[:, :, None] * pace)
        found.append((least, most))
        low, high = Switches(left[:, :, None], right[:, :, None]).range(least, most)
        size = np.maximum(np.abs(low), np.abs(high))
    return found


def _product(rows: FloatArray, weight: FloatArray) -> FloatArray:
    """Rows (N, r, n) times a matrix, as one product."""
    flat = rows.reshape(-1, rows.shape[2]) @ weight
    return np.asarray(flat.reshape(*rows.shape[:2], weight.shape[1]))
