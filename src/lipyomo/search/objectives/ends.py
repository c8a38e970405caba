"""Bounds of values on boxes and at points, in batches, for maps of values.

The `rows` of boxes refer to the functions f_k, followed by all -f_k.  As boxes are narrow, affine
bounds are propagated forwards (`lipyomo.search.spaces.boxes.relaxing.forwards`): compared with
back-substitution, a residual of eleven layers takes a seventh of the time and twice the boxes, one
of three to five layers as many boxes and no more time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.rounding import gamma
from lipyomo.base.system.memory import CACHED
from lipyomo.search.objectives.smooth import bounded_by_rows, functions_of
from lipyomo.search.spaces.boxes.bound import Bounded
from lipyomo.search.spaces.boxes.bounding.collapse import collapsed
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxation


def boxes_over(context: BoxContext, low: FloatArray, high: FloatArray) -> Boxes:
    """Make a box without directions for each of N input boxes (N, d)."""
    one = Boxes.whole(context).take(slice(0, 1))
    found = one.take(np.zeros(len(low), dtype=np.intp))
    still, infinite = np.zeros_like(found.v_low), np.full(len(low), np.inf)
    return replace(
        found, low=low, high=high, v_low=still, v_high=still, bounds=infinite, room=infinite
    )


def boxes_at_a_time(context: BoxContext) -> int:
    """Number of boxes that are bounded at a time, so that their signals fit into the cache."""
    widest = max(stage.bias.size for stage in context.stages)
    return max(1, CACHED // (8 * widest * (1 + context.inputs)))


def bounded_rows(context: BoxContext, boxes: Boxes, cutoffs: FloatArray) -> Bounded:
    """Bound boxes' functions, and score inputs and phases."""
    return bounded_by_rows(relaxed_forwards(context, boxes), boxes.rows, cutoffs)


def relaxed_forwards(context: BoxContext, boxes: Boxes) -> Relaxation:
    """Relax all hidden layers on boxes."""
    return relaxed(context, boxes, (boxes.v_low, boxes.v_high), forwards=True)


def ranges_of_values(known: Relaxation, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Bound functions (N,) on boxes from below and above, shape (N,), by parallel planes."""
    context = known.context
    weights, shift = functions_of(context, rows)
    above, x = collapsed(known, np.zeros_like(weights), None, weights), known.inputs.x
    constant = above.constant + shift
    middle = constant + (above.x * x.middle).sum(axis=1)
    reach = (np.abs(above.x) * x.radius).sum(axis=1)
    size = np.abs(above.constant) + np.abs(shift) + (np.abs(above.x) * x.size).sum(axis=1)
    total = above.total
    room = 2.0 * context.unit * (size + total) + above.fuzz
    low, high = middle - reach - total - room, middle + reach + room
    known_well = np.isfinite(low) & np.isfinite(high)
    return np.where(known_well, low, -np.inf), np.where(known_well, high, np.inf)


def values_at(context: BoxContext, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute all outputs (N, m) at points (N, d), and bounds of their errors.

    Every layer's pre-activations are enclosed, with errors of gamma times the sums of their terms'
    sizes; units are enclosed on these ranges.
    """
    h, off = points, np.zeros_like(points)
    for stage in context.stages:
        z, away = _mapped(stage.weight, stage.sizes, stage.bias, (h, off))
        low, high = z - away, z + away
        ends = [stage.each("enclose", low, high)]
        if stage.products is not None:
            i, j = stage.products.left, stage.products.right
            corners = np.stack([a[:, i] * b[:, j] for a in (low, high) for b in (low, high)])
            room = gamma(2) * np.abs(corners).max(axis=0)
            ends.append((corners.min(axis=0) - room, corners.max(axis=0) + room))
        low, high = (np.concatenate(part, axis=1) for part in zip(*ends, strict=True))
        h = 0.5 * (low + high)
        off = np.maximum(high - h, h - low) * (1.0 + gamma(2))
    bias = context.question.problem.network.head.bias
    return _mapped(context.head, np.abs(context.head), bias, (h, off))


def _mapped(
    weight: FloatArray, sizes: FloatArray, bias: FloatArray, signal: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Compute ``W h + b`` for a signal h with error bounds, and its error bounds."""
    h, off = signal
    unit = gamma(2 * weight.shape[1] + 8)
    whole = (np.abs(h) + off) @ sizes.T + np.abs(bias)
    return h @ weight.T + bias, (off @ sizes.T) * (1.0 + unit) + unit * whole
