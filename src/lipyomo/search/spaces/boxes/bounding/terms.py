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


def plane_above(c: FloatArray, p: Located, q: Located, errors: Errors) -> Plane:
    """Return planes ``A p + B q + C`` above ``c p q``, through the middles f and g of p and q.

    (p - f)(q - g) is within the errors, so that ``c p q`` is at most ``c (g p + f q - f g)`` plus
    the error.
    """
    g, f, e = q.middle, p.middle, np.where(c >= 0.0, errors.high, errors.low)
    return c * g, c * f, c * (e - f * g)
