"""Lower bounds by search: ascent on a smoothed norm, evolution, and walks across facets.

The Jacobian's norm is constant on each activation region, so the search needs moves of all
lengths: ascents on a smoothed norm, perturbed good points (some coordinates only, or whole
first-layer units, step lengths over several decades), steps across the kink of each unit in turn,
and, for the best regions, linear programs that tell whether the region with one unit flipped
exists and give a deep point of it.  Populations stay small and are given up when they stall: the
landscape has many hills, and one population climbs one of them.

Equal seeds and evaluation counts give equal answers; a time limit may cut the search short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from lipyomo.affine import affine_pieces
from lipyomo.network import BoolArray, FloatArray, Pattern
from lipyomo.problem import LipschitzProblem
from lipyomo.regions.margin import WIDE, interior_point
from lipyomo.regions.witness import unbeaten, witness_near, witness_of_pattern
from lipyomo.result import Witness
from lipyomo.run import Clock
from lipyomo.sampling.ascent import SmoothAscent, pulled_inside
from lipyomo.sampling.evaluate import (
    MAX_ROWS,
    evaluation_passes,
    evaluation_work,
    pattern_norms,
    point_norms,
)

POPULATION = 32
"""Points of a population, and of the archive of all of them."""

CHILDREN = 256
"""Most points of a generation."""

GENERATION_WORK = 1e8
"""Multiplications that a generation may cost; large networks have fewer children."""

FIRST_WORK = 1e9
"""Multiplications that the points may cost which a search begins with."""

CLIMBS, CLIMB_STEPS = 8, 40
"""Ascents that begin a population, and their steps."""

PATIENCE = 2
"""Turns without gain after which a population is given up."""

ARCHIVE_TURN = 3
"""One in so many populations begins from the archive."""

PROMISING = 4
"""Functionals that generations look at, where the dual ball has more vertices."""

WORK = 3e9
"""Multiplications that the default number of evaluations amounts to."""

PROGRAM_POINTS = 256
"""Evaluations that a linear program counts as; wide inputs need several of them."""

QUICK = 24
"""How many times shorter than the default a search is before any bound is known."""

QUICK_TIME = 0.1
"""Most of the time left that it may take."""

FLIP_ENTRIES = 1_000_000
"""Units times inputs above which no linear programs are solved."""


@dataclass
class _Population:
    """The best points so far, one for each value, best first."""

    points: FloatArray
    values: FloatArray = field(default_factory=lambda: np.zeros(0))

    def add(self, points: FloatArray, values: FloatArray) -> None:
        """Merge new points and keep the best `POPULATION` with different values."""
        values = np.concatenate([self.values, values])
        points = np.concatenate([self.points, points])
        order = np.argsort(-values, kind="stable")
        _, first = np.unique(values[order], return_index=True)
        keep = order[np.sort(first)][:POPULATION]
        self.points, self.values = points[keep], values[keep]

    def parents(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Points drawn with replacement, better ones more often."""
        return np.asarray(self.points[np.minimum(rng.geometric(0.15, count), len(self.values)) - 1])


