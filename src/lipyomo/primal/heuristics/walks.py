"""Walks from region to region, as long as the norm grows.

A walk goes straight across the kinks of units, then to the best region with one unit flipped that
exists: `deep.py` finds points of many regions at once, or rules them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.primal.heuristics.deep import deep_points
from lipyomo.primal.heuristics.evaluate import GROWTH, point_norms
from lipyomo.primal.heuristics.landscape import GoodPoints, Landscape, SearchBudget, Tried


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
    params, problem = land.params, land.problem
    points, values, ended = walks.points.copy(), walks.values.copy(), walks.ended.copy()
    tested, found = walks.tested, walks.found
    while (going := np.flatnonzero(~ended)).size and not budget.over:
        for k in going:
            points[k], values[k] = _stride(land, points[k], float(values[k]), known, rng, budget)
        patterns = problem.network.pattern(points[going])
        flipped, norms = land.flipped(patterns, land.best_functionals(known, budget), budget)
        of = np.repeat(going, len(norms) // going.size)
        most = params.flips
        if not land.few_inputs:  # so few that about one is likely to exist
            most = int(np.clip(1.2 * tested / (found + 1.0), 2, params.flips))
        chosen: list[int] = []
        for k in going:
            mine = np.flatnonzero((of == k) & (norms > values[k] * GROWTH))
            order = mine[np.argsort(-norms[mine], kind="stable")]
            chosen += islice(tried.first(flipped, order), most)
        ended[going] = True
        if not chosen:
            break
        budget.spend(params.region_points * (1 if land.few_inputs else 10) * len(chosen))
        near, exist = deep_points(
            problem.network, problem.domain, [on[chosen] for on in flipped], points[of[chosen]]
        )
        tested, found = tested + len(chosen), found + int(exist.sum())
        for k in np.unique(of[chosen]):
            first = np.flatnonzero((of[chosen] == k) & exist)[:1]
            if first.size:
                points[k], values[k] = near[first[0]], norms[chosen[first[0]]]
                ended[k] = False
    known = land.with_points(known, points, budget)
    return Walks(points, values, ended, tested, found), known


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
        points = land.across(x, rng)
        values, _ = point_norms(land.problem, points, land.best_functionals(known, budget))
        budget.spend(1.5 * len(points))
        best = int(np.argmax(values)) if len(values) else -1
        if best < 0 or values[best] <= value * GROWTH:
            break
        x, value = points[best], float(values[best])
    return x, value
