"""Derivatives of functionals of a network at a point, enclosed without trust in floating point."""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.primal.regions.ball_arithmetic import outside
from lipyomo.primal.regions.replay import directed_gradients, strict_pattern
from lipyomo.primal.regions.smooth_witness import smooth_derivatives
from lipyomo.primal.regions.value import around
from lipyomo.problems.problem import LipschitzProblem


def derivatives_at(
    problem: LipschitzProblem, point: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Float64 numbers around ``c . J(x) T`` for functionals c, in exact or ball arithmetic.

    Parameters
    ----------
    problem : LipschitzProblem
        Whose directions T count, or all inputs that can move.
    point : ndarray, shape (d,), or (2, d) for the sum of two rows
        x, in the inputs as they were given.
    rows : ndarray, shape (p, m)
        The functionals.

    Returns
    -------
    (ndarray, ndarray) or None, shapes (p, k)
        None where the derivatives do not count: outside of the domain, or at a kink; for
        piecewise-linear networks on the boundary of the domain, too.
    """
    parts = np.atleast_2d(point)
    if problem.network.smooth:
        balls = smooth_derivatives(problem, parts, rows)
        found = None if balls is None else [[outside(ball) for ball in row] for row in balls]
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
