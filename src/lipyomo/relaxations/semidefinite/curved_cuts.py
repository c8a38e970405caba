"""Quadratic inequalities that a smooth unit meets wherever it is, and moments do not.

A unit's pre-activation, value and slope ``c = (1, z, y, s)`` are a point of a curve.  Between two
lines over the range of z there is much else; but second moments M of points of the curve are sums
of ``p_j c_j c_j'`` with weights p >= 0.  Those nearest to given moments, by least squares with
weights that are not negative, leave a rest ``Q = sum p_j c_j c_j' - M`` with

    c_j' Q c_j >= 0  for all j,    tr(Q M) = -|Q|^2,

so that ``c' Q c >= 0`` is an inequality that these moments violate, the most violated of its
length.  It is written as two products of linear forms, as a rule: ``c' Q c = sum (l c)(r c)``.

Its least value is computed on pieces of the range, with lines around sigma and sigma' on each, and
has to be at least zero: there the c are a segment, but for the bands' widths, and a quadratic
function of one number has its least value in closed form.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF, gamma
from lipyomo.networks.activations import Activation

PIECES, NODES = 256, 64
"""Of a range: twice as many change bounds by less than a thousandth."""

LEAST = 5e-3
"""Violations, of numbers of about one, from which on an inequality counts."""

_MARGIN = 1e-7
"""What is left for rounding."""


class CurvePieces(NamedTuple):
    """Units on the pieces of their ranges.

    There ``(1, z, y, s) = middle + half tau``, |tau| <= 1, but for `width`.

    Attributes
    ----------
    middle, half, width : ndarray, shape (n, PIECES, 4)
    """

    middle: FloatArray
    half: FloatArray
    width: FloatArray

    @classmethod
    def of(cls, activation: Activation, low: FloatArray, high: FloatArray) -> CurvePieces:
        """Of one activation, over ranges (n,)."""
        share = np.arange(PIECES + 1) / PIECES
        ends = low[:, None] + share * (high - low)[:, None]
        ends[:, -1] = high
        start, end = ends[:, :-1], ends[:, 1:]
        z = 0.5 * start + 0.5 * end
        half = np.nextafter(np.maximum(end - z, z - start), np.inf)
        one, none = np.ones_like(z), np.zeros_like(z)
        parts = [(one, none, none), (z, half, none)]
        for pair in ((one, none), (none, one)):
            slope, least, most = activation.lines(*pair, start, end)
            size = np.abs(slope) * (np.abs(z) + half) + np.abs(least) + np.abs(most)
            centre = slope * z + (0.5 * least + 0.5 * most)
            width = 0.5 * (most - least) + 16.0 * UNIT_ROUNDOFF * size
            parts.append((centre, slope * half, width))
        return cls(*(np.stack(part, axis=2) for part in zip(*parts, strict=True)))

    def seen(self, forms: int) -> CurvePieces:
        """The first entries of (1, z, s) or (1, z, y, s) only."""
        kept = [0, 1, 3] if forms == 3 else [0, 1, 2, 3]
        return CurvePieces(*(part[:, :, kept] for part in self))

    def take(self, units: IntArray | BoolArray) -> CurvePieces:
        """Some units."""
        return CurvePieces(*(part[units] for part in self))


class CurveCuts(NamedTuple):
    """Inequalities ``sum over k of (left_k c)(right_k c) >= 0`` of units.

    Attributes
    ----------
    units : ndarray of int, shape (m,)
    left, right : ndarray, shape (m, 4, 4) or (m, 3, 3)
        Rows of zeros are no product.
    """

    units: IntArray
    left: FloatArray
    right: FloatArray


def joined_cuts(first: Sequence[CurveCuts], more: Sequence[CurveCuts]) -> tuple[CurveCuts, ...]:
    """Inequalities by layer together; there may be no layers yet."""
    if not first:
        return tuple(more)
    return tuple(
        CurveCuts(
            np.concatenate([one.units, other.units]),
            np.concatenate([one.left, other.left]),
            np.concatenate([one.right, other.right]),
        )
        for one, other in zip(first, more, strict=True)
    )


def least_values(pieces: CurvePieces, left: FloatArray, right: FloatArray) -> FloatArray:
    """Proved least values of sums of products (n, k, 4) over the ranges of units (n,)."""
    half = left.transpose(0, 2, 1) @ right
    form, sizes = 0.5 * (half + half.transpose(0, 2, 1)), (np.abs(left), np.abs(right))
    at, along = pieces.middle @ form, pieces.half @ form
    constant = (at * pieces.middle).sum(axis=2)
    linear = 2.0 * np.abs((at * pieces.half).sum(axis=2))
    square = (along * pieces.half).sum(axis=2)
    most = np.abs(pieces.middle) + np.abs(pieces.half) + pieces.width
    off = 2.0 * (np.abs(at) + np.abs(along)) + pieces.width @ np.abs(form)
    off = (off * pieces.width).sum(axis=2) * (1.0 + gamma(64))
    products = (most @ size.transpose(0, 2, 1) for size in sizes)
    off = off + gamma(64) * np.multiply(*products).sum(axis=2)
    inside = (square > 0.0) & (linear < 2.0 * square)
    drop = np.where(inside, 0.25 * linear**2 / np.where(inside, square, 1.0), linear - square)
    return np.asarray((constant - drop - off).min(axis=1))


def violated(pieces: CurvePieces, moments: FloatArray) -> CurveCuts:
    """Inequalities that moments (n, k, k) of (1, z, s) or (1, z, y, s) violate, one a unit."""
    count = moments.shape[1]
    pieces = pieces.seen(count)
    units, rests, scales, scaled = [], [], [], []
    for unit, (points, given) in enumerate(zip(_nodes(pieces), moments, strict=True)):
        scale = _scale(points)
        known = scale @ given @ scale.T
        rest = _rest(points @ scale.T, known)
        if rest is not None:
            units.append(unit)
            rests.append(rest)
            scales.append(scale)
            scaled.append(known)
    chosen = np.array(units, dtype=np.int64)
    if not units:
        return CurveCuts(chosen, np.zeros((0, count, count)), np.zeros((0, count, count)))
    own, scale, rest = pieces.take(chosen), np.stack(scales), np.stack(rests)
    left, right = _products(rest)
    low = least_values(own, left @ scale, right @ scale)
    rest[:, 0, 0] += _MARGIN - low
    worth = np.isfinite(low) & (-(rest * np.stack(scaled)).sum(axis=(1, 2)) > LEAST)
    own, chosen = own.take(worth), chosen[worth]
    left, right = (part @ scale[worth] for part in _products(rest[worth]))
    sound = least_values(own, left, right) >= 0.0
    return CurveCuts(chosen[sound], left[sound], right[sound])


def _nodes(pieces: CurvePieces) -> Iterator[FloatArray]:
    """Points of each unit's curve, nearly."""
    step = PIECES // NODES
    first = pieces.middle[:, :1] - pieces.half[:, :1]
    last = pieces.middle[:, -1:] + pieces.half[:, -1:]
    yield from np.concatenate([first, pieces.middle[:, step // 2 :: step], last], axis=1)


def _scale(points: FloatArray) -> FloatArray:
    """What makes all numbers but the one lie in [-1, 1], (k, k)."""
    low, high = points.min(axis=0), points.max(axis=0)
    radius = np.maximum(0.5 * (high - low), 1e-6 * (np.abs(low) + np.abs(high)) + 1e-150)
    radius[0] = 1.0
    found = np.diag(1.0 / radius)
    found[1:, 0] = -0.5 * (low + high)[1:] / radius[1:]
    return found


def _rest(points: FloatArray, moments: FloatArray) -> FloatArray | None:
    """Q, of length about one; None where moments are those of points (m, k), nearly."""
    rows, columns = np.triu_indices(len(moments))
    weight = np.where(rows == columns, 1.0, np.sqrt(2.0))
    products = (weight * points[:, rows] * points[:, columns]).T
    aim = weight * moments[rows, columns]
    if not (np.isfinite(products).all() and np.isfinite(aim).all()):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shares, length = nnls(products, aim)
    except RuntimeError:  # it does not always end in SciPy before 1.15
        return None
    if not length > LEAST:
        return None
    found = np.zeros_like(moments)
    found[rows, columns] = found[columns, rows] = (products @ shares - aim) / (weight * length)
    return found if np.isfinite(found).all() else None


def _products(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Symmetric matrices (m, k, k) as sums of products of rows (m, k, k).

    Positive and negative eigenvalues are paired off, the largest ones first.
    """
    values, vectors = np.linalg.eigh(matrices)
    roots = vectors * np.sqrt(np.abs(values))[:, None, :]
    rows = roots.transpose(0, 2, 1)
    up = np.where((values > 0.0)[:, :, None], rows, 0.0)[:, ::-1]
    down = np.where((values < 0.0)[:, :, None], rows, 0.0)
    return up - down, up + down
