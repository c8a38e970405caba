"""Deep points of many activation regions at once, for searches: nothing is proved here.

The largest margin t of a region, ``a_r . x + t <= b_r`` with rows of length one, is a linear
program in few variables.  Mehrotra's predictor-corrector method solves a stack of them in passes
over arrays, from a point nearby; a region leaves the stack once a point in it is known that is deep
enough, or weights of its rows say that there is none.  That takes four steps on average.
Regions of random [10,20,30,20,2] networks cost 0.1 milliseconds each, and with a linear program's
solver 1.0.

S. Mehrotra (1992), On the implementation of a primal-dual interior point method.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.affine.signal import FloatSignal, carry, decided
from lipyomo.domains import Domain
from lipyomo.network import BoolArray, FloatArray, Network
from lipyomo.regions.margin import WIDE

STEPS = 25
"""Most steps of the method."""

DEEP = 0.1
"""A point is deep enough at this share of the largest margin that there can be."""

THIN = 1e-7
"""Margins, in widths of the domain, below which a region counts as empty."""

FAR = 1e4
"""How far regions are looked for where the domain has no end, in units of the points given."""

_FLAT = 1e-12
_TO_EDGE = 0.98


def solves_regions_of(domain: Domain) -> bool:
    """Whether `deep_points` knows the domain, and has few enough variables."""
    return domain.is_polyhedral and domain.dimension <= WIDE and not domain.frozen.any()


def deep_points(
    network: Network, domain: Domain, patterns: Sequence[BoolArray], near: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """A point of each of many regions, as far as they are found.

    Parameters
    ----------
    network : Network
    domain : Domain
        Without curved parts or frozen inputs.
    patterns : sequence of bool arrays, shapes (K, n_i)
    near : ndarray, shape (K, d)
        Points of the domain to begin from.

    Returns
    -------
    points : ndarray, shape (K, d)
    found : ndarray of bool, shape (K,)
        Whether the point has the pattern (in units with a kink), and lies inside the domain
        with a margin.
    """
    width = domain.upper - domain.lower
    scale = np.where(np.isfinite(width), width, np.maximum(1.0, np.abs(near).max(axis=0)))
    A, b, possible = _rows(network, domain, patterns, domain.center, scale)
    reach = np.where(np.isfinite(width), 1.0, FAR)
    y, margins = _deepest(A, b, (near - domain.center) / scale, reach)
    points = domain.center + scale * y
    found = possible & (margins > THIN)
    for layer, on, wanted in zip(network.hidden, network.pattern(points), patterns, strict=True):
        found &= ((on == wanted) | ~layer.kinked).all(axis=1)
    return points, found & domain.contains(points)


def _rows(
    network: Network,
    domain: Domain,
    patterns: Sequence[BoolArray],
    shift: FloatArray,
    scale: FloatArray,
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Rows (K, R, d) and sides (K, R) in ``y = (x - shift) / scale``; False where they contradict.

    The rows of the domain come last.
    """
    count, d = len(patterns[0]), shift.size
    rows = domain.rows
    faces = np.vstack([np.diag(scale), -np.diag(scale), rows.A.toarray() * scale])
    ends = np.concatenate([domain.upper - shift, shift - domain.lower, rows.b - rows.A @ shift])
    edges = np.column_stack([faces, -ends])[np.isfinite(ends)]
    start = FloatSignal(np.column_stack([np.diag(scale), shift]), d + 1)
    maps = carry(start, network.hidden, decided(network.hidden, patterns))
    wrong = [  # nowhere positive in the region
        (np.where(on, -1.0, 1.0)[:, :, None] * np.asarray(z.matrix))[:, layer.kinked]
        for layer, on, z in zip(network.hidden, patterns, maps, strict=True)
    ]
    wrong.append(np.broadcast_to(edges, (count, *edges.shape)))
    both = np.concatenate(wrong, axis=1)
    A, b = both[:, :, :-1], -both[:, :, -1]
    size = np.sqrt(np.square(A).sum(axis=2))
    flat = size <= _FLAT * size.max(axis=1, initial=0.0, keepdims=True)
    size[flat] = 1.0
    A, b = A / size[:, :, None], b / size
    possible = ~(flat & (b < 0)).any(axis=1)
    A[flat], b[flat] = 0.0, 2.0  # beyond every margin of interest
    return A, b, possible


