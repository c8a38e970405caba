"""Planes above what a layer's units and products add to an objective."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.factors import Above, Factors, above
from lipyomo_check.smooth.grouped import ball_around, behind, by_group
from lipyomo_check.smooth.kind import Bools
from lipyomo_check.smooth.layers import Relaxed
from lipyomo_check.smooth.levels import Group, Level
from lipyomo_check.smooth.lines import Samples
from lipyomo_check.smooth.together import together


class Planes(NamedTuple):
    """Planes above the terms of a layer's outputs, ``A h + B t``, on N boxes.

    That of a unit, ``A sigma(z) + B sigma'(z) u``, is ``s z + B r u + most``.

    Attributes
    ----------
    s, rates : ndarray, shape (N, branches)
        Coefficients of z and u of each branch's row; rates of units are B r.
    r : ndarray, shape (N, units)
    most : ndarray, shape (N, outputs)
    size : ndarray, shape (N, outputs)
        At least the sum of absolute values of the terms that all of it is made of, without rates'.
    gap, product_gap : ndarray, shape (N, n)
        What a row's z, and its u, add to the distance between the objective and its bound, on
        average: half of that between lines of ``A sigma + c sigma'``, and products of radii.  Who
        writes a proof chooses splits by them.
    points : ndarray, shape (N, 3, 2, P)
        Of products, see `factors.Above`.
    sums : ndarray, shape (N, 5, G)
        Of groups of products, see `together.together`.
    """

    s: Array
    rates: Array
    r: Array
    most: Array
    size: Array
    gap: Array
    product_gap: Array
    points: Array
    sums: Array

    def where(self, which: Bools, other: Planes) -> Planes:
        """Return these on the boxes in `which`, and the others elsewhere."""
        both = zip(self, other, strict=True)
        return Planes(*(np.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in both))


def planes_above(
    relaxed: Relaxed,
    level: Level,
    A: Array,
    B: Array,
    there: tuple[Array, Array] | None,
    chosen: Planes | None = None,
) -> Planes:
    """Return planes above the terms of a layer's outputs.

    Parameters
    ----------
    relaxed : Relaxed
    level : Level
    A, B : ndarray, shape (N, outputs)
    there : (ndarray, ndarray), optional
        z and u (N, n) of a point at which planes are to be low.
    chosen : Planes, optional
        Whose slopes and points are taken.
    """
    products, u = level.products, relaxed.m if there is None else there[1]
    if products is None:
        return _of_units(relaxed, A, B, u, chosen)
    n = products.units
    units = _of_units(relaxed, A[:, :n], B[:, :n], u, chosen)
    own, sums = _of_products(relaxed, level, A[:, n:], B[:, n:], there, chosen)
    gap, product_gap = (
        level.rows_of(behind(*pair))
        for pair in ((units.gap, own.gaps), (units.product_gap, own.tangent_gaps))
    )
    return Planes(
        behind(units.s, own.slopes),
        behind(units.rates, own.rates),
        units.r,
        behind(units.most, own.most),
        behind(units.size, own.size),
        gap,
        product_gap,
        own.points,
        sums,
    )


def _of_products(
    relaxed: Relaxed,
    level: Level,
    a: Array,
    b: Array,
    there: tuple[Array, Array] | None,
    chosen: Planes | None,
) -> tuple[Above, Array]:
    products = level.products
    assert products is not None
    assert relaxed.left is not None
    n, i, j = products.units, products.left, products.right
    m_j, m_i = relaxed.d[:, n : n + i.size], relaxed.d[:, n + i.size :]
    r_j, r_i = relaxed.d_reach[:, n : n + i.size], relaxed.d_reach[:, n + i.size :]
    factors = Factors(
        ((m_i, r_i), (m_j, r_j)),
        ((relaxed.m[:, i], relaxed.m_reach[:, i]), (relaxed.m[:, j], relaxed.m_reach[:, j])),
        ((relaxed.ends(i), relaxed.ends(j)), (relaxed.tangent_ends(i), relaxed.tangent_ends(j))),
        (relaxed.size[:, i], relaxed.size[:, j]),
        (relaxed.tangent_size[:, i], relaxed.tangent_size[:, j]),
    )
    point = None
    if there is not None:
        point = there[0][:, i], there[0][:, j], there[1][:, i], there[1][:, j]
    points, sums = (None, None) if chosen is None else (chosen.points, chosen.sums)
    found = above(factors, relaxed.left, a, b, point, points)
    if relaxed.together is None:
        return found, np.zeros((len(a), 5, 0))
    sizes = relaxed.size, relaxed.tangent_size
    at = there
    if at is None:
        at = ball_around(relaxed.low, np.maximum(relaxed.low, relaxed.high))[0], relaxed.m
    return together(relaxed.together, found, (a, b), sizes, at, there is not None, sums)


def _of_units(relaxed: Relaxed, A: Array, B: Array, u: Array, chosen: Planes | None) -> Planes:
    """Return planes above the units, the same at both ends of u; chords are those for one u."""
    n = A.shape[1]
    d, d_reach = relaxed.d[:, :n], relaxed.d_reach[:, :n]
    C, half = B * relaxed.m[:, :n], B * relaxed.m_reach[:, :n]
    ends, at = (C - half, C + half), B * u[:, :n]

    def of(group: Group, one: Samples) -> tuple[Array, ...]:
        k = group.units if len(relaxed.samples) > 1 else slice(None)
        s = one.chord(A[:, k], at[:, k]) if chosen is None else chosen.s[:, :n][:, k]
        first, second = (one.extremes(A[:, k], end[:, k], s) for end in ends)
        return s, *first, *second

    s, low, high, other_low, other_high = by_group(relaxed.samples, A.shape, of, 5)
    r = chosen.r if chosen is not None else _meeting(d, d_reach, half, high, other_high)
    most = np.maximum(high - ends[0] * r, other_high - ends[1] * r)
    size = np.maximum(np.abs(high), np.abs(other_high)) + np.abs(s) * relaxed.size[:, :n]
    size = size + (np.abs(C) + np.abs(half)) * (np.abs(d) + d_reach)
    lines = ((high - low) + (other_high - other_low)) / 4.0
    product = np.abs(half) * d_reach
    none = np.zeros((len(A), 3, 2, 0)), np.zeros((len(A), 5, 0))
    return Planes(s, B * r, r, most, size, lines + product, product, *none)


def _meeting(d: Array, reach: Array, half: Array, high: Array, other: Array) -> Array:
    """Return the r for which both ends give the same, or the nearest one in the range of sigma'."""
    r = np.divide(other - high, 2.0 * half, out=d.copy(), where=half != 0.0)
    r = np.where(np.isfinite(r), r, d)
    return np.clip(r, d - reach, d + reach)
