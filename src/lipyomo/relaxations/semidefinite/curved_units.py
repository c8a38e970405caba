"""Smooth units as curves: enclosures by segments, and minima of quadratic functions on them.

A unit's pre-activation, value and slope ``c = (1, z, y, s)`` form a point on a curve.  The minimum
of ``c' Q c`` on it is bounded on pieces of the range of z, with lines around sigma and sigma' on
each: there c lies on a segment, up to the widths of the enclosures, and the minimum of a quadratic
function of one variable has a closed form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF, gamma
from lipyomo.networks.activations import Activation

PIECES = 256
"""Number of pieces of a range: twice as many change bounds by less than a thousandth."""

_MARGIN = 1e-12
"""Margin for rounding, relative to the sum of absolute entries."""


class CurvePieces(NamedTuple):
    """Enclosures of units on the pieces of their ranges.

    On a piece ``(1, z, y, s) = middle + half tau``, |tau| <= 1, up to `width` in each entry.

    Attributes
    ----------
    middle, half, width : ndarray, shape (n, PIECES, 4)
    """

    middle: FloatArray
    half: FloatArray
    width: FloatArray

    @classmethod
    def of(cls, activation: Activation, low: FloatArray, high: FloatArray) -> CurvePieces:
        """Enclose one activation over ranges (n,)."""
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
        """Keep the entries (1, z, s) if `forms` is 3, else all of (1, z, y, s)."""
        kept = [0, 1, 3] if forms == 3 else [0, 1, 2, 3]
        return CurvePieces(*(part[:, :, kept] for part in self))

    def scaled(self, constants: FloatArray, factors: FloatArray) -> CurvePieces:
        """Enclose w instead of c, where ``c = constants + factors w`` (n, k), factors > 0."""
        constants, size = constants[:, None, :], np.abs(factors)[:, None, :]
        rounding = np.abs(self.middle) + np.abs(self.half) + self.width + np.abs(constants)
        width = (self.width + 16.0 * UNIT_ROUNDOFF * rounding) / size
        return CurvePieces((self.middle - constants) / size, self.half / size, width)

    def nodes(self, count: int) -> FloatArray:
        """Return about `count` points of the curve and both its ends, shape (n, count + 2, k)."""
        step = len(self.middle[0]) // count
        first = self.middle[:, :1] - self.half[:, :1]
        last = self.middle[:, -1:] + self.half[:, -1:]
        return np.concatenate([first, self.middle[:, step // 2 :: step], last], axis=1)


def least_values(pieces: CurvePieces, forms: FloatArray) -> FloatArray:
    """Prove lower bounds (n,) of ``c' Q c`` over ranges of units, for symmetric Q (n, k, k)."""
    at, along = pieces.middle @ forms, pieces.half @ forms
    constant = (at * pieces.middle).sum(axis=2)
    linear = 2.0 * np.abs((at * pieces.half).sum(axis=2))
    square = (along * pieces.half).sum(axis=2)
    most = np.abs(pieces.middle) + np.abs(pieces.half) + pieces.width
    off = 2.0 * (np.abs(at) + np.abs(along)) + pieces.width @ np.abs(forms)
    off = (off * pieces.width).sum(axis=2) * (1.0 + gamma(64))
    off = off + gamma(64) * (most @ np.abs(forms) * most).sum(axis=2)
    inside = (square > 0.0) & (linear < 2.0 * square)
    drop = np.where(inside, 0.25 * linear**2 / np.where(inside, square, 1.0), linear - square)
    return np.asarray((constant - drop - off).min(axis=1))


@np.errstate(all="ignore")  # after an overflow the result is None
def raised(pieces: CurvePieces, forms: FloatArray) -> FloatArray | None:
    """Raise the constants Q_00 of symmetric Q (n, k, k) until ``c' Q c >= 0`` on the curves.

    None if numbers are too large.
    """
    forms = forms.copy()
    margin = _MARGIN * np.abs(forms).sum(axis=(1, 2))
    for _ in range(4):  # the first time for curves between the nodes, then for rounding
        low = least_values(pieces, forms)
        if (low >= 0.0).all():
            return forms
        if not np.isfinite(low).all():
            return None
        forms[:, 0, 0] += np.where(low >= 0.0, 0.0, margin - low)
    return None
