"""The first layer of units at the corners of boxes, where what they add up to is largest.

Its pre-activations are affine, ``z = value + p`` with ``p = W x`` and x in +- reach, so that what a
unit adds to a row is convex or concave in x.  Convex terms stay what they are; a concave one is at
most either of its two lines.  Such a sum is convex, and largest at a corner: its kinks are added up
before anything is bounded, where lines around each unit add up what no input has together.  The
lines are those of the larger sides, and then for each row those on which its highest corner lies.

Rounding.  Outputs are, but for what they are in the middle, the larger one of ``s p + o`` for both
sides (turned where they are concave), with o from the value in the middle, which is off by `off`,
and at most pace >= |W| reach where a unit has a kink.  What p is off by, the terms of both lines,
and the sums over units and inputs, are at most unit times the row's entry, the steepest slope and
pace; those over o are at most four times that.  Twelve times that is paid for.
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
"""Most inputs for which corners pay: with more there are more of them than units in most layers."""


class Corners(NamedTuple):
    """The first layer's units on N boxes, as differences from the middle.

    Attributes
    ----------
    weight : ndarray, shape (n, d)
    reach : ndarray, shape (N, d)
    sign : ndarray, shape (n,)
        One where outputs are convex, and minus one where they are concave: these are turned.
    slopes, offsets : ndarray, shape (2, N, n)
        s and o, turned, of the sides below and above a kink; the same where there is none.
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
        """Of boxes on whose middles pre-activations are `value`, but for `off`."""
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
        """On which boxes (N,) more units have kinks than twice the inputs.

        Fewer are nearly all as far as they can be at some corner, so that lines lose little.
        """
        kinked = (self.slopes[0] != self.slopes[1]).sum(axis=1)
        return np.asarray(kinked > 2 * self.weight.shape[1])

    def take(self, some: IntArray) -> Corners:
        """Those of some boxes."""
        weight, reach, sign, slopes, offsets, usual, error = self
        own = slopes[:, some], offsets[:, some], usual[some], error[some]
        return Corners(weight, reach[some], sign, *own)

    def highest(self, rows: Rough) -> Rough:
        """Upper bounds of rows (N, r, n) of outputs less what they are in the middle, (N, r)."""
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
    """All corners of a cube, shape (count, 2^count)."""
    number = np.arange(1 << count)
    found = np.where((number >> np.arange(count)[:, None]) & 1, 1.0, -1.0).astype(kind)
    found.setflags(write=False)
    return found
