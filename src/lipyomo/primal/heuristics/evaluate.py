"""Jacobian norms of many patterns at once, for sampling, local search and branch and bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.base.system.memory import BATCH
from lipyomo.networks.network import Network
from lipyomo.problems.norms import DUAL, ONE_BY_ONE, vector_norm
from lipyomo.problems.operator_norm import alternating
from lipyomo.problems.problem import LipschitzProblem

GROWTH = 1.0 + EQUAL
"""Values within this factor count as equal, up to rounding."""


def evaluation_work(problem: LipschitzProblem) -> float:
    """Return the number of multiplications for evaluating the norm at one point."""
    weights = sum(layer.weight.size for layer in problem.network.layers)
    return evaluation_passes(problem) * weights


def evaluation_passes(problem: LipschitzProblem) -> float:
    """Return the number of passes through the network for evaluating one point."""
    vertices, outputs = problem.dual_vertices, problem.network.output_dim
    return 1.0 + (outputs if vertices is None else min(len(vertices), outputs))


def jacobian_rows(network: Network, patterns: Sequence[BoolArray], rows: FloatArray) -> FloatArray:
    """Compute gradients of functionals on the pieces of many patterns.

    Parameters
    ----------
    network : Network
    patterns : sequence of bool arrays, shapes (n, n_i)
    rows : ndarray, shape (k, m)

    Returns
    -------
    ndarray, shape (n, k, d)
    """
    slopes = [layer.slopes(on) for layer, on in zip(network.hidden, patterns, strict=True)]
    return _rows_under(network, slopes, rows)


def _rows_under(network: Network, slopes: Sequence[FloatArray], rows: FloatArray) -> FloatArray:
    """Compute gradients of functionals (n, k, d), given slopes of shapes (n, n_i)."""
    if len(rows) > network.output_dim:  # only as many passes as outputs
        every = _rows_under(network, slopes, np.eye(network.output_dim))
        return np.asarray(rows @ every)
    count = len(slopes[0]) if slopes else 1
    start = np.asarray(rows @ network.head.weight)
    g = np.broadcast_to(start, (count, *start.shape))
    for layer, slope in zip(reversed(network.hidden), reversed(slopes), strict=True):
        scaled = (g * slope[:, None, :]).reshape(-1, layer.units)
        g = np.asarray(scaled @ layer.weight).reshape(count, len(rows), layer.inputs)
    return g


def pattern_norms(
    problem: LipschitzProblem, patterns: Sequence[BoolArray], rows: FloatArray | None = None
) -> FloatArray:
    """Compute operator norms of the pieces of many patterns.

    They are exact up to rounding if the dual ball has few vertices, the input norm is l1, or both
    norms are l2; otherwise they are attained values, hence lower bounds.

    Parameters
    ----------
    problem : LipschitzProblem
    patterns : sequence of bool arrays, shapes (n, n_i)
    rows : ndarray, shape (k, m), optional
        Some functionals of the dual ball.  If given, only the norms of their gradients are
        computed, which are lower bounds.

    Returns
    -------
    ndarray, shape (n,)
    """

    def gradients(part: slice, used: FloatArray) -> FloatArray:
        return jacobian_rows(problem.tangent_network, [on[part] for on in patterns], used)

    return _norms(problem, len(patterns[0]) if patterns else 1, gradients, rows)


def _norms(
    problem: LipschitzProblem,
    count: int,
    gradients: Callable[[slice, FloatArray], FloatArray],
    rows: FloatArray | None,
) -> FloatArray:
    """Compute the norms of `count` Jacobians from gradients (n, k, d) of functionals (k, m)."""
    network = problem.network
    if rows is None and problem.dual_vertices is not None:
        few = len(problem.dual_vertices) <= ONE_BY_ONE
        rows = problem.dual_vertices if few else None
    used = np.eye(network.output_dim) if rows is None else rows
    moving = ~problem.domain.frozen if problem.directions is None else np.ones(0, dtype=bool)
    widest = max(network.sizes[:-1])
    chunk = max(1, BATCH // (8 * len(used) * widest))
    values = np.empty(count)
    for first in range(0, count, chunk):
        part = slice(first, first + chunk)
        g = gradients(part, used)
        if not moving.all():
            g = g[:, :, moving]
        if rows is not None:
            values[part] = vector_norm(g, DUAL[problem.norm]).max(axis=1)
        elif problem.norm == "l1":
            values[part] = problem.output_norm.value(np.swapaxes(g, 1, 2)).max(axis=1)
        elif problem.norm == "l2" and problem.output_norm.dual_ball == "round":
            values[part] = np.linalg.norm(g, 2, axis=(1, 2))
        else:
            sizes = vector_norm(g, DUAL[problem.norm])
            y = np.eye(g.shape[1])[sizes.argmax(axis=1)]
            values[part] = alternating(g, y, problem.norm, problem.output_norm)[0]
    return values


def point_norms(
    problem: LipschitzProblem, points: FloatArray, rows: FloatArray | None = None
) -> tuple[FloatArray, list[BoolArray]]:
    """Do the same as `pattern_norms` at points (n, d); also return their patterns."""
    patterns = list(problem.network.pattern(points))
    return np.full(len(points), pattern_norms(problem, patterns, rows)), patterns


def sampled_norms(problem: LipschitzProblem, points: FloatArray) -> FloatArray:
    """Compute norms of the Jacobian at points (n, d), for any units; see `pattern_norms`."""
    network = problem.network
    if not network.smooth:
        return point_norms(problem, points)[0]

    def gradients(part: slice, used: FloatArray) -> FloatArray:
        found = zip(network.hidden, network.preactivations(points[part]), strict=True)
        slopes = [layer.slopes_at(z) for layer, z in found]
        return _rows_under(problem.tangent_network, slopes, used)

    return _norms(problem, len(points), gradients, None)
