"""Quadratic functions of the inputs of boxes, with errors in common: sums, products, curves, ends.

With one direction a box, each z and each u of a layer is

    c + l . e + e' Q e + s . o +- error,        e in [-1, 1]^d, o in [-1, 1]^m,

where e is the box from its middle in radii, and o are errors of earlier outputs that several rows
have in common.  Rows are sums of the outputs before, in which terms of both orders, and the errors,
cancel out before anything is bounded.  Of products of two such functions, with ``e' P e`` in m +- r
and ``e' Q e`` in n +- q, all is kept but for

    (k . e) (e' Q e - n),    (l . e) (e' P e - m),    (e' P e - m) (e' Q e - n),

which are of third order, and products of o with what else moves.  Errors are told apart by the
inputs that they come from, so that a box is halved where that helps.

Rounding.  What an operation rounds is relative to the sizes of all terms of what it is made of,
and is added to the error at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.affine import centred

KEPT = 0.3
"""Share of the products of two affine functions that counts against leaving them out: they may
cancel out in later sums."""


@cache
def _pairs(count: int) -> tuple[IntArray, IntArray]:
    """Entries of the terms of second order: squares, and then products of two."""
    own, (first, second) = np.arange(count), np.triu_indices(count, 1)
    return np.concatenate([own, first]), np.concatenate([own, second])


@dataclass(frozen=True, eq=False)
class Expansion:
    """Functions of e and o on N boxes.

    Attributes
    ----------
    terms : ndarray, shape (1 + d + d (d + 1) / 2 + m, n, N)
        Constants, coefficients of e, of its squares, of products of two of its entries, and of
        those o that are errors of values.
    own : ndarray, shape (k, n, N)
        Coefficients of those o that are errors of tangents: of tangents, values have none.
    errors : ndarray, shape (d, n, N)
        What comes from each input; the error is their sum.
    """

    terms: FloatArray
    own: FloatArray
    errors: FloatArray

    @property
    def inputs(self) -> int:
        """Number of entries of e."""
        return len(self.errors)

    @property
    def constant(self) -> FloatArray:
        """Values at the middle."""
        return np.asarray(self.terms[0])

    @property
    def linear(self) -> FloatArray:
        """Coefficients of e, shape (d, n, N)."""
        return self.terms[1 : 1 + self.inputs]

    @property
    def squares(self) -> FloatArray:
        """Coefficients of the squares of its entries, shape (d, n, N)."""
        return self.terms[1 + self.inputs : 1 + 2 * self.inputs]

    @property
    def mixed(self) -> FloatArray:
        """Coefficients of products of two different ones."""
        return self.terms[1 + 2 * self.inputs : self.order]

    @property
    def order(self) -> int:
        """Number of terms in e alone."""
        return 1 + self.inputs + len(_pairs(self.inputs)[0])

    @cached_property
    def size(self) -> FloatArray:
        """Not below the functions' absolute values, shape (n, N)."""
        poly = self.steep + np.abs(self.terms[1 + self.inputs : self.order]).sum(axis=0)
        return np.asarray(np.abs(self.constant) + poly + self.shared + self.error)

    @cached_property
    def error(self) -> FloatArray:
        """The errors of all inputs together."""
        return np.asarray(self.errors.sum(axis=0))

    @cached_property
    def steep(self) -> FloatArray:
        """Not below ``|l . e|``."""
        return np.asarray(np.abs(self.linear).sum(axis=0))

    @cached_property
    def shared(self) -> FloatArray:
        """Not below ``|s . o|``."""
        found = np.abs(self.terms[self.order :]).sum(axis=0)
        return np.asarray(found + np.abs(self.own).sum(axis=0))

    @cached_property
    def bend(self) -> Ends:
        """Middle and radius of ``e' Q e``."""
        squares, rest = self.squares, np.abs(self.mixed).sum(axis=0)
        rise, size = 0.5 * squares.sum(axis=0), 0.5 * np.abs(squares).sum(axis=0)
        return rise, size + rest

    def take(self, which: IntArray) -> Expansion:
        """Some of the functions."""
        return Expansion(self.terms[:, which], self.own[:, which], self.errors[:, which])

    def paid(self, more: FloatArray) -> Expansion:
        """The functions, off by more (n, N)."""
        return Expansion(self.terms, self.own, self.errors + more / self.inputs)

    def shifted(self, number: FloatArray) -> Expansion:
        """These and numbers, whose rounding is left to the caller."""
        terms = self.terms.copy()
        terms[0] += number
        return Expansion(terms, self.own, self.errors)

    def sums(self, weight: FloatArray, bias: FloatArray, unit: float) -> Expansion:
        """Sums ``weight . functions + bias``."""
        steep, bias = np.abs(weight), bias[:, None]
        terms = np.matmul(weight, self.terms)
        terms[0] += bias
        found = Expansion(terms, np.matmul(weight, self.own), np.matmul(steep, self.errors))
        return found.paid(4.0 * unit * (steep @ self.size + np.abs(bias)))

    def weighted(self, rows: FloatArray, unit: float) -> Expansion:
        """One sum for each box, with rows (n, N)."""
        steep = np.abs(rows)
        terms, own = ((part * rows).sum(axis=1, keepdims=True) for part in (self.terms, self.own))
        errors = (self.errors * steep).sum(axis=1, keepdims=True)
        size = (self.size * steep).sum(axis=0, keepdims=True)
        return Expansion(terms, own, errors).paid(4.0 * unit * size)

    def times(self, other: Expansion, known: tuple[Ends, Ends], unit: float) -> Expansion:
        """Products of these with others, one by one; ranges of both are known.

        Where ranges leave less than the terms of second order and more, those are left out.
        """
        d, (i, j) = self.inputs, _pairs(self.inputs)
        a, b, square = self.terms, other.terms, self is other
        (m, r), (n, q) = self.bend, other.bend
        f, g = a[0] + m, b[0] + n
        L, K = self.linear, other.linear
        moves, turns = self.steep + r, other.steep + q
        third = self.steep * q + r * turns + moves * other.shared
        third += self.shared * (turns + other.shared + other.error)
        third *= 1.0 + 4.0 * unit
        share = self._share() if square else _shares(L, K, self.steep, other.steep)
        away, far = (_away(ends, middle) for ends, middle in zip(known, (f, g), strict=True))
        most = away * far * (1.0 + 4.0 * unit)
        if square:
            most *= 0.5
        gained = (0.5 * KEPT if square else KEPT) * self.steep * other.steep
        gained += third + moves * other.error + far * self.error
        rough = most < gained
        terms = f * b
        terms += terms if square else g * a
        terms[0] = np.where(rough, terms[0] - f * g + square * most, a[0] * b[0] - m * n)
        kept = np.where(rough, 0.0, 1.0)
        first = kept * L
        second = first[i] * K[j]
        second[d:] += first[j[d:]] * K[i[d:]]
        terms[1 + d : self.order] += second
        own = f * other.own if len(other.own) else other.own
        if len(self.own):
            own = g * self.own + own if len(own) else g * self.own
        errors = share * np.where(rough, most, third)
        errors += (np.abs(f) + kept * moves) * other.errors
        errors += (np.abs(g) + kept * far) * self.errors
        sizes = (self.size + np.abs(f)) * (other.size + np.abs(g))
        return Expansion(terms, own, errors * (1.0 + 4.0 * unit)).paid(4.0 * unit * sizes)

    def _share(self) -> FloatArray:
        """What of ``l . e`` comes from each input."""
        own = np.abs(self.linear)
        even = np.full_like(own, 1.0 / self.inputs)
        return np.divide(own, self.steep, out=even, where=self.steep > 0.0)

    def plus(self, other: Expansion, unit: float) -> Expansion:
        """Sums."""
        parts = self.terms + other.terms, self.own + other.own, self.errors + other.errors
        return Expansion(*parts).paid(unit * (self.size + other.size))

    def bent(self, square: Expansion, curve: Sequence[FloatArray], unit: float) -> Expansion:
        """What lies about ``s z + k square / 2`` of these z, for a curve (s, k, under, over)."""
        s, k, under, over = curve
        half = 0.5 * k
        middle, error = centred(under, over, unit)
        terms = s * self.terms
        terms += half * square.terms
        terms[0] += middle
        errors = np.abs(s) * self.errors + np.abs(half) * square.errors + self._share() * error
        sizes = np.abs(s) * self.size + np.abs(k) * square.size + np.abs(middle) + error
        return Expansion(terms, self.own, errors).paid(4.0 * unit * sizes)

    def ends(self, unit: float) -> Ends:
        """Ranges.

        With t >= 0 for what a point is away from the corner s where ``l . e`` is largest

            e = s (1 - t):  f(e) - f(s) <= sum of R_i t_i^2 - t_i (|l_i| + 2 s_i (Q s)_i)

        for R_i >= 0 not below Q_ii and half the sizes of what mixes i with others.  That is convex
        in each t_i in [0, 2].
        """
        d, (i, j) = self.inputs, _pairs(self.inputs)
        linear, squares, i, j = self.linear, self.squares, i[d:], j[d:]
        corner = np.where(linear < 0.0, -1.0, 1.0)
        mixed = self.mixed * corner[i] * corner[j]
        turn, half = 2.0 * squares, np.zeros_like(squares)
        for pair, (one, other) in enumerate(zip(i.tolist(), j.tolist(), strict=True)):
            turn[one] += mixed[pair]
            turn[other] += mixed[pair]
            size = 0.5 * np.abs(mixed[pair])
            half[one] += size
            half[other] += size
        even, away = squares.sum(axis=0) + mixed.sum(axis=0), np.abs(linear)
        middle, radius = self.bend
        found = []
        for sign in (-1.0, 1.0):
            R = np.maximum(sign * squares + half, 0.0)
            more = np.maximum(2.0 * (2.0 * R - away - sign * turn), 0.0).sum(axis=0)
            found.append(np.minimum(sign * even + more, sign * middle + radius))
        rest = self.steep + self.shared + self.error + 16.0 * unit * self.size
        return self.constant - found[0] - rest, self.constant + found[1] + rest


