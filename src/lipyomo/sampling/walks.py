"""Walks from region to region, as long as the norm grows.

A walk goes straight across the kinks of units, then to the best region with one unit flipped that
exists: `deep.py` finds points of many regions at once, or rules them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from lipyomo.network import FloatArray
from lipyomo.sampling.deep import deep_points
from lipyomo.sampling.evaluate import point_norms
from lipyomo.sampling.landscape import GROWTH, Archive, Budget, Index, Landscape, Tried


@dataclass(frozen=True)
class Walks:
    """Where walks are.

    Attributes
    ----------
    points : ndarray, shape (k, d)
    values : ndarray, shape (k,)
        What is attained there.
    misses : ndarray of int, shape (k,)
        How often none of the flips that were tried existed.
    most : int
        Misses after which a walk ends.
    tested, found : int
        Regions that were looked for by this and earlier walks, and those that exist.
    """

    points: FloatArray
    values: FloatArray
    misses: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    most: int = 1
    tested: int = 0
    found: int = 0

    @property
    def under_way(self) -> Index:
        """Those that have not ended."""
        return np.flatnonzero(self.misses < self.most)


def set_out(land: Landscape, known: Archive, before: Walks, count: int, tried: Tried) -> Walks:
    """Walks from so many points of an archive, in regions where none has been."""
    starts = land.problem.network.pattern(known.points)
    new = list(islice(tried.first(starts, np.arange(len(known.points))), count))
    points, values = known.points[new], known.values[new]
    misses = np.zeros(len(new), dtype=np.int64)
    return Walks(points, values, misses, land.params.misses, before.tested, before.found)


def walk(
    land: Landscape,
    walks: Walks,
    known: Archive,
    tried: Tried,
    rng: np.random.Generator,
    budget: Budget,
) -> tuple[Walks, Archive]:
    """Go on until no walk finds a better region, or the budget is spent.

    All walks take their steps together, each to its best neighbour that exists.
    """
    params, problem = land.params, land.problem
    points, values, misses = walks.points.copy(), walks.values.copy(), walks.misses.copy()
    tested, found = walks.tested, walks.found
    while (going := np.flatnonzero(misses < walks.most)).size and not budget.over:
        for k in going[misses[going] == 0]:
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
        misses += misses < walks.most
        misses[np.setdiff1d(np.arange(misses.size), of[chosen])] = walks.most
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
                misses[k] = 0
    known = land.with_points(known, points, budget)
    return Walks(points, values, misses, walks.most, tested, found), known


def _stride(
    land: Landscape,
    x: FloatArray,
    value: float,
    known: Archive,
    rng: np.random.Generator,
    budget: Budget,
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
