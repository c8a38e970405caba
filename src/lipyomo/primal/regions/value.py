"""Values and derivatives of a network's functionals at a point, enclosed.

Floating point is not trusted: arithmetic is exact, or ball arithmetic for smooth units.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from flint import arb, ctx, fmpq

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.exact import Exact, exact
from lipyomo.networks.network import Network
from lipyomo.primal.regions.ball_arithmetic import PRECISION, around_ball, units_along
from lipyomo.primal.regions.replay import directed_gradients, strict_pattern
from lipyomo.primal.regions.smooth_witness import smooth_derivatives
from lipyomo.problems.affine.exact import ExactSignal, exact_weights
from lipyomo.problems.affine.signal import UnitMap
from lipyomo.problems.problem import LipschitzProblem


def value_at(network: Network, row: FloatArray, x: FloatArray) -> tuple[float, float]:
    """Enclose ``row . f(x)`` by float64 numbers, in exact arithmetic, or ball arithmetic if smooth.

    Parameters
    ----------
    network : Network
    row : ndarray, shape (m,)
    x : ndarray, shape (d,), or (2, d) for the sum of two rows

    Returns
    -------
    (float, float)
        Equal if the value is a float64 number.
    """
    return _in_balls(network, row, x) if network.smooth else _exactly(network, row, x)


def _exactly(network: Network, row: FloatArray, x: FloatArray) -> tuple[float, float]:
    outputs = _exact_outputs(network, x.tobytes(), x.shape)
    value = (Exact.of(np.append(row, 0.0)[None]) @ outputs).rationals()[0][0]
    return around(value)


@lru_cache(maxsize=1)  # several functionals are often evaluated at one point in turn
def _exact_outputs(network: Network, numbers: bytes, shape: tuple[int, ...]) -> Exact:
    """Return the outputs at a point, given as the bytes of an array."""
    signal = ExactSignal.at(np.frombuffer(numbers).reshape(shape))
    for layer in network.hidden:
        signal = signal.through(layer)
        on = np.array([entry > 0 for entry in signal.values.matrix.entries()[:-1]], dtype=bool)
        signal = signal.past(UnitMap.of_slopes(layer.slopes(on)))
    return exact_weights(network.head).after(signal.values)


def around(value: fmpq) -> tuple[float, float]:
    """Return the nearest float64 numbers below and above a rational; equal if it is one."""
    try:
        middle = int(value.p) / int(value.q)
    except OverflowError:
        return (-np.inf, np.inf)
    low = middle if exact(middle) <= value else float(np.nextafter(middle, -np.inf))
    high = middle if exact(middle) >= value else float(np.nextafter(middle, np.inf))
    return low, high


def _in_balls(network: Network, row: FloatArray, x: FloatArray) -> tuple[float, float]:
    outputs = _outputs_in_balls(network, x.tobytes(), x.shape)
    with ctx.workprec(PRECISION):
        return around_ball(
            sum((arb(c) * y for c, y in zip(row.tolist(), outputs, strict=True)), arb(0))
        )


@lru_cache(maxsize=1)
def _outputs_in_balls(network: Network, numbers: bytes, shape: tuple[int, ...]) -> list[arb]:
    with ctx.workprec(PRECISION):
        *_, outputs = units_along(network.layers, np.frombuffer(numbers).reshape(shape))
        return [unit.at for unit in outputs]


def derivatives_at(
    problem: LipschitzProblem, point: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Enclose ``c . J(x) T`` for functionals c by float64 numbers, in exact or ball arithmetic.

    Parameters
    ----------
    problem : LipschitzProblem
        T are its directions, or else all inputs that can move.
    point : ndarray, shape (d,), or (2, d) for the sum of two rows
        x, in the original inputs.
    rows : ndarray, shape (p, m)
        The functionals.

    Returns
    -------
    (ndarray, ndarray) or None, shapes (p, k)
        None if the derivatives are not valid: outside of the domain, or at a kink; for
        piecewise-linear networks also on the boundary of the domain.
    """
    parts = np.atleast_2d(point)
    if problem.network.smooth:
        balls = smooth_derivatives(problem, parts, rows)
        found = None if balls is None else [[around_ball(ball) for ball in row] for row in balls]
    else:
        if not np.isfinite(parts).all() or not problem.domain.holds_inside(parts):
            return None
        pattern = strict_pattern(problem.network, parts, ~problem.domain.frozen)
        if pattern is None:
            return None
        exact = directed_gradients(problem, pattern, rows)
        found = [[around(value) for value in row] for row in exact]
    if found is None:
        return None
    ends = np.array(found, dtype=np.float64).reshape(len(rows), -1, 2)
    return ends[:, :, 0], ends[:, :, 1]
