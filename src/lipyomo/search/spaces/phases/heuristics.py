"""Primal heuristics: a table of functions that look for points with large gradients.

A heuristic takes its own last state and its surroundings (`Around`), and returns its next state and
points of the domain.  States are values that the pipeline keeps.  The engine decides when
heuristics run; each takes part in one of every `every` turns, in the order of registration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.primal.heuristics.local_search import (
    MOST_EVALUATIONS,
    LocalSearch,
    SearchState,
    quick_budget,
)
from lipyomo.primal.heuristics.params import PARAMS
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.spaces.phases.points import Points


class Around(NamedTuple):
    """The input of a heuristic apart from its own state.

    Attributes
    ----------
    problem : LipschitzProblem
        The problem; it may have fewer kinks than the one that is searched.
    best : Incumbent
    seed : callable
        Returns points (k, d) of one promising part of the domain after another, then None.
    rng : numpy.random.Generator
    evaluations : int
        Budget, in points to evaluate.
    clock : Clock
    """

    problem: LipschitzProblem
    best: Incumbent
    seed: Callable[[], FloatArray | None]
    rng: np.random.Generator
    evaluations: int
    clock: Clock


Turn = Callable[[Any, Around], tuple[Any, FloatArray]]
"""Maps a state (None at first) and its surroundings to the next state and points, shape (k, d)."""


class Heuristic(NamedTuple):
    """A heuristic in the table.

    Attributes
    ----------
    name : str
    run : callable
    every : int
        It takes part in one of this many turns.
    """

    name: str
    run: Turn
    every: int = 1


_TABLE: dict[str, Heuristic] = {}


def heuristic(name: str, every: int = 1) -> Callable[[Turn], Turn]:
    """Register a function as a heuristic.

    Parameters
    ----------
    name : str
        A heuristic of the same name is replaced.
    every : int, optional
        As in `Heuristic`.
    """

    def enter(run: Turn) -> Turn:
        _TABLE[name] = Heuristic(name, run, every)
        return run

    return enter


def heuristics(turn: int) -> list[Heuristic]:
    """Return the heuristics that take part in a turn; turns are counted from 0."""
    return [entry for entry in _TABLE.values() if turn % entry.every == 0]


@heuristic("local search")
def local_search(
    state: tuple[LocalSearch, SearchState] | None, around: Around
) -> tuple[tuple[LocalSearch, SearchState], FloatArray]:
    """Run ascents and walks, also from the incumbent (`primal.heuristics.local_search`)."""
    if state is None:
        search = LocalSearch(around.problem, around.rng)
        now = search.begun
    else:
        search, now = state
    if around.best.point is not None:
        now = search.offered(now, np.atleast_2d(around.best.point)[:1])
    now = search.improve(now, around.rng, around.evaluations, around.clock, around.seed)
    # the search may work with rounded weights
    better = now.best.values > around.best.value * (1.0 + EQUAL)
    return (search, now), now.best.points[better]


class PrimalHeuristics:
    """Runs the heuristics of the table, and keeps their states.

    Parameters
    ----------
    problem : LipschitzProblem
        The problem that heuristics get.
    points : Points
        Receives the points that they find.
    rng : numpy.random.Generator
    """

    def __init__(self, problem: LipschitzProblem, points: Points, rng: np.random.Generator) -> None:
        self._problem, self._points, self._rng = problem, points, rng
        self._states: dict[str, Any] = {}
        self._turn = 0

    def budget(self, clock: Clock, longer: float = 1.0) -> tuple[int, Clock]:
        """Evaluations and time of one turn: half of a short search, as further turns follow.

        It may have `longer` times as many evaluations, but no more than a small network's turn.
        """
        evaluations, brief = quick_budget(self._problem, clock)
        return min(int(longer * evaluations), MOST_EVALUATIONS // PARAMS.quick) // 2, brief

    def run(self, evaluations: int, clock: Clock, starts: Iterable[FloatArray] = ()) -> None:
        """Run one turn; `starts` gives arrays of points (k, d) of the domain to start from."""
        near = iter(starts)
        for entry in heuristics(self._turn):
            around = Around(
                self._problem,
                self._points.best,
                lambda: next(near, None),
                self._rng,
                evaluations,
                clock,
            )
            state, points = entry.run(self._states.get(entry.name), around)
            self._states[entry.name] = state
            if len(points):
                self._points.enter(points)
        self._turn += 1
