"""Walks from region to region, as long as the norm grows.

A walk first steps across the kinks of units, then moves to the best region with one unit flipped
that exists.  Points of many regions are searched for at once; nothing is proved here.  Flips with
the largest gains come first.  In wide networks, where few flips exist and regions take long, gains
are weighted by how likely a flip exists (`facets.py`); the best flip is tried alone, the best two
together, and so on.

The largest margin t of a region, ``a_r . x + t <= b_r`` with rows of length one, is the optimum of
a linear program.  Many of them are solved together (`lipyomo.base.numerics.interior`), each from a
point nearby.  A region is finished once a point deep enough in it is found, or weights of its rows
show that there is none; this takes four steps on average.  Each step solves a system in the
variables or, with many inputs, in the rows.  A region of random [10,20,30,20,2] networks takes 0.1
milliseconds, compared to 1.0 with a linear programming solver; one of a random [784,20,20,20,2]
network takes 5, compared to 20.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.interior import MarginPrograms
from lipyomo.base.numerics.params import PARAMS as NUMERICS
from lipyomo.base.numerics.rounding import TINY, gamma
from lipyomo.base.system.memory import CACHED
from lipyomo.networks.network import Network
from lipyomo.primal.heuristics.evaluate import GROWTH, pattern_norms, point_norms
from lipyomo.primal.heuristics.facets import leverage_work, leverages
from lipyomo.primal.heuristics.landscape import (
    GoodPoints,
    Landscape,
    SearchBudget,
    Tried,
    crossings,
)
from lipyomo.primal.heuristics.params import PARAMS, Params
from lipyomo.problems.affine.signal import FloatSignal, carry, decided
from lipyomo.problems.domains import Domain

_BEYOND = 2.0
"""The right-hand side of rows that limit nothing, in widths of the box: no margin is larger."""

_LIKELY = 1.2
"""The expected number of existing flips among those tried, if inputs are many."""

_FEWEST = 2
"""The smallest number of flips that are tried: one says too little about how many exist."""

_CROSSED = 1.5
"""The number of evaluations that a point across kinks counts as: finding it counts as half."""


def solves_regions_of(domain: Domain) -> bool:
    """Return whether `deep_points` can handle the domain."""
    return domain.is_polyhedral and not domain.frozen.any()


def deep_points(
    network: Network,
    domain: Domain,
    patterns: Sequence[BoolArray],
    near: FloatArray,
    params: Params = PARAMS,
) -> tuple[FloatArray, BoolArray]:
    """Find a point of each of many regions, as far as possible.

    Parameters
    ----------
    network : Network
    domain : Domain
        A polyhedron without frozen inputs.
    patterns : sequence of bool arrays, shapes (K, n_i)
    near : ndarray, shape (K, d)
        Points of the domain to start from.
    params : Params, optional

    Returns
    -------
    points : ndarray, shape (K, d)
    found : ndarray of bool, shape (K,)
        Whether the point has the pattern (for units with a kink), and lies inside the domain with a
        margin.
    """
    width = domain.upper - domain.lower
    scale = np.where(np.isfinite(width), width, np.maximum(1.0, np.abs(near).max(axis=0)))
    A, b, possible = _rows(network, domain, patterns, domain.center, scale)
    start = (near - domain.center) / scale
    low, high = ((end - domain.center) / scale for end in (domain.lower, domain.upper))
    low, high = np.maximum(low, -params.far), np.minimum(high, params.far)
    y, found, live = start.copy(), possible.copy(), np.flatnonzero(possible)
    for most in (params.nearest, A.shape[1]):
        if not live.size:
            break
        rows, sides = A[live], b[live]
        if A.shape[1] > most:
            rows, sides = _nearest(rows, sides, start[live], y[live], most)
        parts = np.array_split(np.arange(live.size), max(min(rows.nbytes // CACHED, live.size), 1))
        done = [_deepest(rows[k], sides[k], start[live][k], low, high, params) for k in parts]
        y[live], margins = (np.concatenate(ends) for ends in zip(*done, strict=True))
        found[live] = margins > params.thin
        # other rows may cut the point off
        live = live[found[live] & ((A[live] @ y[live][:, :, None])[:, :, 0] > b[live]).any(axis=1)]
    points = domain.center + scale * y
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
    """Return rows (K, R, d) and right-hand sides (K, R) in ``y = (x - shift) / scale``.

    Also return where they do not contradict each other already.  The rows of the domain come last;
    its box is handled by `_deepest`.
    """
    count, d = len(patterns[0]), shift.size
    rows = domain.rows
    edges = np.column_stack([rows.A.toarray() * scale, rows.A @ shift - rows.b])
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
    flat = size <= gamma(4 * A.shape[2]) * size.max(axis=1, initial=0.0, keepdims=True)
    size[flat] = 1.0
    A, b = A / size[:, :, None], b / size
    possible = ~(flat & (b < 0)).any(axis=1)
    A[flat], b[flat] = 0.0, _BEYOND
    return A, b, possible


def _nearest(
    A: FloatArray, b: FloatArray, start: FloatArray, end: FloatArray, most: int
) -> tuple[FloatArray, FloatArray]:
    """Return the rows of each region that are nearest to two points, in shares of the box."""
    size = np.maximum(np.abs(A).sum(axis=2), TINY)
    left = b - np.maximum(*((A @ y[:, :, None])[:, :, 0] for y in (start, end)))
    rows = np.sort(np.argpartition(left / size, most, axis=1)[:, :most], axis=1)
    return np.take_along_axis(A, rows[:, :, None], axis=1), np.take_along_axis(b, rows, axis=1)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def _deepest(
    A: FloatArray,
    b: FloatArray,
    near: FloatArray,
    low: FloatArray,
    high: FloatArray,
    params: Params,
) -> tuple[FloatArray, FloatArray]:
    """Find points (K, d) that are deep enough, and their margins (K,), or none above zero.

    Coordinates lie between `low` and `high` (d,).  Programs whose numbers overflow are given up;
    the others continue.
    """
    margins = (b - (A @ near[:, :, None])[:, :, 0]).min(axis=1)
    share = params.away if A.shape[1] < low.size else 1.0
    programs = MarginPrograms.begun(A, b, low, high, near, margins, share)
    best, live = near.copy(), np.arange(len(b))
    for _ in range(NUMERICS.interior_steps):
        try:
            programs = programs.stepped()
        except np.linalg.LinAlgError:
            break
        gaps, inside = programs.gaps()
        now = gaps.min(axis=1)
        better = inside & (now > margins[live])
        margins[live[better]], best[live[better]] = now[better], programs.points[better]
        most = programs.most(low, high)
        deep = (margins[live] > params.thin) & (margins[live] > params.deep * most)
        done = (most <= params.thin) | deep
        done |= ~np.isfinite(most)
        if done.all():
            break
        if done.any():
            live, programs = live[~done], programs.take(~done)
    return best, margins


@dataclass(frozen=True, eq=False)
class Walks:
    """The state of several walks.

    Attributes
    ----------
    points : ndarray, shape (k, d)
    values : ndarray, shape (k,)
        The values attained there.
    ended : ndarray of bool, shape (k,)
        Which walks have ended, because none of the flips tried exists.
    tested, found : int
        The numbers of regions tried by these and earlier walks, and of those that exist.
    """

    points: FloatArray
    values: FloatArray
    ended: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    tested: int = 0
    found: int = 0

    @property
    def under_way(self) -> IntArray:
        """The walks that have not ended."""
        return np.flatnonzero(~self.ended)


def set_out(land: Landscape, known: GoodPoints, before: Walks, count: int, tried: Tried) -> Walks:
    """Start walks from `count` points of an archive, in regions that were not tried before."""
    starts = land.problem.network.pattern(known.points)
    new = list(islice(tried.first(starts, np.arange(len(known.points))), count))
    points, values = known.points[new], known.values[new]
    return Walks(points, values, np.zeros(len(new), dtype=bool), before.tested, before.found)


def walk(
    land: Landscape,
    walks: Walks,
    known: GoodPoints,
    tried: Tried,
    rng: np.random.Generator,
    budget: SearchBudget,
) -> tuple[Walks, GoodPoints]:
    """Continue until no walk finds a better region, or the budget is spent.

    All walks take their steps together, each to its best neighbour that exists.
    """
    params, problem = land.params, land.problem
    kinked = np.concatenate([layer.kinked for layer in problem.network.hidden])
    points, values, ended = walks.points.copy(), walks.values.copy(), walks.ended.copy()
    tested, found = walks.tested, walks.found
    while (going := np.flatnonzero(~ended)).size and not budget.over:
        for k in going:
            points[k], values[k] = _stride(land, points[k], float(values[k]), known, rng, budget)
        patterns = problem.network.pattern(points[going])
        rows = land.best_functionals(known, budget)
        flipped, norms = land.flipped(patterns, rows, budget)
        gains = norms.reshape(going.size, -1) - values[going, None]
        most = params.together if land.wide else params.flips
        if not (land.wide or land.few_inputs):  # few enough that about one is likely to exist
            most = int(np.clip(_LIKELY * tested / (found + 1.0), _FEWEST, params.flips))
        sets: list[list[BoolArray]] = []
        worth: list[FloatArray] = []
        for i, k in enumerate(going):
            hope, better = gains[i], np.flatnonzero(gains[i] > (GROWTH - 1.0) * values[k])
            if land.wide:
                hope = hope * leverages(problem.network, problem.domain, points[k])[kinked]
                budget.spend(leverage_work(problem.network, problem.domain) / land.work)
            order = i * hope.size + better[np.argsort(-hope[better], kind="stable")]
            some = list(islice(tried.first(flipped, order), most))
            sets.append([on[some] for on in flipped])
            worth.append(norms[some])
            if land.wide:
                sets[-1] = _together([on[i] for on in patterns], sets[-1])
        ended[going] = True
        of = np.repeat(going, [len(on[0]) for on in sets])
        if not of.size:
            break
        chosen = [np.concatenate(parts) for parts in zip(*sets, strict=True)]
        budget.spend(land.region_points * of.size)
        near, exist = deep_points(problem.network, problem.domain, chosen, points[of])
        there = np.where(exist, np.concatenate(worth), -1.0)
        if land.wide:  # for several flips
            there[exist] = pattern_norms(problem, [on[exist] for on in chosen], rows)
        tested, found = tested + of.size, found + int(exist.sum())
        for k in np.unique(of):
            best = int(np.argmax(np.where(of == k, there, -1.0)))
            if there[best] > values[k] * GROWTH:
                points[k], values[k], ended[k] = near[best], there[best], False
    known = land.with_points(known, points, budget)
    return Walks(points, values, ended, tested, found), known


def _together(before: Sequence[BoolArray], flipped: Sequence[BoolArray]) -> list[BoolArray]:
    """Combine flips, given patterns (K, n_i) with one each: the first, the first two, ..."""
    return [
        np.logical_xor.accumulate(on ^ was, axis=0) ^ was
        for was, on in zip(before, flipped, strict=True)
    ]


def _stride(
    land: Landscape,
    x: FloatArray,
    value: float,
    known: GoodPoints,
    rng: np.random.Generator,
    budget: SearchBudget,
) -> tuple[FloatArray, float]:
    """Step across kinks from a point, as long as its norm grows."""
    while not budget.over:
        points = crossings(land, x, rng)
        values, _ = point_norms(land.problem, points, land.best_functionals(known, budget))
        budget.spend(_CROSSED * len(points))
        best = int(np.argmax(values)) if len(values) else -1
        if best < 0 or values[best] <= value * GROWTH:
            break
        x, value = points[best], float(values[best])
    return x, value
