"""Planes above what a layer's units and products add to an objective."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.factors import Above, given_plane, plane
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
    """Return planes through the middles, or those that are lowest at one point of each box."""
    products, left = level.products, relaxed.left
    assert products is not None
    assert left is not None
    i, j = products.left, products.right
    z_ends = relaxed.ends(i), relaxed.ends(j)
    u_ends = relaxed.tangent_ends(i), relaxed.tangent_ends(j)
    pairs = (z_ends, (u_ends[0], z_ends[1]), (z_ends[0], u_ends[1]))
    at: list[tuple[Array, Array] | None] = [None] * 3
    if there is not None:
        z, u = there
        at = [(z[:, i], z[:, j]), (u[:, i], z[:, j]), (z[:, i], u[:, j])]
    found = []
    for k, (c, (p, q), ends) in enumerate(zip((a, b, b), left.forms, pairs, strict=True)):
        if chosen is None:
            rest = left.low[k], left.high[k]
            found.append(plane(c, (p.middle, q.middle), ends, rest, at[k]))
        else:
            found.append(given_plane(c, p, q, chosen.points[:, k, 0], chosen.points[:, k, 1]))
    (f0, g0, e0), (f1, g1, e1), (f2, g2, e2) = found
    slopes = np.concatenate([a * g0 + b * g2, a * f0 + b * f1], axis=1)
    rates = np.concatenate([b * g1, b * f2], axis=1)
    most = a * (e0 - f0 * g0) + b * (e1 - f1 * g1) + b * (e2 - f2 * g2)
    s_i, s_j = relaxed.size[:, i], relaxed.size[:, j]
    t_i, t_j = relaxed.tangent_size[:, i], relaxed.tangent_size[:, j]
    size = np.abs(a) * (np.abs(e0) + np.abs(f0 * g0) + np.abs(g0) * s_i + np.abs(f0) * s_j)
    size = size + np.abs(b) * (np.abs(e1) + np.abs(f1 * g1) + np.abs(g1) * t_i + np.abs(f1) * s_j)
    size = size + np.abs(b) * (np.abs(e2) + np.abs(f2 * g2) + np.abs(g2) * s_i + np.abs(f2) * t_j)
    wide = [np.abs(c) * (left.high[k] - left.low[k]) for k, c in enumerate((a, b, b))]
    of_u = np.concatenate([wide[1], wide[2]], axis=1)
    of_z = np.concatenate([wide[0] + wide[2], wide[0] + wide[1]], axis=1)
    points = np.stack([np.stack([f, g], axis=1) for f, g, _ in found], axis=1)
    single = Above(slopes, rates, most, size, of_z / 2.0, of_u / 2.0, points)
    if relaxed.together is None:
        return single, np.zeros((len(a), 5, 0))
    sizes = relaxed.size, relaxed.tangent_size
    point = there
    if point is None:
        point = ball_around(relaxed.low, np.maximum(relaxed.low, relaxed.high))[0], relaxed.m
    sums = None if chosen is None else chosen.sums
    return together(relaxed.together, single, (a, b), sizes, point, there is not None, sums)


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
