"""Rows that several squares and products of the layer before add up to: one quadratic function.

A square or product lies beside the plane that takes its place by ``(p - f)(q - g) - f g``, the
slopes being ``g`` in p and ``f`` in q; a square has p = q, and both are half of its line's slope.
Its tangent does likewise: by two such terms of z and u, or by twice one.  With affine functions
``p - f = o_p + t_p . delta +- e_p``, delta in a cube, a sum of multiples c of these is

    sum_k c (o_p o_q - f g) + c (o_p t_q + o_q t_p) . delta + delta . M delta +- e,
    M = sum_k c t_p t_q',    e = sum_k |c| (r_p e_q + r_q e_p + e_p e_q),

r being the size of ``o + t . delta``.  Entries of M cancel, and all terms have one delta: so the
sum has a narrower range than the terms have, one by one.

Rounding adds the layer's share of ``4 |c| s_p s_q``, s being the sizes of what p - f and q - g are
made of: sums have as many terms as a layer has branches, and those over M twice as many as there
are inputs and directions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo_check.smooth.boxes import Ball, Rows
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.factors import Form, Scope
from lipyomo_check.smooth.levels import Indices, Level
from lipyomo_check.smooth.powers import UNBOUNDED

FEWEST = 3
"""Terms of a sum."""


class Sum(NamedTuple):
    """A row of the next layer: its number, and its squares (by units) and products, by places."""

    row: int
    squares: Indices
    products: Indices

    def outputs(self, level: Level) -> Indices:
        """Return all of them among the layer's outputs."""
        first = 0 if level.products is None else level.products.units
        return np.concatenate([self.squares, first + self.products])


def sums_of(level: Level, weight: Array) -> tuple[Sum, ...]:
    """Return the rows of the next weight that are sums of a layer's squares and products."""
    square = UNBOUNDED["square"]
    squares = np.array(
        [k for group in level.groups if group.kind is square for k in group.units.tolist()],
        dtype=np.int64,
    )
    first, count = 0, 0
    if level.products is not None:
        first, count = level.products.units, level.products.left.size
    found = []
    for number, row in enumerate(weight):
        own = np.sort(squares[row[squares] != 0.0])
        products = np.flatnonzero(row[first : first + count])
        if own.size + products.size >= FEWEST:
            found.append(Sum(number, own, products))
    return tuple(found)


class Term(NamedTuple):
    """``factor (p - f)(q - g)`` beside planes: rows of p and q, each of z or of u."""

    factor: float
    p: tuple[bool, Indices]
    q: tuple[bool, Indices]
    f: Array
    g: Array


Slopes = tuple[Array, Array, Array]
"""Slopes of the branches (N, branches): of outputs in z, of tangents in z and in u."""


def terms_of(level: Level, own: Sum, slopes: Slopes, tangents: bool) -> list[tuple[Indices, Term]]:
    """Return the terms beside the planes of a sum's outputs, or of their tangents."""
    (line, tilt, rate), squares = slopes, own.squares
    found = []
    if squares.size and tangents:
        halves = rate[:, squares] / 2.0, tilt[:, squares] / 2.0
        found.append((squares, Term(2.0, (False, squares), (True, squares), *halves)))
    elif squares.size:
        half = line[:, squares] / 2.0
        found.append((squares, Term(1.0, (False, squares), (False, squares), half, half)))
    if level.products is None or not own.products.size:
        return found
    n, count = level.products.units, level.products.left.size
    outputs, left, right = n + own.products, n + own.products, n + count + own.products
    i, j = level.products.left[own.products], level.products.right[own.products]
    if not tangents:
        one = Term(1.0, (False, i), (False, j), line[:, right], line[:, left])
        return [*found, (outputs, one)]
    one = Term(1.0, (True, i), (False, j), tilt[:, right], rate[:, left])
    other = Term(1.0, (False, i), (True, j), rate[:, right], tilt[:, left])
    return [*found, (outputs, one), (outputs, other)]


class Whole(NamedTuple):
    """A layer's rows as functions of (x, v), for sums of its squares and products."""

    sums: tuple[Sum, ...]
    z: Form
    u: Form

    @classmethod
    def of(
        cls, sums: tuple[Sum, ...], z: tuple[Rows, Ball], u: tuple[Rows, Ball], scope: Scope
    ) -> Whole:
        """Make them from a layer's rows and their ranges."""
        every = np.arange(z[1][0].shape[1])
        forms = (Form.of(rows, every, ball, scope) for rows, ball in (z, u))
        reach = np.concatenate([scope.x, scope.v], axis=1)
        used = np.flatnonzero(~(reach == 0.0).all(axis=0))
        return cls(sums, *(form._replace(turn=form.turn[:, :, used]) for form in forms))

    def beside(
        self, level: Level, own: Sum, weight: Array, slopes: Slopes, tangents: bool
    ) -> tuple[Array, Array, Array]:
        """Return middle, radius and size of a row's squares and products beside their planes."""
        middle, radius, size = (np.zeros(len(self.z.middle)) for _ in range(3))
        linear = np.zeros((len(middle), self.z.turn.shape[2]))
        M = np.zeros((*linear.shape, linear.shape[1]))
        for outputs, (factor, p, q, f, g) in terms_of(level, own, slopes, tangents):
            c = factor * weight[own.row, outputs]
            one, two = (
                _parts(self.u if of_u else self.z, rows, slope)
                for (of_u, rows), slope in ((p, f), (q, g))
            )
            large = np.abs(c)
            middle = middle + (one.offset * two.offset - f * g) @ c
            away = one.reach * two.away + two.reach * one.away + one.away * two.away
            radius = radius + away @ large
            size = size + (one.size * two.size) @ large
            tilted = (c * one.offset)[:, :, None] * two.turn
            linear = linear + (tilted + (c * two.offset)[:, :, None] * one.turn).sum(axis=1)
            M = M + np.matmul((c[:, None] * one.turn).transpose(0, 2, 1), two.turn)
        own_squares = np.diagonal(M, axis1=1, axis2=2)
        both = np.abs(M + M.transpose(0, 2, 1)).sum(axis=2).sum(axis=1) / 2.0
        radius = radius + np.abs(linear).sum(axis=1) + both - np.abs(own_squares).sum(axis=1)
        middle = middle + own_squares.sum(axis=1) / 2.0
        radius = radius + np.abs(own_squares).sum(axis=1) / 2.0
        return middle, radius, 4.0 * size


class Apart(NamedTuple):
    """Signals less their slopes: offsets, turns, what is away, the reach of the rest, and sizes."""

    offset: Array
    turn: Array
    away: Array
    reach: Array
    size: Array


def _parts(form: Form, rows: Indices, slope: Array) -> Apart:
    middle = form.middle[:, rows]
    offset, turn = form.offset[:, rows] + (middle - slope), form.turn[:, rows]
    reach = np.abs(offset) + np.abs(turn).sum(axis=2)
    size = form.size[:, rows] + np.abs(slope) + np.abs(middle)
    return Apart(offset, turn, form.away[:, rows], reach, size)
