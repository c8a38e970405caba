"""Ranges of gated sums: as a sum of three ranges such a row grows, as a mean of two it does not.

A row ``a + g (b - a)`` with g in [g_low, g_high] and its derivative are

    (1 - g) a + g b,        (1 - g) u_a + g u_b + u_g (b - a),

which are linear in g: one end of g has the largest.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.numerics.ranges import Ends, mean, mean_size, range_product, size
from lipyomo.networks.gates import Gates
from lipyomo.search.spaces.boxes.inputs import Signal
from lipyomo.search.spaces.boxes.relaxation import Relaxed
from lipyomo.search.spaces.boxes.stage import Stage


def means(
    gates: Gates, before: Stage, last: Relaxed, signals: tuple[Signal, Signal], unit: float
) -> tuple[Ends, Ends]:
    """Ranges of z and u of the gated rows, shapes (N, g).

    Parameters
    ----------
    gates : Gates
    before : Stage
        The layer before.
    last : Relaxed
        What is known of it.
    signals : (Signal, Signal)
        Values and tangents of the outputs of the layer before that.
    unit : float
        What sums round.
    """
    h, t = signals
    low, high = np.minimum(last.low, last.high), last.high
    assert before.products is not None
    sides = before.products.left[gates.products], before.products.right[gates.products]
    gate, other = np.where(gates.second, sides[::-1], sides)
    ends = low[:, gate] * gates.scale, high[:, gate] * gates.scale
    values = [_spanned(h, gates, k, unit) for k in range(2)]
    tangents = [_spanned(t, gates, k, unit, tangent=True) for k in range(2)]
    along = tuple(
        (last.tangent[:, gate] + sign * last.tangent_radius[:, gate]) * gates.scale
        for sign in (-1.0, 1.0)
    )
    between = low[:, other] * gates.share, high[:, other] * gates.share
    change = range_product((along[0], along[1]), between)
    z, u = mean(ends, *values), mean(ends, *tangents)
    room = 8.0 * unit * mean_size(ends, *values)
    most = (np.abs(last.tangent) + last.tangent_radius)[:, gate] * np.abs(gates.scale)
    lost = 8.0 * unit * (mean_size(ends, *tangents) + size(between) * most)
    return (z[0] - room, z[1] + room), (u[0] + change[0] - lost, u[1] + change[1] + lost)


def _spanned(signal: Signal, gates: Gates, which: int, unit: float, tangent: bool = False) -> Ends:
    """The range of what the gated rows are means of, the first or the second; or of its tangent."""
    weight, sizes = gates.weights[which], gates.sizes[which]
    middle, whole = signal.middle @ weight.T, signal.size @ sizes.T
    if not tangent:
        middle, whole = middle + gates.biases[which], whole + gates.bias_sizes[which]
    away = signal.radius @ np.abs(weight).T + unit * whole
    return middle - away, middle + away
