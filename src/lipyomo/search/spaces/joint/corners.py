"""Bounds of rows through the first layer at the corners of boxes, where the maximum is attained.

The pre-activations of the first layer are affine, ``z = value + p`` with ``p = W x`` and x in
+- reach, so that the contribution of a unit to a row is convex or concave in x.  Convex terms are
kept; a concave one is at most either of its two lines.  Such a sum is convex and has its maximum at
a corner.  Thus the kinks are added up before anything is bounded, whereas separate lines for each
unit add up values that no input attains together.  The lines are at first those of the larger
sides, and then, for each row, those on which its highest corner lies.

Rounding.  Up to their values in the middle, outputs are the larger of ``s p + o`` for both sides
(with the sign changed where they are concave).  o is computed from the value in the middle, which
has an error of `off`, and is at most pace >= |W| reach where a unit has a kink.  The rounding
errors of p, of the terms of both lines, and of the sums over units and inputs are at most unit
times the row's entry, the steepest slope and pace; those of o are at most four times that.  Twelve
times that is added.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.networks.layer import Layer
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.search.spaces.joint.substitute import Rough, sums_of_values, through

INPUTS = 6
"""The largest number of inputs for which corners are used: with more inputs there are more corners
than units in most layers."""


class Corners(NamedTuple):
    """The units of the first layer on N boxes, as differences from the middle.

    Attributes
    ----------
    weight : ndarray, shape (n, d)
    reach : ndarray, shape (N, d)
    sign : ndarray, shape (n,)
        One where outputs are convex, and minus one where they are concave.
    slopes, offsets : ndarray, shape (2, N, n)
        s and o, times `sign`, of the sides below and above a kink; both are the same where there is
        no kink.
    usual : ndarray of bool, shape (N, n)
        Where the side above is the larger one.
    error : ndarray, shape (N, n)
    """

    weight: Rough
    reach: Rough
    sign: Rough
    slopes: Rough
    offsets: Rough
    usual: Rough
    error: Rough

    @classmethod
    def of(
        cls,
        layer: Layer,
        part: Stack,
        value: FloatArray,
        off: FloatArray,
        pace: FloatArray,
        reach: Rough,
        unit: float,
    ) -> Corners:
        """Return the corners of boxes, given pre-activations in their middles, up to `off`."""
        sign = np.where(layer.right >= layer.left, 1.0, -1.0)
        is_open = (part.lower < 0.0) & (part.upper > 0.0)
        side = np.where(part.lower >= 0.0, layer.right, layer.left)
        slopes = np.stack([np.where(is_open, one, side) for one in (layer.left, layer.right)])
        offsets = np.where(is_open, slopes * value - layer.activate(value), 0.0)
        error = layer.steepest * (2.0 * off + 12.0 * unit * pace)
        usual = part.upper > -part.lower
        floats = layer.dense_weight, sign, sign * slopes, sign * offsets, error
        weight, sign, slopes, offsets, error = (array.astype(reach.dtype) for array in floats)
        return cls(weight, reach, sign, slopes, offsets, usual, error)

    @property
    def pay(self) -> BoolArray:
        """On which boxes (N,) corners are worth it: where more units have kinks than twice d.

        With fewer, some corner is nearly the worst case of all units, so that lines lose little.
        """
        kinked = (self.slopes[0] != self.slopes[1]).sum(axis=1)
        return np.asarray(kinked > 2 * self.weight.shape[1])

    def take(self, some: IntArray) -> Corners:
        """Select some of the boxes."""
        weight, reach, sign, slopes, offsets, usual, error = self
        own = slopes[:, some], offsets[:, some], usual[some], error[some]
        return Corners(weight, reach[some], sign, *own)

    def highest(self, rows: Rough) -> Rough:
        """Bound rows (N, r, n) of outputs minus their values in the middle from above, (N, r)."""
        signs = _signs(self.weight.shape[1], rows.dtype.str)
        entered = (self.weight * self.reach[:, None]) @ signs
        below, above = self.slopes[..., None] * entered + self.offsets[..., None]
        is_above = np.swapaxes(above > below, 1, 2)
        turned = rows * self.sign
        convex = np.maximum(turned, 0.0)
        concave = turned - convex
        kinks = convex @ np.maximum(below, above)
        slope, offset = self.slopes[0], self.offsets[0]
        change, shift = self.slopes[1] - slope, self.offsets[1] - offset
        lines, constant = concave * slope[:, None], sums_of_values(concave, offset)
        box, side = np.arange(len(rows))[:, None], self.usual[:, None]
        found = np.full(rows.shape[:2], np.inf, dtype=rows.dtype)
        for _ in range(2):
            crossed = concave * side
            total = through(crossed * change[:, None] + lines, self.weight) * self.reach[:, None]
            at_corners = total @ signs + kinks
            corner = at_corners.argmax(axis=2)
            most = np.take_along_axis(at_corners, corner[:, :, None], axis=2)[:, :, 0]
            found = np.fmin(found, most + constant + sums_of_values(crossed, shift))
            side = is_above[box, corner]
        return np.asarray(found + sums_of_values(np.abs(rows), self.error))


@cache
def _signs(count: int, kind: str) -> Rough:
    """Return all corners of the cube [-1, 1]^count, shape (count, 2^count)."""
    number = np.arange(1 << count)
    found = np.where((number >> np.arange(count)[:, None]) & 1, 1.0, -1.0).astype(kind)
    found.setflags(write=False)
    return found
