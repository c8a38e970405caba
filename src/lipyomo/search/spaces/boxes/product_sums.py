"""Weighted sums of products of quadratic functions, as quadratic functions again.

A product of two quadratic functions has terms of third order, which cancel out in a sum of many as
others do: they are added up first.  On [-1, 1]

    e_a**3 = 3/4 e_a +- 1/4,    e_a e_b**2 = 1/2 e_a +- 1/2,    e_a e_b e_c = +- 1.

And where functions are sums of the same signals, as rows of a layer are, the errors of these are
common to all: a sum's error is what they amount to together.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.ranges import size
from lipyomo.search.spaces.boxes.stacked import Quadratics


class Sums(NamedTuple):
    """Functions that are sums of common signals, whose errors these are.

    Attributes
    ----------
    functions : Quadratics
        K of them.
    rows : ndarray, shape (K, n)
        Of the signals.
    errors : ndarray, shape (N, n)
    """

    functions: Quadratics
    rows: FloatArray
    errors: FloatArray


def sums_of_products(one: Sums, other: Sums, weights: FloatArray, unit: float) -> Quadratics:
    """Sums of ``w_k p_k q_k``, for positive weights (g, K)."""
    p, q, turned = one.functions, other.functions, weights.T
    a, b, C, D = p.constant, q.constant, p.linear, q.linear
    pairs = C[:, None] * D[None]
    matrix = a * q.matrix + b * p.matrix + 0.5 * (pairs + np.swapaxes(pairs, 0, 1))
    first, second = size(p.bend_ends), size(q.bend_ends)
    own, theirs = (np.abs(part).sum(axis=0) for part in (C, D))
    rest = p.error * (theirs + second + q.error) + q.error * (own + first)
    fourth = first * second
    error = (rest + fourth) @ turned + _common(one, b, turned) + _common(other, a, turned)
    terms = (C[k] * q.matrix + D[k] * p.matrix for k in range(len(C)))
    more, away = _as_linear(np.stack([each @ turned for each in terms]))
    sizes = (4.0 * p.size * q.size) @ turned
    parts = (a * b) @ turned, (a * D + b * C) @ turned + more, matrix @ turned
    return Quadratics(*parts, (error + away) * (1.0 + 8.0 * unit), sizes)


def _common(sums: Sums, factors: FloatArray, turned: FloatArray) -> FloatArray:
    """What common errors are in ``w_k factors_k p_k``, all in all."""
    found = [
        (np.abs((factors * weights) @ sums.rows) * sums.errors).sum(axis=1) for weights in turned.T
    ]
    return np.stack(found, axis=1)


def _as_linear(cubic: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Linear functions near ``sum T_abc e_a e_b e_c``, of a T symmetric in b and c; and errors."""
    axes = range(len(cubic))
    linear = 0.75 * np.stack([cubic[a, a, a] for a in axes])
    error = np.abs(linear).sum(axis=0) / 3.0
    for a in axes:
        for b in axes:
            if a != b:
                half = 0.5 * cubic[a, b, b] + cubic[b, a, b]
                linear[a] += half
                error = error + np.abs(half)
    for a, b, c in combinations(axes, 3):
        error = error + 2.0 * np.abs(cubic[a, b, c] + cubic[b, a, c] + cubic[c, a, b])
    return linear, error
