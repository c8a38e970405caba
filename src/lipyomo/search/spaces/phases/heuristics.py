"""Primal heuristics: a table of what looks for points with large gradients.

An entry is a function of its own state and of what is around it; it gives its next state and points
of the domain.  States are values that the pipeline keeps.  The engine says when it is time for
heuristics; an entry takes part in every so many of these turns, earlier entries first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.primal.heuristics.local_search import LocalSearch, SearchState, quick_budget
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.spaces.phases.points import Points


@dataclass(frozen=True, eq=False)
class Around:
    """What a heuristic sees.

    Attributes
    ----------
    problem : LipschitzProblem
        Whose points are looked for; it may have fewer kinks than what is searched.
    best : Incumbent
    seed : callable
        Gives points (k, d) of one promising part of the domain after the other, then None.
    rng : numpy.random.Generator
    evaluations : int
        Work, in points to evaluate.
    clock : Clock
    """

    problem: LipschitzProblem
    best: Incumbent
    seed: Callable[[], FloatArray | None]
    rng: np.random.Generator
    evaluations: int
    clock: Clock


Look = Callable[[Any, Around], tuple[Any, FloatArray]]
"""From a state (None at first) and what is around to the next state and points, shape (k, d)."""


@dataclass(frozen=True)
class Heuristic:
    """An entry of the table.

    Attributes
    ----------
    name : str
    look : callable
    every : int
        It takes part in one of so many turns.
    """

    name: str
    look: Look
    every: int = 1


_TABLE: dict[str, Heuristic] = {}


def heuristic(name: str, every: int = 1) -> Callable[[Look], Look]:
    """Enter a function into the table.

    Parameters
    ----------
    name : str
        An entry of the same name is replaced.
    every : int, optional
        As in `Heuristic`.
    """

    def enter(look: Look) -> Look:
        _TABLE[name] = Heuristic(name, look, every)
        return look

    return enter


def heuristics(turn: int) -> list[Heuristic]:
    """Those that take part in a turn, the first one of which is number 0."""
    return [entry for entry in _TABLE.values() if turn % entry.every == 0]


@heuristic("local search")
def local_search(
    state: tuple[LocalSearch, SearchState] | None, around: Around
) -> tuple[tuple[LocalSearch, SearchState], FloatArray]:
    """Ascents and walks, which also know the incumbent (`primal.heuristics.local_search`)."""
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
    """Turns of the table, and the states that they leave.

    Parameters
    ----------
    problem : LipschitzProblem
        Whose points are looked for.
    points : Points
        Where they are entered.
    rng : numpy.random.Generator
    """

    def __init__(self, problem: LipschitzProblem, points: Points, rng: np.random.Generator) -> None:
        self._problem, self._points, self._rng = problem, points, rng
        self._states: dict[str, Any] = {}
        self._turn = 0

    def budget(self, clock: Clock) -> tuple[int, Clock]:
        """Evaluations and time of a look for points: half a short search, as others follow."""
        evaluations, brief = quick_budget(self._problem, clock)
        return evaluations // 2, brief

    def look(self, evaluations: int, clock: Clock, starts: Iterable[FloatArray] = ()) -> None:
        """A turn, with points (k, d) of the domain to begin from."""
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
            state, points = entry.look(self._states.get(entry.name), around)
            self._states[entry.name] = state
            if len(points):
                self._points.enter(points)
        self._turn += 1
