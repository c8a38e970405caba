"""Estimates of which kinks are facets of a region, given a point inside.

A region with one unit flipped exists if the unit's kink is a facet of the region.  Most kinks are
not, since others cut the region off before.  A linear program decides this for one unit.  The
logarithmic barrier of the region, with Hessian H, gives an estimate for all units at once: the
leverage ``r' H^-1 r`` of a unit with ``r = gradient / z`` is the share of its row in H in its own
direction.  It is one if nothing else limits the region there, and nearly zero if others do so much
earlier.  The point need not be central.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import TINY
from lipyomo.networks.network import Network
from lipyomo.problems.affine.signal import affine_pieces
from lipyomo.problems.domains import Domain

_CLOSE = 1e-9
"""The smallest distance of a point from a face or kink that is used, as a share of the width."""

_ENDLESS = 1e-12
"""Curvature of the barrier added in each coordinate, so that nothing is divided by zero where the
domain is unbounded.  It is negligible: the farthest relevant face has a curvature of about one."""


def leverage_work(network: Network, domain: Domain) -> float:
    """Return the number of multiplications for the leverages of a region."""
    rows = sum(layer.units for layer in network.hidden) + domain.rows.count
    return 2.0 * rows * network.input_dim * min(rows, network.input_dim)


@np.errstate(over="ignore", invalid="ignore")
def leverages(network: Network, domain: Domain, x: FloatArray) -> FloatArray:
    """Estimate how likely the kink of each unit, (N,), is a facet of the region of `x` (d,).

    The numbers of units without a kink are meaningless.
    """
    width = domain.upper - domain.lower
    scale = np.where(np.isfinite(width), width, np.maximum(1.0, np.abs(x)))
    pieces = affine_pieces(network, network.pattern(x))[:-1]
    gains = [gain * scale for gain, _ in pieces]
    gaps = [gain @ x + offset for gain, offset in pieces]
    edges = domain.rows
    gains.append(edges.A.toarray() * scale)
    gaps.append(edges.b - edges.A @ x)
    rows, gap = np.vstack(gains), np.abs(np.concatenate(gaps))
    rows /= np.maximum(gap, _CLOSE * np.abs(rows).sum(axis=1) + TINY)[:, None]
    ends = np.stack([x - domain.lower, domain.upper - x]) / scale
    faces = (1.0 / np.square(np.maximum(ends, _CLOSE))).sum(axis=0)
    rows /= np.sqrt(faces + _ENDLESS)
    count = len(rows) - len(gaps[-1])
    try:
        if len(rows) <= x.size:
            found = 1.0 - np.diag(np.linalg.inv(np.eye(len(rows)) + rows @ rows.T))[:count]
        else:
            inverse = np.linalg.inv(np.eye(x.size) + rows.T @ rows)
            found = ((rows[:count] @ inverse) * rows[:count]).sum(axis=1)
    except np.linalg.LinAlgError:  # numbers overflowed
        found = np.ones(count)
    return np.asarray(np.clip(np.nan_to_num(found), 0.0, 1.0))
