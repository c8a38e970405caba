"""Linear lines above and below a unit, and above and below a switched derivative.

A two-slope unit is convex (right >= left) or concave.  On [l, u] with l < 0 < u its chord bounds
it on one side and any line through the origin with a slope between the two on the other; the
steeper choice where u > -l is the rule of CROWN (Zhang et al., 2018).  Intercepts are rounded
outwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.network import FloatArray
from lipyomo.numerics.rounding import UNIT


class Lines(NamedTuple):
    """Lines above (first) and below ``unit(z)``: ``slopes z + offsets``, shapes (2, B, units)."""

    slopes: FloatArray
    offsets: FloatArray

    @classmethod
    def of(
        cls, above: tuple[FloatArray, FloatArray], below: tuple[FloatArray, FloatArray]
    ) -> Lines:
        """From slope and offset of each side."""
        slopes, offsets = np.empty((2, 2, *above[0].shape))
        slopes[0], offsets[0] = above
        slopes[1], offsets[1] = below
        return cls(slopes, offsets)


def _chord(
    lower: FloatArray, upper: FloatArray, left: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Slope of the chord, its two possible offsets, and their rounding error."""
    width = upper - lower
    slope = (right * upper - left * lower) / np.where(width > 0, width, 1.0)
    slope = np.where((lower < 0) & (upper > 0) & (left != right), slope, right)
    steep = np.maximum(np.abs(left), np.abs(right))
    error = 9.0 * UNIT * steep * np.maximum(-lower, upper)  # the slope lies between the two
    return slope, (left - slope) * lower, (right - slope) * upper, error


def unit_lines(lower: FloatArray, upper: FloatArray, left: FloatArray, right: FloatArray) -> Lines:
    """Lines around units with pre-activations in [lower, upper]; all finite, shapes (B, units).

    `left` and `right` are equal for decided units; the others have ``lower < 0 < upper``.
    """
    slope, at_low, at_high, error = _chord(lower, upper, left, right)
    convex = right >= left
    above, below = np.maximum(at_low, at_high) + error, np.minimum(at_low, at_high) - error
    offset = np.where(left == right, 0.0, np.where(convex, above, below))
    origin = np.where(upper > -lower, right, left)
    upper_offset = np.where(convex, offset, 0.0)
    return Lines.of(
        (np.where(convex, slope, origin), upper_offset),
        (np.where(convex, origin, slope), offset - upper_offset),
    )


def switch_lines(
    lower: FloatArray, upper: FloatArray, left: FloatArray, right: FloatArray
) -> Lines:
    """Lines around ``s in {left t, right t}`` with t in [lower, upper]; shapes (B, units).

    s lies below ``max(left t, right t)``, a convex two-slope function, and above the concave
    ``min(left t, right t)``: the chords of the two are the convex hull.
    """
    small, large = np.minimum(left, right), np.maximum(left, right)
    positive, negative = lower >= 0, upper <= 0
    fixed = positive | negative | (small == large)
    slope, at_low, at_high, error = _chord(lower, upper, small, large)
    upper_slope = np.where(positive, large, np.where(negative, small, slope))
    upper_offset = np.where(fixed, 0.0, np.maximum(at_low, at_high) + error)
    slope, at_low, at_high, error = _chord(lower, upper, large, small)
    lower_slope = np.where(positive, small, np.where(negative, large, slope))
    lower_offset = np.where(fixed, 0.0, np.minimum(at_low, at_high) - error)
    return Lines.of((upper_slope, upper_offset), (lower_slope, lower_offset))
