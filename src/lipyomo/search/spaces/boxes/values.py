"""The norm of the Jacobian at many points, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray, lengths
from lipyomo.problems.norms import DUAL, InputNorm, L2Output, maximiser, vector_norm
from lipyomo.problems.operator_norm import alternating
from lipyomo.search.spaces.boxes.context import BoxContext

Phases = tuple[FloatArray, FloatArray]
"""Ranges of the pre-activations of all units with breaks: floors and ceilings, (N, p) each."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """Jacobian norms at points: ``y . J(x) v``, in floating point.

    Attributes
    ----------
    values : ndarray, shape (N,)
    functionals : ndarray, shape (N, n_L)
        y times the last weights.
    directions : ndarray, shape (N, d)
    units : list of (ndarray, ndarray)
        Pre-activations and branch slopes of each layer.
    """

    values: FloatArray
    functionals: FloatArray
    directions: FloatArray
    units: list[tuple[FloatArray, FloatArray]]


def slopes_at(context: BoxContext, points: FloatArray) -> Slopes:
    """Evaluate the norm of the Jacobian at points (N, d), with functional and direction."""
    targets = context.targets
    euclidean = targets.whole_ball
    rows = context.head if euclidean else context.rows
    units = _units(context, points)
    jacobian = _backwards(context, units, rows, len(points))
    everything = np.arange(len(points))
    if euclidean:
        y, directions = steepest_pairs(jacobian, targets.norm)
        gradients = np.matmul(y[:, None, :], jacobian)[:, 0]
        functionals = y @ context.head
    else:
        best = vector_norm(jacobian, DUAL[targets.norm]).argmax(axis=1)
        gradients, functionals = jacobian[everything, best], rows[best]
        directions = maximiser(gradients, targets.norm)
    values = (gradients * directions).sum(axis=1)
    return Slopes(values, functionals, directions, units)


def derivatives_along(
    context: BoxContext, points: FloatArray, functionals: FloatArray, directions: FloatArray
) -> Slopes:
    """Evaluate ``y . J(x) v`` at points (N, d), each with its functional (N, n_L) and direction."""
    units, t = _units(context, points), directions
    for stage, (_, slope) in zip(context.stages, units, strict=True):
        t = stage.sums(slope * stage.own(t @ stage.along.T))
    return Slopes((t * functionals).sum(axis=1), functionals, directions, units)


def jacobians(
    context: BoxContext, points: FloatArray, rows: FloatArray, phases: Phases | None = None
) -> FloatArray:
    """Evaluate ``rows . J(x)`` at points (N, d) for rows (k, n_L) or (N, k, n_L) of the last layer.

    With phases, pre-activations are moved into them, as a point of a box may lie in other phases.
    """
    return _backwards(context, _units(context, points, phases), rows, len(points))


def _units(
    context: BoxContext, points: FloatArray, phases: Phases | None = None
) -> list[tuple[FloatArray, FloatArray]]:
    """Return pre-activations and branch slopes of each layer."""
    h, found = points, []
    for stage in context.stages:
        z = h @ stage.weight.T + stage.bias
        if phases is not None and stage.broken.size:
            floor, ceiling = (ends[:, stage.phases] for ends in phases)
            inside = np.minimum(z[:, stage.broken], np.nextafter(ceiling, -np.inf))
            z[:, stage.broken] = np.maximum(inside, floor)
        found.append((z, stage.slopes(z)))
        if stage is not context.stages[-1]:
            h = stage.outputs(z)
    return found


def _backwards(
    context: BoxContext,
    units: Sequence[tuple[FloatArray, FloatArray]],
    rows: FloatArray,
    count: int,
) -> FloatArray:
    """Multiply rows (k, n_L) or (N, k, n_L) by the Jacobian of the last layer at `count` points."""
    found = np.broadcast_to(rows, (count, *rows.shape[-2:]))
    for stage, (_, slope) in zip(reversed(context.stages), reversed(units), strict=True):
        found = (stage.spread(found) * slope[:, None, :]) @ stage.branch_along
    return np.asarray(found)


def growth(context: BoxContext, at: Slopes) -> FloatArray:
    """Gradients (N, d) of ``y . J(x) v`` in x, for fixed y and v."""
    t, steps = at.directions, []
    for stage, (z, slope) in zip(context.stages, at.units, strict=True):
        u = t @ stage.along.T
        steps.append((slope, stage.bends(z, u)))
        t = stage.sums(slope * stage.own(u))
    a, b = np.zeros_like(at.functionals), at.functionals
    for stage, (slope, bend) in zip(reversed(context.stages), reversed(steps), strict=True):
        a, b = stage.spread(a), stage.spread(b)
        a, b = (a * slope + b * bend) @ stage.branch_weight, (b * slope) @ stage.branch_along
    return np.asarray(a)


def steepest_pairs(jacobian: FloatArray, input_norm: InputNorm) -> tuple[FloatArray, FloatArray]:
    """Steepest functionals (N, m) and directions (N, d) of Jacobians, for a Euclidean output norm.

    They are optimal for the l1 and l2 norms of the inputs, and good ones for the linf norm.
    """
    if input_norm == "l2":
        left, _, right = np.linalg.svd(jacobian, full_matrices=False)
        return left[:, :, 0], right[:, 0]
    everything = np.arange(len(jacobian))
    if input_norm == "l1":
        best = lengths(jacobian, axis=1).argmax(axis=1)
        y = maximiser(jacobian[everything, :, best], "l2")
    else:
        y = np.eye(jacobian.shape[1])[np.abs(jacobian).sum(axis=2).argmax(axis=1)]
    _, y, v = alternating(jacobian, y, input_norm, L2Output())
    return y, v
