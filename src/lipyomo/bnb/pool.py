"""Points seen so far: they prove regions non-empty and carry the incumbent."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lipyomo.affine.system import FlatPhases, UnitSystem
from lipyomo.network import BoolArray, FloatArray
from lipyomo.norms import vector_norm
from lipyomo.phases import OPEN, RIGHT
from lipyomo.problem import LipschitzProblem
from lipyomo.regions import make_witness
from lipyomo.regions.witness import strict_pattern
from lipyomo.targets import ALL, Targets

GENERIC = 1e-9
"""A point counts as interior if no pre-activation is smaller than this times its scale."""

POOL_BYTES = 1 << 28
"""Memory for points; when it is full, new ones are only tried as incumbents."""

_SAMPLES = 512
_MANY = 64
_DOUBTFUL = 8
"""Points with a unit at zero that are looked at exactly, a call (units may be flat there)."""
_ELITE = 24
_OFFSPRING = 6
_ROUNDS = 12


class Pool:
    """Interior points of the domain with their patterns, and the best value among them.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    system : UnitSystem
    targets : Targets
    rng : numpy Generator
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        system: UnitSystem,
        targets: Targets,
        rng: np.random.Generator,
    ) -> None:
        self._problem, self._system, self._targets, self._rng = problem, system, targets, rng
        self.points: FloatArray = np.zeros((0, problem.network.input_dim))
        self.on: BoolArray = np.zeros((0, system.count), dtype=bool)
        self.count = 0
        self._capacity = max(4096, POOL_BYTES // (8 * self.points.shape[1] + system.count + 1))
        self.best = 0.0
        self.best_point: FloatArray | None = None
        self._row_sizes = [np.abs(weight).sum(axis=1) for weight in system.weights]

    def seed(self) -> None:
        """Sample the domain and climb from the best samples."""
        domain, rng = self._problem.domain, self._rng
        points = np.vstack([domain.center[None], domain.sample(rng, _SAMPLES)])
        values = self._enter(points)
        spread = np.where(
            np.isfinite(domain.upper - domain.lower), domain.upper - domain.lower, 1.0
        )
        low, high = domain.lower + 1e-6 * spread, domain.upper - 1e-6 * spread
        order = np.argsort(-values, kind="stable")[:_ELITE]
        elite, scores = points[order], values[order]
        chance = max(0.2, 1.0 / points.shape[1])
        for turn in range(_ROUNDS):
            young = np.repeat(elite, _OFFSPRING, axis=0)
            moved = rng.random(young.shape) < chance
            step = 0.5 * 0.8**turn * spread * rng.standard_normal(young.shape)
            young = np.clip(young + moved * step, low, high)
            inside = domain.contains(young)
            young = young[inside]
            if not len(young):
                continue
            elite = np.vstack([elite, young])
            scores = np.concatenate([scores, self._enter(young)])
            order = np.argsort(-scores, kind="stable")[:_ELITE]
            elite, scores = elite[order], scores[order]

    def _enter(self, points: FloatArray) -> FloatArray:
        """Store the generic ones among `points` of the domain; returns all values (-1 if not)."""
        on, generic = self._patterns(points)
        values = np.where(generic, self._values(points, on), -1.0)
        keep = np.flatnonzero(generic)
        if keep.size:
            self._append(points[keep], on[keep])
            k = int(np.argmax(values))
            if values[k] > self.best or self.best_point is None:
                self.challenge(points[k])
        return values

    def adopt(self, points: FloatArray) -> npt.NDArray[np.int64]:
        """Enter points found elsewhere; returns the numbers of those that are interior."""
        first = self.count
        if len(points):
            on, generic = self._patterns(points)
            self._append(points[generic], on[generic])
        return np.arange(first, self.count)

    def _values(self, points: FloatArray, on: BoolArray) -> FloatArray:
        """Operator norms at the points (for linf -> l2 a lower bound), shape (n,)."""
        system, targets = self._system, self._targets
        if len(system.head) > _MANY:
            return self._problem.values(points)
        gradients: FloatArray = np.broadcast_to(system.head, (len(points), *system.head.shape))
        slopes = np.where(on, system.right, system.left)
        for i in range(system.depth - 1, -1, -1):
            gradients = (gradients * slopes[:, None, system.span(i)]) @ system.weights[i]
        if targets.rows[0] != ALL or targets.columns[0] != ALL:
            return np.asarray(targets.interval(np.abs(gradients)).max(axis=1))
        if targets.input_norm == "l2":
            return np.asarray(np.linalg.norm(gradients, 2, axis=(1, 2)))
        sizes = vector_norm(gradients, "l1")
        y = gradients[np.arange(len(points)), sizes.argmax(axis=1)]
        for _ in range(3):
            outputs = (gradients @ np.where(y >= 0, 1.0, -1.0)[:, :, None])[:, :, 0]
            y = (outputs[:, None, :] @ gradients)[:, 0, :]
        return vector_norm(outputs, "l2")

    def challenge(self, point: FloatArray) -> None:
        """Make `point` the incumbent if it is strictly inside a better region."""
        witness = make_witness(self._problem, point)
        if witness is not None and (witness.value > self.best or self.best_point is None):
            self.best, self.best_point = witness.value, witness.x

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
        """Patterns (n, N) and whether each point is away from every kink and face."""
        system, domain = self._system, self._problem.domain
        signals, parts = points, []
        generic = np.ones(len(points), dtype=bool)
        for i, weight in enumerate(system.weights):
            span = system.span(i)
            z = signals @ weight.T + system.biases[i]
            scale = np.abs(system.biases[i]) + self._row_sizes[i] * np.abs(signals).max(
                axis=1, initial=0.0, keepdims=True
            )
            close = (np.abs(z) <= GENERIC * scale) & system.kinked[span]
            generic &= ~close.any(axis=1)
            on = z > 0
            parts.append(on)
            signals = np.where(on, system.right[span], system.left[span]) * z
        patterns = np.concatenate([np.zeros((len(points), 0), bool), *parts], axis=1)
        inside = np.asarray(domain.contains(points))
        for k in np.flatnonzero(inside & ~generic)[:_DOUBTFUL]:
            exact = strict_pattern(self._problem.network, points[k], ~domain.frozen)
            if exact is not None:
                patterns[k], generic[k] = np.concatenate(exact), True
        return patterns, generic & inside

    def visit(self, point: FloatArray, margin: float) -> npt.NDArray[np.int64]:
        """Enter points near an interior `point` of a region; returns their numbers."""
        domain, rng = self._problem.domain, self._rng
        center = domain.center
        reach = 0.2 * min(margin, 1.0)
        noise = reach * rng.uniform(-1.0, 1.0, (3, point.size))
        near = point + noise * np.array([[0.0], [0.1], [1.0]])
        inward = center - near
        length = np.abs(inward).max(axis=1, keepdims=True)
        near += inward * np.minimum(0.01, 0.1 * reach / np.maximum(length, 1e-300))
        near = np.clip(near, domain.lower, domain.upper)
        first = self.count
        self._enter(near[domain.contains(near)])
        return np.arange(first, self.count)

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
