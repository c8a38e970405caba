"""Numbers of a layer's units, group by group, each in its place, and those of products behind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lipyomo_check.smooth.boxes import Ball
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.levels import Group
from lipyomo_check.smooth.lines import Samples

Line = tuple[Array, Array, Array]
"""A slope, and the middle and the radius of what is left."""

Sampled = tuple[tuple[Group, Samples], ...]
"""A layer's groups."""


def behind(units: Array, products: Array) -> Array:
    """Return numbers of units, and those of products behind them."""
    return np.concatenate([units, products], axis=1)


def lines_behind(units: Line, products: Line) -> Line:
    """Return lines of units, and those of products behind them."""
    s, middle, reach = (behind(*pair) for pair in zip(units, products, strict=True))
    return s, middle, reach


def wider(middle: Array, radius: Array) -> Ball:
    """Return ranges with room for what they have lost by a few operations."""
    return middle, radius + 8.0 * ULP * (np.abs(middle) + radius)


def ball_around(low: Array, high: Array) -> Ball:
    """Return middle of an interval, and a radius that holds it."""
    middle = low + (high - low) / 2.0
    reach = np.maximum(high - middle, middle - low)
    return middle, np.maximum(np.nextafter(reach, np.inf), 0.0)


def line_around(samples: Sampled, shape: tuple[int, ...], A: float, c: float) -> Line:
    """Return lines around ``A sigma + c sigma'``."""
    s, low, high = by_group(samples, shape, lambda _, one: one.lines(A, c), 3)
    return s, *ball_around(low, high)


def by_group(
    samples: Sampled,
    shape: tuple[int, ...],
    of: Callable[[Group, Samples], tuple[Array, ...]],
    count: int = 2,
) -> tuple[Array, ...]:
    """Return values of a layer's groups in the order of its units; `count` arrays if none."""
    if not samples:
        return tuple(np.zeros(shape) for _ in range(count))
    if len(samples) == 1 and samples[0][0].units.size == shape[1]:
        return of(*samples[0])
    found: tuple[Array, ...] = ()
    for group, one in samples:
        values = of(group, one)
        found = found or tuple(np.zeros_like(value, order="C", shape=shape) for value in values)
        for into, value in zip(found, values, strict=True):
            into[:, group.units] = value
    return found
