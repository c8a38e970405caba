"""Heads that cancel: functionals, dual balls and directions under which large terms leave little.

The last layer is drawn so that ``V W`` nearly vanishes for the vertices V of a dual ball, or the
first one so that ``W T`` does for directions T: by anything between three digits and all of them.
What float64 products make of that is rounding, in part or alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from fuzz_domains import domain_of, norms_of
from fuzz_networks import Rng, chain, integers, normals, plain, tenths, ties
from fuzz_oracle import PlainDomain, PlainLayer
from smooth_networks import JUMPING, SMOOTH, any_kind, box_of, one_kind
from smooth_networks import chain as smooth_chain
from smooth_oracle import CurvedLayer

import lipyomo
from lipyomo import Box
from lipyomo.problems.norms import LinearOutput

Asked = tuple[str, dict[str, Any], list[np.ndarray] | None]
"""A norm of inputs, the keywords of a problem, and the vertices of the dual ball."""


@dataclass(frozen=True)
class Drawn:
    """Layers, a domain for both sides, what is asked, and directions."""

    layers: list[PlainLayer] | list[CurvedLayer]
    domain: lipyomo.Domain
    plain_domain: PlainDomain
    asked: Asked
    directions: np.ndarray | None = None


def hundredths(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-250, 251, shape) / 100.0


NUMBERS = (hundredths, hundredths, tenths, normals)


def nearly_orthogonal(rng: Rng, rows: np.ndarray, count: int) -> np.ndarray:
    """A matrix (m, count) whose product with `rows` (k, m), k < m, nearly vanishes."""
    k, m = rows.shape
    found = NUMBERS[int(rng.integers(len(NUMBERS)))](rng, (m, count))
    own, held = np.arange(m - k, m), np.arange(m - k)
    if abs(np.linalg.det(rows[:, own])) < 1e-3:
        return found
    found[own] = -np.linalg.solve(rows[:, own], rows[:, held] @ found[held])
    digits = rng.choice([3, 5, 7, 9, 12, 99])
    if digits < 99:
        found[own] = np.round(found[own], int(digits))
    elif rng.random() < 0.5:
        left = 10.0 ** -float(rng.uniform(3, 17))
        found[own] += left * np.abs(found[own]).max() * normals(rng, found[own].shape)
    if rng.random() < 0.3:
        found = found * 10.0 ** float(rng.choice([-8, 4, 12, 15]))
    return found


def balls(rng: Rng, m: int) -> tuple[dict[str, Any], np.ndarray]:
    """The keywords of a functional, a margin or a dual ball, and its vertices (k, m), k < m."""
    kind = str(rng.choice(["functional", "functional", "functional", "differences", "vertices"]))
    if kind == "differences":
        rows = np.eye(m)[:-1] - np.eye(m)[1:]
        return {"output_norm": LinearOutput(vertices=rows)}, rows
    count = 1 if kind == "functional" else int(rng.integers(1, m))
    rows = NUMBERS[int(rng.integers(len(NUMBERS)))](rng, (count, m))
    rows[:, -1] += np.where(rows[:, -1] == 0, 0.5, 0.0)
    if kind == "functional":
        return {"functional": rows[0]}, rows
    return {"output_norm": LinearOutput(vertices=rows)}, rows


def some_layers(rng: Rng, outputs: int) -> list[PlainLayer]:
    """Two-slope layers of all depths."""
    layers = (plain if rng.random() < 0.7 else ties)(rng)
    *hidden, head = layers
    size = (head.weight.shape[1], outputs)
    return [*hidden, *chain(rng, size, integers, lambda r, n: normals(r, (n,)))]


def curved_layers(rng: Rng, outputs: int) -> list[CurvedLayer]:
    """Smooth and mixed layers, few enough for the oracle."""
    d = int(rng.choice([1, 1, 2]))
    most, depth = ((4, 3), (3, 2))[d - 1]
    hidden = [int(rng.integers(1, most + 1)) for _ in range(int(rng.integers(1, depth + 1)))]
    kinds = one_kind(rng, (*SMOOTH, *JUMPING)) if rng.random() < 0.6 else any_kind(rng)
    return smooth_chain(rng, (d, *hidden, outputs), kinds, biases=lambda r, s: 0.5 * normals(r, s))


def with_weight(layer: Any, weight: np.ndarray) -> Any:
    """A layer with another weight."""
    rest = (layer.curves,) if isinstance(layer, CurvedLayer) else (layer.left, layer.right)
    return type(layer)(weight, layer.bias, *rest)


def cancelling_heads(rng: Rng) -> Drawn:
    """Two-slope networks."""
    m = int(rng.integers(2, 5))
    layers = some_layers(rng, m)
    outputs, rows = balls(rng, m)
    layers[-1] = with_weight(layers[-1], nearly_orthogonal(rng, rows, layers[-1].weight.shape[1]))
    domain, plain_domain = domain_of(rng, layers[0].weight.shape[1])
    norm = str(rng.choice(["linf", "linf", "l1", "l2"]))
    return Drawn(layers, domain, plain_domain, (norm, outputs, list(rows)))


def cancelling_heads_units(rng: Rng) -> Drawn:
    """Smooth and mixed networks."""
    m = int(rng.integers(2, 5))
    layers = curved_layers(rng, m)
    outputs, rows = balls(rng, m)
    layers[-1] = with_weight(layers[-1], nearly_orthogonal(rng, rows, layers[-1].weight.shape[1]))
    low, high = box_of(rng, layers[0].weight.shape[1])
    d = low.size
    plain_domain = PlainDomain(low, high, np.zeros((0, d)), np.zeros(0))
    norm = str(rng.choice(["linf", "linf", "l1", "l2"]))
    return Drawn(layers, Box(low, high), plain_domain, (norm, outputs, list(rows)))


def cancelling_directions(rng: Rng) -> Drawn:
    """Two-slope networks along directions that the first layer hardly sees."""
    layers = some_layers(rng, int(rng.integers(1, 4)))
    units, d = layers[0].weight.shape
    directions = NUMBERS[int(rng.integers(len(NUMBERS)))](rng, (d, int(rng.integers(1, max(d, 2)))))
    directions[-1] += np.where(directions[-1] == 0, 0.5, 0.0)
    if directions.shape[1] < d:
        layers[0] = with_weight(layers[0], nearly_orthogonal(rng, directions.T, units).T)
    ends = -np.ones(d), np.ones(d)
    plain_domain = PlainDomain(*ends, np.zeros((0, d)), np.zeros(0))
    asked = norms_of(rng, len(layers[-1].bias))
    return Drawn(layers, Box(*ends), plain_domain, asked, directions)


HEADS: dict[str, Callable[[Rng], Drawn]] = {
    f.__name__: f for f in (cancelling_heads, cancelling_heads_units, cancelling_directions)
}
