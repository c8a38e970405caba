"""What a search has come to, apart from the nodes that are left."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.search.engine.protocol import NODES, Arrays, Incumbent, Outcome

_NUMBERS, _COUNTER = "engine.numbers", "engine.counters."


@dataclass(frozen=True)
class Standing:
    """A value: whoever learns something makes a new one.

    Attributes
    ----------
    best : Incumbent
    closed : float
        Largest bound of what was fathomed.
    whole : float
        Least proved bound of the whole that was told of.
    root : float
        Bound of the root; infinite until it is known.
    next_improvement : float
        Work after which primal heuristics run again.
    counters : mapping of str to int
    """

    best: Incumbent = field(default_factory=Incumbent)
    closed: float = -math.inf
    whole: float = math.inf
    root: float = math.inf
    next_improvement: float = 0.0
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def nodes(self) -> int:
        """How many nodes were split."""
        return self.counters.get(NODES, 0)

    def with_best(self, best: Incumbent | None) -> Standing:
        """The same with another incumbent, if that is better."""
        if best is not None and best.value > self.best.value:
            return replace(self, best=best)
        return self

    def after(self, outcome: Outcome[Any]) -> Standing:
        """With what became of some nodes."""
        counters = dict(self.counters)
        for name, count in outcome.counters.items():
            counters[name] = counters.get(name, 0) + count
        closed = max(self.closed, outcome.closed)
        return replace(self.with_best(outcome.best), closed=closed, counters=counters)

    def encode(self) -> Arrays:
        """For a checkpoint; the incumbent's point is the pipeline's."""
        numbers = self.closed, self.whole, self.root, self.next_improvement
        arrays: Arrays = {_NUMBERS: np.array(numbers)}
        for name, count in self.counters.items():
            arrays[_COUNTER + name] = np.array(count)
        return arrays

    @classmethod
    def decode(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Standing:
        """What `encode` has written."""
        counters = {
            name.removeprefix(_COUNTER): int(value)
            for name, value in arrays.items()
            if name.startswith(_COUNTER)
        }
        closed, whole, root, next_improvement = arrays[_NUMBERS].tolist()
        return cls(Incumbent(), closed, whole, root, next_improvement, counters)
