"""Ranges of pre-activations on many boxes, by substitution about their middles.

Only differences from the middle of a box are substituted (`substitute.py`), so that errors of
float32 numbers are proportional to the widths of the ranges, which shrink with the boxes.  Values
in the middle are float64.  The lines are CROWN's (Zhang et al., 2018): the chord of a unit, and the
slope of its larger side through the kink.  For any slope s, ``phi(z) - s z`` attains its maximum
and minimum at an end or at the kink; the offsets are the differences from its value in the middle,
and hold however s is rounded.  Units that stay unstable are bounded once more by corners of boxes
if there are few inputs: rows through the first layer attain their maximum there.

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

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.rounding import UNIT, gamma
from lipyomo.base.system.memory import CACHED
from lipyomo.networks.layer import Layer
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.relaxations.linear.relax import activated, interval_range
from lipyomo.search.spaces.joint.substitute import (
    Rough,
    TwoLines,
    faint,
    substituted,
    sums_of_values,
    taken_back,
    through,
    unit_of,
)

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


_MORE = 1.0 + 8.0 * UNIT
"""A factor that covers the rounding of a few operations."""


def tighten_boxes(layers: Sequence[Layer], stack: Stack, kind: npt.DTypeLike) -> None:
    """Tighten a stack of boxes in place: bounds, and the phases they imply.

    Parameters
    ----------
    layers : sequence of Layer
        The hidden layers, piecewise linear.
    stack : Stack
        Its phases hold everywhere in its boxes.
    kind : dtype
        float32 or float64, of the rows that are substituted.
    """
    unit = unit_of([layer.dense_weight.shape for layer in layers], kind)
    weights = [layer.dense_weight.astype(kind) for layer in layers]
    middle = stack.low + 0.5 * (stack.high - stack.low)
    radius = np.maximum(stack.high - middle, middle - stack.low) * _MORE
    reach = (radius * (1.0 + unit)).astype(kind)
    low, high, value, size = stack.low, stack.high, middle, radius
    off = np.zeros((1, 1))  # error of the values in the middle
    lost = np.zeros((1, 1))
    lines: list[TwoLines] = []
    corners: Corners | None = None
    end = 0
    for k, layer in enumerate(layers):
        heavy, long = np.abs(layer.dense_weight.T), gamma(layer.inputs)
        off = (off + long * np.abs(value)) @ heavy * _MORE + long * np.abs(layer.bias)
        value = value @ layer.dense_weight.T + layer.bias
        pace = size @ heavy * (1.0 + long)
        lost = lost + faint(size.astype(kind), pace.astype(kind))
        apart = substituted(weights[k], weights[:k], lines, reach)
        apart = np.where(np.isfinite(apart), apart, np.inf) * (1.0 + unit) + lost
        start, end = end, end + layer.units
        part = stack.layer(slice(start, end))
        part.meet(*interval_range(layer, low, high))
        part.meet(value - (apart[:, layer.units :] + off), value + (apart[:, : layer.units] + off))
        if corners is not None:
            room = np.broadcast_to(off + 4.0 * lost, value.shape)
            _meet_corners(corners, weights[1 : k + 1], lines[1:], part, value, room, unit)
        part.decide_and_cut(layer.kinked)
        if k + 1 < len(layers):
            if not k and stack.low.shape[1] <= INPUTS:
                corners = Corners.of(layer, part, value, off, pace, reach, unit)
            low, high = activated(layer, part.phases, part.lower, part.upper)
            lines.append(_lines(layer, part, value, off, pace, unit, kind))
            far = np.maximum(part.upper - value, value - part.lower) + off
            size = layer.steepest * far * _MORE
            value = layer.activate(value)
            off = layer.steepest * off + UNIT * np.abs(value)


def _meet_corners(
    corners: Corners,
    weights: Sequence[Rough],
    lines: Sequence[TwoLines],
    part: Stack,
    value: FloatArray,
    room: FloatArray,
    unit: float,
) -> None:
    """Tighten the ranges of a layer's unstable units in place, by corners of the first layer.

    Boxes with similar numbers of unstable units are processed together.

    Parameters
    ----------
    corners : Corners
    weights : sequence of ndarray
        The weights from the second layer to this one.
    lines : sequence of TwoLines
        The lines of the layers in between.
    part : Stack
        The part of this layer.
    value, room : ndarray
        Pre-activations in the middles of boxes, and the margin to be added to differences.
    unit : float
    """
    is_open = (part.lower < 0.0) & (part.upper > 0.0) & corners.pay[:, None]
    order, counts = np.argsort(~is_open, axis=1, kind="stable"), is_open.sum(axis=1)
    boxes = np.argsort(counts, kind="stable")[np.count_nonzero(counts == 0) :]
    count = max(1, CACHED // (128 * corners.weight.size))
    for at in range(0, len(boxes), count):
        some = boxes[at : at + count]
        units = order[some, : counts[some[-1]]]
        where = some[:, None], units
        own = [each.part(some) for each in lines]
        rows, bounds = taken_back(weights[-1][units], weights[:-1], own)
        apart = (bounds + corners.take(some).highest(rows)).astype(np.float64)
        apart = np.where(np.isfinite(apart), apart, np.inf) * (1.0 + unit)
        above, below = np.split(apart, 2, axis=1)
        least, most = value[where] - (below + room[where]), value[where] + (above + room[where])
        part.lower[where] = np.maximum(part.lower[where], least)
        part.upper[where] = np.minimum(part.upper[where], most)


def _lines(
    layer: Layer,
    part: Stack,
    value: FloatArray,
    off: FloatArray,
    pace: FloatArray,
    unit: float,
    kind: npt.DTypeLike,
) -> TwoLines:
    """Return lines of differences from a middle with pre-activations `value`, up to `off`."""
    left, right, low, high = layer.left, layer.right, part.lower, part.upper
    ends = layer.activate(low), layer.activate(high)
    is_open = (low < 0.0) & (high > 0.0)
    side = np.where(high > -low, right, left)
    width = np.where(is_open, high - low, 1.0)
    chord = np.where(is_open, (ends[1] - ends[0]) / width, side)
    convex = right >= left
    above, below = np.where(convex, chord, side), np.where(convex, side, chord)
    middle, half = (0.5 * (above + below)).astype(kind), (0.5 * (above - below)).astype(kind)
    central = layer.activate(value)
    steep = 2.0 * (layer.steepest + np.abs(above) + np.abs(below))
    room = steep * (8.0 * UNIT * np.maximum(np.abs(low), np.abs(high)) + off)
    wide = middle.astype(np.float64)
    most, least = wide + half, wide - half
    over = np.maximum(ends[0] - most * low, ends[1] - most * high)
    under = np.minimum(ends[0] - least * low, ends[1] - least * high)
    over = np.where(is_open, np.maximum(over, 0.0), over) - (central - most * value)
    under = np.where(is_open, np.minimum(under, 0.0), under) - (central - least * value)
    return TwoLines.of(middle, half, (under - room, over + room), pace, unit)