def _deepest(
    A: FloatArray, b: FloatArray, near: FloatArray, reach: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Points (K, d) and their margins (K,), the largest up to `DEEP` or none above zero.

    Coordinates go no further than `reach` (d,).  One more row, ``t <= 1``, gives margins an end.
    """
    count, _, d = A.shape
    G = np.concatenate([A, np.ones((*b.shape, 1))], axis=2)
    G = np.concatenate([G, np.broadcast_to(np.eye(d + 1)[d], (count, 1, d + 1))], axis=1)
    h = np.concatenate([b, np.ones((count, 1))], axis=1)
    goal = np.eye(d + 1)[d]
    margins = (b - (A @ near[:, :, None])[:, :, 0]).min(axis=1)
    best = near.copy()
    y = np.concatenate([near, margins[:, None] - 0.1], axis=1)
    s = h - (G @ y[:, :, None])[:, :, 0]
    s = np.maximum(s, 1e-3)  # where the point is deeper than one
    z = np.full(s.shape, 1.0 / s.shape[1])
    live = np.arange(count)
    for _ in range(STEPS):
        try:
            dy, ds, dz = _direction(G, h, y, s, z, goal)
        except np.linalg.LinAlgError:
            break
        ahead, along = _to_edge(s, ds), _to_edge(z, dz)
        y, s, z = y + ahead * dy, s + ahead * ds, z + along * dz
        gaps = h - (G[:, :, :d] @ y[:, :d, None])[:, :, 0]
        now = gaps[:, :-1].min(axis=1)
        better = now > margins[live]
        margins[live[better]], best[live[better]] = now[better], y[better, :d]
        # weights z bound every margin, up to what they miss of the goal
        missed = np.abs(goal - (z[:, None, :] @ G)[:, 0])
        most = (z * h).sum(axis=1) + missed @ np.append(reach, 1.0)
        done = (most <= THIN) | ((margins[live] > THIN) & (margins[live] > DEEP * most))
        done |= ~np.isfinite(most)
        if done.all():
            break
        if done.any():
            left = ~done
            live, G, h, y, s, z = live[left], G[left], h[left], y[left], s[left], z[left]
    return best, margins


def _direction(
    G: FloatArray, h: FloatArray, y: FloatArray, s: FloatArray, z: FloatArray, goal: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mehrotra's step for ``max goal . y, G y + s = h, s >= 0`` with weights z of the rows."""
    rows = s.shape[1]
    weight = z / s
    matrix = G.swapaxes(1, 2) @ (weight[:, :, None] * G)
    k = np.arange(matrix.shape[1])
    matrix[:, k, k] += 1e-12 * (1.0 + matrix[:, k, k])
    inverse = np.linalg.inv(matrix)
    off = h - s - (G @ y[:, :, None])[:, :, 0]

    def step(push: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        # G dy + ds = off,  z ds + s dz = s (push - z),  G^T (z + dz) = goal
        right = goal - ((push - weight * off)[:, None, :] @ G)[:, 0]
        dy = (inverse @ right[:, :, None])[:, :, 0]
        ds = off - (G @ dy[:, :, None])[:, :, 0]
        return dy, ds, push - z - weight * ds

    _, ds, dz = step(np.zeros_like(s))
    mean = (s * z).sum(axis=1) / rows
    then = ((s + _to_edge(s, ds) * ds) * (z + _to_edge(z, dz) * dz)).sum(axis=1) / rows
    center = mean * (then / mean) ** 3
    return step((center[:, None] - ds * dz) / s)


def _to_edge(values: FloatArray, change: FloatArray) -> FloatArray:
    """Largest step, at most one, that keeps values positive, shape (K, 1)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where(change < 0, -values / change, np.inf).min(axis=1, keepdims=True)
    return np.asarray(np.minimum(1.0, _TO_EDGE * ends))
