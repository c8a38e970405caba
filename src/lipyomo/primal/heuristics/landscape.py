"""A problem as the searches for points use it, the costs of evaluations, and moves of points."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, Matrix
from lipyomo.base.clock import Clock
from lipyomo.base.system.memory import BATCH
from lipyomo.primal.heuristics.ascent import pulled_inside
from lipyomo.primal.heuristics.evaluate import (
    evaluation_passes,
    evaluation_work,
    pattern_norms,
    point_norms,
)
from lipyomo.primal.heuristics.params import PARAMS, Params
from lipyomo.primal.regions.params import PARAMS as REGIONS
from lipyomo.primal.regions.witness import is_large
from lipyomo.problems.affine.signal import affine_pieces
from lipyomo.problems.norms import ONE_BY_ONE
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.relaxations.linear.layers import by_layer


class SearchBudget:
    """What a search may still spend, as a number of evaluations, and its clock."""

    def __init__(self, evaluations: float, clock: Clock) -> None:
        self.left, self.clock = evaluations, clock

    def spend(self, evaluations: float) -> None:
        """Subtract a number of evaluations."""
        self.left -= evaluations

    @property
    def over(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0 or self.clock.expired


@dataclass(frozen=True, eq=False)
class GoodPoints:
    """Good points, one for each value, best first.

    Attributes
    ----------
    points : ndarray, shape (k, d)
    values : ndarray, shape (k,)
        The values attained at them, up to rounding and kinks.
    """

    points: FloatArray
    values: FloatArray = field(default_factory=lambda: np.zeros(0))

    @property
    def best(self) -> float:
        """The largest value."""
        return float(self.values[0])

    def with_points(self, points: FloatArray, values: FloatArray, most: int) -> GoodPoints:
        """Add points; keep the best `most` with different values."""
        values = np.concatenate([self.values, values])
        points = np.concatenate([self.points, points])
        order = np.argsort(-values, kind="stable")
        _, first = np.unique(values[order], return_index=True)
        keep = order[np.sort(first)][:most]
        return GoodPoints(points[keep], values[keep])

    def parents(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Draw points with replacement, better ones more often."""
        return np.asarray(self.points[np.minimum(rng.geometric(0.15, count), len(self.values)) - 1])


class Tried:
    """Patterns that were tried before; forgotten when they fill a batch."""

    def __init__(self, known: Iterable[bytes] = ()) -> None:
        self._keys = set(known)

    def __len__(self) -> int:
        return len(self._keys)

    def copy(self) -> Tried:
        """Copy the memory."""
        return Tried(self._keys)

    def first(self, patterns: Sequence[BoolArray], order: IntArray) -> Iterator[int]:
        """Yield those of `order` that were never tried before; each yielded one counts as tried."""
        packed = np.packbits(np.concatenate([on[order] for on in patterns], axis=1), axis=1)
        for k, row in zip(order.tolist(), packed, strict=True):
            key = row.tobytes()
            if key not in self._keys:
                if sys.getsizeof(key) * len(self._keys) >= BATCH:
                    self._keys.clear()
                self._keys.add(key)
                yield k


