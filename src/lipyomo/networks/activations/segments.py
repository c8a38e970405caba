"""Segments of a smooth unit's range, with bands that contain the graph.

The range of a pre-activation is cut into segments [t_j, t_{j+1}].  On each of them the activation
lies in a band that is proved in real arithmetic,

    s_j z + lo_j <= sigma(z) <= s_j z + hi_j,

so that the union of the bands contains the graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.networks.activations.activation import Activation


@dataclass(frozen=True)
class Segment:
    """A piece of a unit's range and the band that holds the activation there."""

    low: float
    high: float
    slope: float
    below: float
    above: float

    @property
    def gap(self) -> float:
        """Height of the band."""
        return self.above - self.below


def segments_of(
    activation: Activation, low: FloatArray, high: FloatArray, count: int
) -> list[list[Segment]]:
    """Segments of units with bands of an activation, from left to right.

    The segment with the highest band is bisected, at a break if one lies inside, otherwise in the
    middle, until there are `count`.  Heights of bands decrease with the square of the length.
    Ranges that cannot be refined further, by rounding or linearity, get fewer segments.

    Parameters
    ----------
    activation : Activation
    low, high : ndarray, shape (n,)
        Finite bounds of the pre-activations.
    count : int
        At least 1.
    """
    found = [[whole] for whole in _banded(activation, low, high)]
    for _ in range(count - 1):
        cuts = [_next_cut(activation, segments) for segments in found]
        units = [k for k, cut in enumerate(cuts) if cut is not None]
        if not units:
            break
        places = [cut for cut in cuts if cut is not None]
        old = [found[k][j] for k, (j, _) in zip(units, places, strict=True)]
        middles = np.array([at for _, at in places])
        left = _banded(activation, np.array([segment.low for segment in old]), middles)
        right = _banded(activation, middles, np.array([segment.high for segment in old]))
        for k, (j, _), *halves in zip(units, places, left, right, strict=True):
            found[k][j : j + 1] = halves
    return found


def _banded(activation: Activation, low: FloatArray, high: FloatArray) -> list[Segment]:
    one, zero = np.ones(len(low)), np.zeros(len(low))
    bands = activation.lines(one, zero, low, high)
    columns = (np.broadcast_to(part, len(low)).tolist() for part in (low, high, *bands))
    return [Segment(*numbers) for numbers in zip(*columns, strict=True)]


def _next_cut(activation: Activation, segments: list[Segment]) -> tuple[int, float] | None:
    """Return the segment to cut, and where; None if there is nothing to gain."""
    for j in sorted(range(len(segments)), key=lambda i: -segments[i].gap):
        low, high = segments[j].low, segments[j].high
        inside = [at for at in activation.breaks if low < at < high]
        middle = inside[0] if inside else low + 0.5 * (high - low)
        if low < middle < high and segments[j].gap > EQUAL * (abs(low) + abs(high) + 1.0):
            return j, middle
    return None
