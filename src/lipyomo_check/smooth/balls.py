"""Numbers, ranges and matrices of Arb, for what is computed once more in it.

Ranges are pairs of a middle and a radius, which are numbers of Arb themselves: the radius that such
a number has of its own has 30 bits only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from flint import arb, arb_mat

from lipyomo_check.smooth.elementary import Array

Numbers = list[arb]
Range = tuple[arb, arb]
Ranges = tuple[Numbers, Numbers]
"""Middles and radii."""


def affine_range(weight: arb_mat, signal: Ranges, bias: Numbers | None = None) -> Ranges:
    """Return ranges of ``W h + b``."""
    middle = product(weight, signal[0])
    return middle if bias is None else added(middle, bias), product(absolute(weight), signal[1])


def meet(one: Ranges, other: Ranges) -> Ranges:
    """Return the intersection of two ranges."""
    own, others = zip(*one, strict=True), zip(*other, strict=True)
    return unzipped(overlap(a, b) for a, b in zip(own, others, strict=True))


def are_apart(one: Ranges, other: Ranges) -> bool:
    """Return whether two ranges are surely disjoint."""
    own, others = zip(*one, strict=True), zip(*other, strict=True)
    gaps = (abs(a[0] - b[0]) - a[1] - b[1] for a, b in zip(own, others, strict=True))
    return any(gap > 0 for gap in gaps)


def overlap(one: Range, other: Range) -> Range:
    """Do the same of two single ranges."""
    low = (one[0] - one[1]).max(other[0] - other[1])
    high = (one[0] + one[1]).min(other[0] + other[1])
    return (low + high) / 2, ((high - low) / 2).max(arb(0))


def ranges_of(low: Array, high: Array) -> Ranges:
    """Return ranges between ends."""
    pairs = [(arb(a), arb(b)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    return [(a + b) / 2 for a, b in pairs], [(b - a) / 2 for a, b in pairs]


def floats_around(middle: arb, radius: arb) -> tuple[float, float]:
    """Return floats around a range."""
    low, high = float((middle - radius).lower()), float((middle + radius).upper())
    return math.nextafter(low, -math.inf), math.nextafter(high, math.inf)


def unzipped(ranges: Iterable[Range]) -> Ranges:
    """Return single ranges as middles and radii."""
    pairs = list(ranges)
    return [a for a, _ in pairs], [b for _, b in pairs]


def spread(row: Numbers, reach: Numbers) -> arb:
    """Return the sum of absolute values of a row times the radii of a box."""
    return sum((abs(a) * r for a, r in zip(row, reach, strict=True)), arb(0))


def largest_value(row: Numbers, signal: Ranges) -> arb:
    """Return the largest value of a linear function."""
    terms = (a * m + abs(a) * r for a, m, r in zip(row, *signal, strict=True))
    return sum(terms, arb(0))


def matrix_of(rows: Array) -> arb_mat:
    """Return an array of floats as it is."""
    return arb_mat(rows.tolist())


def product(rows: arb_mat, values: Numbers) -> Numbers:
    """Return a matrix times a vector."""
    found: Numbers = (rows * arb_mat([[value] for value in values])).entries()
    return found


def absolute(rows: arb_mat) -> arb_mat:
    """Return absolute values."""
    return arb_mat(rows.nrows(), rows.ncols(), [abs(a) for a in rows.entries()])


def columns_times(rows: arb_mat, factors: Numbers) -> arb_mat:
    """Return columns times factors."""
    n = rows.ncols()
    entries = [a * factors[k % n] for k, a in enumerate(rows.entries())]
    return arb_mat(rows.nrows(), n, entries)


def added(one: Numbers, other: Numbers) -> Numbers:
    """Return the sum of two vectors."""
    return [a + b for a, b in zip(one, other, strict=True)]
