r"""Piecewise-linear relaxations of smooth units: bands over segments, which contain the graph.

The certified range of a pre-activation is cut into segments [t_j, t_{j+1}], over each of which a
band ``s_j z + lo_j <= y <= s_j z + hi_j`` contains the activation
(`lipyomo.networks.activations.segments`).  The union of the bands is written as one mixed-integer
model, whose linear relaxation is the convex hull of the union (Jeroslow and Lowe, 1984; the
multiple choice model of Vielma, Ahmed and Nemhauser, 2010): with binaries b_j and parts z_j of z,

    sum_j b_j = 1,    sum_j z_j = z,    t_j b_j <= z_j <= t_{j+1} b_j,
    sum_j (s_j z_j + lo_j b_j) <= y <= sum_j (s_j z_j + hi_j b_j).

The coefficients are exactly the numbers for which the bands are proved, without further rounding;
bands that are almost horizontal are made horizontal, and higher.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.numerics.rounding import rounded_up
from lipyomo.blocks.assemble import add_variables
from lipyomo.networks.activations.segments import Segment
from lipyomo.solvers.rows import Rows

DROPPED = 1e-9
"""Size of coefficients that HiGHS takes for zero (its option ``small_matrix_value``)."""


def _level(band: Segment) -> Segment:
    """Return a horizontal band instead of one so flat that solvers drop its slope.

    Without its slope, a band may miss the graph by more than their tolerances.
    """
    if abs(band.slope) > DROPPED:
        return band
    ends = band.slope * band.low, band.slope * band.high
    low, high = band.below + min(ends), band.above + max(ends)
    return replace(band, slope=0.0, below=-rounded_up(-low, 2), above=rounded_up(high, 2))


def add_bands(
    block: object, z: dict[int, object], y: dict[int, object], segments: dict[int, list[Segment]]
) -> None:
    """Declare rows that keep each unit's output y in the bands over its segments.

    Units with one segment need neither binaries nor parts.

    Parameters
    ----------
    block : BlockData
        The layer's block.
    z, y : dict
        Variables of pre-activations and outputs by unit.
    segments : dict
        Segments by unit.
    """
    keys = sorted(segments)
    segments = {k: [_level(band) for band in segments[k]] for k in keys}
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
