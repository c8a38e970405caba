"""The operator norm of one Jacobian, with the direction and the functional that attain it.

Also the product of the operator norms of a network's layers, which bounds the norms of all its
Jacobians (Szegedy et al., 2013).

Most pairs of norms have closed forms.  ``linf -> l2``, ``l2 -> l1`` and ``linf -> l1`` are NP-hard
in general: they are enumerated over sign vectors if these are few, and enclosed otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from flint import fmpq

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import dense_entries, seconds_of
from lipyomo.base.numerics.exact import close_product
from lipyomo.base.numerics.rounding import gamma, rounded_up
from lipyomo.base.system.memory import BATCH, CACHED
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.norms import (
    DUAL,
    InputNorm,
    L1Output,
    L2Output,
    LinfOutput,
    OutputNorm,
    maximiser,
    signs_fit,
    vector_norm,
)

SINGULAR_ORDER = 2000
"""Rows or columns up to which singular values are computed, which cannot be interrupted."""

_SAME: dict[str, OutputNorm] = {"l1": L1Output(), "l2": L2Output(), "linf": LinfOutput()}


class OperatorNorm(NamedTuple):
    """The operator norm of a Jacobian.

    Attributes
    ----------
    value : float
        ``y . J v``, attained by the two vectors below (up to rounding).
    upper : float
        Upper bound; if the norm could be computed, `value` plus its rounding error.
    direction : ndarray, shape (d,)
        v in the unit ball of the input norm.
    functional : ndarray, shape (m,)
        y in the dual ball of the output norm.
    """

    value: float
    upper: float
    direction: FloatArray
    functional: FloatArray


@with_one_blas_thread
def operator_norm(
    jacobian: FloatArray, input_norm: InputNorm, output_norm: OutputNorm
) -> OperatorNorm:
    """Compute the norm of `jacobian` (m, d) from `input_norm` to `output_norm`.

    Parameters
    ----------
    jacobian : ndarray, shape (m, d)
    input_norm : {'l1', 'l2', 'linf'}
    output_norm : OutputNorm

    Returns
    -------
    OperatorNorm
    """
    if jacobian.shape[1] == 0:
        return OperatorNorm(0.0, 0.0, np.zeros(0), np.zeros(len(jacobian)))
    found = _rounded(jacobian, input_norm, output_norm)
    # Sums of all entries and their squares; LAPACK's singular values err by less as well.
    return found._replace(upper=found.upper * (1.0 + gamma(4 * jacobian.size + 8)))


def norm_of_sizes(sizes: FloatArray, input_norm: InputNorm, output_norm: OutputNorm) -> float:
    """Bound the norms of all matrices (m, d) whose absolute entries are at most `sizes`."""
    if output_norm.dual_ball != "hull":
        return operator_norm(sizes, input_norm, output_norm).upper
    vertices = output_norm.vertices(len(sizes))
    assert vertices is not None  # a hull has them
    rows = np.abs(vertices) @ sizes
    norms = vector_norm(rows, DUAL[input_norm])
    return float(norms.max(initial=0.0)) * (1.0 + gamma(2 * sum(sizes.shape)))


def _rounded(jacobian: FloatArray, input_norm: InputNorm, output_norm: OutputNorm) -> OperatorNorm:
    """Compute the operator norm in floating point.

    `upper` includes the errors by cancellation, which no relative factor could cover.
    """
    m, d = jacobian.shape
    if output_norm.kind == "linf":
        return _over_rows(jacobian, input_norm)
    vertices = output_norm.vertices(m)
    if vertices is not None and output_norm.dual_ball != "cube":
        return _over_vertices(jacobian, input_norm, vertices)
    if vertices is not None and 8 * len(vertices) * d <= BATCH:
        y, upper = _best_signs(jacobian, lambda rows: vector_norm(rows, DUAL[input_norm]))
        return _finish(jacobian, input_norm, y, upper)
    if input_norm == "l1":
        return _over_columns(jacobian, output_norm)
    if output_norm.dual_ball == "round" and input_norm == "l2":
        left, sizes, right = np.linalg.svd(jacobian, full_matrices=False)
        return OperatorNorm(float(sizes[0]), float(sizes[0]), right[0], left[:, 0])
    return _over_signs(jacobian, input_norm, output_norm)


def exact_square(gradient: Sequence[fmpq], input_norm: InputNorm) -> fmpq:
    """Return the exact square of a gradient's norm in the dual of `input_norm`."""
    if input_norm == "l2":
        return sum((entry * entry for entry in gradient), fmpq(0))
    sizes = [abs(entry) for entry in gradient]
    size = max(sizes, default=fmpq(0)) if input_norm == "l1" else sum(sizes, fmpq(0))
    return size * size


