"""Interval arithmetic through the units of a layer, for a batch of partial patterns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.rounding import UNIT
from lipyomo.networks.network import Layer
from lipyomo.networks.phases import LEFT, RIGHT
from lipyomo.relaxations.linear.layers import PhaseBatch, parts_of


class Switches(NamedTuple):
    """Slopes of one layer's units; equal where the unit is decided, shapes (B, n)."""

    left: FloatArray
    right: FloatArray

    @classmethod
    def of(cls, layer: Layer, phases: PhaseBatch) -> Switches:
        """Slopes that are possible under `phases` (B, n)."""
        left = np.where(phases == RIGHT, layer.right, layer.left)
        return cls(left, np.where(phases == LEFT, layer.left, layer.right))

    @property
    def members(self) -> IntArray:
        """Units that do not have one and the same slope in the whole batch."""
        same = (self.left == self.right) & (self.left == self.left[:1])
        return np.flatnonzero(~same.all(axis=0))

    def range(self, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Range of ``slope * t`` over ``lower <= t <= upper`` and both slopes."""
        left, right = self.left, self.right
        ends = times(left, lower), times(left, upper), times(right, lower), times(right, upper)
        low = np.minimum(np.minimum(*ends[:2]), np.minimum(*ends[2:]))
        high = np.maximum(np.maximum(*ends[:2]), np.maximum(*ends[2:]))
        return low - UNIT * np.abs(low), high + UNIT * np.abs(high)


def times(slope: FloatArray, values: FloatArray) -> FloatArray:
    """``slope * values`` where zero times infinity is zero."""
    if np.isfinite(values).all():
        return np.asarray(slope * values)
    with np.errstate(invalid="ignore"):
        return np.where(slope == 0.0, 0.0, slope * values)


def activated(
    layer: Layer, phases: PhaseBatch, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Range of the units' outputs under `phases`, shapes (B, units)."""
    slopes = Switches.of(layer, phases)
    ends = times(slopes.left, lower), times(slopes.right, upper)
    low, high = np.minimum(*ends), np.maximum(*ends)
    open_ = slopes.left != slopes.right
    low = np.where(open_, np.minimum(low, 0.0), low)
    high = np.where(open_, np.maximum(high, 0.0), high)
    rounding = parts_of(layer).rounding
    if rounding.any():
        low = low - times(rounding, np.abs(low))
        high = high + times(rounding, np.abs(high))
    for curve in layer.curves:
        ends = lower[..., curve.units], upper[..., curve.units]
        low[..., curve.units], high[..., curve.units] = curve.activation.enclose(*ends)
    return low, high


def interval_range(
    layer: Layer, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Pre-activation range of `layer` over ``lower <= h <= upper``, shapes (B, units)."""
    return parts_of(layer).split.range(lower, upper, layer.bias)
