"""Points seen so far: they prove regions non-empty and carry the incumbent."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lipyomo.affine.system import FlatPhases
from lipyomo.network import BoolArray, FloatArray
from lipyomo.phases import OPEN, RIGHT
from lipyomo.problem import LipschitzProblem
from lipyomo.regions import make_witness
from lipyomo.regions.replay import strict_pattern
from lipyomo.sampling.evaluate import pattern_norms

GENERIC = 1e-9
"""A point counts as interior if no pre-activation is smaller than this times its scale."""

POOL_BYTES = 1 << 28
"""Memory for points; when it is full, new ones are only tried as incumbents."""

_DOUBTFUL = 8
"""Points with a unit at zero that are looked at exactly, a call (units may be flat there)."""


class Pool:
    """Interior points of the domain with their patterns, and the best value among them.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    units : ndarray of int, shape (N,)
        The units whose sides are stored; -1 for ones that count as on.
    rng : numpy Generator
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        units: npt.NDArray[np.int64],
        rng: np.random.Generator,
    ) -> None:
        self._problem, self._units, self._rng = problem, units, rng
        self.points: FloatArray = np.zeros((0, problem.network.input_dim))
        self.on: BoolArray = np.zeros((0, units.size), dtype=bool)
        self.count = 0
        self._capacity = max(4096, POOL_BYTES // (8 * self.points.shape[1] + units.size + 1))
        self.best = 0.0
        self.best_point: FloatArray | None = None
        hidden = problem.network.hidden
        self._row_sizes = [layer.row_sums for layer in hidden]

    def enter(self, points: FloatArray) -> FloatArray:
        """Store the generic ones among `points` of the domain; returns all values (-1 if not)."""
        on, generic = self._patterns(points)
        values = np.where(generic, self._values(on), -1.0)
        keep = np.flatnonzero(generic)
        if keep.size:
            self._append(points[keep], self._sides(on[keep]))
            k = int(np.argmax(values))
            if values[k] > self.best:
                self.challenge(points[k])
        return values

    def forget(self, best: float, rng: np.random.Generator) -> None:
        """Empty the pool; `best` is the value of an incumbent found elsewhere."""
        self.count, self.best, self.best_point, self._rng = 0, best, None, rng

    def restore(self, points: FloatArray, on: BoolArray) -> None:
        """Fill an empty pool with points that were in one, and their patterns."""
        self._append(points, on)

    def adopt(self, groups: list[FloatArray]) -> list[npt.NDArray[np.int64]]:
        """Enter groups of points found elsewhere; returns numbers of the interior ones of each."""
        points = np.concatenate([self.points[:0], *groups])
        on, generic = self._patterns(points)
        first = self.count
        self._append(points[generic], self._sides(on[generic]))
        return self._numbers(generic, first, [len(group) for group in groups])

    def _numbers(
        self, entered: BoolArray, first: int, sizes: list[int]
    ) -> list[npt.NDArray[np.int64]]:
        """Numbers of what was entered from `first` on, by groups of so many points."""
        numbers, which = np.full(entered.size, -1), np.flatnonzero(entered)
        numbers[which[: self.count - first]] = np.arange(first, self.count)
        ends = np.cumsum(np.array(sizes, dtype=np.int64))
        return [group[group >= 0] for group in np.split(numbers, ends)[:-1]]

    def _sides(self, on: BoolArray) -> BoolArray:
        """The stored part of patterns of all units."""
        return np.asarray(on[:, self._units] | (self._units < 0))

    def _values(self, on: BoolArray) -> FloatArray:
        """Operator norms of full patterns; lower bounds for the hard pairs of norms."""
        ends = np.cumsum([size.size for size in self._row_sizes])[:-1]
        patterns = np.split(on, ends, axis=1) if self._row_sizes else []
        if not patterns:
            return np.full(len(on), pattern_norms(self._problem, patterns)[0])
        return pattern_norms(self._problem, patterns)

    def challenge(self, point: FloatArray) -> None:
        """Make `point` (d,), or a sum of two (2, d), the incumbent if its region is better."""
        witness = make_witness(self._problem, point)
        if witness is not None and witness.value > self.best:
            self.best, self.best_point = witness.value, witness.point

    def _append(self, points: FloatArray, on: BoolArray) -> None:
        room = self._capacity - self.count
        points, on = points[:room], on[:room]
        need = self.count + len(points)
        if need > len(self.points):
            size = max(need, 2 * len(self.points), 1024)
            for name in ("points", "on"):
                old = getattr(self, name)
                new = np.zeros((size, old.shape[1]), dtype=old.dtype)
                new[: self.count] = old[: self.count]
                setattr(self, name, new)
        self.points[self.count : need] = points
        self.on[self.count : need] = on
        self.count = need

    def _patterns(self, points: FloatArray) -> tuple[BoolArray, BoolArray]:
        """Patterns of all units, and whether each point is away from every kink and face."""
        domain, network = self._problem.domain, self._problem.network
        signals, parts = points, []
        generic = np.ones(len(points), dtype=bool)
        for layer, row_size in zip(network.hidden, self._row_sizes, strict=True):
            z = layer.preactivation(signals)
            scale = np.abs(layer.bias) + row_size * np.abs(signals).max(
                axis=1, initial=0.0, keepdims=True
            )
            close = (np.abs(z) <= GENERIC * scale) & layer.kinked
            generic &= ~close.any(axis=1)
            on = z > 0
            parts.append(on)
            signals = layer.slopes(on) * z
        patterns = np.concatenate([np.zeros((len(points), 0), bool), *parts], axis=1)
        inside = np.asarray(domain.contains(points))
        for k in np.flatnonzero(inside & ~generic)[:_DOUBTFUL]:
            exact = strict_pattern(network, points[k], ~domain.frozen)
            if exact is not None:
                patterns[k], generic[k] = np.concatenate(exact), True
        return patterns, generic & inside

    def visit(self, points: FloatArray, margins: FloatArray) -> list[npt.NDArray[np.int64]]:
        """Enter points near interior points (k, d) of k regions; returns each one's numbers."""
        domain, k = self._problem.domain, len(points)
        reach = 0.2 * np.minimum(margins, 1.0)[:, None, None]
        noise = reach * self._rng.uniform(-1.0, 1.0, (k, 3, points.shape[1]))
        near = points[:, None, :] + noise * np.array([[0.0], [0.1], [1.0]])
        inward = domain.center - near
        length = np.abs(inward).max(axis=2, keepdims=True)
        near += inward * np.minimum(0.01, 0.1 * reach / np.maximum(length, 1e-300))
        near = np.clip(near, domain.lower, domain.upper).reshape(-1, points.shape[1])
        first, entered = self.count, np.asarray(domain.contains(near))
        entered[entered] = self.enter(near[entered]) >= 0
        return self._numbers(entered, first, [3] * k)

    def seen(self, numbers: npt.NDArray[np.int64]) -> tuple[BoolArray, BoolArray] | None:
        """Units that some of these points have on their left, and on their right; None of none."""
        on = self.on[numbers]
        return (np.asarray(~on.all(axis=0)), np.asarray(on.any(axis=0))) if len(on) else None

    def within(
        self,
        candidates: npt.NDArray[np.int64],
        phases: FlatPhases,
        units: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        """Those of the `candidates` that agree with `phases` at the given `units`."""
        if not candidates.size or not units.size:
            return candidates
        wanted = phases[units] == RIGHT
        agree = (self.on[candidates[:, None], units] == wanted) | (phases[units] == OPEN)
        return np.asarray(candidates[agree.all(axis=1)])
