"""Small networks of products, quotients, softmax and normalisation, drawn by a random generator."""

from __future__ import annotations

import numpy as np
from fuzz_networks import Rng, normals
from smooth_curves import (
    COS,
    EXP,
    GELU,
    HALVES,
    LOG,
    SIGMOID,
    SIN,
    TANH,
    power,
    two_slope,
)
from smooth_oracle import CurvedLayer

Drawn = list[CurvedLayer]

LINE = two_slope(1.0, 1.0)
RELU = two_slope(0.0, 1.0)
SQUARE = power(2.0)


def start(rng: Rng, d: int, n: int) -> CurvedLayer:
    """Signals: units of bounded curves, sines, ReLUs, or the inputs as they are."""
    among = (TANH, TANH, SIGMOID, SIN, COS, GELU, RELU, LINE)
    curves = tuple(among[k] for k in rng.integers(len(among), size=n))
    return CurvedLayer(normals(rng, (n, d)), 0.5 * normals(rng, (n,)), curves)


def head(rng: Rng, n: int) -> CurvedLayer:
    m = int(rng.integers(1, 3))
    return CurvedLayer(normals(rng, (m, n)), normals(rng, (m,)), (LINE,) * m)


def halves(a: np.ndarray, b: np.ndarray, t: float = 1.0) -> np.ndarray:
    """Rows of the two squares whose difference is the product of two rows."""
    return np.vstack([0.5 * (t * a + b / t), 0.5 * (t * a - b / t)])


def products(rng: Rng) -> Drawn:
    """Products of signals, a signal with itself, and with a constant factor."""
    d, n = int(rng.integers(1, 3)), int(rng.integers(2, 4))
    first = start(rng, d, n)
    rows, biases = [], []
    for _ in range(int(rng.integers(1, 3))):
        a, b = normals(rng, (2, n))
        p, q = 0.5 * normals(rng, (2,))
        kind = rng.integers(4)
        if kind == 0:
            b, q = a, p
        elif kind == 1:
            b = 0.0 * b
        t = float(2.0 ** rng.integers(-3, 4)) if kind == 2 else 1.0
        rows.append(halves(a, b, t))
        biases.append(halves(np.array([p]), np.array([q]), t)[:, 0])
    weight, bias = np.vstack(rows), np.concatenate(biases)
    pair = HALVES if rng.random() < 0.8 else (SQUARE, SQUARE)
    squares = CurvedLayer(weight, bias, pair * len(rows))
    signs = np.kron(np.eye(len(rows)), [[1.0, -1.0]])
    last = head(rng, len(rows))
    if rng.random() < 0.5:  # more units behind
        inner = CurvedLayer(signs, np.zeros(len(rows)), (TANH,) * len(rows))
        return [first, squares, inner, last]
    return [first, squares, CurvedLayer(last.weight @ signs, last.bias, last.curves)]


def quotients(rng: Rng) -> Drawn:
    """Powers, roots and logarithms of something that is kept apart from zero, sometimes hardly."""
    d, n = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    curves = tuple((TANH, SIGMOID, SIN)[k] for k in rng.integers(3, size=n))
    first = CurvedLayer(normals(rng, (n, d)), normals(rng, (n,)), curves)
    weight = normals(rng, (2, n))
    room = rng.choice([1.0, 1.0, 0.1, 1e-3], size=2)
    kinds = (power(-1.0), power(-1.0), power(0.5), power(-0.5), power(-2.0), power(1.5), LOG, EXP)
    own = tuple(kinds[k] for k in rng.integers(len(kinds), size=2))
    second = CurvedLayer(weight, np.abs(weight).sum(axis=1) + room, own)
    return [first, second, head(rng, 2)]


def softmaxes(rng: Rng) -> Drawn:
    """``1 / sum exp(s_l - s_i)`` of scores that are equal, ordinary or far apart."""
    d, n = int(rng.integers(1, 3)), int(rng.integers(2, 4))
    size = float(rng.choice([0.0, 0.3, 1.0, 5.0]))
    first = start(rng, d, 2)
    scores, offsets = size * normals(rng, (n, 2)), size * normals(rng, (n,))
    pairs = [(i, k) for i in range(n) for k in range(n) if i != k]
    weight = np.array([scores[k] - scores[i] for i, k in pairs])
    bias = np.array([offsets[k] - offsets[i] for i, k in pairs])
    exps = CurvedLayer(weight, bias, (EXP,) * len(pairs))
    total = np.array([[float(i == own) for i, _ in pairs] for own in range(n)])
    inverse = CurvedLayer(total, np.ones(n), (power(-1.0),) * n)
    return [first, exps, inverse, head(rng, n)]


