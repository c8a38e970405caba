"""Networks of products where these are hardest: next to limits, saturated, equal, far, deep."""

from __future__ import annotations

import numpy as np
from fuzz_networks import Rng, normals
from product_networks import LINE, RELU, SQUARE, Drawn, halves, head, start
from smooth_curves import EXP, HALVES, SIGMOID, SIN, SOFTPLUS, TANH, power
from smooth_oracle import CurvedLayer

DEPTH = 30


def signed(pairs: int) -> np.ndarray:
    """What makes products of pairs of squares."""
    return np.kron(np.eye(pairs), [[1.0, -1.0]])


def divisions(rng: Rng) -> Drawn:
    """``a / b`` with b bounded away from zero, by 1e-6 and less of its size."""
    d = int(rng.integers(1, 3))
    first = start(rng, d, 1)
    weight, bias = normals(rng, (1, d)), normals(rng, (1,))
    below = CurvedLayer(
        np.vstack([first.weight, weight]),
        np.concatenate([first.bias, bias]),
        (*first.curves, (SIGMOID, TANH)[int(rng.integers(2))]),
    )
    room = float(rng.choice([0.5, 0.1, 1e-2, 1e-4]))
    lowest = 0.0 if below.curves[1] is SIGMOID else 1.0
    inverse = CurvedLayer(np.eye(2), np.array([0.0, lowest + room]), (LINE, power(-1.0)))
    both = CurvedLayer(halves(*np.eye(2)), np.zeros(2), HALVES)
    last = head(rng, 1)
    return [below, inverse, both, CurvedLayer(last.weight @ signed(1), last.bias, last.curves)]


def saturations(rng: Rng) -> Drawn:
    """Products with factors that hardly move, are off, or are constant."""
    d, n = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    signals = start(rng, d, n)
    size, far = float(rng.choice([1e-8, 1.0, 30.0])), float(rng.choice([-40.0, 5.0, 20.0, 750.0]))
    curve = (SIGMOID, TANH, RELU, SOFTPLUS)[int(rng.integers(4))]
    if curve in (RELU, SOFTPLUS):
        far = min(far, 20.0)
    first = CurvedLayer(
        np.vstack([signals.weight, size * normals(rng, (1, d))]),
        np.append(signals.bias, far),
        (*signals.curves, curve),
    )
    eye = np.eye(n + 1)
    constant = rng.random() < 0.3
    rows = [halves(eye[k], 0.0 * eye[n] if constant else eye[n]) for k in range(n)]
    offset = halves(np.zeros(1), np.array([float(rng.normal())]))[:, 0] if constant else np.zeros(2)
    both = CurvedLayer(np.vstack(rows), np.tile(offset, n), HALVES * n)
    last = head(rng, n)
    return [first, both, CurvedLayer(last.weight @ signed(n), last.bias, last.curves)]


def equals(rng: Rng) -> Drawn:
    """Squares of equal signals, as squares and as products, which cancel or nearly so."""
    d = int(rng.integers(1, 3))
    first = start(rng, d, 2)
    a, b = normals(rng, (2, 2))
    off = float(rng.choice([0.0, 0.0, 1e-12, 1e-3]))
    rows = np.vstack([halves(a, a + off * b), a, b, b])
    curves = (*HALVES, SQUARE, SQUARE, SQUARE)
    squares = CurvedLayer(rows, np.zeros(5), curves)
    m = int(rng.integers(1, 3))
    weight = normals(rng, (m, 1)) * np.array([1.0, -1.0, -1.0, 0.0, 0.0])
    weight += normals(rng, (m, 1)) * float(rng.choice([0.0, 0.1, 1.0])) * np.eye(5)[3]
    if rng.random() < 0.5:  # b * b - b * b
        weight += np.array([0.0, 0.0, 0.0, 1.0, -1.0])
    return [first, squares, CurvedLayer(weight, normals(rng, (m,)), (LINE,) * m)]


def scores(rng: Rng) -> Drawn:
    """A softmax by sigmoids of what a score has over the log-sum-exp of all others: equal, far."""
    d, n = int(rng.integers(1, 3)), 3
    size = float(rng.choice([0.0, 1e-3, 1.0, 30.0]))
    apart = float(rng.choice([0.0, 1.0, 30.0, 700.0]))
    first = start(rng, d, 2)
    weight, bias = size * normals(rng, (n, 2)), apart * normals(rng, (n,))
    others = [(1, 2), (0, 2), (0, 1)]
    gaps = np.vstack([*(weight[j] - weight[k] for j, k in others), weight])
    means = np.concatenate([[bias[j] - bias[k] for j, k in others], bias])
    sums = CurvedLayer(gaps, means, (SOFTPLUS,) * 3 + (LINE,) * 3)
    over = np.hstack([-np.eye(3), np.eye(3)])  # s_i - (s_k + softplus(s_j - s_k))
    for i, (_, k) in enumerate(others):
        over[i, 3 + k] -= 1.0
    return [first, sums, CurvedLayer(over, np.zeros(3), (SIGMOID,) * 3), head(rng, 3)]


