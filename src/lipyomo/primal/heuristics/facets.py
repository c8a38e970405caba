"""At which kinks a region is likely to end, seen from a point inside.

A flip of one unit exists if its kink is a facet of the region, and most are not: others cut the
region off before.  A linear program tells for one unit.  All are told apart at once by the
logarithmic barrier of the region, with Hessian H: the share that the row r of a unit has in H in
its own direction, its leverage ``r' H^-1 r`` with ``r = gradient / z``, is one where nothing else
limits the region there, and nearly zero where others do by far.  The point need not be central.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import TINY
from lipyomo.networks.network import Network
from lipyomo.problems.affine.signal import affine_pieces
from lipyomo.problems.domains import Domain

_CLOSE = 1e-9
"""Nearer to a face or kink than this share of its width, or reach, a point counts as so near."""

_ENDLESS = 1e-12
"""Curvature of the barrier where the domain has no end, so that nothing is divided by zero: too
little to matter beside any face, of which the farthest that counts has about one."""


def leverage_work(network: Network, domain: Domain) -> float:
    """Multiplications that the leverages of a region take: its pieces, and products of rows."""
    rows = sum(layer.units for layer in network.hidden) + domain.rows.count
    return 2.0 * rows * network.input_dim * min(rows, network.input_dim)


@np.errstate(over="ignore", invalid="ignore")
def leverages(network: Network, domain: Domain, x: FloatArray) -> FloatArray:
    """How likely the kink of each unit, shape (N,), is a facet of the region of `x` (d,).

    Units without a kink have numbers, too, which mean nothing.
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
