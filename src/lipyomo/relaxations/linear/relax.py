"""Relaxations of single units with an open phase: a triangle, a pair of lines, or a range.

A two-slope unit is convex (right >= left) or concave.  On [l, u] with l < 0 < u its chord bounds
it on one side, and any line through the origin with a slope between the two on the other.  CROWN,
dual ascent, the linear programs of pre-activations and those of regions all replace an unstable
unit by this triangle.  Offsets are rounded outwards.  Interval arithmetic uses only the ranges of
the units.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.rounding import UNIT
from lipyomo.networks.network import Layer
from lipyomo.networks.phases import LEFT, RIGHT
from lipyomo.relaxations.linear.layers import PhaseBatch, parts_of


class Triangle(NamedTuple):
    """Triangle relaxations of units, arrays of equal shapes.

    Attributes
    ----------
    chord : ndarray
        Slope of the chord; of a stable unit, its slope.
    offset : ndarray
        Offset with which the chord lies above a convex unit and below a concave one; zero where
        decided.
    bend : ndarray
        +1 where an unstable unit is convex, -1 where it is concave, 0 where it is decided.
    """

    chord: FloatArray
    offset: FloatArray
    bend: FloatArray

    @classmethod
    def of(
        cls, lower: FloatArray, upper: FloatArray, left: FloatArray, right: FloatArray
    ) -> Triangle:
        """Relax units with slopes `left`, `right` and finite pre-activation bounds [lower, upper].

        Units are open where ``lower < 0 < upper`` and their slopes differ.
        """
        still = (lower < 0) & (upper > 0) & (left != right)
        least, most = np.where(still, lower, 0.0), np.where(still, upper, 0.0)
        slope = (right * most - left * least) / np.where(still, most - least, 1.0)
        # any slope between the two is valid, rounded or not: the offset is computed for this one
        slope = np.minimum(np.maximum(slope, np.minimum(left, right)), np.maximum(left, right))
        chord = np.where(still, slope, np.where(lower >= 0, right, left))
        at_low, at_high = (left - chord) * least, (right - chord) * most
        steep = np.maximum(np.abs(left), np.abs(right))
        error = 9.0 * UNIT * steep * np.maximum(-least, most)
        convex = right >= left
        above, below = np.maximum(at_low, at_high) + error, np.minimum(at_low, at_high) - error
        offset = np.where(still, np.where(convex, above, below), 0.0)
        return cls(chord, offset, np.where(still, np.where(convex, 1.0, -1.0), 0.0))


class Lines(NamedTuple):
    """Lines above (first) and below ``unit(z)``: ``slopes z + offsets``, shapes (2, B, units)."""

    slopes: FloatArray
    offsets: FloatArray

    @classmethod
    def of(
        cls, above: tuple[FloatArray, FloatArray], below: tuple[FloatArray, FloatArray]
    ) -> Lines:
        """Combine the slopes and offsets of both sides."""
        slopes, offsets = np.empty((2, 2, *above[0].shape))
        slopes[0], offsets[0] = above
        slopes[1], offsets[1] = below
        return cls(slopes, offsets)


def unit_lines(lower: FloatArray, upper: FloatArray, left: FloatArray, right: FloatArray) -> Lines:
    """Return lines around units with pre-activations in [lower, upper], finite, shapes (B, units).

    The line through the origin has the slope of the longer side, as in CROWN (Zhang et al., 2018).
    `left` and `right` are equal for stable units; the others have ``lower < 0 < upper``.
    """
    chord, offset, bend = Triangle.of(lower, upper, left, right)
    line = np.where(bend == 0, chord, np.where(upper > -lower, right, left))
    convex = bend > 0
    return Lines.of(
        (np.where(convex, chord, line), np.where(convex, offset, 0.0)),
        (np.where(convex, line, chord), np.where(convex, 0.0, offset)),
    )


def layer_lines(
    layer: Layer,
    units: IntArray,
    lower: FloatArray,
    upper: FloatArray,
    left: FloatArray,
    right: FloatArray,
) -> Lines:
    """Lines around some units of a layer, which may be smooth.

    Parameters
    ----------
    layer : Layer
    units : ndarray of int, shape (F,)
    lower, upper : ndarray, shape (B, F)
        Of their pre-activations, finite.
    left, right : ndarray, shape (B, F)
        Slopes of the two-slope ones, as `unit_lines` takes them.
    """
    curved = layer.curved[units]
    if not curved.any():
        return unit_lines(lower, upper, left, right)
    one, none = np.ones(()), np.zeros(())
    found = unit_lines(lower, upper, *(np.where(curved, 0.0, side) for side in (left, right)))
    for curve in layer.curves:
        mine = np.flatnonzero(np.isin(units, curve.units))
        ends = lower[:, mine], upper[:, mine]
        slope, low, high = curve.activation.lines(one, none, *ends)
        if not (np.isfinite(low) & np.isfinite(high)).all():  # numbers are too large for a slope
            slope, (low, high) = np.zeros(low.shape), curve.activation.enclose(*ends)
        found.slopes[:, :, mine] = slope
        found.offsets[:, :, mine] = high, low
    return found


def switch_lines(
    lower: FloatArray, upper: FloatArray, left: FloatArray, right: FloatArray
) -> Lines:
    """Return lines around ``s in {left t, right t}`` with t in [lower, upper]; shapes (B, units).

    s lies below ``max(left t, right t)``, a convex two-slope function, and above the concave
    ``min(left t, right t)``: the chords of these two bound the convex hull.
    """
    small, large = np.minimum(left, right), np.maximum(left, right)
    above, below = Triangle.of(lower, upper, small, large), Triangle.of(lower, upper, large, small)
    return Lines.of((above.chord, above.offset), (below.chord, below.offset))


class Switches(NamedTuple):
    """The two possible slopes of each unit of a layer, equal where decided; shapes (B, n)."""

    left: FloatArray
    right: FloatArray

    @classmethod
    def of(cls, layer: Layer, phases: PhaseBatch) -> Switches:
        """Return the slopes that are possible under `phases` (B, n)."""
        left = np.where(phases == RIGHT, layer.right, layer.left)
        return cls(left, np.where(phases == LEFT, layer.left, layer.right))

    @property
    def members(self) -> IntArray:
        """Units whose slope is open or differs within the batch."""
        same = (self.left == self.right) & (self.left == self.left[:1])
        return np.flatnonzero(~same.all(axis=0))

    def range(self, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the range of ``slope * t`` over ``lower <= t <= upper`` and both slopes."""
        left, right = self.left, self.right
        ends = (
            _slope_times(left, lower),
            _slope_times(left, upper),
            _slope_times(right, lower),
            _slope_times(right, upper),
        )
        low = np.minimum(np.minimum(*ends[:2]), np.minimum(*ends[2:]))
        high = np.maximum(np.maximum(*ends[:2]), np.maximum(*ends[2:]))
        return low - UNIT * np.abs(low), high + UNIT * np.abs(high)


