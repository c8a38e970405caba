"""Units on pieces of their ranges once more in Arb: the formulas of `lines`, from definitions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from flint import arb

from lipyomo_check.smooth.balls import Range, overlap
from lipyomo_check.smooth.definitions import Unit
from lipyomo_check.smooth.kind import Kind
from lipyomo_check.smooth.lines import CHORD, Samples
from lipyomo_check.smooth.strict_factors import around


class Piece(NamedTuple):
    """A unit's functions on one piece of its range."""

    ends: tuple[float, float]
    values: tuple[arb, arb]
    slopes: tuple[arb, arb]
    centre: tuple[arb, arb]
    share: arb
    second: Range
    third: Range


def pieces_of(unit: Unit, low: float, high: float) -> list[Piece]:
    """Return a unit's functions on the pieces that `lines` takes."""
    samples = Samples.of(unit.kind, np.array([low]), np.array([high]))
    ends = samples.ends[:, 0].tolist()
    step = 2 if unit.kind.breaks else 1
    found = []
    for n, (a, b) in enumerate(zip(ends[:-1:step], ends[1::step], strict=True)):
        sides = tuple(bool(side[n, 0]) for side in samples.right)
        start, end = unit.at(a, sides, 2), unit.at(b, sides, 2)
        centre = a + (b - a) / 2.0
        _, one, two, three = unit.at(centre, sides, 4)
        if unit.kind.inside is None:
            bends = _near(unit, (a, centre, b), two, three)
        else:
            bends = _between(unit, a, b, sides)
        values, slopes = (start[0], end[0]), (start[1], end[1])
        share = (arb(b) - arb(a)) ** 2 / 8
        found.append(Piece((a, b), values, slopes, (one, two), share, *bends))
    return found


def _near(
    unit: Unit, places: tuple[float, float, float], two: arb, three: arb
) -> tuple[Range, Range]:
    """Return bounds of the second and third derivative on a piece, from those in its middle."""
    a, centre, b = map(arb, places)
    second, third, fourth = map(arb, unit.kind.bounds)
    half = (b - centre).max(centre - a)
    reach = half * (abs(three) + half * fourth / 2).min(third)
    return overlap((two, reach), (arb(0), second)), overlap((three, half * fourth), (arb(0), third))


def _between(unit: Unit, a: float, b: float, sides: tuple[bool, ...]) -> tuple[Range, Range]:
    """Do the same of a kind whose derivatives are monotone on either side of zero."""
    assert unit.kind.inside is not None
    if not unit.kind.inside(np.array(a), np.array(b)):
        nowhere = arb(0), arb(math.inf)
        return nowhere, nowhere
    ends = unit.at(a, sides, 4), unit.at(b, sides, 4)
    found = []
    for n in (2, 3):
        low, high = ends[0][n].min(ends[1][n]), ends[0][n].max(ends[1][n])
        if a < 0.0 < b:
            low, high = low.min(arb(0)), high.max(arb(0))
        found.append(around((low, high)))
    return found[0], found[1]


def chord(kind: Kind, pieces: list[Piece], A: arb, c: arb, flat: bool = False) -> arb:
    """Return a slope, as `lines` chooses it."""
    c = arb(0) if flat else c
    first, last = pieces[0], pieces[-1]
    low, high = first.ends[0], last.ends[1]
    width = high - low
    if width > CHORD * (min(abs(low), abs(high)) if kind.geometric else 1.0):
        rise = A * (last.values[1] - first.values[0]) + c * (last.slopes[1] - first.slopes[0])
        found = float(rise) / width
    else:
        one, two = pieces[len(pieces) // 2].centre
        found = float(A * one + c * two)
    return arb(found if math.isfinite(found) else 0.0)


def _beyond(apart: arb, height: arb) -> arb:
    """Return how far chord plus parabola exceed both ends, as in `lines`."""
    if not height > 0:
        return height
    # the least quotient: that of a ball around zero and of next to nothing would be all numbers
    return height * (1 - apart.abs_lower() / height).max(arb(0)) ** 2


def extremes(pieces: list[Piece], A: arb, c: arb, s: arb) -> Range:
    """Return middle and radius of what holds ``A sigma(z) + c sigma'(z) - s z`` on all pieces."""
    low, high = arb(math.inf), arb(-math.inf)
    for piece in pieces:
        sides = zip(piece.ends, piece.values, piece.slopes, strict=True)
        start, end = (A * value + c * slope - s * arb(z) for z, value, slope in sides)
        bend = A * piece.second[0] + c * piece.third[0]
        spread = abs(A) * piece.second[1] + abs(c) * piece.third[1]
        heights = [piece.share * (spread + side).max(arb(0)) for side in (bend, -bend)]
        heights = [_beyond(abs(start - end) / 4, height) for height in heights]
        low = low.min(start.min(end) - heights[0])
        high = high.max(start.max(end) + heights[1])
    middle = arb(float((low + high) / 2))
    return middle, (high - middle).max(middle - low)
