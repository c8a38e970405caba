"""Ranges of pre-activations on boxes, and the slopes that their units may have there.

A unit is on a side of its kink where a split, an earlier box or its range says so; others are open.
Ranges are those of intervals, from layer to layer; those of units that are open then are also
found by going backwards through two lines of each unit (`lipyomo_check.smooth.two_lines`).

Rounding is that of `lipyomo_check.smooth.bound`: what a row errs by is a share gamma of its mass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo_check.smooth.balls import outwards
from lipyomo_check.smooth.boxes import Ball, Ends, middles
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.halfspaces import UNDERFLOW
from lipyomo_check.smooth.kind import Bools
from lipyomo_check.smooth.levels import Indices, Level
from lipyomo_check.smooth.two_lines import TIE, TwoLines, ends_by_lines

LEFT, OPEN, RIGHT = -1, 0, 1
"""Sides of a kink."""

Sides = npt.NDArray[np.int8]


class Kinks(NamedTuple):
    """A hidden layer: its weights, the slopes of its units, and which of them have two."""

    level: Level
    left: Array
    right: Array

    @property
    def two(self) -> Bools:
        """Which units have two slopes."""
        return np.asarray(self.left != self.right)


@dataclass(frozen=True, eq=False)
class Units:
    """A layer's units on N boxes: arrays (N, n).

    Attributes
    ----------
    low, high : ndarray
        Ends of pre-activations; in the wrong order where no point is left.
    sides : ndarray of int8
        Where they are known; all units with one slope are on the right.
    middle, reach : ndarray
        Their slopes are within ``middle +- reach``.
    """

    low: Array
    high: Array
    sides: Sides
    middle: Array
    reach: Array

    @classmethod
    def of(cls, kinks: Kinks, z: Ends, sides: Sides) -> Units:
        """Make the units from ranges and the known sides."""
        low = np.where(kinks.two & (sides == RIGHT), np.maximum(z[0], 0.0), z[0])
        high = np.where(kinks.two & (sides == LEFT), np.minimum(z[1], 0.0), z[1])
        found = _decided(low, high, sides)
        least, most = np.minimum(kinks.left, kinks.right), np.maximum(kinks.left, kinks.right)
        own = np.where(found == RIGHT, kinks.right, kinks.left)
        steep = np.maximum(np.abs(least), np.abs(most))
        open_ = found == OPEN
        middle = np.where(open_, 0.5 * (least + most), own)
        reach = np.where(open_, 0.5 * (most - least) + 2.0 * ULP * steep, 0.0)
        return cls(low, high, found, middle, reach)

    def take(self, which: Indices) -> Units:
        """Select the units of some boxes."""
        slopes = self.middle[which], self.reach[which]
        return Units(self.low[which], self.high[which], self.sides[which], *slopes)

    def lines(self, kinks: Kinks, size: Array) -> TwoLines:
        """Return lines above and below the units, whose pre-activations have terms of such sizes.

        The chord of an open unit has room for what it rounds.
        """
        low, high, left, right = self.low, self.high, kinks.left, kinks.right
        open_ = self.sides == OPEN
        own = np.where(self.sides == LEFT, left, right)
        ends = left * low, right * high
        slope = (ends[1] - ends[0]) / np.where(open_, high - low, 1.0)
        parts = ends[0] - slope * low, ends[1] - slope * high
        largest = np.maximum(*map(np.abs, ends)) + np.abs(slope) * (np.abs(low) + np.abs(high))
        room = 8.0 * ULP * largest
        through = np.where(high > -low * (1.0 + TIE), right, left)
        convex = left < right
        zero = np.zeros_like(low)
        above, below = np.maximum(*parts) + room, np.minimum(*parts) - room
        rise = np.where(open_, np.where(convex, slope, through), own)
        fall = np.where(open_, np.where(convex, through, slope), own)
        above = np.where(open_ & convex, above, zero)
        below = np.where(open_ & ~convex, below, zero)
        steep = np.maximum(np.abs(rise), np.abs(fall))
        sizes = np.maximum(np.abs(above), np.abs(below)) + steep * size
        return TwoLines(rise, above, fall, below, sizes)

    def outputs(self, kinks: Kinks) -> Ball:
        """Return ranges of their outputs."""
        ends = []
        for z in (self.low, self.high):
            side = np.where(self.sides == OPEN, np.where(z < 0.0, LEFT, RIGHT), self.sides)
            ends.append(np.where(side == LEFT, kinks.left, kinks.right) * z)
        low, high = np.minimum(*ends), np.maximum(*ends)
        open_ = self.sides == OPEN
        low, high = (
            np.where(open_, f(end, 0.0), end) for f, end in ((np.minimum, low), (np.maximum, high))
        )
        return middles(low - 4.0 * ULP * np.abs(low), high + 4.0 * ULP * np.abs(high))


def _decided(low: Array, high: Array, sides: Sides) -> Sides:
    """Return sides, with those that ranges decide."""
    found = np.where(high <= 0.0, LEFT, OPEN)
    found = np.where(low >= 0.0, RIGHT, found)
    return np.where(sides == OPEN, found, sides).astype(np.int8)


def units_on(
    hidden: list[Kinks], low: Array, high: Array, sides: Sides, gamma: float
) -> list[Units]:
    """Return the units of all hidden layers on boxes, whose sides (N, units) are partly known."""
    x = h = middles(low, high)
    found: list[Units] = []
    lines: list[TwoLines] = []
    levels = [kinks.level for kinks in hidden]
    end = 0
    for i, kinks in enumerate(hidden):
        level = kinks.level
        start, end = end, end + len(level.weight)
        z, size = _natural(level, h, gamma)
        own = sides[:, start:end]
        open_ = _decided(*z, own) == OPEN
        if i and open_.any():
            pick = np.flatnonzero(open_.any(axis=0))
            back = ends_by_lines(levels[: i + 1], lines, x, gamma, pick)
            z = z[0].copy(), z[1].copy()
            for side, other, meet in zip(z, back, (np.maximum, np.minimum), strict=True):
                side[:, pick] = np.where(open_[:, pick], meet(side[:, pick], other), side[:, pick])
        found.append(Units.of(kinks, outwards(*z), own))
        if i + 1 < len(hidden):
            lines.append(found[-1].lines(kinks, size))
            h = found[-1].outputs(kinks)
    return found


def _natural(level: Level, signal: Ball, gamma: float) -> tuple[Ends, Array]:
    """Return interval bounds of pre-activations, and sizes of all that they are made of."""
    centre, reach = signal
    middle, radius = centre @ level.weight.T + level.bias, reach @ level.sizes.T
    size = np.abs(centre) @ level.sizes.T + radius + np.abs(level.bias)
    radius = radius + (gamma * size + UNDERFLOW)
    return (middle - radius, middle + radius), size