def normalisations(rng: Rng) -> Drawn:
    """Rows less their means over the roots of their mean squares; some are nearly constant."""
    d, n = int(rng.integers(1, 3)), int(rng.integers(2, 4))
    size = float(rng.choice([1.0, 1.0, 0.1, 1e-2]))
    epsilon = float(rng.choice([1e-5, 1e-2, 0.3]))
    centred = np.eye(n) - 1.0 / n
    weight, bias = size * normals(rng, (n, d)), normals(rng, (n,))
    first = CurvedLayer(weight, bias, (TANH if rng.random() < 0.5 else LINE,) * n)
    squares = CurvedLayer(
        np.vstack([centred, centred]), np.zeros(2 * n), (SQUARE,) * n + (LINE,) * n
    )
    mean = np.concatenate([np.full(n, 1.0 / n), np.zeros(n)])
    pass_on = np.hstack([np.zeros((n, n)), np.eye(n)])
    root = CurvedLayer(
        np.vstack([mean, pass_on]), np.append(epsilon, np.zeros(n)), (power(-0.5),) + (LINE,) * n
    )
    rows = [halves(np.eye(n + 1)[0], np.eye(n + 1)[1 + k]) for k in range(n)]
    both = CurvedLayer(np.vstack(rows), np.zeros(2 * n), HALVES * n)
    signs = np.kron(np.eye(n), [[1.0, -1.0]])
    last = head(rng, n)
    return [first, squares, root, both, CurvedLayer(last.weight @ signs, last.bias, last.curves)]


def gates(rng: Rng) -> Drawn:
    """One gate for several signals, open, shut or between, and the signals themselves."""
    d, n = int(rng.integers(1, 3)), int(rng.integers(2, 4))
    size = float(rng.choice([1.0, 1.0, 8.0, 40.0]))
    weight, bias = normals(rng, (n + 1, d)), 0.5 * normals(rng, (n + 1,))
    weight[0] *= size
    signals = (TANH, LINE, SIN)[int(rng.integers(3))]
    first = CurvedLayer(weight, bias, (SIGMOID,) + (signals,) * n)
    eye = np.eye(n + 1)
    scales = 2.0 ** rng.integers(-2, 3, size=n)
    rows = [halves(eye[0], eye[1 + k], float(t)) for k, t in enumerate(scales)]
    both = CurvedLayer(np.vstack([*rows, eye[1:]]), np.zeros(3 * n), HALVES * n + (LINE,) * n)
    mixed = np.hstack([np.kron(normals(rng, (n, n)), [[1.0, -1.0]]), normals(rng, (n, n))])
    inner = CurvedLayer(mixed, normals(rng, (n,)), (TANH,) * n)
    return [first, both, inner, head(rng, n)]


def recurrences(rng: Rng) -> Drawn:
    """Steps of ``h + z (y - h)`` with z and y of h: products of what products are made of."""
    d, steps = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    drawn = [CurvedLayer(normals(rng, (1, d)), normals(rng, (1,)), (LINE,))]
    state = np.ones((1, 1))  # h as a row of what the layer before gives
    for _ in range(steps):
        weight, bias = 2.0 * normals(rng, (2, 1)), normals(rng, (2,))
        rows = np.vstack([weight @ state, state])
        drawn.append(CurvedLayer(rows, np.append(bias, 0.0), (SIGMOID, TANH, LINE)))
        gate, away = np.eye(3)[0], np.eye(3)[1] - np.eye(3)[2]
        rows = np.vstack([halves(gate, away), np.eye(3)[2]])
        drawn.append(CurvedLayer(rows, np.zeros(3), (*HALVES, LINE)))
        state = np.array([[1.0, -1.0, 1.0]])
    last = head(rng, 1)
    drawn.append(CurvedLayer(last.weight @ state, last.bias, last.curves))
    return drawn


FAMILIES = (products, quotients, softmaxes, normalisations, gates, recurrences)
PRODUCTS = {f.__name__: f for f in FAMILIES}


def small_box(rng: Rng, d: int) -> tuple[np.ndarray, np.ndarray]:
    """A box: ordinary, thin, uneven, or with an input that is fixed."""
    low = np.round(rng.uniform(-1, 0.5, d), 1)
    width = rng.choice([1.0, 0.5, 0.1, 1e-3, 1e-9], size=d if rng.random() < 0.3 else 1)
    high = low + width
    if d > 1 and rng.random() < 0.2:
        high[0] = low[0]
    return low, high
