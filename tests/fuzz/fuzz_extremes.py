"""Hostile networks and domains: numbers of all sizes, and problems that degenerate.

Numbers whose products overflow or underflow, pre-activations that are zero on the whole domain,
units whose slopes are equal, negative, zero or nearly equal, boxes of one unit in the last place,
frozen inputs of balls and polytopes, outputs and functionals that are zero.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from fuzz_networks import (
    Rng,
    affine_runs,
    cancelling,
    chain,
    decimal,
    duplicates,
    integers,
    normals,
    plain,
    ties,
)
from fuzz_oracle import PlainDomain, PlainLayer

import lipyomo
from lipyomo import AllSpace, Box, Polytope, ball

SLOPES = np.array(
    [
        (0.0, 1.0), (1.0, 0.0), (0.5, 0.5), (0.0, 0.0), (-0.0, 0.0), (-0.0, 1.0), (-1.0, -1.0),
        (-1.0, 1.0), (-0.5, 0.25), (2.0, 1.0), (3.0, -2.0), (1.0, 1.0 + 2.0**-52), (0.1, 0.1),
        (-1e-17, 1.0), (1e-300, 1.0), (5e-324, 0.0), (1e8, 1.0), (1.0, -1.0), (1.0, 1.0),
    ]
)  # fmt: skip


def some(rng: Rng) -> list[PlainLayer]:
    """A network of one of the milder families."""
    return [plain, ties, duplicates, decimal][int(rng.integers(0, 4))](rng)


def times(layer: PlainLayer, rows: np.ndarray) -> PlainLayer:
    return PlainLayer(rows[:, None] * layer.weight, rows * layer.bias, layer.left, layer.right)


def faint(rng: Rng) -> list[PlainLayer]:
    """Tiny rows or layers, whose products underflow; sometimes scaled up again."""
    layers = some(rng)
    at = int(rng.integers(0, len(layers)))
    count = len(layers[at].bias)
    rows = 2.0 ** -rng.integers(40, 1072, count if rng.random() < 0.5 else 1).astype(float)
    layers[at] = times(layers[at], np.broadcast_to(rows, (count,)).copy())
    if at + 1 < len(layers) and rng.random() < 0.5:
        after = layers[at + 1]
        up = 2.0 ** float(rng.integers(40, 300))
        layers[at + 1] = PlainLayer(up * after.weight, after.bias, after.left, after.right)
    return layers


def huge(rng: Rng) -> list[PlainLayer]:
    """Weights whose products overflow."""
    return [times(v, np.full(len(v.bias), 10.0 ** rng.integers(8, 50))) for v in some(rng)]


def spread(rng: Rng) -> list[PlainLayer]:
    """Huge and tiny layers in turn: the function is ordinary, what is in between is not."""
    layers, down = some(rng), rng.random() < 0.5
    size = 2.0 ** float(rng.integers(30, 190))
    out = []
    for i, v in enumerate(layers):
        factor = size if (i % 2 == 0) == down else 1.0 / size
        out.append(PlainLayer(factor * v.weight, factor * v.bias, v.left, v.right))
    return out


def vanishing(rng: Rng) -> list[PlainLayer]:
    """Pre-activations that are exactly zero, or a constant, on the whole domain."""
    d, n = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    rows = integers(rng, (n, d)) if rng.random() < 0.5 else normals(rng, (n, d))
    bias = rng.integers(-1, 2, n).astype(float)
    first = PlainLayer(
        np.vstack([rows, -rows, rows]),
        np.concatenate([bias, -bias, bias]),
        np.concatenate([np.zeros(2 * n), np.ones(n)]),
        np.ones(3 * n),
    )
    eye = np.eye(n)
    none = np.hstack([eye, -eye, -eye])  # relu(z) - relu(-z) - z
    free = normals(rng, (int(rng.integers(0, 3)), 3 * n))
    weight = np.vstack([none, none[::-1] * rng.choice([1.0, -2.0, 1e8]), free])
    bias = rng.choice([0.0, 0.0, 1.0, -1.0, 1e-17, -5e-324], len(weight))
    kinds = SLOPES[rng.integers(0, 14, len(weight))]
    second = PlainLayer(weight, bias, kinds[:, 0], kinds[:, 1])
    m = int(rng.integers(1, 3))
    last = PlainLayer(
        integers(rng, (m, len(weight))) * 10.0 ** rng.integers(0, 9), np.zeros(m),
        np.ones(m), np.ones(m),
    )  # fmt: skip
    return [first, second, last]


def slopes(rng: Rng) -> list[PlainLayer]:
    """Units of all slopes: equal, zero, negative, falling, equal but for the last digit."""
    layers = some(rng)
    out = []
    for i, v in enumerate(layers):
        kinds = SLOPES[rng.integers(0, len(SLOPES), len(v.bias))]
        last = i == len(layers) - 1 and rng.random() < 0.7
        out.append(v if last else PlainLayer(v.weight, v.bias, kinds[:, 0], kinds[:, 1]))
    return out


def signed_zeros(rng: Rng) -> list[PlainLayer]:
    """Negative zeros everywhere."""

    def flip(values: np.ndarray) -> np.ndarray:
        turned = np.where(rng.random(values.shape) < 0.5, -0.0, 0.0)
        return np.where(values == 0, turned, values)

    return [
        PlainLayer(flip(v.weight), flip(v.bias), flip(v.left), flip(v.right)) for v in ties(rng)
    ]


def empty_outputs(rng: Rng) -> list[PlainLayer]:
    """Outputs and layers that are zero, or copies of each other."""
    layers = some(rng)
    at = int(rng.integers(0, len(layers))) if rng.random() < 0.3 else len(layers) - 1
    layer = layers[at]
    keep = rng.integers(0, 2, len(layer.bias)).astype(float)
    if rng.random() < 0.5 and len(layer.bias) > 1:
        weight = np.tile(layer.weight[:1], (len(layer.bias), 1)) * rng.choice([-1.0, 1.0, 0.5])
        layers[at] = PlainLayer(weight, layer.bias, layer.left, layer.right)
    else:
        layers[at] = times(layer, keep)
    return layers


def residues(rng: Rng) -> list[PlainLayer]:
    """Sums of tenths that are zero on paper, with large weights behind them."""
    d = int(rng.integers(1, 3))
    row = rng.choice([0.1, 0.3, 0.7, 1 / 3, 0.6], d)
    triple = np.vstack([row, 2 * row, -3 * row])
    first = PlainLayer(triple, rng.choice([0.0, 0.1, -0.3], 3), np.zeros(3), np.ones(3))
    second = PlainLayer(
        np.array([[1.0, 1.0, 1.0], [3.0, 1.5, 0.0], [1.0, -0.5, 0.0]]),
        rng.choice([0.0, 0.3, -0.1], 3),
        rng.choice([0.0, -1.0], 3),
        np.ones(3),
    )
    size = 10.0 ** rng.integers(0, 17)
    head = PlainLayer(size * rng.integers(-2, 3, (1, 3)), np.zeros(1), np.ones(1), np.ones(1))
    return [first, second, head]


def single(rng: Rng) -> list[PlainLayer]:
    """One input, one output, many kinks, some closer together than float64 numbers."""
    n = int(rng.integers(2, 9))
    at = rng.choice([0.0, 0.1, 0.1 + 2.0**-56, 1 / 3, -0.5, 5e-324, 1e-17, 1.0, -1.0], n)
    size = rng.choice([1.0, 3.0, -1.0, 0.1, 7.0], n)
    kinds = SLOPES[rng.integers(0, len(SLOPES), n)]
    first = PlainLayer(size[:, None], -size * at, kinds[:, 0], kinds[:, 1])
    return [first, *chain(rng, (n, 1), integers, lambda r, k: np.zeros(k))]


def bare(rng: Rng) -> list[PlainLayer]:
    """Affine maps in one or several layers, some zero."""
    layers = affine_runs(rng) if rng.random() < 0.5 else cancelling(rng)
    ones = [np.ones(len(v.bias)) for v in layers]
    off = 0.0 if rng.random() < 0.2 else 1.0
    return [
        PlainLayer(off * v.weight, v.bias, one, one) for v, one in zip(layers, ones, strict=True)
    ]


EXTREMES = {
    f.__name__: f
    for f in (
        faint, huge, spread, vanishing, slopes, signed_zeros, empty_outputs, residues,
        single, bare,
    )
}  # fmt: skip


def strange_domain(rng: Rng, d: int) -> tuple[lipyomo.Domain, PlainDomain]:
    """A degenerate domain, for both sides."""
    none = (np.zeros((0, d)), np.zeros(0))
    low, high = -np.ones(d), np.ones(d)
    kind = str(
        rng.choice(
            [
                "unit", "ulp", "least", "wide", "tiny ball", "clipped ball", "frozen ball",
                "frozen polytope", "slab", "corner", "half space", "mixed", "signed", "all",
                "flat rows",
            ]
        )
    )  # fmt: skip
    if kind == "ulp":  # one to four units in the last place
        low = rng.choice([1.0, 0.1, -0.5, 1e6, 1e-9, 0.0], d)
        high = low.copy()
        for _ in range(int(rng.integers(1, 5))):
            high = np.nextafter(high, np.inf)
        if rng.random() < 0.5:
            high[0] = low[0] + 1.0
    elif kind == "least":
        low = rng.choice([0.0, -0.0, -1e-59, 1e-30], d)
        high = low + rng.choice([1e-20, 1e-40, 2.0**-190, 1e-59])
    elif kind == "wide":
        high = rng.choice([1e30, 1e60, 9e99, 1.0], d)
        low = -high if rng.random() < 0.5 else high - 1.0
        low = np.where(low == high, 0.5 * high, low)
    elif kind == "signed":
        low, high = np.full(d, -0.0), rng.choice([1.0, 0.5], d)
    elif kind == "mixed":
        low = np.where(rng.random(d) < 0.5, -np.inf, low)
        high = np.where(rng.random(d) < 0.5, np.inf, high)
    elif kind == "all":
        return AllSpace(d), PlainDomain(np.full(d, -np.inf), np.full(d, np.inf), *none)
    elif kind in ("tiny ball", "clipped ball", "frozen ball"):
        norm = str(rng.choice(["l1", "l2"]))
        center = rng.integers(-1, 2, d).astype(float)
        radius = float(rng.choice([0.5, 1.0, 0.1]))
        low, high = np.full(d, -np.inf), np.full(d, np.inf)
        if kind == "tiny ball":
            center = rng.choice([0.0, 1.0, 1e3, 0.1], d)
            radius = float(rng.choice([1e-3, 1e-9, 1e-13, 1e-30, 1e-59]))
        elif kind == "clipped ball":  # the centre on faces of the clip box
            low, high = center - rng.choice([0.0, 2.0, 0.25], d), center + 0.5 * radius
        else:
            hold = rng.random(d) < 0.5
            hold[int(rng.integers(0, d))] = False
            low, high = np.where(hold, center, -3.0), np.where(hold, center, 3.0)
        body = ball(center, radius, norm, None if kind == "tiny ball" else (low, high))
        return body, PlainDomain(low, high, *none, (norm, center, radius))
    elif kind in ("frozen polytope", "slab", "corner", "half space", "flat rows"):
        A, b = rng.choice([1.0, -1.0, 0.1, 3.0, 0.0], (2, d)), rng.choice([0.3, 1.0, 0.7], 2)
        A[~A.any(axis=1)] = 1.0
        if kind == "frozen polytope":
            held = int(rng.integers(0, d)) if d > 1 else None
            if held is not None:
                low[held] = high[held] = rng.choice([0.1, 0.3, -0.7])
        elif kind == "slab":
            row = rng.choice([1.0, 0.1, -3.0, 1 / 3], d)
            right = float(rng.choice([0.0, 0.1, 1 / 3]))
            width = 10.0 ** -float(rng.integers(6, 17))
            A, b = np.vstack([row, -row]), np.array([right + width, -right])
        elif kind == "corner":  # cuts off next to nothing, or nearly everything
            A = np.vstack([np.ones(d), -np.ones(d)])
            b = np.array([d - 10.0 ** -float(rng.integers(1, 17)), -d + rng.choice([0.5, 1e-6])])
        elif kind == "half space":
            low, high = np.full(d, -np.inf), np.full(d, np.inf)
            A, b = A[:1], b[:1]
        else:  # rows of zeros, and rows that say the same twice
            A, b = np.vstack([A, A[:1] * 2, np.zeros((1, d))]), np.append(b, [2 * b[0], 0.0])
        return Polytope(A, b, low, high), PlainDomain(low, high, A, b)
    return Box(low, high), PlainDomain(low, high, *none)


def strange_norms(rng: Rng, m: int) -> tuple[str, dict[str, object], list[np.ndarray] | None]:
    """An input norm, the problem's keywords for the outputs, and the dual vertices."""
    input_norm = str(rng.choice(["linf", "l1", "l2"]))
    kind = str(rng.choice(["functional", "linf", "l1", "l2", "cross", "margin"]))
    eye = np.eye(m)
    if kind == "functional":
        c = rng.choice([1.0, -1.0, 0.0, -0.0, 1e-300, 1e12, 0.1], m)
        return input_norm, {"functional": c}, [c]
    if kind == "linf":
        return input_norm, {"output_norm": "linf"}, list(eye)
    if kind == "l1":
        signs = product((-1.0, 1.0), repeat=m)
        return input_norm, {"output_norm": "l1"}, [np.array(s) for s in signs]
    if kind == "l2":
        return input_norm, {"output_norm": "l2"}, None
    if kind == "cross":
        pairs = [eye[i] - eye[j] for i in range(m) for j in range(m) if i != j]
        return input_norm, {"output_norm": "cross"}, [*eye, *pairs]
    i = int(rng.integers(0, m))
    rest = [eye[i] - eye[j] for j in range(m) if j != i]
    return input_norm, {"margin": i}, [eye[i], *rest]
