"""Primal heuristics: the local search, from points of waiting nodes on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.regions.partial import RegionProgram
from lipyomo.run import Clock
from lipyomo.sampling.local_search import LocalSearch, SearchState
from lipyomo.search.relu.context import Context
from lipyomo.search.relu.node import Node
from lipyomo.search.relu.points import Points

ROUNDED = 1e-10
"""Relative gains of points that may be none: the search may work with rounded weights."""


def improve(
    context: Context,
    search: LocalSearch,
    state: SearchState,
    points: Points,
    region: RegionProgram,
    rng: np.random.Generator,
    evaluations: int,
    clock: Clock,
    seeds: Sequence[Node],
) -> SearchState:
    """Go on with a local search, which also knows the incumbent; what is better enters `points`.

    Parameters
    ----------
    context : Context
    search : LocalSearch
    state : SearchState
        Where it stands: its `begun`, or what the last call returned.
    points : Points
    region : RegionProgram
    rng : numpy.random.Generator
    evaluations : int
        Work, in points to evaluate.
    clock : Clock
    seeds : sequence of Node
        Where to look first: a linear program gives a point of each, if it is not empty.

    Returns
    -------
    SearchState
    """
    system, best = context.system, points.best.point
    if best is not None:
        state = search.offered(state, np.atleast_2d(best)[:1])
    answers = (region.examine(system.reduce(node.phases), node) for node in seeds)
    near = (answer.point for answer in answers if answer.point is not None)
    state = search.improve(state, rng, evaluations, clock, lambda: next(near, None))
    better = state.best.values > points.best.value * (1.0 + ROUNDED)
    if better.any():
        points.enter(state.best.points[better])
    return state
