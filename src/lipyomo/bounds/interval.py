"""Interval arithmetic through a network: the first rung of the bound ladder.

Everything carries a leading batch axis B, so that branch and bound can bound many boxes at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lipyomo.bounds.parts import Range, parts_of
from lipyomo.network import BoolArray, FloatArray, Layer
from lipyomo.phases import LEFT, OPEN, RIGHT

PhaseBatch = npt.NDArray[np.int8]
"""Phases of one layer for a batch of nodes, shape (B, units)."""


@dataclass(frozen=True)
class Slab:
    """Pre-activation bounds of one layer, cut to the given phases.

    Attributes
    ----------
    lower, upper : ndarray, shape (B, units)
    reach : ndarray, shape (B, units)
        Sum of the absolute terms of each pre-activation, for rounding errors.
    empty : ndarray of bool, shape (B,)
        Where a given phase contradicts the bounds.
    """

    lower: FloatArray
    upper: FloatArray
    reach: FloatArray
    empty: BoolArray


def cut(found: Range, phases: PhaseBatch) -> Slab:
    """Intersect a range with the half-lines that `phases` ask for."""
    right, left = phases == RIGHT, phases == LEFT
    wrong = (right & (found.upper < 0)) | (left & (found.lower > 0))
    wrong |= found.lower > found.upper
    lower = np.where(right, np.maximum(found.lower, 0.0), found.lower)
    upper = np.where(left, np.minimum(found.upper, 0.0), found.upper)
    upper = np.maximum(upper, lower)
    return Slab(lower, upper, found.reach, wrong.any(axis=-1))


def forced(layer: Layer, phases: PhaseBatch) -> PhaseBatch:
    """`phases` with the units that have no kink marked open: they force no sign."""
    return np.where(layer.kinked, phases, np.int8(OPEN)).astype(np.int8)


def slope_pair(
    layer: Layer, phases: PhaseBatch, lower: FloatArray, upper: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Slopes below and above the kink, equal where phase or bounds decide the unit."""
    on = (phases == RIGHT) | (lower >= 0)
    off = ~on & ((phases == LEFT) | (upper <= 0))
    return np.where(on, layer.right, layer.left), np.where(off, layer.left, layer.right)


def times(slope: FloatArray, values: FloatArray) -> FloatArray:
    """``slope * values`` where zero times infinity is zero."""
    if np.isfinite(values).all():
        return np.asarray(slope * values)
    with np.errstate(invalid="ignore"):
        return np.where(slope == 0.0, 0.0, slope * values)


def activated(layer: Layer, phases: PhaseBatch, slab: Slab) -> tuple[FloatArray, FloatArray]:
    """Range of the units' outputs, shapes (B, units)."""
    left, right = slope_pair(layer, phases, slab.lower, slab.upper)
    ends = times(left, slab.lower), times(right, slab.upper)
    low, high = np.minimum(*ends), np.maximum(*ends)
    open_ = left != right
    low = np.where(open_, np.minimum(low, 0.0), low)
    high = np.where(open_, np.maximum(high, 0.0), high)
    rounding = parts_of(layer).rounding
    if rounding.any():
        low = low - times(rounding, np.abs(low))
        high = high + times(rounding, np.abs(high))
    return low, high


def interval_range(layer: Layer, lower: FloatArray, upper: FloatArray) -> Range:
    """Pre-activation range of `layer` over ``lower <= h <= upper``, shapes (B, units)."""
    return parts_of(layer).split.range(lower, upper, layer.bias)
