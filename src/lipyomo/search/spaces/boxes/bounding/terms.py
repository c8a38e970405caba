"""Planes above bilinear terms of two signals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.relaxing.errors import Errors

Plane = tuple[FloatArray, FloatArray, FloatArray]
"""The coefficients of both signals, and a constant."""


@dataclass(frozen=True, eq=False)
class Located:
    """Signals (N, P): their ranges and middles, and their values at one point of each box."""

    low: FloatArray
    high: FloatArray
    middle: FloatArray
    there: FloatArray | None

    @property
    def size(self) -> FloatArray:
        """The largest absolute values."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


def level_where_lower(
    c: FloatArray, ends: Ends, planes: list[tuple[Plane, Located, Located]], gaps: list[FloatArray]
) -> tuple[list[Plane], list[FloatArray]]:
    """Replace planes above sums of one or two terms, and gaps, by constants where these are lower.

    `ends` are ranges of the sums; planes are compared at the points of `Located.there`.
    """
    with np.errstate(invalid="ignore"):  # infinite ranges and zero coefficients
        most = np.fmax(c * ends[0], c * ends[1])
        width = np.abs(c) * (ends[1] - ends[0])
    height = np.zeros_like(c)
    for (A, B, C), p, q in planes:
        assert p.there is not None
        assert q.there is not None
        height = height + A * p.there + B * q.there + C
    level = most < height
    share = 1.0 / len(planes)
    found = [
        (np.where(level, 0.0, A), np.where(level, 0.0, B), np.where(level, share * most, C))
        for (A, B, C), _, _ in planes
    ]
    return found, [np.where(level, share * width, gap) for gap in gaps]


def plane_above(c: FloatArray, p: Located, q: Located, errors: Errors, lowest: bool) -> Plane:
    """Return planes ``A p + B q + C`` above ``c p q``: through the middles, or the lowest ones.

    The lowest ones are chosen at the points of `Located.there`.  If (p - f)(q - g) has one sign, or
    is within the errors, ``c p q`` is at most ``c (g p + f q - f g)`` plus the error.
    """
    rises = c >= 0.0
    g, f, e = q.middle, p.middle, np.where(rises, errors.high, errors.low)
    if lowest and p.there is not None and q.there is not None:
        g, f, e = np.broadcast_arrays(g, f, e)
        least = c * (g * p.there + f * q.there - f * g + e)
        for one, other in (
            (np.where(rises, q.high, q.low), p.low),
            (np.where(rises, q.low, q.high), p.high),
        ):
            found = c * (one * p.there + other * q.there - other * one)
            less = found < least
            least = np.where(less, found, least)
            g, f, e = np.where(less, one, g), np.where(less, other, f), np.where(less, 0.0, e)
    return c * g, c * f, c * (e - f * g)