def attentions(rng: Rng) -> Drawn:
    """Means of two values by weights from a product of signals."""
    d = int(rng.integers(1, 3))
    size = float(rng.choice([1.0, 1.0, 10.0, 1e-3]))
    first = start(rng, d, 3)  # query, difference of keys, difference of values
    eye = np.eye(3)
    scored = CurvedLayer(np.vstack([halves(eye[0], eye[1]), eye[2]]), np.zeros(3), (*HALVES, LINE))
    gate = CurvedLayer(
        np.array([[size, -size, 0.0], [0.0, 0.0, 1.0]]), normals(rng, (2,)), (SIGMOID, LINE)
    )
    mixed = CurvedLayer(halves(*np.eye(2)), np.zeros(2), HALVES)
    last = head(rng, 1)
    return [
        first,
        scored,
        gate,
        mixed,
        CurvedLayer(last.weight @ signed(1), last.bias, last.curves),
    ]


def constants(rng: Rng) -> Drawn:
    """Normalisation of rows all of whose entries are nearly the same."""
    d, n = int(rng.integers(1, 3)), int(rng.integers(2, 4))
    size = float(rng.choice([1e-6, 1e-3, 1e-2, 0.1]))
    epsilon = float(rng.choice([1e-5, 1e-3, 0.1]))
    centred = np.eye(n) - np.full((n, n), 1.0 / n)
    level = float(rng.choice([0.0, 1.0, 1e3]))
    signals = CurvedLayer(size * normals(rng, (n, d)), np.full(n, level), (LINE,) * n)
    squares = CurvedLayer(np.vstack([centred] * 2), np.zeros(2 * n), (SQUARE,) * n + (LINE,) * n)
    mean = np.concatenate([np.full(n, 1.0 / n), np.zeros(n)])
    rest = np.hstack([np.zeros((n, n)), np.eye(n)])
    root = CurvedLayer(
        np.vstack([mean, rest]), np.append(epsilon, np.zeros(n)), (power(-0.5),) + (LINE,) * n
    )
    eye = np.eye(n + 1)
    both = CurvedLayer(
        np.vstack([halves(eye[0], eye[1 + k]) for k in range(n)]), np.zeros(2 * n), HALVES * n
    )
    last = head(rng, n)
    return [
        signals, squares, root, both,
        CurvedLayer(last.weight @ signed(n), last.bias, last.curves),
    ]  # fmt: skip


def deep_products(rng: Rng) -> Drawn:
    """Thirty layers: products of a state with bounded signals, again and again."""
    drawn = [start(rng, 1, 2)]
    state = np.eye(2)
    while len(drawn) < DEPTH - 1:
        weight = 0.7 * normals(rng, (2, 2))
        curves = tuple((TANH, SIGMOID, SIN)[k] for k in rng.integers(3, size=2))
        drawn.append(CurvedLayer(weight @ state, 0.5 * normals(rng, (2,)), curves))
        eye = np.eye(2)
        if rng.random() < 0.7:
            rows = np.vstack([halves(eye[0], eye[1]), eye[1]])
            drawn.append(CurvedLayer(rows, np.zeros(3), (*HALVES, LINE)))
            state = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]])
        else:
            drawn.append(CurvedLayer(eye, np.zeros(2), (SQUARE, LINE)))
            state = eye
    last = head(rng, 2)
    return [*drawn, CurvedLayer(last.weight @ state, last.bias, last.curves)]


def powers(rng: Rng) -> Drawn:
    """Exponentials, powers and roots of products."""
    d = int(rng.integers(1, 3))
    first = start(rng, d, 2)
    a, b = normals(rng, (2, 2))
    both = CurvedLayer(halves(a, b), np.zeros(2), HALVES)
    scale = float(rng.choice([0.1, 1.0, 3.0]))
    kinds = (EXP, SIGMOID, power(2.0), power(3.0))
    curve = kinds[int(rng.integers(len(kinds)))]
    inner = CurvedLayer(scale * np.array([[1.0, -1.0]]), normals(rng, (1,)), (curve,))
    return [first, both, inner, head(rng, 1)]


HARD = (divisions, saturations, equals, scores, attentions, constants, deep_products, powers)
EXTREME_PRODUCTS = {f.__name__: f for f in HARD}