def _finish(
    jacobian: FloatArray, input_norm: InputNorm, y: FloatArray, upper: float | None = None
) -> OperatorNorm:
    """Pair the functional `y` with its best direction."""
    gradient = close_product(y[None], jacobian)[0][0]
    value = float(vector_norm(gradient, DUAL[input_norm]))
    bound = value if upper is None else max(upper, value)
    return OperatorNorm(value, bound, maximiser(gradient, input_norm), y)


def _over_vertices(
    jacobian: FloatArray, input_norm: InputNorm, vertices: FloatArray
) -> OperatorNorm:
    """Maximise over the vertices of the dual ball."""

    def size(rows: FloatArray) -> FloatArray:
        return vector_norm(rows, DUAL[input_norm])

    chunk = max(1, CACHED // (8 * max(jacobian.shape)))
    sizes, upper = [], 0.0
    for start in range(0, len(vertices), chunk):
        found, errors = close_product(vertices[start : start + chunk], jacobian)
        sizes.append(size(found))
        upper = max(upper, float(size(np.abs(found) + errors).max()))
    best = vertices[int(np.argmax(np.concatenate(sizes)))]
    return _finish(jacobian, input_norm, best, upper)


def _best_signs(
    matrix: FloatArray, size: Callable[[FloatArray], FloatArray]
) -> tuple[FloatArray, float]:
    """Return the sign vector whose product with a matrix (k, n) has the largest size, and a bound.

    `size` must be monotone in the absolute values of its argument.
    """
    signs = L1Output().vertices(len(matrix))
    assert signs is not None  # they fit
    chunk = max(1, CACHED // (8 * max(matrix.shape)))
    blocks = (signs[start : start + chunk] for start in range(0, len(signs), chunk))
    sizes = np.concatenate([size(block @ matrix) for block in blocks])
    k = int(np.argmax(sizes))
    lost = gamma(len(matrix)) * float(size(np.abs(matrix).sum(axis=0)))
    return np.asarray(signs[k]), float(sizes[k]) + lost


def _over_rows(jacobian: FloatArray, input_norm: InputNorm) -> OperatorNorm:
    """Norm for linf outputs: the dual ball has the vertices +-e_i, so the best row decides."""
    y = np.zeros(len(jacobian))
    y[int(np.argmax(vector_norm(jacobian, DUAL[input_norm])))] = 1.0
    return _finish(jacobian, input_norm, y)


def _over_columns(jacobian: FloatArray, output_norm: OutputNorm) -> OperatorNorm:
    """Norm for l1 inputs: the unit ball has the vertices +-e_j, so the best column decides."""
    values = output_norm.value(jacobian.T)
    k = int(np.argmax(values))
    y = output_norm.attaining(jacobian[:, k])
    return _finish(jacobian, "l1", y, float(values[k]))


def _over_signs(
    jacobian: FloatArray, input_norm: InputNorm, output_norm: OutputNorm
) -> OperatorNorm:
    """Norm for the hard pairs: ``linf -> l2``, ``linf -> l1`` and ``l2 -> l1``.

    Sign vectors are those of the inputs for linf and of the outputs for l1 (tried before).  If they
    are too many, alternating maximisation gives a value and norm equivalence a bound.
    """
    m, d = jacobian.shape
    if input_norm == "linf" and signs_fit(d):
        best, upper = _best_signs(jacobian.T, output_norm.value)
        return _finish(jacobian, input_norm, output_norm.attaining(jacobian @ best), upper)
    if m == 2 and output_norm.dual_ball == "round":
        return _planar(jacobian)
    return _local(jacobian, input_norm, output_norm)


def _planar(jacobian: FloatArray) -> OperatorNorm:
    """Norm ``linf -> l2`` with two outputs: the cube's image is a zonogon with 2 d corners."""
    generators = (
        jacobian.T
        * np.where((jacobian[1] < 0) | ((jacobian[1] == 0) & (jacobian[0] < 0)), -1.0, 1.0)[:, None]
    )
    order = np.argsort(np.arctan2(generators[:, 1], generators[:, 0]))
    sorted_generators = generators[order]
    corners = -sorted_generators.sum(axis=0) + 2.0 * np.cumsum(sorted_generators, axis=0)
    lengths = vector_norm(corners, "l2")
    k = int(np.argmax(lengths))
    lost = gamma(3 * len(order)) * float(vector_norm(np.abs(jacobian).sum(axis=1), "l2"))
    return _finish(jacobian, "linf", maximiser(corners[k], "l2"), float(lengths[k]) + lost)


def _local(jacobian: FloatArray, input_norm: InputNorm, output_norm: OutputNorm) -> OperatorNorm:
    """Find a local maximum over (v, y), and a bound by norm equivalence.

    With ``|v|_2 <= sqrt(d)`` on the cube and ``|z|_1 <= sqrt(m) |z|_2`` the spectral norm bounds
    every pair here; row and column sums give a second bound.
    """
    m, d = jacobian.shape
    upper = float(np.linalg.norm(jacobian, 2))
    if input_norm == "linf":
        upper *= np.sqrt(d)
    if output_norm.dual_ball == "cube":
        upper *= np.sqrt(m)
    if input_norm == "linf":
        upper = min(upper, float(output_norm.value(np.abs(jacobian).sum(axis=1))))
    starts = np.random.default_rng(0).standard_normal((32, m))
    values, y, _ = alternating(jacobian, starts, input_norm, output_norm)
    return _finish(jacobian, input_norm, y[int(np.argmax(values))], upper)


def alternating(
    jacobians: FloatArray, functionals: FloatArray, input_norm: InputNorm, output_norm: OutputNorm
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Find local maxima of ``y . J v`` by alternating maximisation over v and y.

    Parameters
    ----------
    jacobians : ndarray, shape (N, m, d), or (m, d) for all
    functionals : ndarray, shape (N, m)
        Starting points, of any length.

    Returns
    -------
    values : ndarray, shape (N,)
    functionals : ndarray, shape (N, m)
    directions : ndarray, shape (N, d)
    """
    y, best = functionals, np.full(len(functionals), -np.inf)
    growth = 1.0 + gamma(sum(jacobians.shape[-2:]) + 8)
    while True:
        v = maximiser(np.matmul(y[:, None], jacobians)[:, 0], input_norm)
        outputs = np.matmul(jacobians, v[:, :, None])[:, :, 0]
        y, values = output_norm.attaining(outputs), output_norm.value(outputs)
        if not (values > growth * best).any():
            return np.maximum(values, best), y, v
        best = np.maximum(values, best)


def layer_norm(layer: Layer, norm_in: InputNorm, norm_out: OutputNorm) -> float:
    """Bound the operator norm of a layer over all slopes of its units.

    For l1, l2 and linf outputs a unit stretches its coordinate at most by its steeper slope, so the
    steepest slopes decide; other output norms are used on affine layers only.  The spectral norm of
    a large convolution is bounded by the root of its l1 norm times its linf norm.
    """
    steepest = layer.steepest
    if norm_out.kind == norm_in and not isinstance(layer.weight, np.ndarray):
        sizes = layer.sizes  # sparse, as large layers are never stored densely
        column = float((sizes.T @ steepest).max())
        row = float((steepest * sizes.sum(axis=1)).max())
        if norm_in != "l2" or min(sizes.shape) > SINGULAR_ORDER:
            size = {"l1": column, "linf": row, "l2": math.sqrt(column) * math.sqrt(row)}[norm_in]
            return rounded_up(size, 8 * sum(sizes.shape))
    found = operator_norm(steepest[:, None] * layer.dense_weight, norm_in, norm_out)
    return rounded_up(found.upper, 8 * sum(layer.dense_weight.shape))


def norm_seconds(network: Network, norm: InputNorm) -> float:
    """Predict the time to compute the norms of all layers, including singular values for l2."""
    found = 0.0
    for layer in network.layers:
        found += 8.0 * dense_entries(layer.weight)
        dense_or_small = (
            isinstance(layer.weight, np.ndarray) or min(layer.weight.shape) <= SINGULAR_ORDER
        )
        if norm == "l2" and dense_or_small:
            found += 10.0 * float(layer.weight.size) * min(layer.weight.shape)
    return seconds_of(found)


def norms_of_layers(network: Network, norm: InputNorm, output_norm: OutputNorm) -> list[float]:
    """Bound the operator norms of all layers, those of hidden ones from `norm` to `norm`."""
    factors = [layer_norm(layer, norm, _SAME[norm]) for layer in network.hidden]
    return [*factors, layer_norm(network.head, norm, output_norm)]


def product_of_norms(network: Network, norm: InputNorm, output_norm: OutputNorm) -> float:
    """Bound the norms of all Jacobians by the product of the layers' operator norms."""
    factors = norms_of_layers(network, norm, output_norm)
    return rounded_up(float(np.prod(factors)), len(factors))
