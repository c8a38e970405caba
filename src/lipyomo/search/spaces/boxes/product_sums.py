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
from lipyomo.search.spaces.boxes.stacked import Quadratics, pairs_of, products_of


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
    more, away = _as_linear(_cubic(_thirds(p, q), turned))
    error = (terms.error + p.error * q.error) @ turned + away
    error = error + _common(one, q, turned) + _common(other, p, turned)
    linear = terms.linear @ turned + more
    parts = terms.constant @ turned, linear, terms.bends @ turned
    return Quadratics(*parts, error * (1.0 + 8.0 * unit), terms.size @ turned)


def products_in_all(pairs: Sequence[tuple[Quadratics, Quadratics]], unit: float) -> Quadratics:
    """Sums ``p q + r s ...`` of functions one by one."""
    terms = _Terms.of(*pairs)
    error = terms.error
    for p, q in pairs:
        error = error + p.error * (q.reach + q.error) + q.error * p.reach
    more, away = _as_linear(_cubic([third for pair in pairs for third in _thirds(*pair)]))
    error = (error + away) * (1.0 + 8.0 * unit)
    return Quadratics(terms.constant, terms.linear + more, terms.bends, error, terms.size)


class _Terms(NamedTuple):
    """What products are, but for terms of third order, and errors of factors."""

    constant: FloatArray
    linear: FloatArray
    bends: FloatArray
    error: FloatArray
    size: FloatArray

    @classmethod
    def of(cls, *products: tuple[Quadratics, Quadratics]) -> _Terms:
        """Of sums of products of functions one by one."""
        found = []
        for p, q in products:
            a, b, C, D = p.constant, q.constant, p.linear, q.linear
            bends = a * q.bends + b * p.bends
            bends += products_of(C, D)
            error = size(p.bend_ends) * size(q.bend_ends)
            found.append((a * b, a * D + b * C, bends, error, 4.0 * p.size * q.size))
        return cls(*(reduce(np.add, part) for part in zip(*found, strict=True)))


Third = tuple[FloatArray, FloatArray]
"""Linear and quadratic parts, whose products are terms of third order."""


def _thirds(p: Quadratics, q: Quadratics) -> list[Third]:
    """Those of a product, but for zeros."""
    both = [(p.linear, q.bends), (q.linear, p.bends)]
    if p is q:
        both = [(2.0 * p.linear, p.bends)]
    return [(linear, bends) for linear, bends in both if linear.any() and bends.any()]


class _Cubic(NamedTuple):
    """Coefficients of ``e_a**3``; of ``e_a e_b**2`` for all b after each other; of three entries.

    Shapes (D, N, n), (D, D - 1, N, n) and (T, N, n).
    """

    cubes: FloatArray
    squares: FloatArray
    triples: FloatArray


def _cubic(thirds: list[Third], turned: FloatArray | None = None) -> _Cubic | None:
    """Sums of terms of third order, and of those of several functions; None if there are none."""
    if not thirds:
        return None
    shape = np.broadcast_shapes(*(part.shape[1:] for third in thirds for part in third))
    count = len(thirds[0][0])
    place = {pair: count + number for number, pair in enumerate(pairs_of(count))}
    triples = list(combinations(range(count), 3))
    parts = _Cubic(
        np.zeros((count, *shape)),
        np.zeros((count, count - 1, *shape)),
        np.zeros((len(triples), *shape)),
    )
    for linear, bends in thirds:
        parts.cubes[:] += linear * bends[:count]
        for a in range(count):
            others = (b for b in range(count) if b != a)
            for term, b in zip(parts.squares[a], others, strict=True):
                term += linear[a] * bends[b]
                term += linear[b] * bends[place[min(a, b), max(a, b)]]
        for term, (a, b, c) in zip(parts.triples, triples, strict=True):
            term += linear[a] * bends[place[b, c]]
            term += linear[b] * bends[place[a, c]]
            term += linear[c] * bends[place[a, b]]
    return parts if turned is None else _Cubic(*(part @ turned for part in parts))


def _common(sums: SumsOfSignals, factors: Quadratics, turned: FloatArray) -> FloatArray:
    """What common errors are in ``w_k factors_k p_k``, all in all."""
    parts, bends = np.concatenate([factors.constant[None], factors.linear]), size(factors.bend_ends)
    found = []
    for weights in turned.T:
        sizes = np.abs((parts * weights) @ sums.rows).sum(axis=0)
        sizes += (bends * weights) @ np.abs(sums.rows)
        found.append((sizes * sums.errors).sum(axis=1))
    return np.stack(found, axis=1)


def _as_linear(cubic: _Cubic | None) -> tuple[FloatArray, FloatArray]:
    """Linear functions near terms of third order; and errors."""
    if cubic is None:
        return np.zeros(1), np.zeros(1)
    error = 0.25 * np.abs(cubic.cubes).sum(axis=0) + np.abs(cubic.triples).sum(axis=0)
    error += 0.5 * np.abs(cubic.squares).sum(axis=(0, 1))
    return 0.75 * cubic.cubes + 0.5 * cubic.squares.sum(axis=1), error
