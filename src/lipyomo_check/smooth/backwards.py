"""Pre-activations and tangents of a layer, taken backwards through those before it (`bound`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo_check.smooth.boxes import Ball, Rows
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.halfspaces import UNDERFLOW
from lipyomo_check.smooth.layers import Relaxed
from lipyomo_check.smooth.levels import Indices, Level


def back(
    levels: Sequence[Level],
    layers: Sequence[Relaxed],
    x: Ball,
    v: Ball,
    tangents: bool,
    gamma: float,
) -> Rows:
    """Return pre-activations (or tangents) of the next layer as affine functions of (x, v)."""
    level = levels[len(layers)]
    A, B = (None, level.weight) if tangents else (level.weight, None)
    constant = np.zeros((len(x[0]), len(level.weight))) + (0.0 if tangents else level.bias)
    radius = np.zeros_like(constant)
    mass = np.abs(constant)
    before = levels[: len(layers)]
    for layer, level in zip(reversed(layers), reversed(before), strict=True):
        P: Array | None = None
        of_sums: Changed | None = None
        if layer is layers[-1] and layer.whole is not None:
            of_sums = _of_sums(layer, level, levels[len(layers)].weight, tangents)
        if A is not None:
            s, middle, reach = layer.line
            P = level.spread(A) * s[:, None, :]
            constant = constant + rows_times(A, middle)
            weight = np.abs(middle) + level.outputs_of(np.abs(s) * level.own(layer.size))
            added = _times2(np.abs(A), reach, weight)
            radius, mass = radius + added[..., 0], mass + added[..., 0] + added[..., 1]
        if B is not None:
            assert layer.change is not None
            tilt, middle, reach, weight = layer.change
            constant = constant + rows_times(B, middle)
            added = _times2(np.abs(B), reach, weight)
            radius, mass = radius + added[..., 0], mass + added[..., 0] + added[..., 1]
            B = level.spread(B)
            P = B * tilt[:, None, :] if P is None else P + B * tilt[:, None, :]
            B = (B * layer.d[:, None, :]) @ level.branch_tangents
        if of_sums is not None:
            rows, *changes = of_sums
            for total, change in zip((constant, radius, mass), changes, strict=True):
                total[:, rows] += change
        assert P is not None
        constant = constant + P @ level.branch_bias
        A = P @ level.branch_weight
    assert A is not None
    centre = rows_times(A, x[0])
    width = rows_times(np.abs(A), x[1])
    mass = mass + rows_times(np.abs(A), np.abs(x[0])) + width
    if B is not None:
        centre = centre + rows_times(B, v[0])
        more = rows_times(np.abs(B), v[1])
        width, mass = width + more, mass + rows_times(np.abs(B), np.abs(v[0])) + more
    middle, reach = constant + centre, radius + width
    reach = reach + (gamma * mass + UNDERFLOW)
    return Rows(A, B, middle - reach, middle + reach)


Changed = tuple[Indices, Array, Array, Array]
"""Rows, and what is added to their constants, radii and masses."""


def _of_sums(layer: Relaxed, level: Level, weight: Array, tangents: bool) -> Changed:
    """Return the errors of sums of squares and products as wholes, less those of the terms."""
    assert layer.whole is not None
    assert layer.change is not None
    slopes = layer.line[0], layer.change.tilt, layer.d
    _, middles, reaches = layer.line
    if tangents:
        middles, reaches = layer.change.middle, layer.change.reach
    found = []
    for own in layer.whole.sums:
        outputs = own.outputs(level)
        row = weight[own.row, outputs]
        middle, radius = middles[:, outputs] @ row, reaches[:, outputs] @ np.abs(row)
        centre, reach, size = layer.whole.beside(level, own, weight, slopes, tangents)
        low = np.fmax(middle - radius, centre - reach)
        high = np.maximum(np.fmin(middle + radius, centre + reach), low)
        size = size + np.abs(centre) + reach
        found.append(((low + high) / 2.0 - middle, (high - low) / 2.0 - radius, size))
    rows = np.array([own.row for own in layer.whole.sums], dtype=np.int64)
    constant, width, size = (np.stack(part, axis=1) for part in zip(*found, strict=True))
    return rows, constant, width, size


def rows_times(rows: Array, values: Array) -> Array:
    """Return rows (N, k, n) or (k, n) times a vector a box, (N, n)."""
    if rows.ndim == 2:
        return values @ rows.T
    product: Array = np.matmul(rows, values[..., None])[..., 0]
    return product


def _times2(rows: Array, first: Array, second: Array) -> Array:
    """Do the same for two vectors, (N, k, 2)."""
    products: Array = np.matmul(rows, np.stack([first, second], axis=-1))
    return products
