"""Populations of points: steps across kinks, generations, and linear programs for single regions.

They are used where points of many regions cannot be found at once: on balls, in networks so large
that this takes too long, and around given points if inputs are many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
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


class Population(NamedTuple):
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


@dataclass(frozen=True, eq=False)
class Moves:
    """The moves that improve a population.

    Attributes
    ----------
    land : Landscape
    tried : Tried
        The patterns that were tried already.
    rng : Generator
    budget : SearchBudget
    """

    land: Landscape
    tried: Tried
    rng: np.random.Generator
    budget: SearchBudget

    def improved(self, population: Population) -> Population:
        """Improve a population until a turn, which is once through `ORDER`, gains nothing.

        If the budget runs out, the turn is continued with the next one.
        """
        while not population.idle and not self.budget.over:
            points = ORDER[population.move](self, population.points)
            move = (population.move + 1) % len(ORDER)
            population = population._replace(points=points, move=move)
            if move == 0:
                idle = points.best <= population.top
                population = population._replace(idle=idle, top=points.best)
        return population

    def evolve(self, points: GoodPoints) -> GoodPoints:
        """Do one generation of perturbed and recombined points."""
        land, rng = self.land, self.rng
        if self.budget.over:
            return points
        count = land.children
        parents = points.parents(rng, count)
        children = perturbed(land, parents, rng)
        children[: count // 4] += towards(points, parents[: count // 4], -0.5, 1.5, rng)
        if not np.isfinite(land.width).any():
            children[-(count // 8) :] *= 10.0 ** rng.uniform(-1.0, 1.0, (count // 8, 1))
        return self._with(points, pulled_inside(land.problem.domain, children, parents))

    def cross(self, points: GoodPoints, index: int = 0) -> GoodPoints:
        """Step from a good point across the kinks of units."""
        if self.budget.over or index >= len(points.values) or not self.land.flips:
            return points
        return self._with(points, crossings(self.land, points.points[index], self.rng))

    def _with(self, points: GoodPoints, more: FloatArray) -> GoodPoints:
        functionals = self.land.best_functionals(points, self.budget)
        return self.land.with_points(points, more, self.budget, functionals)

    def flip_best(self, points: GoodPoints) -> GoodPoints:
        """Flip units at the best point as long as this improves it."""
        while True:
            best, points = points.best, self._flip(points, 0, self.land.params.flips)
            if not points.best > best:
                return points

    def flip_other(self, points: GoodPoints) -> GoodPoints:
        """Flip units at another point of the population."""
        if len(points.values) < 2:
            return points
        return self._flip(points, 1 + int(self.rng.integers(len(points.values) - 1)), 2)

    def _flip(self, points: GoodPoints, index: int, most: int) -> GoodPoints:
        """Search for a region with one unit flipped that is better than the best so far."""
        land, budget = self.land, self.budget
        if budget.over or not land.flips:
            return points
        network, best = land.problem.network, points.best
        patterns = network.pattern(points.points[index : index + 1])
        flipped, values = land.flipped(patterns, land.best_functionals(points, budget), budget)
        order = np.argsort(-values, kind="stable")
        better = order[values[order] > best * GROWTH]
        for k in islice(self.tried.first(flipped, better), most):
            if budget.clock.expired:
                break
            budget.spend(land.program_points)
            found = interior_point(network, land.problem.domain, tuple(on[k] for on in flipped))
            if found.margin > 0:
                points = land.with_points(points, found.x[None, :], budget)
                if points.best > best:
                    break
        return points


ORDER: tuple[Callable[[Moves, GoodPoints], GoodPoints], ...] = (
    Moves.cross,
    partial(Moves.cross, index=1),
    *4 * (Moves.evolve,),
    Moves.flip_best,
    Moves.flip_other,
)
"""The moves of a turn, in their order."""
