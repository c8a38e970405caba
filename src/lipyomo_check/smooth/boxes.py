"""Boxes of points and directions, and affine functions on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo_check.smooth.elementary import Array

Ball = tuple[Array, Array]
"""Middles and radii of ranges."""

Ends = tuple[Array, Array]
"""Lower and upper ends of ranges."""


class Boxes(NamedTuple):
    """Boxes of points, shape (N, d), and directions, shape (N, k), and phases, shape (N, K).

    The points of a box are those at which the pre-activation of each of the chain's units with
    breaks lies in [z_low, z_high].  Of these, such as have ``rise . x < least`` do not count; rise
    has the shape (N, d), least (N,).
    """

    low: Array
    high: Array
    v_low: Array
    v_high: Array
    z_low: Array
    z_high: Array
    rise: Array
    least: Array

    @classmethod
    def whole(
        cls, low: Array, high: Array, v_low: Array, v_high: Array, z_low: Array, z_high: Array
    ) -> Boxes:
        """Return boxes all of whose points count."""
        return cls(low, high, v_low, v_high, z_low, z_high, 0.0 * low, np.full(len(low), -np.inf))

    def part(self, which: npt.NDArray[np.bool_ | np.int64] | slice) -> Boxes:
        """Return some of them."""
        return Boxes(*(side[which] for side in self))


class Rows(NamedTuple):
    """Affine functions of (x, v): coefficients (N, n, d) and (N, n, k), and bounds (N, n)."""

    x: Array
    v: Array | None
    low: Array
    high: Array


def middles(low: Array, high: Array) -> Ball:
    """Return middle and a radius that is not less than half the width."""
    centre = low + (high - low) / 2.0
    return centre, np.nextafter(np.maximum(high - centre, centre - low), np.inf) * ~(high <= low)