def _slope_times(slope: FloatArray, values: FloatArray) -> FloatArray:
    """Return ``slope * values``, with zero times infinity equal to zero."""
    if np.isfinite(values).all():
        return np.asarray(slope * values)
    with np.errstate(invalid="ignore"):
        return np.where(slope == 0.0, 0.0, slope * values)


def activated(
    layer: Layer, phases: PhaseBatch, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the range of the units' outputs under `phases`, shapes (B, units)."""
    slopes = Switches.of(layer, phases)
    ends = _slope_times(slopes.left, lower), _slope_times(slopes.right, upper)
    low, high = np.minimum(*ends), np.maximum(*ends)
    open_ = slopes.left != slopes.right
    low = np.where(open_, np.minimum(low, 0.0), low)
    high = np.where(open_, np.maximum(high, 0.0), high)
    rounding = parts_of(layer).rounding
    if rounding.any():
        low = low - _slope_times(rounding, np.abs(low))
        high = high + _slope_times(rounding, np.abs(high))
    for curve in layer.curves:
        ends = lower[..., curve.units], upper[..., curve.units]
        low[..., curve.units], high[..., curve.units] = curve.activation.enclose(*ends)
    return low, high


def interval_range(
    layer: Layer, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the pre-activation range of `layer` for ``lower <= h <= upper``, shapes (B, units)."""
    return parts_of(layer).split.range(lower, upper, layer.bias)