class LocalSearch:
    """A search that can go on: every call of `run` adds to what the earlier ones found.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    rng : numpy.random.Generator
    samples : int, optional
        Random points to begin with.

    Attributes
    ----------
    points : ndarray, shape (k, d)
        The best points so far, best first, one for each value.
    values : ndarray, shape (k,)
        Attained at them, up to rounding and kinks.
    """

    def __init__(
        self, problem: LipschitzProblem, rng: np.random.Generator, samples: int = 256
    ) -> None:
        self._problem, self._domain, self._rng = problem, problem.domain, rng
        width = self._domain.upper - self._domain.lower
        self._free = ~np.isfinite(width)
        self._width = np.where(self._free, 0.0, width)
        self._first = problem.network.layers[0].weight
        self._passes, self._cost = evaluation_passes(problem), evaluation_work(problem)
        self._children = int(np.clip(GENERATION_WORK / self._cost, 16, CHILDREN))
        vertices = problem.dual_vertices
        self._program_points = PROGRAM_POINTS * (1 if self._domain.dimension <= WIDE else 4)
        self._listed = vertices is not None and len(vertices) <= MAX_ROWS
        self._functionals = np.eye(problem.network.output_dim) if vertices is None else vertices
        self._seen: set[bytes] = set()
        self._left = 0.0
        self._clock = Clock()
        self._turn, self._idle, self._top = 0, PATIENCE, -1.0
        self._archive = _Population(np.zeros((0, problem.network.input_dim)))
        self._here = self._archive
        count = 64 if self._domain.rows.count else min(samples, 4 * self._children)
        count = min(count, max(8, int(FIRST_WORK / self._cost)))
        points = np.vstack([self._domain.center[None, :], self._domain.sample(rng, count)])
        self._try(points)
        spread = [z.std(axis=0) for z in problem.network.preactivations(points)]
        self._ascent = SmoothAscent(problem, spread)

    @property
    def points(self) -> FloatArray:
        """See the class."""
        return self._archive.points

    @property
    def values(self) -> FloatArray:
        """See the class."""
        return self._archive.values

    def offer(self, points: FloatArray) -> None:
        """Take points of the domain found elsewhere, to start from."""
        values, _ = point_norms(self._problem, points)
        self._archive.add(points, values)

    def run(
        self,
        evaluations: int,
        clock: Clock | None = None,
        guide: Callable[[], FloatArray | None] | None = None,
    ) -> None:
        """Search on for about as much work as evaluating that many points takes.

        Parameters
        ----------
        evaluations : int
        clock : Clock, optional
        guide : callable, optional
            Gives points of the domain (d,) to begin populations from, as long as it has some.
        """
        self._left, self._clock = float(evaluations), clock or Clock()
        while not self._over and self._problem.network.kinked_units:
            if self._idle >= PATIENCE:
                self._turn, self._idle, self._top = self._turn + 1, 0, -1.0
                self._here = _Population(self.points[:0])
                self._begin(guide)
            self._settle()
            self._archive.add(self._here.points, self._here.values)

    # -- one population ----------------------------------------------------------------------------

    def _begin(self, guide: Callable[[], FloatArray | None] | None) -> None:
        """Begin the population by ascents, or where somebody points to."""
        point = guide() if guide is not None and self._turn % ARCHIVE_TURN else None
        if point is None:
            self._climb()
        else:
            self._left -= self._program_points
            self._try(point[None, :])

    def _settle(self) -> None:
        """Improve the population until it stalls."""
        while self._idle < PATIENCE:
            for index in range(min(2, len(self._here.values))):
                self._cross(index)
            for _ in range(4):
                self._evolve()
            while self._flip(0, 12):
                pass
            if len(self._here.values) > 1:
                self._flip(1 + int(self._rng.integers(len(self._here.values) - 1)), 2)
            if self._over:
                return
            top = float(self._here.values[0])
            self._idle, self._top = (0, top) if top > self._top else (self._idle + 1, self._top)

    @property
    def _over(self) -> bool:
        """Whether the budget is spent."""
        return self._left <= 0 or self._clock.expired

    def _try(self, points: FloatArray, rows: FloatArray | None = None) -> None:
        """Evaluate points and keep the good ones."""
        values, _ = point_norms(self._problem, points, rows)
        share = 1.0 if rows is None else (1.0 + len(rows)) / self._passes
        self._left -= share * len(points)
        self._here.add(points, values)

    def _promising(self) -> FloatArray | None:
        """The functionals that the best points of the population attain; None for all."""
        if not self._listed or len(self._functionals) <= PROMISING:
            return None
        patterns = self._problem.network.pattern(self._here.points[:PROMISING])
        each = np.array(
            [pattern_norms(self._problem, patterns, y[None]) for y in self._functionals]
        )
        self._left -= PROMISING
        return np.asarray(self._functionals[np.unique(each.argmax(axis=0))])

    def _climb(self) -> None:
        """Begin the population by ascents from random points, or from the archive."""
        rng, count = self._rng, CLIMBS
        if self._turn % ARCHIVE_TURN:
            points = self._domain.sample(rng, count)
        else:
            parents = self._archive.parents(rng, count)
            points = pulled_inside(self._domain, parents + self._moves(parents), parents)
        found, _ = self._ascent.climb(
            points,
            self._functionals[rng.integers(0, len(self._functionals), count)],
            rng.random(count) < 0.5,
            10.0 ** rng.uniform(-0.7, 0.7, count),
            10.0 ** rng.uniform(-1.3, -0.3, count),
            CLIMB_STEPS,
            self._clock,
        )
        self._left -= 5.0 * count * CLIMB_STEPS / self._passes
        self._try(found)

    def _moves(self, parents: FloatArray) -> FloatArray:
        """Perturbations of all lengths, of some coordinates or of first-layer units."""
        rng, (count, d) = self._rng, parents.shape
        step = 10.0 ** rng.uniform(-2.5, 0.0, (count, 1))
        mask = rng.random((count, d)) < 10.0 ** rng.uniform(-1.0, 0.0, (count, 1))
        scale = np.where(self._free, np.maximum(1.0, np.abs(parents)), self._width)
        noise = mask * rng.standard_normal((count, d))
        if d > self._first.shape[0]:
            noise[count // 4 :] = self._steered(count - count // 4)
        return np.asarray(step * scale * noise)

    def _steered(self, count: int) -> FloatArray:
        """Directions that move a few first-layer pre-activations as far as the box allows.

        With many more inputs than units, independent noise hardly moves a pre-activation: the sign
        vector of a combination of weight rows moves it most.
        """
        rng, units = self._rng, self._first.shape[0]
        chosen = rng.random((count, units)) < 10.0 ** rng.uniform(-1.5, 0.0, (count, 1))
        chosen[np.arange(count), rng.integers(0, units, count)] = True
        moves = np.asarray((chosen * rng.standard_normal((count, units))) @ self._first)
        return np.asarray(np.sign(moves))

    def _evolve(self) -> None:
        """One generation of perturbed and recombined points."""
        if self._over:
            return
        rng, pool, count = self._rng, self._here, self._children
        parents = pool.parents(rng, count)
        children = parents + self._moves(parents)
        mates = pool.points[rng.integers(0, len(pool.points), count // 4)]
        weight = rng.uniform(-0.5, 1.5, (count // 4, 1))
        children[: count // 4] += weight * (mates - parents[: count // 4])
        if self._free.all():
            children[-(count // 8) :] *= 10.0 ** rng.uniform(-1.0, 1.0, (count // 8, 1))
        self._try(pulled_inside(self._domain, children, parents), self._promising())

    def _cross(self, index: int) -> None:
        """Step from a good point across the kinks of units, straight and a bit beyond."""
        network = self._problem.network
        if self._over or _entries(self._problem) > FLIP_ENTRIES:
            return
        x = self._here.points[index]
        steps = []
        pieces = affine_pieces(network, network.pattern(x))
        for layer, (gain, offset) in zip(network.hidden, pieces, strict=False):
            z = gain @ x + offset
            size = np.square(gain).sum(axis=1)
            use = layer.kinked & (size > 0)
            steps.append(-(z[use] / size[use])[:, None] * gain[use])
        if not steps:
            return
        across = np.vstack(steps)
        if len(across) > self._children:
            near = np.argsort(np.abs(across).max(axis=1), kind="stable")
            across = across[near[: self._children]]
        beyond = 1.0 + 10.0 ** self._rng.uniform(-4.0, 0.0, (len(across), 1))
        parents = np.broadcast_to(x, across.shape)
        moved = pulled_inside(self._domain, x + beyond * across, parents)
        self._try(moved, self._promising())

    def _flip(self, index: int, most: int) -> bool:
        """Look for a region with one unit flipped that is better than the best so far.

        Returns
        -------
        bool
            Whether one was found.
        """
        if self._over or _entries(self._problem) > FLIP_ENTRIES:
            return False
        network = self._problem.network
        pattern = network.pattern(self._here.points[index])
        best = float(self._here.values[0])
        for candidate in self._neighbours(pattern, best, most):
            key = b"".join(map(bytes, candidate))
            if key in self._seen or self._clock.expired:
                continue
            self._seen.add(key)
            self._left -= self._program_points
            found = interior_point(network, self._domain, candidate)
            if found.margin > 0:
                self._try(found.x[None, :])
                if self._here.values[0] > best:
                    return True
        return False

    def _neighbours(self, pattern: Pattern, best: float, most: int) -> list[Pattern]:
        """Patterns with one flipped unit whose norm exceeds `best`, best first."""
        places = [
            (i, j)
            for i, layer in enumerate(self._problem.network.hidden)
            for j in np.flatnonzero(layer.kinked)
        ]
        flipped: list[BoolArray] = [np.repeat(on[None, :], len(places), axis=0) for on in pattern]
        for row, (i, j) in enumerate(places):
            flipped[i][row, j] ^= True
        rows = self._promising()
        values = pattern_norms(self._problem, flipped, rows)
        self._left -= len(places) * (1.0 if rows is None else (1.0 + len(rows)) / self._passes)
        order = np.argsort(-values, kind="stable")[:most]
        better = order[values[order] > best * (1.0 + 1e-12)]
        return [tuple(on[row] for on in flipped) for row in better]


def _entries(problem: LipschitzProblem) -> int:
    return problem.network.kinked_units * problem.network.input_dim


def default_evaluations(problem: LipschitzProblem) -> int:
    """Number of points that cost about `WORK` multiplications."""
    return int(np.clip(WORK / evaluation_work(problem), 500, 60_000))


def search_incumbent(
    problem: LipschitzProblem,
    rng: np.random.Generator,
    evaluations: int | None = None,
    clock: Clock | None = None,
) -> Witness | None:
    """Search for a point with a large Jacobian norm.

    Parameters
    ----------
    problem : LipschitzProblem
        The original problem; the search works on the reduced one.
    rng : numpy.random.Generator
    evaluations : int, optional
        Points to evaluate (a linear program counts as some hundreds); by default chosen by the
        network's size, for a few tenths of a second to a few seconds.
    clock : Clock, optional

    Returns
    -------
    Witness or None
        Of the original problem; None if no point could be certified.
    """
    small = problem.reduced.problem
    budget = default_evaluations(small) if evaluations is None else evaluations
    search = LocalSearch(small, rng, min(1024, max(64, budget // 8)))
    search.run(budget, clock)
    return unbeaten(search.points, search.values, partial(_certified, problem))


def quick_budget(problem: LipschitzProblem, clock: Clock) -> tuple[int, Clock]:
    """Evaluations and time of the short search of a reduced problem before any bound is known."""
    return default_evaluations(problem) // QUICK, clock.within(QUICK_TIME * clock.left)


def quick_incumbent(problem: LipschitzProblem, seed: int, clock: Clock) -> Witness | None:
    """Search as briefly as branch and bound does before its first bounds.

    Parameters are those of `search_incumbent`.
    """
    budget = quick_budget(problem.reduced.problem, clock)
    return search_incumbent(problem, np.random.default_rng(seed), *budget)


def _certified(problem: LipschitzProblem, x: FloatArray) -> Witness | None:
    """A witness at a point of the reduced problem, or elsewhere in its region."""
    reduced = problem.reduced
    witness = witness_near(problem, x)
    if witness is None:
        witness = witness_of_pattern(problem, reduced.problem.network.pattern(x))
    return witness
