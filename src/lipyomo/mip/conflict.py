"""Why a pattern's region is empty: a few units whose signs already exclude an interior.

A mixed-integer model over closed constraints accepts patterns that hold on a face only.  Such a
pattern is cut off, and with it every pattern that shares the decisions which make it empty: with
the rows ``A x + t <= b`` of the region, weights y >= 0 of the margin program prove that no point
has a margin above y . b, and only rows with y > 0 take part in that proof.
"""

from __future__ import annotations

import numpy as np

from lipyomo.affine import affine_pieces
from lipyomo.bounds import LayerBounds
from lipyomo.domains import Domain
from lipyomo.network import Network, Pattern
from lipyomo.numerics.lp import LinearProgram
from lipyomo.phases import OPEN

SUPPORT = 1e-9
"""Smallest multiplier of a row that takes part in a proof."""


def conflicting_units(
    network: Network, domain: Domain, bounds: LayerBounds, pattern: Pattern, empty: float
) -> list[tuple[int, int]] | None:
    """Open units (layer, unit) whose decisions in `pattern` leave no interior.

    Parameters
    ----------
    network : Network
    domain : Domain
    bounds : LayerBounds
        Over `domain`; decided units take no part.
    pattern : Pattern
    empty : float
        Margins up to this count as none.

    Returns
    -------
    list of (int, int) or None
        None if no proof was found: then only the pattern itself may be excluded.
    """
    d = network.input_dim
    rows, right = [], []
    owners: list[tuple[int, int] | None] = []
    for i, (gain, offset) in enumerate(affine_pieces(network, pattern)[:-1]):
        open_ = bounds.phases[i] == OPEN
        held = network.hidden[i].kinked & ((bounds.lower[i] == 0) | (bounds.upper[i] == 0))
        for k in np.flatnonzero(open_ | held).tolist():
            sign = -1.0 if pattern[i][k] else 1.0
            size = float(np.abs(gain[k]).sum())
            if size <= 1e-12 * (1.0 + abs(float(offset[k]))):
                continue
            rows.append(np.append(sign * gain[k] / size, 1.0))
            right.append(-sign * offset[k] / size)
            owners.append((i, k) if open_[k] else None)
    if not rows:
        return None
    faces = domain.rows
    if faces.count:
        dense = faces.A.toarray()
        sizes = np.abs(dense).sum(axis=1)
        keep = sizes > 0
        scaled = dense[keep] / sizes[keep, None]
        rows.extend(np.hstack([scaled, np.ones((len(scaled), 1))]))
        right.extend((faces.b[keep] / sizes[keep]).tolist())
    eye = np.hstack([np.eye(d), np.ones((d, 1))])
    mirrored = np.hstack([-np.eye(d), np.ones((d, 1))])
    matrix = np.vstack([np.array(rows), eye, mirrored])
    bound = np.concatenate([right, domain.upper, -domain.lower])
    free = np.full(d + 1, np.inf)
    program = LinearProgram(-free, free, matrix, bound)
    found = program.maximise(np.append(np.zeros(d), 1.0))
    if found.point is None or found.value > empty:
        return None
    weights = program.duals[: len(owners)]
    used = [owner for owner, w in zip(owners, weights, strict=True) if w > SUPPORT]
    taking_part = [owner for owner in used if owner is not None]
    if not taking_part or None in used:
        return None
    deepest = max(i for i, _ in taking_part)
    before = [(i, k) for i, k in _open_units(bounds) if i < deepest]
    return sorted(set(before) | set(taking_part))


def _open_units(bounds: LayerBounds) -> list[tuple[int, int]]:
    return [
        (i, k)
        for i, phases in enumerate(bounds.phases)
        for k in np.flatnonzero(phases == OPEN).tolist()
    ]
