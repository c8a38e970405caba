"""Products and means of ranges, but for rounding."""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray

Ends = tuple[FloatArray, FloatArray]


def range_product(one: Ends, other: Ends) -> Ends:
    """The range of a product of ranges."""
    corners = np.stack([a * b for a in one for b in other])
    return corners.min(axis=0), corners.max(axis=0)


def mean(share: Ends, first: Ends, second: Ends) -> Ends:
    """The range of ``(1 - g) a + g b``: linear in g, so that one end of g has the largest."""
    found = []
    for end in share:
        one, other = range_product((1.0 - end,) * 2, first), range_product((end, end), second)
        found.append((one[0] + other[0], one[1] + other[1]))
    return np.minimum(found[0][0], found[1][0]), np.maximum(found[0][1], found[1][1])


def mean_size(share: Ends, first: Ends, second: Ends) -> FloatArray:
    """What the terms of such means are not above together: a few roundings are relative to it."""
    return np.asarray((1.0 + size(share)) * (size(first) + size(second)))


def size(ends: Ends) -> FloatArray:
    """The largest absolute value."""
    return np.maximum(np.abs(ends[0]), np.abs(ends[1]))
