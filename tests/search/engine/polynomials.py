"""A search that knows no networks: the maximum of a polynomial on a box, by interval arithmetic."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.search.engine.protocol import (
    NODES,
    Arrays,
    Incumbent,
    OnRootProgress,
    Outcome,
    Pulse,
    Recipe,
    Root,
)

SLACK = 1e-9
"""Bounds count as proved with so much added to them."""


@dataclass(frozen=True)
class Polynomial:
    """A sum of ``coefficients[k] * prod(x ** powers[k])``."""

    coefficients: tuple[float, ...]
    powers: tuple[tuple[int, ...], ...]

    def __call__(self, x: FloatArray) -> float:
        return sum(
            c * math.prod(float(v) ** p for v, p in zip(x, powers, strict=True))
            for c, powers in zip(self.coefficients, self.powers, strict=True)
        )

    def bound(self, low: FloatArray, high: FloatArray) -> float:
        """Upper bound on a box."""
        total = 0.0
        for c, powers in zip(self.coefficients, self.powers, strict=True):
            ends = [1.0]
            for a, b, p in zip(low.tolist(), high.tolist(), powers, strict=True):
                own = [a**p, b**p] + ([0.0] if p % 2 == 0 and p and a < 0.0 < b else [])
                ends = [e * v for e in (min(ends), max(ends)) for v in (min(own), max(own))]
            total += max(c * e for e in ends)
        return total


@dataclass(frozen=True)
class Part:
    """A box, its bound, and whether that is proved."""

    low: FloatArray
    high: FloatArray
    bound: float
    proved_bound: float = math.inf
    warm_start: FloatArray | None = field(default=None, compare=False)
    nbytes: int = 16

    @property
    def warm_bytes(self) -> int:
        return 0 if self.warm_start is None else self.warm_start.nbytes

    def cooled(self) -> Part:
        return replace(self, warm_start=None)


@dataclass(frozen=True)
class Task:
    """Boxes to split, the incumbent's value, and how often each axis was split."""

    parts: tuple[Part, ...]
    best: float
    splits: FloatArray


@dataclass(frozen=True)
class Question:
    """What a search is about; `deadly` kills every other process that takes part.

    Proofs fall `short` of bounds that waiting nodes have.
    """

    polynomial: Polynomial
    low: tuple[float, ...]
    high: tuple[float, ...]
    start: float = -math.inf
    gap: float = 0.1
    record: bool = False
    deadly: bool = False
    batch: int = 4
    short: float = 0.0
    home: int = field(default_factory=os.getpid)

    def pipeline(self) -> PolynomialSearch:
        return PolynomialSearch(self)


class PolynomialSearch:
    """Splits boxes in the middle of the axis that is longest and was split least."""

    def __init__(self, question: Question) -> None:
        self._question, self._polynomial = question, question.polynomial
        self._splits = np.zeros(len(question.low))
        self._best = Incumbent()
        self.improvements: list[float] = []
        self.batches: list[int] = []
        self.settled: list[float] = []

    def root(self, clock: Clock, on_progress: OnRootProgress) -> Root[Part]:
        low, high = np.array(self._question.low), np.array(self._question.high)
        part = Part(low, high, self._polynomial.bound(low, high), warm_start=np.zeros(64))
        on_progress(upper=part.bound + SLACK)
        return Root(Outcome((part,)), effort=1.0)

    def recipe(self) -> Recipe[Part, Task]:
        return Recipe(PolynomialSearch, self._question)

    def cutoff(self, value: float) -> float:
        return max(self._question.start, value + self._question.gap)

    def plan(self, nodes: Sequence[Part], travels: bool) -> Task:
        self.batches.append(len(nodes))
        return Task(tuple(nodes), self._best.value, self._splits.copy())

    def process(self, task: Task, clock: Clock, pulse: Pulse) -> Outcome[Part]:
        if self._question.deadly and os.getpid() != self._question.home:
            os._exit(1)
        best, splits, children, closed = Incumbent(task.best), task.splits.copy(), [], -math.inf
        fathomed = []
        for part in task.parts:
            pulse()
            if clock.expired:
                return Outcome(returned=task.parts)
            axis = int(np.argmax((part.high - part.low) / (1.0 + 1e-3 * splits)))
            splits[axis] += 1.0
            middle = 0.5 * (part.low + part.high)
            value = self._polynomial(middle)
            if value > best.value:
                best = Incumbent(value, middle)
            for side in range(2):
                low, high = part.low.copy(), part.high.copy()
                (high if side == 0 else low)[axis] = middle[axis]
                bound = min(self._polynomial.bound(low, high), part.bound)
                child = Part(low, high, bound, warm_start=np.zeros(64))
                if bound + SLACK <= self.cutoff(best.value):
                    closed = max(closed, bound + SLACK)
                    fathomed.append((child, bound + SLACK))
                else:
                    children.append(child)
        return Outcome(
            tuple(children),
            closed=closed,
            fathomed=tuple(fathomed) if self._question.record else (),
            best=best if best.value > task.best else None,
            statistics=splits - task.splits,
            counters={
                NODES: len(task.parts),
                "values": len(task.parts),
                "remote": int(os.getpid() != self._question.home),
            },
        )

    def adopt(self, outcome: Outcome[Part]) -> Outcome[Part]:
        if outcome.statistics is not None:
            self._splits = self._splits + outcome.statistics
        self._challenge(outcome.best)
        return outcome

    def prove(self, nodes: Sequence[Part], cutoff: float) -> Outcome[Part]:
        known = [_proved(node, self._question.short) for node in nodes]
        self.settled += [node.bound for node in known]
        closed = [node for node in known if node.bound <= cutoff]
        return Outcome(
            returned=tuple(node for node in known if node.bound > cutoff),
            closed=max([node.bound for node in closed], default=-math.inf),
            fathomed=tuple((n, n.bound) for n in closed) if self._question.record else (),
        )

    def improve(self, effort: float, seeds: Sequence[Part], clock: Clock) -> Incumbent | None:
        self.improvements.append(effort)
        for part in seeds[:4]:
            x = 0.25 * part.low + 0.75 * part.high
            self._challenge(Incumbent(self._polynomial(x), x))
        return self._best

    def together(self, node: Part) -> int:
        return self._question.batch

    def weight(self) -> float:
        return 1.0

    def encode(self, nodes: Sequence[Part]) -> Arrays:
        best = self._best
        return {
            "boxes": np.array([[n.low, n.high] for n in nodes]).reshape(-1, 2, self._splits.size),
            "bounds": np.array([[n.bound, n.proved_bound] for n in nodes]).reshape(-1, 2),
            "splits": self._splits,
            "best": np.array([best.value, *([] if best.point is None else best.point)]),
        }

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[Part]:
        self._splits = arrays["splits"]
        value, *point = arrays["best"].tolist()
        self._best = Incumbent(value, np.array(point) if point else None)
        pairs = zip(arrays["boxes"], arrays["bounds"].tolist(), strict=True)
        parts = (Part(low, high, *bounds) for (low, high), bounds in pairs)
        return Outcome(tuple(parts), best=self._best)

    def _challenge(self, best: Incumbent | None) -> None:
        if best is not None and best.value > self._best.value:
            self._best = best


def _proved(part: Part, short: float) -> Part:
    if math.isfinite(part.proved_bound):
        return part
    bound = part.bound + SLACK + short * float((part.high - part.low).max())
    return replace(part, bound=bound, proved_bound=bound)
