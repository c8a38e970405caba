"""The value of a functional of a network at a point, enclosed without trust in floating point."""

from __future__ import annotations

import numpy as np
from flint import arb, ctx, fmpq

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.exact import Exact, exact
from lipyomo.networks.network import Network
from lipyomo.primal.regions.ball_arithmetic import PRECISION, outside, units_along
from lipyomo.problems.affine.exact import ExactSignal, exact_weights
from lipyomo.problems.affine.signal import UnitMap


def value_at(network: Network, row: FloatArray, x: FloatArray) -> tuple[float, float]:
    """Float64 numbers around ``row . f(x)``: in exact arithmetic, or of balls if units are smooth.

    Parameters
    ----------
    network : Network
    row : ndarray, shape (m,)
    x : ndarray, shape (d,), or (2, d) for the sum of two rows

    Returns
    -------
    (float, float)
        Equal where the value is a float64 number.
    """
    return _in_balls(network, row, x) if network.smooth else _exactly(network, row, x)


def _exactly(network: Network, row: FloatArray, x: FloatArray) -> tuple[float, float]:
    signal = ExactSignal.at(x)
    for layer in network.hidden:
        signal = signal.through(layer)
        on = np.array([entry > 0 for entry in signal.values.matrix.entries()[:-1]], dtype=bool)
        signal = signal.past(UnitMap.of_slopes(layer.slopes(on)))
    outputs = exact_weights(network.head).after(signal.values)
    value = (Exact.of(np.append(row, 0.0)[None]) @ outputs).rationals()[0][0]
    return around(value)


def around(value: fmpq) -> tuple[float, float]:
    """The largest float64 number that is not above a rational, and the least not below it."""
    try:
        middle = int(value.p) / int(value.q)
    except OverflowError:
        return (-np.inf, np.inf)
    low = middle if exact(middle) <= value else float(np.nextafter(middle, -np.inf))
    high = middle if exact(middle) >= value else float(np.nextafter(middle, np.inf))
    return low, high


def _in_balls(network: Network, row: FloatArray, x: FloatArray) -> tuple[float, float]:
    with ctx.workprec(PRECISION):
        *_, outputs = units_along(network.layers, x)
        return outside(
            sum((arb(c) * y.at for c, y in zip(row.tolist(), outputs, strict=True)), arb(0))
        )
