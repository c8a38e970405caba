r"""Piecewise-linear relaxations of smooth units: bands over segments, which contain the graph.

The certified range of a pre-activation is cut into segments [t_j, t_{j+1}].  On each of them the
activation lies in a band that is proved in real arithmetic (`lipyomo.networks.activations`),

    s_j z + lo_j <= sigma(z) <= s_j z + hi_j,

so that the union of the bands contains the graph.  It is written as one mixed-integer model, whose
linear relaxation is the convex hull of the union (Jeroslow and Lowe, 1984; the multiple choice
model of Vielma, Ahmed and Nemhauser, 2010): with binaries b_j and parts z_j of z,

    sum_j b_j = 1,    sum_j z_j = z,    t_j b_j <= z_j <= t_{j+1} b_j,
    sum_j (s_j z_j + lo_j b_j) <= y <= sum_j (s_j z_j + hi_j b_j).

All coefficients are the numbers for which the bands are proved: nothing is rounded on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.blocks.assemble import Rows, add_variables
from lipyomo.networks.activations import Activation


@dataclass(frozen=True)
class Segment:
    """A piece of a unit's range and the band that holds the activation there."""

    low: float
    high: float
    slope: float
    below: float
    above: float

    @property
    def gap(self) -> float:
        """Height of the band."""
        return self.above - self.below


def segments_of(
    activation: Activation, low: FloatArray, high: FloatArray, count: int
) -> list[list[Segment]]:
    """Segments of units with bands of an activation, from left to right.

    The segment with the highest band is cut in two, at a break if one lies inside, otherwise in the
    middle, until there are `count`.  Heights of bands fall with the square of the length.  Ranges
    that floats or straight pieces leave nothing to refine in get fewer segments.

    Parameters
    ----------
    activation : Activation
    low, high : ndarray, shape (n,)
        Finite bounds of the pre-activations.
    count : int
        At least 1.
    """
    found = [[whole] for whole in _banded(activation, low, high)]
    for _ in range(count - 1):
        cuts = [_next_cut(activation, segments) for segments in found]
        units = [k for k, cut in enumerate(cuts) if cut is not None]
        if not units:
            break
        places = [cut for cut in cuts if cut is not None]
        old = [found[k][j] for k, (j, _) in zip(units, places, strict=True)]
        middles = np.array([at for _, at in places])
        left = _banded(activation, np.array([segment.low for segment in old]), middles)
        right = _banded(activation, middles, np.array([segment.high for segment in old]))
        for k, (j, _), *halves in zip(units, places, left, right, strict=True):
            found[k][j : j + 1] = halves
    return found


def _banded(activation: Activation, low: FloatArray, high: FloatArray) -> list[Segment]:
    one, zero = np.ones(len(low)), np.zeros(len(low))
    bands = activation.lines(one, zero, low, high)
    columns = (np.broadcast_to(part, len(low)).tolist() for part in (low, high, *bands))
    return [Segment(*numbers) for numbers in zip(*columns, strict=True)]


def _next_cut(activation: Activation, segments: list[Segment]) -> tuple[int, float] | None:
    """The segment to cut, and where; None if there is nothing to gain."""
    for j in sorted(range(len(segments)), key=lambda i: -segments[i].gap):
        low, high = segments[j].low, segments[j].high
        inside = [at for at in activation.breaks if low < at < high]
        middle = inside[0] if inside else low + 0.5 * (high - low)
        if low < middle < high and segments[j].gap > EQUAL * (abs(low) + abs(high) + 1.0):
            return j, middle
    return None


def add_bands(
    block: object, z: dict[int, object], y: dict[int, object], segments: dict[int, list[Segment]]
) -> None:
    """Declare rows that hold each unit's output y in the bands over its segments.

    Units with one segment need neither binaries nor parts.

    Parameters
    ----------
    block : BlockData
        Of the layer.
    z, y : dict
        Variables of pre-activations and outputs by unit.
    segments : dict
        By unit.
    """
    keys = sorted(segments)
    several = [k for k in keys if len(segments[k]) > 1]
    pairs = [(k, j) for k in several for j in range(len(segments[k]))]
    flat = [segments[k][j] for k, j in pairs]
    chosen = add_variables(block, "segment", pairs, binary=True)
    ends = np.array([(min(s.low, 0.0), max(s.high, 0.0)) for s in flat]).reshape(-1, 2)
    parts = add_variables(block, "part", pairs, ends[:, 0], ends[:, 1])
    from_, to = (Rows(block, name, pairs) for name in ("part_from", "part_to"))
    for pair, part, b, segment in zip(pairs, parts, chosen, flat, strict=True):
        from_.at_least(pair, [1.0, -segment.low], [part, b], 0.0)
        to.at_most(pair, [1.0, -segment.high], [part, b], 0.0)
    binary, piece = dict(zip(pairs, chosen, strict=True)), dict(zip(pairs, parts, strict=True))
    one, whole = Rows(block, "one_segment", several), Rows(block, "whole", several)
    above, below = Rows(block, "band_above", keys), Rows(block, "band_below", keys)
    for k in keys:
        own = segments[k]
        if len(own) == 1:
            (only,) = own
            above.at_most(k, [1.0, -only.slope], [y[k], z[k]], only.above)
            below.at_least(k, [1.0, -only.slope], [y[k], z[k]], only.below)
            continue
        bs = [binary[k, j] for j in range(len(own))]
        zs = [piece[k, j] for j in range(len(own))]
        one.equal(k, [1.0] * len(own), bs, 1.0)
        whole.equal(k, [1.0, *[-1.0] * len(own)], [z[k], *zs], 0.0)
        slopes = [-segment.slope for segment in own]
        for rows, heights in (
            (above.at_most, [-segment.above for segment in own]),
            (below.at_least, [-segment.below for segment in own]),
        ):
            rows(k, [1.0, *slopes, *heights], [y[k], *zs, *bs], 0.0)
