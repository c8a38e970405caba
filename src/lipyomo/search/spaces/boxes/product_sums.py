"""Weighted sums of products of quadratic functions, as quadratic functions again.

A product of two quadratic functions has terms of third order, which cancel out in a sum of many as
others do: they are added up first.  On [-1, 1]

    e_a**3 = 3/4 e_a +- 1/4,    e_a e_b**2 = 1/2 e_a +- 1/2,    e_a e_b e_c = +- 1.

And where functions are sums of the same signals, as rows of a layer are, the errors of these are
common to all: a sum's error is what they amount to together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.ranges import size
from lipyomo.search.spaces.boxes.stacked import Quadratics


class SumsOfSignals(NamedTuple):
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

    @classmethod
    def of(cls, functions: Quadratics, rows: FloatArray, errors: FloatArray) -> SumsOfSignals:
        """With the errors of these functions."""
        whole = replace(functions, error=errors @ np.abs(rows).T)
        return cls(whole, rows, errors)

    def on(self, which: IntArray) -> SumsOfSignals:
        """The functions on some of the boxes."""
        errors = self.errors[which] if len(self.errors) > 1 else self.errors
        return SumsOfSignals(self.functions.on(which), self.rows, errors)

    def sums(self, shares: FloatArray, groups: FloatArray) -> Quadratics:
        """Sums of multiples (N, K), of those of each group (g, K)."""
        found = self.functions.times(shares).sums(groups)
        turned = np.abs((shares[:, None] * groups) @ self.rows)
        return replace(found, error=(turned * self.errors[:, None]).sum(axis=2))


def sums_of_products(
    one: SumsOfSignals, other: SumsOfSignals, weights: FloatArray, unit: float
) -> Quadratics:
    """Sums of ``w_k p_k q_k``, for weights (g, K) that are not negative."""
    p, q, turned = one.functions, other.functions, weights.T
    terms = _Terms.of((p, q))
    more, away = _as_linear([each @ turned for each in _cubic(_thirds(p, q))])
    error = (terms.error + p.error * q.error) @ turned + away
    error = error + _common(one, q, turned) + _common(other, p, turned)
    linear = terms.linear @ turned + more
    parts = terms.constant @ turned, linear, terms.matrix @ turned
    return Quadratics(*parts, error * (1.0 + 8.0 * unit), terms.size @ turned)


def products_in_all(pairs: Sequence[tuple[Quadratics, Quadratics]], unit: float) -> Quadratics:
    """Sums ``p q + r s ...`` of functions one by one."""
    terms = _Terms.of(*pairs)
    error = terms.error
    for p, q in pairs:
        error = error + p.error * (q.reach + q.error) + q.error * p.reach
    more, away = _as_linear(_cubic([third for pair in pairs for third in _thirds(*pair)]))
    error = (error + away) * (1.0 + 8.0 * unit)
    return Quadratics(terms.constant, terms.linear + more, terms.matrix, error, terms.size)


class _Terms(NamedTuple):
    """What products are, but for terms of third order, and errors of factors."""

    constant: FloatArray
    linear: FloatArray
    matrix: FloatArray
    error: FloatArray
    size: FloatArray

    @classmethod
    def of(cls, *products: tuple[Quadratics, Quadratics]) -> _Terms:
        """Of sums of products of functions one by one."""
        found = []
        for p, q in products:
            a, b, C, D = p.constant, q.constant, p.linear, q.linear
            matrix = a * q.matrix + b * p.matrix
            error = size(p.bend_ends) * size(q.bend_ends)
            whole = a * b, a * D + b * C, matrix, error, 4.0 * p.size * q.size
            found.append((*whole, C[:, None] * D[None]))
        *parts, pairs = (reduce(np.add, part) for part in zip(*found, strict=True))
        constant, linear, matrix, error, sizes = parts
        matrix = matrix + 0.5 * (pairs + np.swapaxes(pairs, 0, 1))
        return cls(constant, linear, matrix, error, sizes)


def _thirds(p: Quadratics, q: Quadratics) -> list[tuple[FloatArray, FloatArray]]:
    """Linear functions and matrices whose products are terms of third order, but for zeros."""
    both = [(p.linear, q.matrix), (q.linear, p.matrix)]
    if p is q:
        both = [(2.0 * p.linear, p.matrix)]
    return [(linear, matrix) for linear, matrix in both if linear.any() and matrix.any()]


def _cubic(thirds: list[tuple[FloatArray, FloatArray]]) -> list[FloatArray]:
    """Terms of third order, a matrix for each entry of e; none if there are none."""
    if not thirds:
        return []
    count = len(thirds[0][0])
    return [reduce(np.add, (linear[k] * M for linear, M in thirds)) for k in range(count)]


def _common(sums: SumsOfSignals, factors: Quadratics, turned: FloatArray) -> FloatArray:
    """What common errors are in ``w_k factors_k p_k``, all in all."""
    parts, bends = np.concatenate([factors.constant[None], factors.linear]), size(factors.bend_ends)
    found = []
    for weights in turned.T:
        sizes = np.abs((parts * weights) @ sums.rows).sum(axis=0)
        sizes += (bends * weights) @ np.abs(sums.rows)
        found.append((sizes * sums.errors).sum(axis=1))
    return np.stack(found, axis=1)


def _as_linear(cubic: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Linear functions near ``sum T_abc e_a e_b e_c``, of a T symmetric in b and c; and errors."""
    if not cubic:
        return np.zeros(1), np.zeros(1)
    axes = range(len(cubic))
    linear = 0.75 * np.stack([cubic[a][a, a] for a in axes])
    error = np.abs(linear).sum(axis=0) / 3.0
    for a in axes:
        for b in axes:
            if a != b:
                half = 0.5 * cubic[a][b, b] + cubic[b][a, b]
                linear[a] += half
                error = error + np.abs(half)
    for a, b, c in combinations(axes, 3):
        error = error + 2.0 * np.abs(cubic[a][b, c] + cubic[b][a, c] + cubic[c][a, b])
    return linear, error
