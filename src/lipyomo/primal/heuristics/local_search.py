"""Lower bounds by search: ascents on a smoothed norm, walks across facets, and evolution.

The Jacobian's norm is constant on each activation region, so that the search needs moves of all
lengths.  A turn starts with ascents on a smoothed norm, from random points or from good ones.
Walks start from the best points that these find (`walks.py`).  There are many local maxima, and a
turn finds a few of them.  If walks take too long, populations are used instead (`population.py`).

Equal seeds and evaluation counts give equal results; a time limit may cut the search short.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock, dense_entries, fits, seconds_of
from lipyomo.base.numerics.rounding import TINY
from lipyomo.base.system.memory import BATCH
from lipyomo.networks.phases import Phases
from lipyomo.primal.heuristics.ascent import STEPS, TEMPERATURES, SmoothAscent, pulled_inside
from lipyomo.primal.heuristics.evaluate import (
    evaluation_passes,
    evaluation_work,
    jacobian_rows,
    point_norms,
)
from lipyomo.primal.heuristics.landscape import (
    GoodPoints,
    Landscape,
    SearchBudget,
    Tried,
    perturbed,
    towards,
)
from lipyomo.primal.heuristics.params import PARAMS, Params
from lipyomo.primal.heuristics.population import Moves, Population
from lipyomo.primal.heuristics.walks import Walks, set_out, solves_regions_of, walk
from lipyomo.primal.regions.witness import unbeaten, witness_near, witness_of_pattern
from lipyomo.problems.norms import DUAL, ONE_BY_ONE, vector_norm
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Witness

_AFAR, _NEAR = ((0.0, 1.5), (-0.5, 0.0)), ((-1.0, 0.5), (-1.7, -0.6))
"""Ranges of initial temperatures and steps for many inputs, as powers of ten: for ascents from
random points, which have a long way to go, and from points near good ones."""

MOST_EVALUATIONS = 60_000
"""Of a search by default: those of networks on which they cost next to nothing."""

_BEHIND = 0.06
"""With many inputs, ascents choose a functional e times less often for each such share of the
largest norm by which its gradients are smaller at the first points."""

Guide = Callable[[], FloatArray | None]
"""Returns points (k, d) to start a turn from, or None once it has no more."""


class SearchState(NamedTuple):
    """The state of a search.

    Attributes
    ----------
    best : GoodPoints
        The best points so far, best first, one for each value.
    population : Population
    walks : Walks
    walking : bool
        Whether the current turn is one of walks.
    turn : int
        The number of turns so far.
    tried : Tried
        The patterns that were tried.
    debt : float
        What earlier calls overspent, as a number of at most zero.
    """

    best: GoodPoints
    population: Population
    walks: Walks
    walking: bool
    turn: int
    tried: Tried
    debt: float

    @property
    def going(self) -> bool:
        """Whether a turn is not finished yet."""
        if self.walking:
            return self.walks.under_way.size > 0
        return not self.population.idle


class LocalSearch:
    """A search for points with large norms; its state is passed from call to call as a value.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    rng : numpy.random.Generator
    samples : int, optional
        The number of random points to start with.
    clock : Clock, optional
        The time limit for evaluating them, except for the first few.
    params : Params, optional

    Attributes
    ----------
    begun : SearchState
        The state after the first points.
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        rng: np.random.Generator,
        samples: int = 256,
        clock: Clock | None = None,
        params: Params = PARAMS,
    ) -> None:
        self._problem, self._params = problem, params
        land = self._land = Landscape(problem, params)
        self._walkers = 0
        if solves_regions_of(problem.domain) and land.flips:
            self._walkers = int(np.clip(params.poll_work / land.flip_work, 1, params.walks))
        count = min(samples, 2 * params.population if problem.domain.rows.count else land.children)
        center = problem.domain.center[None, :]
        self._sampled = np.vstack([center, problem.domain.sample(rng, count)])
        first = land.with_points(land.empty(), self._sampled, SearchBudget(0.0, clock or Clock()))
        self.begun = SearchState(
            first,
            Population(first, idle=True),
            Walks(first.points[:0], first.values[:0]),
            walking=False,
            turn=0,
            tried=Tried(),
            debt=0.0,
        )

    @cached_property
    def _ascent(self) -> SmoothAscent:
        spread = [z.std(axis=0) for z in self._problem.network.preactivations(self._sampled)]
        return SmoothAscent(self._problem, spread)

    def offered(self, state: SearchState, points: FloatArray) -> SearchState:
        """Add points of the domain that were found elsewhere to the state, as starts."""
        values, _ = point_norms(self._problem, points)
        return state._replace(best=state.best.with_points(points, values, self._params.population))

    def improve(
        self,
        state: SearchState,
        rng: np.random.Generator,
        evaluations: float,
        clock: Clock | None = None,
        guide: Guide | None = None,
    ) -> SearchState:
        """Continue the search for about as much work as evaluating this many points takes.

        What one call overspends (flips are not interrupted) is saved in the next one.

        Parameters
        ----------
        state : SearchState
            `begun`, or the result of an earlier call; it is not changed.
        rng : numpy.random.Generator
        evaluations : float
        clock : Clock, optional
        guide : callable, optional
            Returns points of the domain (k, d) to start turns from, or None.

        Returns
        -------
        SearchState
        """
        budget = SearchBudget(state.debt + evaluations, clock or Clock())
        state = state._replace(tried=state.tried.copy())
        while not budget.over and self._problem.network.kinked_units:
            if not state.going:
                state = self._turned(state, rng, budget, guide)
            population, walks, tried = state.population, state.walks, state.tried
            if state.walking:
                walks, points = walk(self._land, walks, population.points, tried, rng, budget)
                population = population._replace(points=points)
            else:
                population = Moves(self._land, tried, rng, budget).improved(population)
            found = population.points
            best = state.best.with_points(found.points, found.values, self._params.population)
            state = state._replace(best=best, population=population, walks=walks)
        return state._replace(debt=min(budget.left, 0.0))

    def _turned(
        self,
        state: SearchState,
        rng: np.random.Generator,
        budget: SearchBudget,
        guide: Guide | None,
    ) -> SearchState:
        """Start a turn, by ascents or at points of the guide.

        Every other turn starts from the archive, the others from points of the guide, or from
        random ones if there are none.
        """
        land = self._land
        points = guide() if guide is not None and state.turn % 2 == 0 else None
        # with many inputs, ascents lead from such points to lower maxima
        walking = self._walkers > 0 and (land.few_inputs or points is None)
        known = land.empty()
        if points is not None:
            budget.spend(land.program_points)
            known = land.with_points(known, points, budget)
            if walking:
                starts = np.resize(points, (self._params.population, points.shape[1]))
                known = self._ascended(known, starts, rng, budget)
        elif state.turn % 2:
            known = self._ascended_near(state.best, known, rng, budget)
        else:
            starts = self._problem.domain.sample(rng, self._params.population)
            known = self._ascended(known, starts, rng, budget)
            if not (budget.over if walking else budget.clock.expired):
                known = self._ascended_near(known, known, rng, budget)
        walks = state.walks
        if walking:
            walks = set_out(land, known, walks, self._walkers, state.tried)
        return state._replace(
            population=Population(known),
            walks=walks,
            walking=walking,
            turn=state.turn + 1,
        )

    def _ascended(
        self,
        known: GoodPoints,
        starts: FloatArray,
        rng: np.random.Generator,
        budget: SearchBudget,
        near: bool = False,
    ) -> GoodPoints:
        """Add the results of ascents to an archive; starts may be `near` good points."""
        land, params, count = self._land, self._params, len(starts)
        temperatures, steps = TEMPERATURES, STEPS
        if not land.few_inputs:
            temperatures, steps = _NEAR if near else _AFAR
        found = self._ascent.ascend(
            starts,
            self._hopeful(rng, count),
            rng.random(count) < 0.5,
            10.0 ** rng.uniform(*temperatures, count),
            10.0 ** rng.uniform(*steps, count),
            params.ascent_steps,
            budget.clock,
        )
        passes = 4.0  # for a step: five, mostly in single precision
        budget.spend(passes * count * params.ascent_steps / land.passes)
        return land.with_points(known, found, budget)

    def _hopeful(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Choose functionals (count, m) for ascents."""
        functionals = self._land.functionals
        if self._land.few_inputs or not 1 < len(functionals) <= ONE_BY_ONE:
            return functionals[rng.integers(0, len(functionals), count)]
        hope = self._hope
        return functionals[rng.choice(len(hope), count, p=hope)]

    @cached_property
    def _hope(self) -> FloatArray:
        """Probabilities of the functionals, by their gradients at the first points."""
        problem, functionals = self._problem, self._land.functionals
        bytes_each = functionals.itemsize * len(functionals) * max(problem.network.sizes)
        count = min(self._params.population, max(BATCH // bytes_each, 1))
        patterns = problem.network.pattern(self._sampled[:count])
        gradients = jacobian_rows(problem.tangent_network, patterns, functionals)
        tops = vector_norm(gradients, DUAL[problem.norm]).max(axis=0)
        hope = np.exp((tops / max(float(tops.max()), TINY) - 1.0) / _BEHIND)
        return np.asarray(hope / hope.sum())

    def _ascended_near(
        self,
        pool: GoodPoints,
        known: GoodPoints,
        rng: np.random.Generator,
        budget: SearchBudget,
    ) -> GoodPoints:
        """Do ascents from points near those of a pool, and between them."""
        parents = pool.parents(rng, self._params.population)
        near, some = perturbed(self._land, parents, rng), slice(0, len(parents) // 2)
        near[some] = parents[some] + towards(pool, parents[some], -0.3, 0.7, rng)
        starts = pulled_inside(self._problem.domain, near, parents)
        return self._ascended(known, starts, rng, budget, near=True)


def default_evaluations(problem: LipschitzProblem) -> int:
    """Return the number of evaluations of a search by default."""
    return int(np.clip(PARAMS.work / evaluation_work(problem), 500, MOST_EVALUATIONS))


def search_incumbent(
    problem: LipschitzProblem,
    rng: np.random.Generator,
    evaluations: int | None = None,
    clock: Clock | None = None,
    phases: Phases | None = None,
) -> Witness | None:
    """Search for a point with a large Jacobian norm.

    Parameters
    ----------
    problem : LipschitzProblem
        The original problem; the search works on the reduced one.
    rng : numpy.random.Generator
    evaluations : int, optional
        The number of points to evaluate (a linear program counts as several hundred).  The default
        depends on the size of the network and takes a few tenths of a second to a few seconds.
    clock : Clock, optional
    phases : Phases, optional
        Phases of the reduced problem's network that are implied by its domain.

    Returns
    -------
    Witness or None
        A witness of the original problem; None if no point could be certified.
    """
    small = problem.reduced.problem
    small = small if phases is None else small.thinned(phases)
    budget = default_evaluations(small) if evaluations is None else evaluations
    search = LocalSearch(small, rng, min(1024, max(64, budget // 8)), clock)
    best = search.improve(search.begun, rng, budget, clock).best
    return unbeaten(best.points, best.values, partial(_certified, problem))


def _begin_seconds(problem: LipschitzProblem) -> float:
    """Estimate how long the first point of the shortest search takes."""
    entries = sum(dense_entries(layer.weight) for layer in problem.network.layers)
    return seconds_of(2.0 * evaluation_passes(problem) * entries)


def quick_budget(problem: LipschitzProblem, clock: Clock) -> tuple[int, Clock]:
    """Return evaluations and time of the short search that precedes all bounds, if reduced."""
    return default_evaluations(problem) // PARAMS.quick, clock.within(clock.left / PARAMS.quick)


def quick_incumbent(
    problem: LipschitzProblem, seed: int, clock: Clock, phases: Phases | None = None
) -> Witness | None:
    """Search as briefly as branch and bound does before its first bounds.

    If there is no time for the first points, only the middle of the domain is evaluated.
    Parameters are those of `search_incumbent`.
    """
    if not fits(_begin_seconds(problem.reduced.problem), clock.left):
        return _certified(problem, problem.reduced.problem.domain.center)
    budget = quick_budget(problem.reduced.problem, clock)
    return search_incumbent(problem, np.random.default_rng(seed), *budget, phases)


def _certified(problem: LipschitzProblem, x: FloatArray) -> Witness | None:
    """Return a witness at a point of the reduced problem, or elsewhere in its region."""
    reduced = problem.reduced
    witness = witness_near(problem, x)
    if witness is None:
        witness = witness_of_pattern(problem, reduced.problem.network.pattern(x))
    return witness
