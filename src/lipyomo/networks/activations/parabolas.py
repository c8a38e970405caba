"""Parabolas that enclose ``F = A sigma + c sigma'`` on an interval: bands of one order more.

For any numbers f and k, and with the slope s of the chord of ``G = F - k (z - f)**2 / 2``,

    under <= F(z) - s z - k (z - f)**2 / 2 <= over.

Here k is twice the second divided difference of F at both ends and near the middle, which equals
F'' at some point, so that the parabola varies no more than F itself where F'' is steep.  On pieces
of the interval the distance of G from its chord is at most the parabola of
`lipyomo.networks.activations.bands`, with F'' - k in place of F''.  As F'' - k is O(w) for a width
w, the excess is O(w**3).  Intervals that contain a break have k = 0 and the band.

Rounding is that of bands; ``k (z - f)**2 / 2`` is off by 8 u relative.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.networks.activations.bands import Cut, Samples, arch, band, chord, off_by
from lipyomo.networks.activations.branch import Sums

PIECES = 3
"""Smallest number of pieces: for a cubic the excess is within a quarter of its minimum with three
pieces, and eight times as large with one."""


def parabola(
    cut: Cut, sums: Sums, f: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return (s, k, under, over) of sums with equal subdivisions, with one point f each."""
    if len(cut.branches) > 1:
        s, under, over = band(cut, sums)
        return s, np.zeros_like(s), under, over
    unit, pieces = UNIT_ROUNDOFF, max(PIECES, cut.pieces)
    part = Samples.of(cut.branches[0], sums, cut._replace(pieces=pieces))
    ranges = [part.range_and_room(n) for n in range(len(part.z) - 1)]
    k = _bend(part, ranges)
    away = [z - f for z in part.z]
    G = [F - 0.5 * k * d * d for F, d in zip(part.values, away, strict=True)]
    first, last = (part.slope(end) - k * away[end] for end in (0, -1))
    s = chord(sums, (G[0], G[-1]), (first, last))
    H = [value - s * z for value, z in zip(G, part.z, strict=True)]
    under, over = np.full_like(s, np.inf), np.full_like(s, -np.inf)
    for n, (below, above, room) in enumerate(ranges):
        width = part.z[n + 1] - part.z[n]
        half = width * width * (0.5 + 8 * unit)
        room = room + 4 * unit * np.abs(k)
        less = room + k - below + 4 * unit * np.abs(below)
        more = room + above - k + 4 * unit * np.abs(above)
        mean, drop = 0.5 * (H[n] + H[n + 1]), np.abs(H[n + 1] - H[n])
        np.maximum(over, mean + arch(np.maximum(less, 0.0) * half, drop), out=over)
        np.minimum(under, mean - arch(np.maximum(more, 0.0) * half, drop), out=under)
    size = np.maximum(np.abs(away[0]), np.abs(away[-1]))
    off = off_by(part, s) + 16 * unit * np.abs(k) * size * size
    return s, k, under - off, over + off


def _bend(part: Samples, ranges: Sequence[tuple[FloatArray, ...]]) -> FloatArray:
    """Return k of each interval, clipped to the range of F'' as differences may be noise."""
    least = np.minimum.reduce([below for below, *_ in ranges])
    most = np.maximum.reduce([above for _, above, _ in ranges])
    places = 0, len(part.z) // 2, -1
    (a, b, c), (start, middle, end) = ([one[n] for n in places] for one in (part.z, part.values))
    k = 2.0 * ((end - middle) / (c - b) - (middle - start) / (b - a)) / (c - a)
    k = np.clip(np.where(np.isfinite(k), k, 0.5 * least + 0.5 * most), least, most)
    return np.where(np.isfinite(k), k, 0.0)
