"""Networks and domains near a solver's tolerances: for methods that hand a model to a solver.

Boxes and slabs that are 1e-7 to 1e-10 wide with kinks inside, and regions as thin as that in
ordinary boxes, in which the gradient is larger than around them.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from fuzz_domains import norms_of
from fuzz_networks import Rng, chain, integers, normals, tenths
from fuzz_oracle import PlainDomain, PlainLayer

import lipyomo
from lipyomo import Box, Polytope

Drawn = tuple[list[PlainLayer], lipyomo.Domain, PlainDomain]


def some(rng: Rng) -> list[PlainLayer]:
    """One or two hidden layers of a few units."""
    depth = int(rng.integers(1, 3))
    sizes = (
        int(rng.integers(1, 4)),
        *(int(rng.integers(2, 6)) for _ in range(depth)),
        int(rng.integers(1, 3)),
    )
    weights = [normals, normals, integers, tenths][int(rng.integers(0, 4))]
    mixed = rng.random() < 0.3
    return chain(rng, sizes, weights, lambda r, n: 0.5 * normals(r, (n,)), mixed=mixed)


def with_kinks_near(layers: list[PlainLayer], x: np.ndarray, reach: float, rng: Rng) -> None:
    """Move most units' kinks to within about `reach` of the point."""
    for i, layer in enumerate(layers[:-1]):
        z = layer.weight @ x + layer.bias
        moved = rng.random(z.size) < 0.8
        size = np.abs(layer.weight).sum(axis=1) * reach
        bias = np.where(moved, layer.bias - z + size * rng.uniform(-1, 1, z.size), layer.bias)
        layers[i] = PlainLayer(layer.weight, bias, layer.left, layer.right)
        z = layer.weight @ x + bias
        x = np.where(z < 0, layer.left, layer.right) * z


def thin_boxes(rng: Rng) -> Drawn:
    """Some sides, or all, are 1e-7 to 1e-10 wide."""
    layers = some(rng)
    d = layers[0].weight.shape[1]
    width = 10.0 ** -rng.uniform(7, 10, d if rng.random() < 0.5 else 1)
    if d > 1 and rng.random() < 0.3:
        width = np.where(np.arange(d) == int(rng.integers(0, d)), width, 1.0)
    low = rng.choice([0.0, 1.0, -0.3, 0.7, 100.0], d) + 0.0
    high = low + np.broadcast_to(width, (d,))
    with_kinks_near(layers, 0.5 * (low + high), float(np.min(high - low)), rng)
    none = (np.zeros((0, d)), np.zeros(0))
    return layers, Box(low, high), PlainDomain(low, high, *none)


def thin_slabs(rng: Rng) -> Drawn:
    """Two rows that leave a gap of 1e-7 to 1e-10, in a box."""
    layers = some(rng)
    d = layers[0].weight.shape[1]
    row = rng.choice([1.0, -1.0, 0.5, 3.0, 0.1], d)
    right = float(rng.choice([0.0, 0.25, -0.1]))
    width = 10.0 ** -float(rng.uniform(7, 10))
    A, b = np.vstack([row, -row]), np.array([right + width, -right])
    low, high = -2.0 * np.ones(d), 2.0 * np.ones(d)
    point = row * (right + 0.5 * width) / float(row @ row)
    with_kinks_near(layers, point, width if rng.random() < 0.7 else 1.0, rng)
    return layers, Polytope(A, b, low, high), PlainDomain(low, high, A, b)


def thin_regions(rng: Rng) -> Drawn:
    """Pairs of parallel kinks close together, whose strip has gradients of its own."""
    layers = some(rng)
    first, after = layers[0], layers[1]
    count, d = first.weight.shape
    at = int(rng.integers(0, count))
    gap = 10.0 ** -float(rng.uniform(6, 10)) * float(np.abs(first.weight[at]).sum() + 0.1)
    sign = float(rng.choice([1.0, -1.0]))
    weight = np.vstack([first.weight, sign * first.weight[at]])
    bias = np.append(first.bias, sign * (first.bias[at] - gap))
    left, right = np.append(first.left, first.left[at]), np.append(first.right, first.right[at])
    layers[0] = PlainLayer(weight, bias, left, right)
    size = float(rng.choice([1.0, 3.0, 10.0]))
    column = -sign * after.weight[:, [at]] if rng.random() < 0.5 else size * after.weight[:, [at]]
    wide = np.hstack([size * after.weight, column])
    layers[1] = PlainLayer(wide, after.bias, after.left, after.right)
    low, high = -np.ones(d), np.ones(d)
    none = (np.zeros((0, d)), np.zeros(0))
    return layers, Box(low, high), PlainDomain(low, high, *none)


THIN = {f.__name__: f for f in (thin_boxes, thin_slabs, thin_regions)}


def linear_norms(rng: Rng, m: int) -> tuple[str, dict[str, object], list[np.ndarray] | None]:
    """Norms that a mixed-integer model can express."""
    _, outputs, functionals = norms_of(rng, m)
    if functionals is None and m > 1:
        outputs = {"output_norm": "l1"}
        functionals = [np.array(s, float) for s in product((-1, 1), repeat=m)]
    return str(rng.choice(["linf", "l1"])), outputs, functionals
