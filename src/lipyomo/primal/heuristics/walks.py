"""Walks from region to region, as long as the norm grows.

A walk goes straight across the kinks of units, then to the best region with one unit flipped that
exists: points of many regions are found at once, or none can be.  Nothing is proved here.  Flips
that gain most come first.  In wide networks, where few exist and regions take long, gains count by
how likely a flip exists (`facets.py`), and the best flip is tried alone, the best two at once,
and so on.

The largest margin t of a region, ``a_r . x + t <= b_r`` with rows of length one, is a linear
program.  A stack of them is solved together (`lipyomo.base.numerics.interior`), from a point
nearby; a region leaves the stack once a point in it is known that is deep enough, or weights of its
rows say that there is none.  That takes four steps on average.  Each solves a system in the
variables or, where inputs are many, in the rows.  Regions of random [10,20,30,20,2] networks cost
0.1 milliseconds each, and with a linear program's solver 1.0; of a random [784,20,20,20,2] network
5, and 20.
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
"""Side of rows that limit nothing, in widths of the box: larger margins are of no interest."""

_LIKELY = 1.2
"""How many flips are looked for where about one is likely to exist."""

_FEWEST = 2
"""Flips that are looked for at least: one alone says too little of how many exist."""

_CROSSED = 1.5
"""Evaluations that a point across kinks counts as: half of one for the way to it."""


def solves_regions_of(domain: Domain) -> bool:
    """Whether `deep_points` knows the domain."""
    return domain.is_polyhedral and not domain.frozen.any()


def deep_points(
    network: Network,
    domain: Domain,
    patterns: Sequence[BoolArray],
    near: FloatArray,
    params: Params = PARAMS,
) -> tuple[FloatArray, BoolArray]:
    """A point of each of many regions, as far as they are found.

    Parameters
    ----------
    network : Network
    domain : Domain
        A polyhedron without frozen inputs.
    patterns : sequence of bool arrays, shapes (K, n_i)
    near : ndarray, shape (K, d)
        Points of the domain to begin from.
    params : Params, optional

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
        # others may be in the way
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
    """Rows (K, R, d) and sides (K, R) in ``y = (x - shift) / scale``; False where they contradict.

    The rows of the domain come last; its box is left to `_deepest`.
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
    """The rows of each region that take the smallest shares of the box to meet from two points."""
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
    """Points (K, d) and their margins (K,), deep enough, or none above zero.

    Coordinates lie between `low` and `high` (d,).  Margins have ends as well, one above.  A program
    whose numbers overflow is given up; the others of the stack go on.
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


@dataclass(frozen=True)
class Walks:
    """Where walks are.

    Attributes
    ----------
    points : ndarray, shape (k, d)
    values : ndarray, shape (k,)
        What is attained there.
    ended : ndarray of bool, shape (k,)
        Walks where none of the flips that were tried exists.
    tested, found : int
        Regions that were looked for by this and earlier walks, and those that exist.
    """

    points: FloatArray
    values: FloatArray
    ended: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    tested: int = 0
    found: int = 0

    @property
    def under_way(self) -> IntArray:
        """Those that have not ended."""
        return np.flatnonzero(~self.ended)


def set_out(land: Landscape, known: GoodPoints, before: Walks, count: int, tried: Tried) -> Walks:
    """Walks from so many points of an archive, in regions where none has been."""
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
    """Go on until no walk finds a better region, or the budget is spent.

    All walks take their steps together, each to its best neighbour that exists.
    """
    params, problem, costs = land.params, land.problem, land.costs
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
        most = params.together if costs.wide else params.flips
        if not (costs.wide or costs.few_inputs):  # so few that about one is likely to exist
            most = int(np.clip(_LIKELY * tested / (found + 1.0), _FEWEST, params.flips))
        sets: list[list[BoolArray]] = []
        worth: list[FloatArray] = []
        for i, k in enumerate(going):
            hope, better = gains[i], np.flatnonzero(gains[i] > (GROWTH - 1.0) * values[k])
            if costs.wide:
                hope = hope * leverages(problem.network, problem.domain, points[k])[kinked]
                budget.spend(leverage_work(problem.network, problem.domain) / costs.work)
            order = i * hope.size + better[np.argsort(-hope[better], kind="stable")]
            some = list(islice(tried.first(flipped, order), most))
            sets.append([on[some] for on in flipped])
            worth.append(norms[some])
            if costs.wide:
                sets[-1] = _together([on[i] for on in patterns], sets[-1])
        ended[going] = True
        of = np.repeat(going, [len(on[0]) for on in sets])
        if not of.size:
            break
        chosen = [np.concatenate(parts) for parts in zip(*sets, strict=True)]
        budget.spend(costs.region_points * of.size)
        near, exist = deep_points(problem.network, problem.domain, chosen, points[of])
        there = np.where(exist, np.concatenate(worth), -1.0)
        if costs.wide:  # of several flips
            there[exist] = pattern_norms(problem, [on[exist] for on in chosen], rows)
        tested, found = tested + of.size, found + int(exist.sum())
        for k in np.unique(of):
            best = int(np.argmax(np.where(of == k, there, -1.0)))
            if there[best] > values[k] * GROWTH:
                points[k], values[k], ended[k] = near[best], there[best], False
    known = land.with_points(known, points, budget)
    return Walks(points, values, ended, tested, found), known


def _together(before: Sequence[BoolArray], flipped: Sequence[BoolArray]) -> list[BoolArray]:
    """From patterns (K, n_i) with one unit flipped each: the first flip, the first two, ..."""
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
    """Steps across kinks from a point, as long as its norm grows."""
    while not budget.over:
        points = crossings(land, x, rng)
        values, _ = point_norms(land.problem, points, land.best_functionals(known, budget))
        budget.spend(_CROSSED * len(points))
        best = int(np.argmax(values)) if len(values) else -1
        if best < 0 or values[best] <= value * GROWTH:
            break
        x, value = points[best], float(values[best])
    return x, value