@dataclass(frozen=True, eq=False)
class Landscape:
    """The norms of a problem's Jacobians over its domain, and what evaluating them costs.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    params : Params, optional
    """

    problem: LipschitzProblem
    params: Params = PARAMS

    @cached_property
    def passes(self) -> float:
        """The number of passes through the network for evaluating one point."""
        return evaluation_passes(self.problem)

    @cached_property
    def work(self) -> float:
        """The number of multiplications for evaluating one point."""
        return evaluation_work(self.problem)

    def share(self, rows: FloatArray | None) -> float:
        """Return the cost of some functionals at a point, as a share of that of all."""
        return 1.0 if rows is None else (1.0 + len(rows)) / self.passes

    @cached_property
    def few_inputs(self) -> bool:
        """Whether inputs are so few that finding regions is cheap, and ascents may start hot."""
        return self.problem.domain.dimension <= REGIONS.wide

    @cached_property
    def children(self) -> int:
        """The largest number of points in a generation."""
        params = self.params
        return int(np.clip(params.poll_work / self.work, 16, params.children))

    @property
    def flips(self) -> bool:
        """Whether linear programs are used to find regions at all."""
        return not is_large(self.problem.network)

    @cached_property
    def flip_work(self) -> float:
        """The number of multiplications for evaluating all flips of a pattern."""
        return max(self.problem.network.kinked_units, 1) * self.work

    @cached_property
    def wide(self) -> bool:
        """Whether inputs are many, and evaluating all flips takes longer than a generation."""
        return not self.few_inputs and self.flip_work > self.params.poll_work

    @cached_property
    def region_points(self) -> int:
        """The number of evaluations that finding a point of one of many regions counts as."""
        return self.params.region_points * (1 if self.few_inputs else 10)

    @cached_property
    def program_points(self) -> int:
        """The number of evaluations that a linear program counts as."""
        return 6 * self.params.region_points * (1 if self.few_inputs else 4)

    @cached_property
    def functionals(self) -> FloatArray:
        """The vertices of the dual ball, or the outputs, shape (k, m)."""
        vertices = self.problem.dual_vertices
        return np.eye(self.problem.network.output_dim) if vertices is None else vertices

    @cached_property
    def width(self) -> FloatArray:
        """The width of the domain, infinite where it is unbounded."""
        return np.asarray(self.problem.domain.upper - self.problem.domain.lower)

    def empty(self) -> GoodPoints:
        """Return an archive without points."""
        return GoodPoints(np.zeros((0, self.problem.network.input_dim)))

    def with_points(
        self,
        known: GoodPoints,
        points: FloatArray,
        budget: SearchBudget,
        rows: FloatArray | None = None,
    ) -> GoodPoints:
        """Evaluate points and add them to an archive; stop when time is up.

        Parameters
        ----------
        known : GoodPoints
        points : ndarray, shape (n, d)
        budget : SearchBudget
        rows : ndarray, shape (k, m), optional
            The functionals to evaluate; by default all.
        """
        budget.spend(len(points) * self.share(rows))
        step = max(1, int(self.params.poll_work / self.work))
        for first in range(0, len(points), step):
            if first and budget.clock.expired:
                break
            part = points[first : first + step]
            values = point_norms(self.problem, part, rows)[0]
            known = known.with_points(part, values, self.params.population)
        return known

    def best_functionals(self, known: GoodPoints, budget: SearchBudget) -> FloatArray | None:
        """Return the functional that attains the norm at the best point, or None for all."""
        listed = self.problem.dual_vertices is not None
        if not listed or not 1 < len(self.functionals) <= ONE_BY_ONE:
            return None
        pattern = self.problem.network.pattern(known.points[:1])
        each = [pattern_norms(self.problem, pattern, y[None]).item() for y in self.functionals]
        budget.spend(1)
        best = int(np.argmax(each))
        return np.asarray(self.functionals[best : best + 1])

    def flipped(
        self, patterns: Sequence[BoolArray], rows: FloatArray | None, budget: SearchBudget
    ) -> tuple[list[BoolArray], FloatArray]:
        """Flip each unit of each pattern, those of the first pattern first; also return norms."""
        hidden = self.problem.network.hidden
        units = np.flatnonzero(np.concatenate([layer.kinked for layer in hidden]))
        whole = np.repeat(np.concatenate(patterns, axis=1)[:, None, :], len(units), axis=1)
        whole[:, np.arange(len(units)), units] ^= True
        flipped = by_layer(hidden, whole.reshape(-1, whole.shape[2]))
        budget.spend(len(flipped[0]) * self.share(rows))
        return flipped, pattern_norms(self.problem, flipped, rows)


def perturbed(land: Landscape, parents: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Move points by random lengths, in some coordinates or along units of the first layer."""
    count, d = parents.shape
    step = 10.0 ** rng.uniform(-2.5, 0.0, (count, 1))
    mask = rng.random((count, d)) < 10.0 ** rng.uniform(-1.0, 0.0, (count, 1))
    far = np.maximum(1.0, np.abs(parents))
    scale = np.where(np.isfinite(land.width), land.width, far)
    noise = mask * rng.standard_normal((count, d))
    first = land.problem.network.layers[0]
    if d > first.units:
        noise[count // 4 :] = _steered(first.weight, count - count // 4, rng)
    return np.asarray(parents + step * scale * noise)


def _steered(weight: Matrix, count: int, rng: np.random.Generator) -> FloatArray:
    """Return directions that move a few pre-activations of the first layer as far as possible.

    With many more inputs than units, independent noise hardly changes a pre-activation; the sign
    vector of a combination of weight rows changes it most.
    """
    units = weight.shape[0]
    chosen = rng.random((count, units)) < 10.0 ** rng.uniform(-1.5, 0.0, (count, 1))
    chosen[np.arange(count), rng.integers(0, units, count)] = True
    moves = np.asarray((chosen * rng.standard_normal((count, units))) @ weight)
    return np.asarray(np.sign(moves))


def crossings(land: Landscape, x: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return points just beyond the nearest kinks, at most as many as a generation has."""
    network, steps = land.problem.network, [np.zeros((0, x.size))]
    pieces = affine_pieces(network, network.pattern(x))
    scale = np.where(np.isfinite(land.width), land.width, 1.0)
    scale = scale / scale.max()  # distances are relative to the widths of the domain
    for layer, (gain, offset) in zip(network.hidden, pieces, strict=False):
        z, gain = gain @ x + offset, gain * scale
        size = np.square(gain).sum(axis=1)
        use = layer.kinked & (size > 0)
        steps.append(-(z[use] / size[use])[:, None] * gain[use])
    straight = np.vstack(steps)
    if len(straight) > land.children:
        near = np.argsort(np.abs(straight).max(axis=1), kind="stable")
        straight = straight[near[: land.children]]
    straight *= scale
    beyond = 1.0 + 10.0 ** rng.uniform(-4.0, 0.0, (len(straight), 1))
    parents = np.broadcast_to(x, straight.shape)
    return pulled_inside(land.problem.domain, x + beyond * straight, parents)


def towards(
    known: GoodPoints, parents: FloatArray, low: float, high: float, rng: np.random.Generator
) -> FloatArray:
    """Return steps from parents towards points of an archive, by shares from `low` to `high`."""
    mates = known.points[rng.integers(0, len(known.points), len(parents))]
    return np.asarray(rng.uniform(low, high, (len(parents), 1)) * (mates - parents))
