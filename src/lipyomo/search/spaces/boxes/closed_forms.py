"""Squares, and units that pass their argument on: what the general bands find, in closed form.

Networks with normalised rows have as many squares as entries, and those with products carry many
signals past layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNDERFLOW, UNIT
from lipyomo.networks.activations import Confined, Power, TwoSlope
from lipyomo.networks.activations.bands import Band
from lipyomo.search.spaces.boxes.stage import Kind


@dataclass(frozen=True)
class Squared(Confined):
    """``z**2``, with closed forms.

    On [d, e] the chord of ``A z**2 + 2 c z`` has the slope ``s = A (d + e) + 2 c``, and what is
    above it is ``A (z - d) (z - e) - A d e``, where the product is between ``-(e - d)**2 / 4`` and
    zero.  Each operation is off by 2^-53 of terms that are at most ``4 |A| M**2`` and ``2 |c| M``,
    for M the larger end in size.
    """

    def lines(
        self,
        A: FloatArray,
        c: FloatArray,
        low: FloatArray,
        high: FloatArray,
        slope: FloatArray | None = None,
    ) -> Band:
        """As `Activation.lines`."""
        if slope is not None:
            return super().lines(A, c, low, high, slope)
        low, high = self._shared(low), self._shared(high)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows says nothing
            width, size = high - low, np.maximum(np.abs(low), np.abs(high))
            one = -A * (low * high)
            other = one - 0.25 * A * (width * width)
            room = _room(A, c, size)
            under, over = np.minimum(one, other) - room, np.maximum(one, other) + room
            s = A * (low + high) + 2.0 * c
        known = np.isfinite(under) & np.isfinite(over)
        return s, np.where(known, under, -np.inf), np.where(known, over, np.inf)

    def parabolas(
        self, A: FloatArray, c: FloatArray, low: FloatArray, high: FloatArray, f: FloatArray
    ) -> tuple[FloatArray, ...]:
        """As `Activation.parabolas`: k is 2 A, and the rest is a line."""
        low, high = self._shared(low), self._shared(high)
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.maximum(np.maximum(np.abs(low), np.abs(high)), np.abs(f))
            rest = -A * (f * f)
            room = _room(A, c, size)
            under, over = rest - room, rest + room
            s = 2.0 * (c + A * f)
        known = np.isfinite(under) & np.isfinite(over)
        k = np.broadcast_to(2.0 * A, known.shape)
        return s, k, np.where(known, under, -np.inf), np.where(known, over, np.inf)


def _room(A: FloatArray, c: FloatArray, size: FloatArray) -> FloatArray:
    """What sums of terms of such sizes are off by."""
    room = 16.0 * UNIT * (np.abs(A) * size + np.abs(c)) * size
    return np.asarray(room + UNDERFLOW * ((A != 0.0) | (c != 0.0)))


def with_squared(kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    """Kinds of units, with this one in the place of squares."""
    return tuple(
        (
            Squared(kind.of, kind.low, kind.high)
            if isinstance(kind, Confined) and kind.of == Power(2.0)
            else kind,
            units,
        )
        for kind, units in kinds
    )


class Passed(TwoSlope):
    """The identity, with closed forms."""

    def value(self, z: FloatArray) -> FloatArray:
        """The argument."""
        return z

    def slope(self, z: FloatArray) -> FloatArray:
        """One."""
        return np.ones_like(z)

    def curvature(self, z: FloatArray) -> FloatArray:
        """Zero."""
        return np.zeros_like(z)

    def enclose(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The interval itself."""
        return low, high

    def slope_range(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """One."""
        return np.ones_like(low), np.ones_like(high)

    def lines(
        self,
        A: FloatArray,
        c: FloatArray,
        low: FloatArray,
        high: FloatArray,
        slope: FloatArray | None = None,
    ) -> Band:
        """``A z + c``, or that about a line of another slope."""
        if slope is None:
            return (A, *(np.broadcast_to(c, np.broadcast_shapes(A.shape, c.shape)),) * 2)
        rest = A - slope
        ends = rest * low, rest * high
        room = 4.0 * UNIT * (np.maximum(np.abs(ends[0]), np.abs(ends[1])) + np.abs(c))
        return slope, np.minimum(*ends) + c - room, np.maximum(*ends) + c + room

    def parabolas(
        self, A: FloatArray, c: FloatArray, low: FloatArray, high: FloatArray, f: FloatArray
    ) -> tuple[FloatArray, ...]:
        """``A z + c``, which is not bent."""
        A, c = np.broadcast_arrays(A, c)
        return A, np.zeros_like(A), c, c


def with_passed(kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    """Kinds of units, with this one in the place of two slopes that are one."""
    return tuple(
        (Passed(1.0, 1.0) if kind == TwoSlope(1.0, 1.0) else kind, units) for kind, units in kinds
    )
