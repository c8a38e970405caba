"""Terms of third order on cubes, and functions with such: lines near them, and parabolas above.

On [-1, 1]

    e_a**3 = 3/4 e_a +- 1/4,    e_a e_b**2 = 1/2 e_a +- 1/2,    e_a e_b e_c = +- 1.

Near a point p there are quadratic functions above that touch them there.  With d = e - p,

    e_a**3 <= e_a**3 + (1 - e_a) d_a**2,     - e_a**3 <= - e_a**3 + (1 + e_a) d_a**2,
    +- e_a e_b**2 <= +- e_a (e_b**2 - d_b**2) + d_b**2,
    +- e_a e_b e_c <= +- (e_a e_b e_c - d_a d_b d_c) + abs(d_a d_b d_c),

in which all that is of third order cancels out, and ``abs(d_a d_b d_c)`` is at most a third of
``m_a (d_b**2 + d_c**2) / 2``, with ``m_a = 1 + abs(p_a)``, and the two like it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.search.spaces.boxes.stacked import Quadratics, places_of

Third = tuple[FloatArray, FloatArray]
"""Linear and quadratic parts, whose products are terms of third order."""


class Cubic(NamedTuple):
    """Coefficients of ``e_a**3``; of ``e_a e_b**2`` for all other b; and of three entries.

    Shapes (D, N, n), (D, D - 1, N, n) and (T, N, n).
    """

    cubes: FloatArray
    squares: FloatArray
    triples: FloatArray

    @classmethod
    def of(cls, thirds: Sequence[Third], turned: FloatArray | None = None) -> Cubic | None:
        """Sums of products, and of those of several functions; None if there are none."""
        if not thirds:
            return None
        shape = np.broadcast_shapes(*(part.shape[1:] for third in thirds for part in third))
        count = len(thirds[0][0])
        place = places_of(count)
        triples = list(combinations(range(count), 3))
        whole = cls(
            np.zeros((count, *shape)),
            np.zeros((count, count - 1, *shape)),
            np.zeros((len(triples), *shape)),
        )
        for linear, bends in thirds:
            whole.cubes[:] += linear * bends[:count]
            for a, terms in enumerate(whole.squares):
                for term, b in zip(terms, _others(a, count), strict=True):
                    term += linear[a] * bends[b]
                    term += linear[b] * bends[place[min(a, b), max(a, b)]]
            for term, (a, b, c) in zip(whole.triples, triples, strict=True):
                term += linear[a] * bends[place[b, c]]
                term += linear[b] * bends[place[a, c]]
                term += linear[c] * bends[place[a, b]]
        return whole if turned is None else cls(*(part @ turned for part in whole))

    def times(self, share: FloatArray) -> Cubic:
        """Multiples, by numbers (N, n)."""
        return Cubic(*(part * share for part in self))

    def plus(self, other: Cubic) -> Cubic:
        """Sums."""
        return Cubic(*(a + b for a, b in zip(self, other, strict=True)))

    def on(self, which: IntArray) -> Cubic:
        """The terms on some of the boxes."""
        return Cubic(*(part[..., which, :] if part.shape[-2] > 1 else part for part in self))

    @property
    def sizes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums of absolute values of the coefficients of each kind, (N, n)."""
        cubes, triples = (np.abs(part).sum(axis=0) for part in (self.cubes, self.triples))
        return cubes, np.abs(self.squares).sum(axis=(0, 1)), triples

    @property
    def size(self) -> FloatArray:
        """Sums of absolute values."""
        return np.asarray(sum(self.sizes))

    def lines(self) -> tuple[FloatArray, FloatArray]:
        """Linear functions near these, and errors."""
        cubes, squares, triples = self.sizes
        error = 0.25 * cubes + 0.5 * squares + triples
        return 0.75 * self.cubes + 0.5 * self.squares.sum(axis=1), error

    def touching(self, p: FloatArray) -> Quadratics:
        """Quadratic functions above these that touch them at points (D, N, n)."""
        count = len(self.cubes)
        place = places_of(count)
        shape = np.broadcast_shapes(self.cubes.shape[1:], p.shape[1:])
        linear, constant = np.zeros((count, *shape)), np.zeros(shape)
        bends = np.zeros((count + len(place), *shape))
        sizes, away = np.abs(self.cubes), 1.0 + np.abs(p)
        beside = np.zeros((count, *shape))  # of the d**2
        # e**3 + (1 - e) d**2 is (1 + 2 p) e**2 - (2 p + p**2) e + p**2, likewise with - e**3
        bends[:count] = sizes + 2.0 * self.cubes * p
        linear -= 2.0 * sizes * p + self.cubes * p * p
        constant += (sizes * p * p).sum(axis=0)
        for a, terms in enumerate(self.squares):
            for term, b in zip(terms, _others(a, count), strict=True):
                bends[place[min(a, b), max(a, b)]] += 2.0 * term * p[b]
                linear[a] -= term * p[b] * p[b]
                beside[b] += np.abs(term)
        for term, (a, b, c) in zip(self.triples, combinations(range(count), 3), strict=True):
            for one, two, three in ((a, b, c), (b, a, c), (c, a, b)):
                bends[place[two, three]] += term * p[one]
                linear[one] -= term * p[two] * p[three]
                beside[one] += np.abs(term) * (away[two] + away[three]) / 6.0
            constant += term * p[a] * p[b] * p[c]
        bends[:count] += beside
        linear -= 2.0 * beside * p
        constant += (beside * p * p).sum(axis=0)
        return Quadratics(constant, linear, bends, np.zeros(shape), 16.0 * self.size)


def _others(a: int, count: int) -> list[int]:
    """All entries but one."""
    return [b for b in range(count) if b != a]


def _sum(one: Cubic | None, other: Cubic | None) -> Cubic | None:
    """The sum of what there is."""
    return one.plus(other) if one and other else one or other


class Polynomials(NamedTuple):
    """Quadratic functions, and terms of third order, if there are any."""

    quadratic: Quadratics
    cubic: Cubic | None = None

    def on(self, which: IntArray) -> Polynomials:
        """The functions on some of the boxes."""
        return Polynomials(self.quadratic.on(which), self.cubic and self.cubic.on(which))

    def times(self, share: FloatArray) -> Polynomials:
        """Multiples, by numbers (N, n)."""
        return Polynomials(self.quadratic.times(share), self.cubic and self.cubic.times(share))

    def plus(self, other: Polynomials) -> Polynomials:
        """Sums."""
        return Polynomials(self.quadratic.plus(other.quadratic), _sum(self.cubic, other.cubic))

    def less(self, other: Polynomials, share: FloatArray, number: FloatArray) -> Polynomials:
        """These less multiples of others, and less numbers (N, n)."""
        taken = other.cubic and other.cubic.times(-share)
        quadratic = self.quadratic.less(other.quadratic, share, number)
        return Polynomials(quadratic, _sum(self.cubic, taken))

    def folded(self, unit: float) -> Quadratics:
        """The functions with lines for what is of third order."""
        if self.cubic is None:
            return self.quadratic
        q, (linear, error) = self.quadratic, self.cubic.lines()
        error = q.error + error * (1.0 + 8.0 * unit)
        return Quadratics(q.constant, q.linear + linear, q.bends, error, q.size)

    def touched(self, point: FloatArray) -> Quadratics:
        """Quadratic functions above that touch these at points (D, N, n)."""
        if self.cubic is None:
            return self.quadratic
        return self.quadratic.plus(self.cubic.touching(point))
