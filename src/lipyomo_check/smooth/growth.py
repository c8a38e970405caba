"""Whether numbers stay small enough for float64, and for what is said of its rounding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo_check.errors import ProofError
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.layers import Relaxed
from lipyomo_check.smooth.levels import Level

MOST_GROWTH = 1e60
"""The largest product of all layers' norms (with biases and slopes)."""


def growth_of(levels: Sequence[Level], head: Array, largest: float, offset: Array | None) -> float:
    """Return the product of all layers' norms, for inputs up to `largest` in size.

    Raises
    ------
    ProofError
        If it is too large.
    """
    growth = 1.0 + largest
    for level in levels:
        steepest = max([1.0, *(sum(group.kind.scale) for group in level.groups)])
        sums = [sizes.sum(axis=1) for sizes in (level.sizes, level.tangent_sizes)]
        size = float(np.maximum(*sums).max(initial=0.0))
        growth *= steepest * (1.0 + size + float(np.abs(level.bias).max(initial=0.0)))
    growth *= 1.0 + float(np.abs(head).sum())
    growth += 0.0 if offset is None else float(np.abs(offset).sum())
    if not growth < MOST_GROWTH:
        raise ProofError("the network's numbers are too large for a proof in float64")
    return growth


def within_reach(
    upper: Array, layers: Sequence[Relaxed], grows: Sequence[bool], growth: float
) -> Array:
    """Return bounds, infinite where products or units without bounds make numbers too large.

    Nor is there a bound where a unit may not be smooth: its slopes are not finite then.
    """
    if not any(grows):
        return upper
    size = np.full(len(upper), growth)
    for layer, unbounded in zip(layers, grows, strict=True):
        parts = [layer.low, layer.high, layer.m, layer.m_reach, layer.d, layer.d_reach]
        parts += [layer.line[0], layer.line[1]]
        if layer.change is not None:
            parts += [layer.change.tilt, layer.change.middle]
        if unbounded:
            largest = np.max([np.abs(part).max(axis=1, initial=0.0) for part in parts], axis=0)
            size = size * (2.0 + largest) ** 2
        else:
            finite = np.all([np.isfinite(part).all(axis=1) for part in parts], axis=0)
            size = np.where(finite, size, np.inf)
    return np.where(size < MOST_GROWTH, upper, np.inf)
