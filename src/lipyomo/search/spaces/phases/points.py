"""Points found so far: they prove regions non-empty and carry the incumbent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, ranges
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.primal.heuristics.evaluate import pattern_norms
from lipyomo.primal.regions import make_witness
from lipyomo.primal.regions.replay import strict_pattern
from lipyomo.problems.affine.system import FlatPhases
from lipyomo.relaxations.linear.layers import by_layer
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.spaces.phases.context import PhaseContext


class Pool:
    """Points and their activation patterns, up to a limit of memory.

    Points are only ever added, so nodes may refer to them by index.

    Parameters
    ----------
    inputs, units : int
    nbytes : int
        Limit of the memory.
    """

    def __init__(self, inputs: int, units: int, nbytes: int) -> None:
        self._points: FloatArray = np.zeros((0, inputs))
        self._on: BoolArray = np.zeros((0, units), dtype=bool)
        self._count = 0
        self._capacity = max(1, nbytes // (8 * inputs + units + 1))

    @property
    def count(self) -> int:
        """Number of points."""
        return self._count

    @property
    def all(self) -> tuple[FloatArray, BoolArray]:
        """All points, shape (P, d), and which units are active at them, shape (P, N)."""
        return self._points[: self._count], self._on[: self._count]

    def at(self, numbers: IntArray) -> FloatArray:
        """Return the points of these indices, shape (k, d)."""
        return self._points[numbers]

    def append(self, points: FloatArray, on: BoolArray) -> None:
        """Store points and their activation patterns, as far as memory allows."""
        room = self._capacity - self._count
        points, on = points[:room], on[:room]
        need = self._count + len(points)
        if need > len(self._points):
            size = max(need, 2 * len(self._points), 1024)
            more = np.zeros((size - self._count, self._points.shape[1]))
            sides = np.zeros((size - self._count, self._on.shape[1]), dtype=bool)
            old, old_sides = self.all
            self._points, self._on = np.concatenate([old, more]), np.concatenate([old_sides, sides])
        self._points[self._count : need] = points
        self._on[self._count : need] = on
        self._count = need

    def numbers(self, entered: BoolArray, first: int, sizes: list[int]) -> list[IntArray]:
        """Indices of the points stored from index `first` on, for groups of points of these sizes.

        `entered` says which points of all groups were to be stored.
        """
        numbers, which = np.full(entered.size, -1), np.flatnonzero(entered)
        numbers[which[: self._count - first]] = np.arange(first, self._count)
        ends = np.cumsum(np.array(sizes, dtype=np.int64))
        return [group[group >= 0] for group in np.split(numbers, ends)[:-1]]

    def seen(self, numbers: IntArray) -> tuple[BoolArray, BoolArray] | None:
        """Units that are inactive, and that are active, at some of these points; None for none."""
        on = self._on[numbers]
        return (np.asarray(~on.all(axis=0)), np.asarray(on.any(axis=0))) if len(on) else None

    def within(
        self, candidates: IntArray, phases: FlatPhases, units: npt.NDArray[np.intp]
    ) -> IntArray:
        """Return those of the `candidates` that agree with `phases` at the given `units`."""
        if not candidates.size or not units.size:
            return candidates
        wanted = phases[units] == RIGHT
        agree = (self._on[candidates[:, None], units] == wanted) | (phases[units] == OPEN)
        return np.asarray(candidates[agree.all(axis=1)])


class Points:
    """Points of the domain inside linear regions, with their patterns, and the incumbent.

    Parameters
    ----------
    context : PhaseContext
        Patterns are stored for the units of its presolved network.
    rng : numpy Generator
    best : float, optional
        Value of an incumbent that is kept in another process.

    Attributes
    ----------
    pool : Pool
        The points.
    """

    def __init__(self, context: PhaseContext, rng: np.random.Generator, best: float = 0.0) -> None:
        self._problem, self._presolved = context.problem, context.presolved
        self._rng, self._params = rng, context.params
        inputs, units = context.problem.network.input_dim, context.system.count
        self.pool = Pool(inputs, units, context.params.pool_bytes)
        self._best = Incumbent(best)

    @property
    def best(self) -> Incumbent:
        """The incumbent; its value is at least 0."""
        return self._best

    def enter(self, points: FloatArray) -> FloatArray:
        """Store those `points` of the domain that are generic; return values (-1 for the rest)."""
        on, generic = self._patterns(points)
        values = np.where(generic, self._values(on), -1.0)
        keep = np.flatnonzero(generic)
        if keep.size:
            self.pool.append(points[keep], self._stored(on[keep]))
            k = int(np.argmax(values))
            if values[k] > self._best.value:
                self.challenge(points[k])
        return values

    def adopt(self, groups: Sequence[FloatArray]) -> list[IntArray]:
        """Store groups of points from another process; return indices of those stored, by group."""
        points = np.concatenate([self.pool.at(np.zeros(0, int)), *groups])
        on, generic = self._patterns(points)
        first = self.pool.count
        self.pool.append(points[generic], self._stored(on[generic]))
        return self.pool.numbers(generic, first, [len(group) for group in groups])

    def challenge(self, point: FloatArray) -> None:
        """Make `point` (d,), or a sum of two (2, d), the incumbent if its value is larger."""
        witness = make_witness(self._problem, point)
        if witness is not None and witness.value > self._best.value:
            self._best = Incumbent(witness.value, witness.point)

    def visit(self, points: FloatArray, margins: FloatArray) -> list[IntArray]:
        """Store points near interior points (k, d) of k regions; return their indices by region.

        Margins (k,) are relative to the domain's `ranges`.
        """
        domain, k = self._problem.domain, len(points)
        width = ranges(domain.lower, domain.upper)
        reach = 0.2 * np.minimum(margins, 1.0)[:, None, None]
        noise = reach * self._rng.uniform(-1.0, 1.0, (k, 3, points.shape[1]))
        near = points[:, None, :] + width * noise * np.array([[0.0], [0.1], [1.0]])
        inward = domain.center - near
        length = np.abs(inward / width).max(axis=2, keepdims=True)
        near += inward * np.minimum(0.01, 0.1 * reach / np.maximum(length, 1e-300))
        near = np.clip(near, domain.lower, domain.upper).reshape(-1, points.shape[1])
        first, entered = self.pool.count, np.asarray(domain.contains(near))
        entered[entered] = self.enter(near[entered]) >= 0
        return self.pool.numbers(entered, first, [3] * k)

    def _stored(self, on: BoolArray) -> BoolArray:
        """Restrict patterns of all units to the units that are stored."""
        return self._presolved.restrict(on, True)

    def _values(self, on: BoolArray) -> FloatArray:
        """Operator norms of full patterns; lower bounds of them for the hard pairs of norms."""
        patterns = by_layer(self._problem.network.hidden, on)
        return np.full(len(on), pattern_norms(self._problem, patterns))

    def _patterns(self, points: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Patterns of all units, and whether each point is generic: in the domain, off all kinks.

        A few points close to kinks are examined exactly.
        """
        domain, network, params = self._problem.domain, self._problem.network, self._params
        signals, parts = points, []
        generic = np.ones(len(points), dtype=bool)
        for layer in network.hidden:
            z = layer.preactivation(signals)
            scale = np.abs(layer.bias) + layer.row_sums * np.abs(signals).max(
                axis=1, initial=0.0, keepdims=True
            )
            close = (np.abs(z) <= EQUAL * scale) & layer.kinked
            generic &= ~close.any(axis=1)
            on = z > 0
            parts.append(on)
            signals = layer.slopes(on) * z
        patterns = np.concatenate([np.zeros((len(points), 0), bool), *parts], axis=1)
        inside = np.asarray(domain.contains(points))
        for k in np.flatnonzero(inside & ~generic)[: params.few]:
            exact = strict_pattern(network, points[k], ~domain.frozen)
            if exact is not None:
                patterns[k], generic[k] = np.concatenate(exact), True
        return patterns, generic & inside
