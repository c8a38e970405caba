"""Lower bounds by search: ascents on a smoothed norm, walks across facets, and evolution.

The Jacobian's norm is constant on each activation region, so the search needs moves of all lengths.
A turn begins with ascents on a smoothed norm, from random points or from good ones.  From the best
places that they end in walks set out: straight across the kinks of units as long as the norm grows,
then to the best region with one unit flipped that exists (`deep.py` finds points of many regions at
once, or rules them out), and so on.  The landscape has many hills, and a turn climbs a few of them.

On curved domains, in networks so large that regions take too long, and around points that others
name where inputs are many, populations do instead: perturbed good points (some coordinates only, or
whole first-layer units, step lengths over several decades), steps across kinks, and linear programs
for single regions.  They are given up when they stall.

Equal seeds and evaluation counts give equal answers; a time limit may cut the search short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice

import numpy as np
import numpy.typing as npt

from lipyomo.affine import affine_pieces
from lipyomo.network import BoolArray, FloatArray
from lipyomo.norms import DUAL, vector_norm
from lipyomo.numerics.pace import dense_entries, fits, seconds_of
from lipyomo.phases import Phases
from lipyomo.problem import LipschitzProblem
from lipyomo.regions.margin import WIDE, interior_point
from lipyomo.regions.witness import unbeaten, witness_near, witness_of_pattern
from lipyomo.result import Witness
from lipyomo.run import Clock
from lipyomo.sampling.ascent import SmoothAscent, pulled_inside
from lipyomo.sampling.deep import deep_points, solves_regions_of
from lipyomo.sampling.evaluate import (
    MAX_ROWS,
    evaluation_passes,
    evaluation_work,
    jacobian_rows,
    pattern_norms,
    point_norms,
)
from lipyomo.sampling.thinned import thinned

POPULATION = 32
"""Points of a population, and of the archive of all of them."""

CHILDREN = 256
"""Most points of a generation."""

GENERATION_WORK = 1e8
"""Multiplications that a generation may cost; large networks have fewer children."""

FIRST_WORK = 1e9
"""Multiplications that the points may cost which a search begins with."""

FEWEST = 8
"""Points that it begins with at least."""

AT_ONCE = 3e8
"""Multiplications between two looks at the clock while points are evaluated."""

CLIMBS, CLIMB_STEPS, HILLS = 32, 40, 4
"""Ascents that begin a turn, and their steps; from how many of the places that they end in walks
set out (fewer in large networks)."""

CLIMB_COST = 3.0
"""Passes that a step of an ascent costs: more, but of many points, and with fewer digits."""

HOT, WARM, COOL = (0.0, 1.0), (-0.7, 1.0), (-1.0, 0.5)
"""Powers of ten of first temperatures: from afar, there where inputs are few, from good points."""

LONG, SHORT = (-0.5, 0.0), (-1.7, -0.6)
"""Those of first steps, from afar and from good points."""

HOPE = 0.03
"""Ascents take a functional e times less often for each such share of the largest norm that it is
behind."""

FLIPS, MISSES, EXISTING = 12, 2, 1.2
"""Flips of a pattern that are tried at once, the best first, and how often none may exist; where
inputs are many, so few that about one is likely to."""

REGION_POINTS, WIDE_REGION_POINTS = 40, 400
"""Evaluations that finding a point of one of many regions counts as; with many inputs."""

MOST_SEEN = 1 << 20
"""Patterns that are remembered as tried."""

PATIENCE = 2
"""Turns without gain after which a population is given up."""

TURNS = 3
"""Of so many populations the first begins at random; where somebody points to places, the last from
the archive and the others there, else all others from the archive."""

PROMISING = 4
"""Functionals that generations look at, where the dual ball has more vertices."""

WORK = 3e9
"""Multiplications that the default number of evaluations amounts to."""

PROGRAM_POINTS = 256
"""Evaluations that a linear program counts as; wide inputs need several of them."""

TINY = 1e-300
"""Stands in for the largest norm where none is known."""

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


@dataclass
class _Walks:
    """Where walks are, what is attained there, and how often none of the flips tried existed."""

    points: FloatArray
    values: FloatArray
    misses: npt.NDArray[np.int64]

    @property
    def under_way(self) -> npt.NDArray[np.intp]:
        """Those that have not ended."""
        return np.flatnonzero(self.misses < MISSES)


class LocalSearch:
    """A search that can go on: every call of `run` adds to what the earlier ones found.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    rng : numpy.random.Generator
    samples : int, optional
        Random points to begin with.
    clock : Clock, optional
        In whose time they are evaluated, but for the first few.

    Attributes
    ----------
    points : ndarray, shape (k, d)
        The best points so far, best first, one for each value.
    values : ndarray, shape (k,)
        Attained at them, up to rounding and kinks.
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        rng: np.random.Generator,
        samples: int = 256,
        clock: Clock | None = None,
    ) -> None:
        self._problem, self._domain, self._rng = problem, problem.domain, rng
        width = self._domain.upper - self._domain.lower
        self._free = ~np.isfinite(width)
        self._width = np.where(self._free, 0.0, width)
        self._first = problem.network.layers[0].weight
        self._passes, self._cost = evaluation_passes(problem), evaluation_work(problem)
        self._children = int(np.clip(GENERATION_WORK / self._cost, 16, CHILDREN))
        vertices = problem.dual_vertices
        self._few = self._domain.dimension <= WIDE
        self._hills = 0
        if solves_regions_of(self._domain) and _entries(problem) <= FLIP_ENTRIES:
            flips = max(problem.network.kinked_units, 1) * self._cost
            self._hills = int(np.clip(FIRST_WORK / flips, 1, HILLS))
        self._program_points = PROGRAM_POINTS * (1 if self._few else 4)
        self._listed = vertices is not None and len(vertices) <= MAX_ROWS
        self._functionals = np.eye(problem.network.output_dim) if vertices is None else vertices
        self._tops = np.zeros(len(self._functionals))
        self._seen: set[bytes] = set()
        self._left = 0.0
        self._clock = clock or Clock()
        self._turn, self._idle, self._top = 0, PATIENCE, -1.0
        self._move, self._walking = 0, False
        self._archive = _Population(np.zeros((0, problem.network.input_dim)))
        self._here = self._archive
        self._walks = _Walks(self.points, self.values, np.zeros(0, dtype=np.int64))
        self._tested, self._found = 0, 0
        self._region_points = REGION_POINTS if self._few else WIDE_REGION_POINTS
        count = 64 if self._domain.rows.count else min(samples, 4 * self._children)
        count = min(count, max(FEWEST, int(FIRST_WORK / self._cost)))
        self._begun = np.vstack([self._domain.center[None, :], self._domain.sample(rng, count)])
        self._try(self._begun)
        self._left = 0.0

    @cached_property
    def _ascent(self) -> SmoothAscent:
        spread = [z.std(axis=0) for z in self._problem.network.preactivations(self._begun)]
        return SmoothAscent(self._problem, spread)

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

        What one call does in excess (a turn of flips ends when no flip is left) the next one saves.

        Parameters
        ----------
        evaluations : int
        clock : Clock, optional
        guide : callable, optional
            Gives points of the domain (d,) to begin populations from, as long as it has some.
        """
        self._left, self._clock = min(self._left, 0.0) + evaluations, clock or Clock()
        while not self._over and self._problem.network.kinked_units:
            going = self._walks.under_way.size > 0 if self._walking else self._idle < PATIENCE
            if not going:
                self._turn, self._idle, self._top = self._turn + 1, 0, -1.0
                self._move = 0
                self._here = _Population(self.points[:0])
                self._begin(guide)
                if self._walking:
                    self._set_out()
            if self._walking:
                self._walk()
            else:
                self._settle()
            self._archive.add(self._here.points, self._here.values)

    # -- one population ----------------------------------------------------------------------------

    def _begin(self, guide: Callable[[], FloatArray | None] | None) -> None:
        """Begin the population by ascents, or where somebody points to."""
        point = guide() if guide is not None and self._turn % TURNS else None
        # where inputs are many, ascents leave such points for lower hills
        self._walking = self._hills > 0 and (self._few or point is None)
        if point is not None:
            self._left -= self._program_points
            self._try(point[None, :])
            if self._walking:
                self._climb(np.repeat(point[None, :], CLIMBS, axis=0))
            return
        if self._turn % TURNS != 1:
            self._climb_on(self._archive)
            return
        self._climb(self._domain.sample(self._rng, CLIMBS))
        if not (self._over if self._walking else self._clock.expired):
            self._climb_on(self._here)

    def _settle(self) -> None:
        """Improve the population until it stalls; what a budget interrupts goes on with the next.

        A turn crosses kinks at the two best points, lets four generations follow, and flips units.
        """
        moves = (
            partial(self._cross, 0),
            partial(self._cross, 1),
            *4 * (self._evolve,),
            self._flip_best,
            self._flip_other,
        )
        while self._idle < PATIENCE and not self._over:
            move, self._move = self._move, (self._move + 1) % len(moves)
            moves[move]()
            if self._move == 0:
                top = float(self._here.values[0])
                self._idle, self._top = (0, top) if top > self._top else (self._idle + 1, self._top)

    @property
    def _over(self) -> bool:
        """Whether the budget is spent."""
        return self._left <= 0 or self._clock.expired

    def _try(self, points: FloatArray, rows: FloatArray | None = None) -> None:
        """Evaluate points, those of large networks as far as there is time; keep the good ones."""
        share = 1.0 if rows is None else (1.0 + len(rows)) / self._passes
        self._left -= share * len(points)
        step = max(1, int(AT_ONCE / self._cost))
        for first in range(0, len(points), step):
            if first and self._clock.expired:
                break
            part = points[first : first + step]
            self._here.add(part, point_norms(self._problem, part, rows)[0])

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

    def _climb(self, points: FloatArray, good: bool = False) -> None:
        """Ascents of all kinds from some points, which may be good ones already."""
        rng, count, functionals = self._rng, len(points), self._functionals
        afar = WARM if self._few else HOT
        hope = np.exp((self._tops / max(self._tops.max(), TINY) - 1.0) / HOPE)
        found = self._ascent.climb(
            points,
            functionals[rng.choice(len(hope), count, p=hope / hope.sum())],
            rng.random(count) < 0.5,
            10.0 ** rng.uniform(*(COOL if good else afar), count),
            10.0 ** rng.uniform(*(SHORT if good else LONG), count),
            CLIMB_STEPS,
            self._clock,
        )
        self._left -= CLIMB_COST * count * CLIMB_STEPS / self._passes
        if 1 < len(functionals) <= MAX_ROWS:
            network = self._problem.network
            gradients = jacobian_rows(network, network.pattern(found), functionals)
            norms = vector_norm(gradients, DUAL[self._problem.input_norm])
            self._tops = np.maximum(self._tops, norms.max(axis=0))
            self._left -= count
        self._try(found)

    def _climb_on(self, pool: _Population) -> None:
        """Ascents from points near those of a population, and between them."""
        parents = pool.parents(self._rng, CLIMBS)
        moved, half = parents + self._moves(parents), parents[: CLIMBS // 2]
        moved[: CLIMBS // 2] = half + self._towards(pool, half, -0.3, 0.7)
        self._climb(pulled_inside(self._domain, moved, parents), True)

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

    def _towards(
        self, pool: _Population, parents: FloatArray, low: float, high: float
    ) -> FloatArray:
        """Ways from parents to points of a population, of shares between `low` and `high`."""
        mates = pool.points[self._rng.integers(0, len(pool.points), len(parents))]
        return np.asarray(self._rng.uniform(low, high, (len(parents), 1)) * (mates - parents))

    def _evolve(self) -> None:
        """One generation of perturbed and recombined points."""
        if self._over:
            return
        rng, pool, count = self._rng, self._here, self._children
        parents = pool.parents(rng, count)
        children = parents + self._moves(parents)
        children[: count // 4] += self._towards(pool, parents[: count // 4], -0.5, 1.5)
        if self._free.all():
            children[-(count // 8) :] *= 10.0 ** rng.uniform(-1.0, 1.0, (count // 8, 1))
        self._try(pulled_inside(self._domain, children, parents), self._promising())

    def _cross(self, index: int) -> None:
        """Step from a good point across the kinks of units."""
        if self._over or index >= len(self._here.values) or _entries(self._problem) > FLIP_ENTRIES:
            return
        self._try(self._across(self._here.points[index]), self._promising())

    def _across(self, x: FloatArray) -> FloatArray:
        """Points straight across the nearest kinks and a bit beyond, at most `CHILDREN`."""
        network, steps = self._problem.network, [np.zeros((0, x.size))]
        pieces = affine_pieces(network, network.pattern(x))
        for layer, (gain, offset) in zip(network.hidden, pieces, strict=False):
            z = gain @ x + offset
            size = np.square(gain).sum(axis=1)
            use = layer.kinked & (size > 0)
            steps.append(-(z[use] / size[use])[:, None] * gain[use])
        across = np.vstack(steps)
        if len(across) > self._children:
            near = np.argsort(np.abs(across).max(axis=1), kind="stable")
            across = across[near[: self._children]]
        beyond = 1.0 + 10.0 ** self._rng.uniform(-4.0, 0.0, (len(across), 1))
        parents = np.broadcast_to(x, across.shape)
        return pulled_inside(self._domain, x + beyond * across, parents)

    def _flip_best(self) -> None:
        """Flip units at the best point as long as that makes it better."""
        while self._flip(0, 12):
            pass

    def _flip_other(self) -> None:
        """Flip units at another point of the population."""
        if len(self._here.values) > 1:
            self._flip(1 + int(self._rng.integers(len(self._here.values) - 1)), 2)

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
        best = float(self._here.values[0])
        flipped, values = self._flipped(network.pattern(self._here.points[index : index + 1]))
        order = np.argsort(-values, kind="stable")
        better = order[values[order] > best * (1.0 + 1e-12)]
        for k in islice(self._unseen(flipped, better), most):
            if self._clock.expired:
                break
            self._left -= self._program_points
            found = interior_point(network, self._domain, tuple(on[k] for on in flipped))
            if found.margin > 0:
                self._try(found.x[None, :])
                if self._here.values[0] > best:
                    return True
        return False

    def _set_out(self) -> None:
        """Begin walks at the best points of the population."""
        starts = self._problem.network.pattern(self._here.points)
        new = list(islice(self._unseen(starts, np.arange(len(self._here.points))), self._hills))
        points, values = self._here.points[new], self._here.values[new]
        self._walks = _Walks(points, values, np.zeros(len(new), dtype=np.int64))

    def _walk(self) -> None:
        """Flip units where the walks are as long as their norms grow.

        All walks take their steps together, each to its best neighbour that exists.
        """
        network, domain, walks = self._problem.network, self._domain, self._walks
        points, values, misses = walks.points, walks.values, walks.misses
        while walks.under_way.size and not self._over:
            self._stride(walks)
            flipped, norms = self._flipped(network.pattern(points[walks.under_way]))
            of = np.repeat(walks.under_way, len(norms) // walks.under_way.size)
            tried: list[int] = []
            most = FLIPS
            if not self._few:
                most = int(np.clip(EXISTING * self._tested / (self._found + 1.0), 2, FLIPS))
            for k in walks.under_way:
                mine = np.flatnonzero((of == k) & (norms > values[k] * (1.0 + 1e-12)))
                order = mine[np.argsort(-norms[mine], kind="stable")]
                tried += islice(self._unseen(flipped, order), most)
            misses += misses < MISSES
            misses[np.setdiff1d(np.arange(misses.size), of[tried])] = MISSES
            if not tried:
                break
            self._left -= self._region_points * len(tried)
            patterns = [on[tried] for on in flipped]
            near, found = deep_points(network, domain, patterns, points[of[tried]])
            self._tested, self._found = self._tested + len(tried), self._found + int(found.sum())
            for k in np.unique(of[tried]):
                exists = np.flatnonzero((of[tried] == k) & found)[:1]
                if exists.size:
                    points[k], values[k] = near[exists[0]], norms[tried[exists[0]]]
                    misses[k] = 0
        self._try(points)

    def _stride(self, walks: _Walks) -> None:
        """Steps across kinks from where walks are, as long as their norms grow."""
        fresh = walks.under_way[walks.misses[walks.under_way] == 0]
        for k in fresh:
            while not self._over:
                points = self._across(walks.points[k])
                values, _ = point_norms(self._problem, points, self._promising())
                self._left -= 1.5 * len(points)
                best = int(np.argmax(values)) if len(values) else -1
                if best < 0 or values[best] <= walks.values[k] * (1.0 + 1e-12):
                    break
                walks.points[k], walks.values[k] = points[best], values[best]

    def _unseen(self, patterns: Sequence[BoolArray], order: npt.NDArray[np.intp]) -> Iterator[int]:
        """Those of `order` that were never tried before; each counts as tried once it is given."""
        packed = np.packbits(np.concatenate([on[order] for on in patterns], axis=1), axis=1)
        for k, row in zip(order.tolist(), packed, strict=True):
            key = row.tobytes()
            if key not in self._seen:
                if len(self._seen) >= MOST_SEEN:
                    self._seen.clear()
                self._seen.add(key)
                yield k

    def _flipped(self, patterns: Sequence[BoolArray]) -> tuple[list[BoolArray], FloatArray]:
        """The patterns with one unit flipped, those of the first pattern first; and their norms."""
        hidden = self._problem.network.hidden
        ends = np.cumsum([layer.units for layer in hidden])
        units = np.flatnonzero(np.concatenate([layer.kinked for layer in hidden]))
        whole = np.repeat(np.concatenate(patterns, axis=1)[:, None, :], len(units), axis=1)
        whole[:, np.arange(len(units)), units] ^= True
        flipped = np.split(whole.reshape(-1, int(ends[-1])), ends[:-1], axis=1)
        rows = self._promising()
        share = 1.0 if rows is None else (1.0 + len(rows)) / self._passes
        self._left -= share * len(flipped[0])
        return flipped, pattern_norms(self._problem, flipped, rows)


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
    phases: Phases | None = None,
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
    phases : Phases, optional
        Of the reduced problem's network, that follow from its domain.

    Returns
    -------
    Witness or None
        Of the original problem; None if no point could be certified.
    """
    small = problem.reduced.problem
    small = small if phases is None else thinned(small, phases)
    budget = default_evaluations(small) if evaluations is None else evaluations
    search = LocalSearch(small, rng, min(1024, max(64, budget // 8)), clock)
    search.run(budget, clock)
    return unbeaten(search.points, search.values, partial(_certified, problem))


def _begin_seconds(problem: LipschitzProblem) -> float:
    """About how long the first points of the shortest search take."""
    entries = sum(dense_entries(layer.weight) for layer in problem.network.layers)
    return seconds_of(2.0 * FEWEST * evaluation_passes(problem) * entries)


def quick_budget(problem: LipschitzProblem, clock: Clock) -> tuple[int, Clock]:
    """Evaluations and time of the short search of a reduced problem before any bound is known."""
    return default_evaluations(problem) // QUICK, clock.within(QUICK_TIME * clock.left)


def quick_incumbent(
    problem: LipschitzProblem, seed: int, clock: Clock, phases: Phases | None = None
) -> Witness | None:
    """Search as briefly as branch and bound does before its first bounds.

    Where there is no time for its first points, only the middle of the domain is looked at.
    Parameters are those of `search_incumbent`.
    """
    if not fits(_begin_seconds(problem.reduced.problem), clock.left):
        return _certified(problem, problem.reduced.problem.domain.center)
    budget = quick_budget(problem.reduced.problem, clock)
    return search_incumbent(problem, np.random.default_rng(seed), *budget, phases)


def _certified(problem: LipschitzProblem, x: FloatArray) -> Witness | None:
    """A witness at a point of the reduced problem, or elsewhere in its region."""
    reduced = problem.reduced
    witness = witness_near(problem, x)
    if witness is None:
        witness = witness_of_pattern(problem, reduced.problem.network.pattern(x))
    return witness
