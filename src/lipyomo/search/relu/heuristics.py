"""Primal heuristics: the local search, from points of waiting nodes on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.problem import LipschitzProblem
from lipyomo.regions.partial import RegionProgram
from lipyomo.run import Clock
from lipyomo.sampling.local_search import LocalSearch
from lipyomo.search.relu.context import Context
from lipyomo.search.relu.node import Node
from lipyomo.search.relu.points import Points

ROUNDED = 1e-10
"""Relative gains of points that may be none: the search may work with rounded weights."""


def improve(
    context: Context,
    search: LocalSearch,
    points: Points,
    region: RegionProgram,
    evaluations: int,
    clock: Clock,
    seeds: Sequence[Node],
) -> None:
    """Go on with a local search, which also knows the incumbent; what is better enters `points`.

    Parameters
    ----------
    context : Context
    search : LocalSearch
    points : Points
    region : RegionProgram
    evaluations : int
        Work, in points to evaluate.
    clock : Clock
    seeds : sequence of Node
        Where to look first: a linear program gives a point of each, if it is not empty.
    """
    system = context.system
    answers = (region.examine(system.reduce(node.phases), node) for node in seeds)
    near = (answer.point for answer in answers if answer.point is not None)
    search.run(evaluations, clock, lambda: next(near, None))
    better = search.values > points.best.value * (1.0 + ROUNDED)
    if better.any():
        points.enter(search.points[better])


def local_search(
    problem: LipschitzProblem,
    known: LocalSearch | None,
    points: Points,
    rng: np.random.Generator,
) -> LocalSearch:
    """The local search so far with the incumbent, or a new one."""
    if known is None:
        return LocalSearch(problem, rng)
    best = points.best.point
    if best is not None:
        known.offer(np.atleast_2d(best)[:1])
    return known
