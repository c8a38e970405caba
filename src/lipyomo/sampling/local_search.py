"""Lower bounds by search: random points, evolution, and walks across the facets of regions.

The Jacobian's norm is constant on each activation region, so the search needs moves of all
lengths: random points, perturbed good points (some coordinates only, step lengths over several
decades), steps across the kink of each unit in turn, and, for the best regions, linear programs
that tell whether the region with one unit flipped exists and give a deep point of it.

Equal seeds and evaluation counts give equal answers; a time limit may cut the search short.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from lipyomo.domains import Domain
from lipyomo.network import BoolArray, FloatArray, Pattern
from lipyomo.problem import LipschitzProblem
from lipyomo.regions.margin import interior_point
from lipyomo.regions.witness import make_witness, witness_of_pattern
from lipyomo.result import Witness
from lipyomo.sampling.evaluate import pattern_norms, point_norms

POPULATION = 32
CHILDREN = 256
WORK = 5e8
"""Multiplications that the default number of evaluations amounts to."""


@dataclass
class _Population:
    """The best points so far, one for each value, best first."""

    points: FloatArray
    values: FloatArray
    seen: set[bytes] = field(default_factory=set)

    def add(self, points: FloatArray, values: FloatArray) -> None:
        """Merge new points and keep the best `POPULATION` with different values."""
        values = np.concatenate([self.values, values])
        points = np.concatenate([self.points, points])
        order = np.argsort(-values, kind="stable")
        _, first = np.unique(values[order], return_index=True)
        keep = order[np.sort(first)][:POPULATION]
        self.points, self.values = points[keep], values[keep]


class _Search:
    """State of one search on a problem without frozen inputs."""

    def __init__(
        self, problem: LipschitzProblem, rng: np.random.Generator, evaluations: int, deadline: float
    ) -> None:
        self.problem, self.domain, self.rng = problem, problem.domain, rng
        self.left, self.deadline = evaluations, deadline
        d = problem.network.input_dim
        width = self.domain.upper - self.domain.lower
        self.width = np.where(np.isfinite(width), width, 0.0)
        self.free = ~np.isfinite(width)
        self.first = problem.network.layers[0].weight
        count = 64 if self.domain.rows.count else min(1024, max(64, evaluations // 8))
        self.pool = _Population(np.zeros((0, d)), np.zeros(0))
        self.try_points(np.vstack([self.domain.center[None, :], self.domain.sample(rng, count)]))

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        return self.left <= 0 or time.monotonic() > self.deadline

    def try_points(self, points: FloatArray) -> None:
        """Evaluate points and keep the good ones."""
        values, _ = point_norms(self.problem, points)
        self.left -= len(points)
        self.pool.add(points, values)

    def evolve(self) -> None:
        """One generation of perturbed and recombined points."""
        rng, pool = self.rng, self.pool
        count, d = CHILDREN, pool.points.shape[1]
        chosen = np.minimum(rng.geometric(0.15, count) - 1, len(pool.points) - 1)
        parents = pool.points[chosen]
        step = 10.0 ** rng.uniform(-2.5, 0.0, (count, 1))
        mask = rng.random((count, d)) < 10.0 ** rng.uniform(-1.0, 0.0, (count, 1))
        scale = np.where(self.free, np.maximum(1.0, np.abs(parents)), self.width)
        noise = mask * rng.standard_normal((count, d))
        if d > self.first.shape[0]:
            noise[count // 4 :] = self._steered(count - count // 4)
        children = parents + step * scale * noise
        mates = pool.points[rng.integers(0, len(pool.points), count // 4)]
        weight = rng.uniform(-0.5, 1.5, (count // 4, 1))
        children[: count // 4] += weight * (mates - parents[: count // 4])
        if self.free.all():
            children[-count // 8 :] *= 10.0 ** rng.uniform(-1.0, 1.0, (count // 8, 1))
        self.try_points(pulled_inside(self.domain, children, parents))

    def _steered(self, count: int) -> FloatArray:
        """Directions that move a few first-layer pre-activations as far as the box allows.

        With many more inputs than units, independent noise hardly moves a pre-activation: the sign
        vector of a combination of weight rows moves it most.
        """
        rng, units = self.rng, self.first.shape[0]
        chosen = rng.random((count, units)) < 10.0 ** rng.uniform(-1.5, 0.0, (count, 1))
        chosen[np.arange(count), rng.integers(0, units, count)] = True
        moves = np.asarray((chosen * rng.standard_normal((count, units))) @ self.first)
        return np.asarray(np.sign(moves))

    def cross(self, index: int) -> None:
        """Step from a good point across the kink of each unit, straight and a bit beyond."""
        x = self.pool.points[index]
        network = self.problem.network
        pattern = network.pattern(x)
        steps = []
        pieces = network.affine_pieces(pattern)
        for layer, (gain, offset) in zip(network.hidden, pieces, strict=False):
            z = gain @ x + offset
            size = np.square(gain).sum(axis=1)
            use = layer.kinked & (size > 0)
            steps.append(-(z[use] / size[use])[:, None] * gain[use])
        if not steps:
            return
        across = np.vstack(steps)
        beyond = 1.0 + 10.0 ** self.rng.uniform(-4.0, 0.0, (len(across), 1))
        parents = np.broadcast_to(x, across.shape)
        self.try_points(pulled_inside(self.domain, x + beyond * across, parents))

    def flip(self, index: int, most: int) -> bool:
        """Look for a region with one or two units flipped that is better than the best so far.

        Returns
        -------
        bool
            Whether one was found.
        """
        network = self.problem.network
        pattern = network.pattern(self.pool.points[index])
        best = float(self.pool.values[0])
        for candidate in _neighbours(self.problem, pattern, best, most):
            key = b"".join(map(bytes, candidate))
            if key in self.pool.seen or time.monotonic() > self.deadline:
                continue
            self.pool.seen.add(key)
            self.left -= CHILDREN
            found = interior_point(network, self.domain, candidate)
            if found.margin > 0:
                self.try_points(found.x[None, :])
                if self.pool.values[0] > best:
                    return True
        return False


def _neighbours(
    problem: LipschitzProblem, pattern: Pattern, best: float, most: int
) -> list[Pattern]:
    """Patterns with one flipped unit whose norm exceeds `best`, best first."""
    places = [
        (i, j)
        for i, layer in enumerate(problem.network.hidden)
        for j in np.flatnonzero(layer.kinked)
    ]
    if not places:
        return []
    flipped: list[BoolArray] = [np.repeat(on[None, :], len(places), axis=0) for on in pattern]
    for row, (i, j) in enumerate(places):
        flipped[i][row, j] ^= True
    values = pattern_norms(problem, flipped)
    order = np.argsort(-values, kind="stable")[:most]
    better = order[values[order] > best * (1.0 + 1e-12)]
    return [tuple(on[row] for on in flipped) for row in better]


def pulled_inside(domain: Domain, points: FloatArray, parents: FloatArray) -> FloatArray:
    """`points` moved into the domain: clipped to its box, then halved towards their parents."""
    inside = np.clip(points, domain.lower, domain.upper)
    if domain.is_polyhedral and not domain.rows.count:
        return np.asarray(inside)
    for _ in range(8):
        out = ~domain.contains(inside)
        if not out.any():
            return np.asarray(inside)
        inside[out] = 0.5 * (inside[out] + parents[out])
    out = ~domain.contains(inside)
    inside[out] = parents[out]
    return np.asarray(inside)


def default_evaluations(problem: LipschitzProblem) -> int:
    """Number of points that cost about `WORK` multiplications."""
    network, vertices = problem.network, problem.dual_vertices
    rows = network.output_dim if vertices is None else min(len(vertices), 128)
    sizes = network.sizes
    cost = sum(a * b for a, b in pairwise(sizes)) * (1 + rows)
    return int(np.clip(WORK / cost, 2_000, 60_000))


def search_incumbent(
    problem: LipschitzProblem,
    rng: np.random.Generator,
    evaluations: int | None = None,
    seconds: float = np.inf,
) -> tuple[Witness | None, float]:
    """Search for a point with a large Jacobian norm.

    Parameters
    ----------
    problem : LipschitzProblem
        The original problem; the search works on the reduced one.
    rng : numpy.random.Generator
    evaluations : int, optional
        Points to evaluate (a linear program counts as some hundreds); by default chosen by the
        network's size, for a few tenths of a second.
    seconds : float, optional
        Wall-clock limit.

    Returns
    -------
    witness : Witness or None
        Of the original problem; None if no point could be certified.
    value : float
        Its value, zero without a witness.
    """
    reduced = problem.reduced
    small = reduced.problem
    budget = default_evaluations(small) if evaluations is None else evaluations
    search = _Search(small, rng, budget, time.monotonic() + seconds)
    generation = 0
    while not search.over and small.network.kinked_units:
        for index in range(min(2, len(search.pool.points))):
            search.cross(index)
        for _ in range(8):
            if not search.over:
                search.evolve()
        climbing = True
        while climbing and not search.over:
            climbing = search.flip(0, 6)
        if len(search.pool.points) > 1 and not search.over:
            search.flip(1 + generation % (len(search.pool.points) - 1), 2)
        generation += 1
    best: Witness | None = None
    for x, value in zip(search.pool.points, search.pool.values, strict=True):
        if best is not None and best.value >= value * (1.0 - 1e-9):
            break
        witness = _certified(problem, x)
        if witness is not None and (best is None or witness.value > best.value):
            best = witness
    return best, 0.0 if best is None else best.value


def _certified(problem: LipschitzProblem, x: FloatArray) -> Witness | None:
    """A witness at a point of the reduced problem, or elsewhere in its region."""
    reduced = problem.reduced
    witness = make_witness(problem, reduced.lift_point(x))
    if witness is None:
        witness = witness_of_pattern(problem, reduced.problem.network.pattern(x))
    return witness
