"""Hostile networks, drawn by a random generator: families on which floating point goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from fuzz_oracle import PlainLayer

Rng = np.random.Generator

KINDS = ((0.0, 1.0), (0.1, 1.0), (-1.0, 1.0), (1.0, 0.0), (0.5, -0.25), (1.0, 1.0))


def chain(
    rng: Rng,
    sizes: tuple[int, ...],
    weights: Callable[[Rng, tuple[int, int]], np.ndarray],
    biases: Callable[[Rng, int], np.ndarray],
    mixed: bool = False,
) -> list[PlainLayer]:
    """Layers of widths `sizes` from two generators of numbers."""
    layers = []
    for i, (k, n) in enumerate(pairwise(sizes)):
        last = i == len(sizes) - 2
        slopes = np.array([(0.0, 1.0)] * n)
        if last:
            slopes = np.ones((n, 2))
        elif mixed:
            slopes = np.array(KINDS)[rng.integers(0, len(KINDS), n)]
        layers.append(PlainLayer(weights(rng, (n, k)), biases(rng, n), slopes[:, 0], slopes[:, 1]))
    return layers


def integers(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-2, 3, shape).astype(float)


def normals(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(rng.standard_normal(shape))


def tenths(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-20, 21, shape) / 10.0


def widths(rng: Rng, most_inputs: int = 3, depth: int | None = None) -> tuple[int, ...]:
    depth = int(rng.integers(0, 4)) if depth is None else depth
    return (
        int(rng.integers(1, most_inputs + 1)),
        *(int(rng.integers(1, 5)) for _ in range(depth)),
        int(rng.integers(1, 4)),
    )


def plain(rng: Rng) -> list[PlainLayer]:
    return chain(
        rng, widths(rng), normals, lambda r, n: 0.5 * normals(r, (n,)), mixed=rng.random() < 0.5
    )


def ties(rng: Rng) -> list[PlainLayer]:
    def bias(r: Rng, n: int) -> np.ndarray:
        return np.asarray(integers(r, (n,)) * r.integers(0, 2, n))

    return chain(rng, widths(rng), integers, bias, mixed=rng.random() < 0.3)


def duplicates(rng: Rng) -> list[PlainLayer]:
    """Units repeated, negated, and scaled copies of each other."""
    layers = ties(rng) if rng.random() < 0.5 else plain(rng)
    out = []
    for i in range(len(layers) - 1):
        layer = layers[i]
        n = len(layer.bias)
        pick = rng.integers(0, n, 2)
        factor = rng.choice([1.0, -1.0, 2.0, -0.5, 3.0], 2)
        weight = np.vstack([layer.weight, factor[:, None] * layer.weight[pick]])
        bias = np.concatenate([layer.bias, factor * layer.bias[pick]])
        left, right = (
            np.append(layer.left, layer.left[pick]),
            np.append(layer.right, layer.right[pick]),
        )
        out.append(PlainLayer(weight, bias, left, right))
        after = layers[i + 1]
        extra = rng.choice([-1.0, 1.0, 0.5], (len(after.bias), 2))
        layers[i + 1] = PlainLayer(
            np.hstack([after.weight, extra]), after.bias, after.left, after.right
        )
    return [*out, layers[-1]]


def cancelling(rng: Rng) -> list[PlainLayer]:
    """Large weights that cancel, exactly or nearly."""
    layers = duplicates(rng)
    size = 10.0 ** rng.integers(6, 18)
    head = layers[-1]
    weight = size * rng.integers(-3, 4, head.weight.shape)
    if rng.random() < 0.7 and weight.shape[1] > 1:
        weight[:, -1] = -weight[:, :-1].sum(axis=1)
    layers[-1] = PlainLayer(weight, head.bias, head.left, head.right)
    if len(layers) > 1 and rng.random() < 0.5:
        first = layers[0]
        row = rng.choice([0.1, 0.3, 0.7, 1 / 3], first.weight.shape[1])
        layers[0] = PlainLayer(
            np.tile(row, (len(first.bias), 1)), first.bias, first.left, first.right
        )
    return layers


def scaled(rng: Rng) -> list[PlainLayer]:
    """Rows and layers with scales from 1e-8 to 1e8."""
    layers = plain(rng)
    out = []
    for layer in layers:
        rows = (
            10.0 ** rng.integers(-8, 9, len(layer.bias))
            if rng.random() < 0.5
            else 10.0 ** rng.integers(-8, 9)
        )
        rows = np.broadcast_to(rows, (len(layer.bias),))
        out.append(
            PlainLayer(rows[:, None] * layer.weight, rows * layer.bias, layer.left, layer.right)
        )
    return out


def thousands(rng: Rng) -> list[PlainLayer]:
    """Ordinary weights of 1e3 to 1e6."""

    def weights(r: Rng, shape: tuple[int, int]) -> np.ndarray:
        return r.integers(-20, 21, shape) * 10.0 ** r.integers(3, 5)

    return chain(
        rng,
        widths(rng, depth=int(rng.integers(1, 3))),
        weights,
        lambda r, n: 1e3 * normals(r, (n,)),
        mixed=rng.random() < 0.5,
    )


def faces(rng: Rng) -> list[PlainLayer]:
    """Kinks on faces, edges and corners of the unit box, and through one point."""
    layers = ties(rng)
    first = layers[0]
    if len(layers) > 1:
        corner = rng.integers(-1, 2, first.weight.shape[1]).astype(float)
        bias = -first.weight @ corner
        layers[0] = PlainLayer(first.weight, bias, first.left, first.right)
    return layers


def decimal(rng: Rng) -> list[PlainLayer]:
    """Weights in tenths, which no float64 holds: sums that are zero on paper are not."""
    return chain(rng, widths(rng), tenths, lambda r, n: tenths(r, (n,)), mixed=rng.random() < 0.5)


def affine_runs(rng: Rng) -> list[PlainLayer]:
    """Layers without units between those with, whose products round."""
    layers = []
    for layer in plain(rng) if rng.random() < 0.5 else cancelling(rng):
        n = len(layer.bias)
        if rng.random() < 0.6:
            ones = np.ones(n)
            layers.append(PlainLayer(layer.weight, layer.bias, ones, ones))
            layers.append(
                PlainLayer(
                    tenths(rng, (n, n)) + np.eye(n) * 1.1, np.zeros(n), layer.left, layer.right
                )
            )
        else:
            layers.append(layer)
    return layers


def deep(rng: Rng) -> list[PlainLayer]:
    """Many narrow layers."""
    sizes = (int(rng.integers(1, 3)), *[int(rng.integers(1, 3))] * int(rng.integers(4, 8)), 1)
    if rng.random() < 0.5:
        layers = chain(rng, sizes, integers, lambda r, n: integers(r, (n,)))
        return [
            PlainLayer(v.weight, v.bias, -np.ones(len(v.bias)), v.right)
            if i < len(layers) - 1
            else v
            for i, v in enumerate(layers)
        ]
    return chain(rng, sizes, normals, lambda r, n: 0.3 * normals(r, (n,)), mixed=True)


def float32(rng: Rng) -> list[PlainLayer]:
    return [
        PlainLayer(
            np.float32(v.weight).astype(float), np.float32(v.bias).astype(float), v.left, v.right
        )
        for v in plain(rng)
    ]


def residual(rng: Rng) -> list[PlainLayer]:
    """x + W2 relu(W1 x + b), twice, as chains with identity units."""
    d = int(rng.integers(1, 3))
    layers: list[PlainLayer] = []
    eye = np.eye(d)
    for _ in range(2):
        n = int(rng.integers(1, 3))
        up = np.vstack([normals(rng, (n, d)), eye])
        slopes = np.concatenate([np.zeros(n), np.ones(d)])
        layers.append(
            PlainLayer(up, np.append(normals(rng, (n,)), np.zeros(d)), slopes, np.ones(n + d))
        )
        down = np.hstack([normals(rng, (d, n)), eye])
        ones = np.ones(d)
        layers.append(PlainLayer(down, np.zeros(d), ones, ones))
    ones = np.ones(2)
    layers.append(PlainLayer(normals(rng, (2, d)), np.zeros(2), ones, ones))
    return layers


def dead(rng: Rng) -> list[PlainLayer]:
    """Dead units, constant units, zero heads and single units."""
    layers = ties(rng)
    for i, layer in enumerate(layers[:-1]):
        weight, bias = layer.weight.copy(), layer.bias.copy()
        off = rng.random(len(bias)) < 0.4
        weight[off] = 0.0
        bias[off] = rng.choice([-1.0, 0.0, 1.0], int(off.sum()))
        layers[i] = PlainLayer(weight, bias, layer.left, layer.right)
    if rng.random() < 0.2:
        head = layers[-1]
        layers[-1] = PlainLayer(0 * head.weight, head.bias, head.left, head.right)
    return layers


ORDINARY = {
    f.__name__: f
    for f in (
        plain, ties, duplicates, cancelling, scaled, thousands, faces, decimal,
        affine_runs, deep, float32, residual, dead,
    )
}  # fmt: skip