def _shares(L: FloatArray, K: FloatArray, steep: FloatArray, others: FloatArray) -> FloatArray:
    """What of the products of two affine functions comes from each input."""
    weights, even = np.abs(L) * others + np.abs(K) * steep, np.full_like(L, 1.0 / len(L))
    total = 2.0 * steep * others
    return np.divide(weights, total, out=even, where=total > 0.0)


def _away(ends: Ends, middle: FloatArray) -> FloatArray:
    """How far ranges reach from numbers."""
    return np.maximum(ends[1] - middle, middle - ends[0])


def apart(
    values: Expansion, tangents: Expansion, which: IntArray
) -> tuple[Expansion, Expansion, tuple[FloatArray, FloatArray]]:
    """Values and tangents, with the errors of some as further entries of o.

    Returns
    -------
    Expansion, Expansion
    (ndarray, ndarray), shapes (d, new entries, N)
        Which share of each new entry comes from each input.
    """
    index, (n, N) = np.arange(which.size), values.constant.shape
    new, errors, shares = [], [], []
    for one in (values, tangents):
        more = np.zeros((which.size, n, N))
        more[index, which] = one.error[which]
        left = one.errors.copy()
        left[:, which] = 0.0
        part, whole = one.errors[:, which], one.error[which]
        even = np.full_like(part, 1.0 / one.inputs)
        shares.append(np.divide(part, whole, out=even, where=whole > 0.0))
        new.append(more)
        errors.append(left)
    terms = np.concatenate([tangents.terms, np.zeros_like(new[0])])
    return (
        Expansion(np.concatenate([values.terms, new[0]]), values.own, errors[0]),
        Expansion(terms, np.concatenate([tangents.own, new[1]]), errors[1]),
        (shares[0], shares[1]),
    )


class ExpandedLayer(NamedTuple):
    """Values and tangents of a layer's rows, or outputs.

    Attributes
    ----------
    values, tangents : Expansion
    shares : (ndarray, ndarray), shapes (d, m, N) and (d, k, N)
        Which share of each error of values, and of tangents, comes from each input.
    """

    values: Expansion
    tangents: Expansion
    shares: tuple[FloatArray, FloatArray]
