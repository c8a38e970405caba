"""Bands: two parallel lines that enclose ``F = A sigma + c sigma'`` on an interval.

The slope s of both lines is that of the chord, unless another is given; it remains to bound
G = F - s z.  The interval is cut into a few pieces.  On a piece [a, b] of length h on which
F'' >= -k (k >= 0), G lies below the chord of its own ends plus ``k (z - a) (b - z) / 2``; the
maximum of that parabola is

    (G(a) + G(b)) / 2 + (Q + D**2 / Q) / 4,    D = G(b) - G(a),  Q = max(k h**2 / 2, |D|),

and likewise from below.  F'' is enclosed by the ranges of the second and third derivative of the
activation.  This is exact where F'' is constant, so that the band is as narrow as a band around the
chord can be, up to the third order in the width.  An exponential or a line needs no pieces: its
extremes have a closed form (`Branch.inner`).  On wide intervals, bounds by the range of F', and by
the ranges of F and s z, are used where they are tighter.

Rounding.  G is computed at the ends of pieces, which are float64 numbers: a value is off by the
error of `Branch.jet` (relative r, absolute e), and by four more operations; all that is below

    (r + 8 u) (|A sigma| + |c sigma'|) + |A| e + |c| e' + 8 u |s z|.

Enclosures of F'' are off by ``(r + 4 u) |A| sup|sigma''| + |A| e``, and c times sigma''' likewise;
k is enlarged by as much, and so are the ends of the range of F'.  The few operations of the formula
above are covered by further multiples of u, and h**2 by one more factor.  The bounds hold for every
s, so its rounding does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.rounding import UNDERFLOW, UNIT, UNIT_ROUNDOFF
from lipyomo.networks.activations.branch import Branch, Sums
from lipyomo.networks.activations.rounding import Error

Band = tuple[FloatArray, FloatArray, FloatArray]
"""Slope, lower and upper offset."""

NARROW = float(np.cbrt(UNIT))
"""Width w below which s is the mean of the slopes at both ends instead of the chord's slope: they
differ by about w**2, but difference quotients have an error of a rounding over w."""

PIECES = (0.02, 1), (0.15, 2), (1.0, 4), (np.inf, 6)
"""Widths, in units of `Branch.unit`, with the number of pieces for intervals up to that width.  The
relative excess width of a band, as F'' is not constant, is about the width over the cube of this
number; the time is proportional to it.  Intervals of the last row count as wide."""


class Cut(NamedTuple):
    """Intervals with the same branches and number of pieces, by their positions.

    Wide ones are cut more finely near zero, and the ranges of F and F' on their pieces are used.
    """

    where: IntArray
    branches: tuple[Branch, ...]
    pieces: int
    wide: bool


_Hull = tuple[FloatArray, Error, tuple[FloatArray, FloatArray]]
"""A factor, with the error bound and the range of the derivative that it multiplies."""


@dataclass(frozen=True, eq=False)
class Samples:
    """F at the ends of the pieces of intervals, which lie inside one branch.

    Attributes
    ----------
    branch : Branch
    sums : Sums
    z : list of ndarray
        Ends of pieces, in order.
    jets : list of tuples of ndarray
        Derivatives there.
    values : list of ndarray
        F there.
    size : ndarray
        Largest ``|A sigma| + |c sigma'|``.
    """

    branch: Branch
    sums: Sums
    z: list[FloatArray]
    jets: list[tuple[FloatArray, ...]]
    values: list[FloatArray]
    size: FloatArray

    @classmethod
    def of(cls, branch: Branch, sums: Sums, cut: Cut) -> Samples:
        """Sample the pieces of a cut, or whole intervals if these need no pieces."""
        whole = branch.whole and cut.pieces == 1
        z = [sums.low, sums.high] if whole else places(sums, cut)
        jets = [branch.jet(at, 3) for at in z]
        values, size = [], np.zeros_like(sums.low)
        for jet in jets:
            left, right = sums.A * jet[0], sums.c * jet[1]
            values.append(left + right)
            np.maximum(size, np.abs(left) + np.abs(right), out=size)
        return cls(branch, sums, z, jets, values, size)

    def slope(self, end: int) -> FloatArray:
        """F' at the first (0) or last (-1) place."""
        return self.sums.of(*self.jets[end][1:3])

    def range(self, k: int, order: int) -> tuple[FloatArray, FloatArray]:
        """Range of a derivative of F on the k-th piece, less its error (`room`)."""
        return self._sum(self._hulls(k, order))

    def range_and_room(self, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the range of F'' on the k-th piece, and its error, which is less than `room`."""
        hulls = self._hulls(k, 2)
        room = UNDERFLOW * ((self.sums.A != 0.0) | (self.sums.c != 0.0))
        for factor, error, ends in hulls:
            relative = error.relative + 4 * UNIT_ROUNDOFF
            largest = np.maximum(np.abs(ends[0]), np.abs(ends[1])) * (1.0 + 2.0 * relative)
            off = relative * (largest + error.absolute) + error.absolute
            room = room + np.abs(factor) * off
        return *self._sum(hulls), room

    def _sum(self, hulls: Sequence[_Hull]) -> tuple[FloatArray, FloatArray]:
        least = most = np.zeros_like(self.sums.low)
        for factor, _, ends in hulls:
            one, other = factor * ends[0], factor * ends[1]
            least, most = least + np.minimum(one, other), most + np.maximum(one, other)
        return least, most

    def _hulls(self, k: int, order: int) -> list[_Hull]:
        """Return A and c with the errors and ranges on the k-th piece of their derivatives."""
        a, b = self.z[k : k + 2]
        return [
            (
                factor,
                self.branch.errors[of],
                self.branch.hull(of, a, b, self.jets[k][of], self.jets[k + 1][of]),
            )
            for factor, of in ((self.sums.A, order), (self.sums.c, order + 1))
            if factor.any()
        ]

    def room(self, order: int) -> FloatArray:
        """Return the error bound of `range`, underflow included."""
        A, c, branch = self.sums.A, self.sums.c, self.branch
        value, slope = (
            (error.relative + 4 * UNIT_ROUNDOFF) * branch.largest(k) + error.absolute
            for k, error in enumerate(branch.errors[order : order + 2], order)
        )
        room = np.abs(A) * value
        room += np.abs(c) * slope
        return np.asarray(room + UNDERFLOW * ((A != 0.0) | (c != 0.0)))


def places(sums: Sums, cut: Cut) -> list[FloatArray]:
    """Ends of pieces, in order: even in z, or in z / (1 + |z|) on wide intervals."""
    low, high = sums.low, sums.high
    shares = [k / cut.pieces for k in range(1, cut.pieces)]
    if cut.wide:
        first, last = low / (1.0 + np.abs(low)), high / (1.0 + np.abs(high))
        bent = [first + share * (last - first) for share in shares]
        inner = [y / (1.0 - np.abs(y)) for y in bent]
    else:
        width = high - low
        inner = [low + share * width for share in shares]
    found = [low]
    for z in inner:
        found.append(np.minimum(np.maximum(z, found[-1]), high))
    return [*found, high]


def cuts(branches: tuple[Branch, ...], low: FloatArray, high: FloatArray) -> list[Cut]:
    """Group intervals by their branches and numbers of pieces."""
    mixed = np.ones(low.shape, dtype=bool)
    groups = []
    for branch in branches if len(branches) > 1 else ():
        alone = (low >= branch.low) & (high <= branch.high)
        alone &= (low < high) | ((low > branch.low) & (high < branch.high))
        mixed &= ~alone
        groups.append(((branch,), alone))
    found = []
    for members, among in (*groups, (branches, mixed)):
        unit: float | FloatArray = min(branch.unit for branch in members)
        if len(members) == 1:
            unit = members[0].units(low, high)
        if all(branch.whole for branch in members):
            found.append(Cut(np.flatnonzero(among), members, 1, False))
            continue
        kind = np.searchsorted([at for at, _ in PIECES[:-1]], (high - low) / unit)
        for place, (_, pieces) in enumerate(PIECES):
            where = np.flatnonzero(among & (kind == place))
            if where.size:
                found.append(Cut(where, members, pieces, place == len(PIECES) - 1))
    return found


def offsets(samples: Samples, s: FloatArray, wide: bool) -> tuple[FloatArray, FloatArray]:
    """Return sound bounds of ``G = F - s z`` on the intervals of samples."""
    branch, sums = samples.branch, samples.sums
    G = [value - s * z for value, z in zip(samples.values, samples.z, strict=True)]
    inner = branch.inner(sums, s)
    if inner is None:
        least, greatest = _on_pieces(samples, s, G, wide)
    else:
        least = np.minimum(np.minimum(G[0], G[-1]), inner[0])
        greatest = np.maximum(np.maximum(G[0], G[-1]), inner[1])
    off = off_by(samples, s)
    return least - off, greatest + off


def off_by(samples: Samples, s: FloatArray) -> FloatArray:
    """Bound the errors of computed values of ``F - s z`` at the ends of pieces."""
    unit, branch, sums = UNIT_ROUNDOFF, samples.branch, samples.sums
    first, slope = (branch.errors[k] for k in (0, 1))
    relative = max(first.relative, slope.relative) + 16 * unit
    turned = max((abs(turn.value) for turn in branch.turns[0]), default=0.0)
    off = relative * samples.size
    off += np.abs(sums.A) * (first.absolute + relative * turned + UNDERFLOW)
    off += np.abs(sums.c) * (slope.absolute + relative * branch.largest(1) + UNDERFLOW)
    off += 16 * unit * np.abs(s) * sums.sizes
    off += UNDERFLOW * ((sums.A != 0.0) | (sums.c != 0.0) | (s != 0.0))
    return np.asarray(off)


def _on_pieces(
    samples: Samples, s: FloatArray, G: list[FloatArray], wide: bool
) -> tuple[FloatArray, FloatArray]:
    """Bound G by the parabolas of all pieces, without the rounding of values."""
    unit, steep = UNIT_ROUNDOFF, samples.branch.steep
    room = samples.room(2)
    least, greatest = np.full_like(s, np.inf), np.full_like(s, -np.inf)
    for k in range(len(samples.z) - 1):
        h = samples.z[k + 1] - samples.z[k]
        if steep:
            below, above, room = samples.range_and_room(k)
        else:
            below, above = samples.range(k, 2)
        half = h * h * (0.5 + 8 * unit)
        mean = 0.5 * (G[k] + G[k + 1])
        drop = np.abs(G[k + 1] - G[k])
        up = mean + arch(np.maximum(room - below, 0.0) * half, drop)
        down = mean - arch(np.maximum(room + above, 0.0) * half, drop)
        if wide and not samples.branch.whole:
            over, under = _coarse(samples, s, G, k)
            up, down = np.fmin(up, over), np.fmax(down, under)
        np.maximum(greatest, up, out=greatest)
        np.minimum(least, down, out=least)
    return least, greatest


def arch(curved: FloatArray, drop: FloatArray) -> FloatArray:
    """Return the height of a parabola above the middle of its chord: ``(Q + D**2 / Q) / 4``."""
    q = np.maximum(curved, drop)
    return np.asarray((q + drop * (drop / np.maximum(q, UNDERFLOW))) * (0.25 + 4 * UNIT_ROUNDOFF))


def _coarse(
    samples: Samples, s: FloatArray, G: list[FloatArray], k: int
) -> tuple[FloatArray, FloatArray]:
    """Bound G from above and below on a wide piece by the ranges of F and F'."""
    a, b = samples.z[k : k + 2]
    under, over = samples.range(k, 0)
    room = samples.room(1) + 4 * UNIT_ROUNDOFF * np.abs(s)
    falls, rises = samples.range(k, 1)
    h = (b - a) * (1 + 8 * UNIT_ROUNDOFF)
    rise, fall = np.maximum(rises - s + room, 0.0) * h, np.minimum(falls - s - room, 0.0) * h
    up = np.minimum(G[k] + rise, G[k + 1] - fall)
    down = np.maximum(G[k] + fall, G[k + 1] - rise)
    ends = s * a, s * b
    return np.fmin(up, over - np.minimum(*ends)), np.fmax(down, under - np.maximum(*ends))


def band(cut: Cut, sums: Sums) -> Band:
    """Compute bands of sums with equal subdivisions."""
    if len(cut.branches) == 1:
        part = Samples.of(cut.branches[0], sums, cut)
        s = sums.slope
        if s is None:
            ends = part.values[0], part.values[-1]
            s = chord(sums, ends, (part.slope(0), part.slope(-1)))
        return s, *offsets(part, s, cut.wide)
    parts, held = [], []
    for branch in cut.branches:
        first, last, here = share(branch, sums.low, sums.high)
        parts.append(Samples.of(branch, sums._replace(low=first, high=last), cut))
        held.append(here)
    s = _chord_of(sums, parts, held) if sums.slope is None else sums.slope
    least, greatest = np.full_like(s, np.inf), np.full_like(s, -np.inf)
    for part, here in zip(parts, held, strict=True):
        under, over = offsets(part, s, cut.wide)
        np.minimum(least, np.where(here, under, np.inf), out=least)
        np.maximum(greatest, np.where(here, over, -np.inf), out=greatest)
    return s, least, greatest


def _chord_of(sums: Sums, parts: Sequence[Samples], held: Sequence[BoolArray]) -> FloatArray:
    """Slopes of chords over several branches."""
    start, end, rise, fall = (np.zeros_like(sums.low) for _ in range(4))
    for part, here in zip(parts, held, strict=True):
        np.copyto(end, part.values[-1], where=here)
        np.copyto(fall, part.slope(-1), where=here)
    for part, here in zip(reversed(parts), reversed(held), strict=True):
        np.copyto(start, part.values[0], where=here)
        np.copyto(rise, part.slope(0), where=here)
    return chord(sums, (start, end), (rise, fall))


Ends = tuple[FloatArray, FloatArray]
"""A number at the lower and at the upper end of each interval."""


def chord(sums: Sums, values: Ends, slopes: Ends) -> FloatArray:
    """Slopes of chords from F and F' at both ends."""
    width = sums.high - sums.low
    wide = width > NARROW
    (start, end), (rise, fall) = values, slopes
    s = np.where(wide, (end - start) / np.where(wide, width, 1.0), 0.5 * (rise + fall))
    return np.where(np.isfinite(s), s, 0.0)


def share(
    branch: Branch, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Intersect intervals with a branch: both ends, and whether it is more than an end point.

    An interval of one point belongs to all branches that contain it.
    """
    first = np.clip(low, branch.low, branch.high)
    last = np.clip(high, branch.low, branch.high)
    held = (low < branch.high) & (high > branch.low)
    held |= (low == high) & (low >= branch.low) & (low <= branch.high)
    return first, last, held
