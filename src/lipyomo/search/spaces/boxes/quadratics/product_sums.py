"""Weighted sums of products of quadratic functions.

In a sum of many products, terms of third order can cancel like others, so that they are added up
before they are replaced by lines.  If functions are sums of the same signals, as rows of a layer
are, the errors of the signals are common to all of them and can cancel as well.

Terms of third order are replaced by lines, since on [-1, 1]

    e_a**3 = 3/4 e_a +- 1/4,    e_a e_b**2 = 1/2 e_a +- 1/2,    e_a e_b e_c = +- 1.
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
from lipyomo.search.spaces.boxes.quadratics.stacked import Quadratics, places_of, products_of

Third = tuple[FloatArray, FloatArray]
"""Linear and quadratic parts, whose products are terms of third order."""


def lines_near(
    thirds: Sequence[Third], turned: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Approximate sums of products by linear functions, and bound their errors.

    Parameters
    ----------
    thirds : sequence of (ndarray, ndarray), shapes (D, N, n) and (D (D + 1) / 2, N, n)
        At least one.
    turned : ndarray, shape (n, g), optional
        Weights of the n functions in g sums; by default the functions themselves are returned.

    Returns
    -------
    ndarray, shape (D, N, n)
    ndarray, shape (N, n)
    """
    shape = np.broadcast_shapes(*(part.shape[1:] for third in thirds for part in third))
    count = len(thirds[0][0])
    place = places_of(count)
    all_three = list(combinations(range(count), 3))
    cubes, squares = np.zeros((count, *shape)), np.zeros((count, count - 1, *shape))
    triples = np.zeros((len(all_three), *shape))
    for linear, bends in thirds:
        cubes += linear * bends[:count]
        for a, terms in enumerate(squares):
            others = [b for b in range(count) if b != a]
            for term, b in zip(terms, others, strict=True):
                term += linear[a] * bends[b]
                term += linear[b] * bends[place[min(a, b), max(a, b)]]
        for term, (a, b, c) in zip(triples, all_three, strict=True):
            term += linear[a] * bends[place[b, c]]
            term += linear[b] * bends[place[a, c]]
            term += linear[c] * bends[place[a, b]]
    if turned is not None:
        cubes, squares, triples = cubes @ turned, squares @ turned, triples @ turned
    error = 0.25 * np.abs(cubes).sum(axis=0) + 0.5 * np.abs(squares).sum(axis=(0, 1))
    return 0.75 * cubes + 0.5 * squares.sum(axis=1), error + np.abs(triples).sum(axis=0)


class SumsOfSignals(NamedTuple):
    """Functions that are sums of common signals with errors.

    Attributes
    ----------
    functions : Quadratics
        K of them.
    rows : ndarray, shape (K, n)
        The coefficients of the signals.
    errors : ndarray, shape (N, n)
    """

    functions: Quadratics
    rows: FloatArray
    errors: FloatArray

    @classmethod
    def of(cls, functions: Quadratics, rows: FloatArray, errors: FloatArray) -> SumsOfSignals:
        """Combine functions with the errors of the signals."""
        whole = replace(functions, error=errors @ np.abs(rows).T)
        return cls(whole, rows, errors)

    def on(self, which: IntArray) -> SumsOfSignals:
        """Select some of the boxes."""
        errors = self.errors[which] if len(self.errors) > 1 else self.errors
        return SumsOfSignals(self.functions.on(which), self.rows, errors)

    def sums(self, shares: FloatArray, groups: FloatArray) -> Quadratics:
        """Return sums of multiples (N, K) of the functions over each group (g, K)."""
        found = self.functions.times(shares).sums(groups)
        turned = np.abs((shares[:, None] * groups) @ self.rows)
        return replace(found, error=(turned * self.errors[:, None]).sum(axis=2))


def sums_of_products(
    one: SumsOfSignals, other: SumsOfSignals, weights: FloatArray, unit: float
) -> Quadratics:
    """Return sums of ``w_k p_k q_k``, for nonnegative weights (g, K)."""
    p, q, turned = one.functions, other.functions, weights.T
    terms = _Terms.of((p, q))
    error = (terms.error + p.error * q.error) @ turned
    error = error + _common(one, q, turned) + _common(other, p, turned)
    parts = terms.constant @ turned, terms.linear @ turned, terms.bends @ turned
    return _with_lines(_Terms(*parts, error, terms.size @ turned), _thirds(p, q), unit, turned)


def products_in_all(pairs: Sequence[tuple[Quadratics, Quadratics]], unit: float) -> Quadratics:
    """Return ``p q + r s ...`` for each function."""
    terms = _Terms.of(*pairs)
    more = [p.error * (q.reach + q.error) + q.error * p.reach for p, q in pairs]
    error = terms.error + reduce(np.add, more)
    thirds = [third for p, q in pairs for third in _thirds(p, q)]
    return _with_lines(terms._replace(error=error), thirds, unit)


class _Terms(NamedTuple):
    """Products without terms of third order and without errors of the factors."""

    constant: FloatArray
    linear: FloatArray
    bends: FloatArray
    error: FloatArray
    size: FloatArray

    @classmethod
    def of(cls, *products: tuple[Quadratics, Quadratics]) -> _Terms:
        """Return these terms for sums of products, for each function."""
        found = []
        for p, q in products:
            a, b, C, D = p.constant, q.constant, p.linear, q.linear
            bends = a * q.bends + b * p.bends
            bends += products_of(C, D)
            error = size(p.bend_ends) * size(q.bend_ends)
            found.append((a * b, a * D + b * C, bends, error, 4.0 * p.size * q.size))
        return cls(*(reduce(np.add, part) for part in zip(*found, strict=True)))


def _with_lines(
    terms: _Terms, thirds: Sequence[Third], unit: float, turned: FloatArray | None = None
) -> Quadratics:
    """Add lines for terms of third order, of each function or of sums of several."""
    constant, linear, bends, error, sizes = terms
    if thirds:
        more, away = lines_near(thirds, turned)
        linear, error = linear + more, error + away
    return Quadratics(constant, linear, bends, error * (1.0 + 8.0 * unit), sizes)


def _thirds(p: Quadratics, q: Quadratics) -> list[Third]:
    """Return the terms of third order of a product, except zeros."""
    both = [(p.linear, q.bends), (q.linear, p.bends)]
    if p is q:
        both = [(2.0 * p.linear, p.bends)]
    return [(linear, bends) for linear, bends in both if linear.any() and bends.any()]


def _common(sums: SumsOfSignals, factors: Quadratics, turned: FloatArray) -> FloatArray:
    """Bound the effect of common errors on sums of ``w_k factors_k p_k``."""
    parts, bends = np.concatenate([factors.constant[None], factors.linear]), size(factors.bend_ends)
    found = []
    for weights in turned.T:
        sizes = np.abs((parts * weights) @ sums.rows).sum(axis=0)
        sizes += (bends * weights) @ np.abs(sums.rows)
        found.append((sizes * sums.errors).sum(axis=1))
    return np.stack(found, axis=1)
