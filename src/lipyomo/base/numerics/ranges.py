"""Interval products and convex combinations, without accounting for rounding."""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray

Ends = tuple[FloatArray, FloatArray]


def range_product(one: Ends, other: Ends) -> Ends:
    """Return the product of two intervals."""
    corners = np.stack([a * b for a in one for b in other])
    return corners.min(axis=0), corners.max(axis=0)


def mean(share: Ends, first: Ends, second: Ends) -> Ends:
    """Return the range of ``(1 - g) a + g b``, which is attained at ends of g (linear in g)."""
    found = []
    for end in share:
        one, other = range_product((1.0 - end,) * 2, first), range_product((end, end), second)
        found.append((one[0] + other[0], one[1] + other[1]))
    return np.minimum(found[0][0], found[1][0]), np.maximum(found[0][1], found[1][1])


def mean_size(share: Ends, first: Ends, second: Ends) -> FloatArray:
    """Return upper bounds of the sum of absolute terms in `mean`, for error bounds."""
    return np.asarray((1.0 + size(share)) * (size(first) + size(second)))


def size(ends: Ends) -> FloatArray:
    """Return the largest absolute value of each interval."""
    return np.maximum(np.abs(ends[0]), np.abs(ends[1]))
