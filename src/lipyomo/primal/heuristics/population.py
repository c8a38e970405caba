"""Populations of points: steps across kinks, generations, and linear programs for single regions.

They are used where points of many regions cannot be found at once: on balls, in networks so large
that this takes too long, and around given points if inputs are many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np

from lipyomo.primal.heuristics.ascent import pulled_inside
from lipyomo.primal.heuristics.evaluate import GROWTH
from lipyomo.primal.heuristics.landscape import (
    GoodPoints,
    Landscape,
    SearchBudget,
    Tried,
    crossings,
    perturbed,
    towards,
)
from lipyomo.primal.regions.margin import interior_point


@dataclass(frozen=True)
class Population:
    """The points of a population.

    Attributes
    ----------
    points : GoodPoints
    idle : bool
        Whether the last turn did not improve the best value.
    top : float
        The best value at the end of the last turn.
    move : int
        The index of the next move.
    """

    points: GoodPoints
    idle: bool = False
    top: float = -1.0
    move: int = 0


Move = Callable[[Landscape, GoodPoints, Tried, np.random.Generator, SearchBudget], GoodPoints]


def replace_worst(
    land: Landscape,
    population: Population,
    tried: Tried,
    rng: np.random.Generator,
    budget: SearchBudget,
) -> Population:
    """Improve a population until a turn, which is once through `MOVES`, gains nothing.

    If the budget runs out, the turn is continued with the next one.
    """
    while not population.idle and not budget.over:
        points = MOVES[population.move](land, population.points, tried, rng, budget)
        move = (population.move + 1) % len(MOVES)
        population = replace(population, points=points, move=move)
        if move == 0:
            idle = points.best <= population.top
            population = replace(population, idle=idle, top=points.best)
    return population


def _evolve(
    land: Landscape,
    points: GoodPoints,
    tried: Tried,
    rng: np.random.Generator,
    budget: SearchBudget,
) -> GoodPoints:
    """Do one generation of perturbed and recombined points."""
    if budget.over:
        return points
    count = land.costs.children
    parents = points.parents(rng, count)
    children = perturbed(land, parents, rng)
    children[: count // 4] += towards(points, parents[: count // 4], -0.5, 1.5, rng)
    if not np.isfinite(land.width).any():
        children[-(count // 8) :] *= 10.0 ** rng.uniform(-1.0, 1.0, (count // 8, 1))
    inside = pulled_inside(land.problem.domain, children, parents)
    return land.with_points(points, inside, budget, land.best_functionals(points, budget))


def _cross(
    index: int,
    land: Landscape,
    points: GoodPoints,
    tried: Tried,
    rng: np.random.Generator,
    budget: SearchBudget,
) -> GoodPoints:
    """Step from a good point across the kinks of units."""
    if budget.over or index >= len(points.values) or not land.costs.flips:
        return points
    crossed = crossings(land, points.points[index], rng)
    return land.with_points(points, crossed, budget, land.best_functionals(points, budget))


def _flip_best(
    land: Landscape,
    points: GoodPoints,
    tried: Tried,
    rng: np.random.Generator,
    budget: SearchBudget,
) -> GoodPoints:
    """Flip units at the best point as long as this improves it."""
    while True:
        best, points = points.best, _flip(land, points, 0, land.params.flips, tried, budget)
        if not points.best > best:
            return points


def _flip_other(
    land: Landscape,
    points: GoodPoints,
    tried: Tried,
    rng: np.random.Generator,
    budget: SearchBudget,
) -> GoodPoints:
    """Flip units at another point of the population."""
    if len(points.values) < 2:
        return points
    index = 1 + int(rng.integers(len(points.values) - 1))
    return _flip(land, points, index, 2, tried, budget)


def _flip(
    land: Landscape, points: GoodPoints, index: int, most: int, tried: Tried, budget: SearchBudget
) -> GoodPoints:
    """Search for a region with one unit flipped that is better than the best so far."""
    if budget.over or not land.costs.flips:
        return points
    network, best = land.problem.network, points.best
    patterns = network.pattern(points.points[index : index + 1])
    flipped, values = land.flipped(patterns, land.best_functionals(points, budget), budget)
    order = np.argsort(-values, kind="stable")
    better = order[values[order] > best * GROWTH]
    for k in islice(tried.first(flipped, better), most):
        if budget.clock.expired:
            break
        budget.spend(land.costs.program_points)
        found = interior_point(network, land.problem.domain, tuple(on[k] for on in flipped))
        if found.margin > 0:
            points = land.with_points(points, found.x[None, :], budget)
            if points.best > best:
                break
    return points


MOVES: tuple[Move, ...] = (
    partial(_cross, 0),
    partial(_cross, 1),
    *4 * (_evolve,),
    _flip_best,
    _flip_other,
)
"""The moves of a turn, in their order."""
