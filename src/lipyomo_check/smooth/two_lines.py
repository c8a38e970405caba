"""Ranges of pre-activations by two lines of each unit, an upper and a lower one.

A unit with two slopes whose range [l, h] has zero inside lies between its chord and either of its
own two lines through zero: that on its right where h is larger than -l, else that on its left.  All
others have parallel lines (`layers.Relaxed.line`).  Rows of pre-activations go backwards through
the lines that their signs ask for, so that each end of a range has rows of its own.

Rounding is that of `bound`: what a row errs by is a share of its mass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lipyomo_check.smooth.backwards import rows_times
from lipyomo_check.smooth.boxes import Ball, Ends
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.halfspaces import UNDERFLOW
from lipyomo_check.smooth.layers import Relaxed
from lipyomo_check.smooth.levels import Indices, Level

TIE = 2.0**-20
"""Share by which h has to exceed -l, so that rounding does not change the choice."""


class TwoLines(NamedTuple):
    """``fall z + below <= sigma(z) <= rise z + above`` for a layer's units, each (N, n).

    `size` is at least the sum of absolute values of the terms that either line is made of.
    """

    rise: Array
    above: Array
    fall: Array
    below: Array
    size: Array

    @classmethod
    def of(cls, layer: Relaxed) -> TwoLines:
        """Make the lines of a layer without products."""
        s, middle, reach = layer.line
        rise, above, fall, below = s.copy(), middle + reach, s.copy(), middle - reach
        for group, samples in layer.samples:
            if not group.kind.kinked:
                continue
            k = group.units
            low, high = layer.low[:, k], layer.high[:, k]
            left, right = samples.slopes[0], samples.slopes[-1]
            through = np.where(high > -low * (1.0 + TIE), right, left)
            crossed = (low < 0.0) & (high > 0.0)
            for slope, constant, which in (
                (fall, below, crossed & (left < right)),
                (rise, above, crossed & (left > right)),
            ):
                slope[:, k] = np.where(which, through, slope[:, k])
                constant[:, k] = np.where(which, 0.0, constant[:, k])
        steep = np.maximum(np.abs(rise), np.abs(fall))
        return cls(rise, above, fall, below, np.abs(middle) + reach + steep * layer.size)


def ends_by_lines(
    levels: Sequence[Level],
    lines: Sequence[TwoLines],
    x: Ball,
    gamma: float,
    pick: Indices | slice = slice(None),
) -> Ends:
    """Return ranges of (some) pre-activations of the layer behind some, whose lines are given."""
    weight, bias = levels[len(lines)].weight[pick], levels[len(lines)].bias[pick]
    n = len(weight)
    A = np.concatenate([weight, -weight])
    constant = np.zeros((len(x[0]), 2 * n)) + np.concatenate([bias, -bias])
    mass = np.abs(constant)
    for own, before in zip(reversed(lines), reversed(levels[: len(lines)]), strict=True):
        up, down = np.maximum(A, 0.0), np.minimum(A, 0.0)
        constant = constant + rows_times(up, own.above) + rows_times(down, own.below)
        mass = mass + rows_times(np.abs(A), own.size)
        P = up * own.rise[:, None, :] + down * own.fall[:, None, :]
        constant = constant + P @ before.bias
        A = P @ before.weight
    width = rows_times(np.abs(A), x[1])
    mass = mass + rows_times(np.abs(A), np.abs(x[0])) + width
    top = constant + rows_times(A, x[0]) + width + (gamma * mass + UNDERFLOW)
    return -top[:, n:], top[:, :n]
