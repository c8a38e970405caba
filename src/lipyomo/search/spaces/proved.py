"""What searches have in common whose bounds are all proved: the best point, and their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.clock import Clock
from lipyomo.search.engine.protocol import Arrays, Incumbent, N, Outcome, Pipeline, Recipe, Task


class ProvedPipeline(Pipeline[N, Task[N]]):
    """A search for the maximum of an objective, whose bounds need no further proof.

    Parameters
    ----------
    objective : object
        Has the `cutoff` and the `challenged` of `PhaseObjective` or `Objective`; picklable.
    seed : int, optional

    Attributes
    ----------
    best : Incumbent
    """

    def __init__(self, objective: Any, seed: int = 0) -> None:
        self._objective, self._rng = objective, np.random.default_rng(seed)
        self.best = Incumbent()

    def recipe(self) -> Recipe[N, Task[N]]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(type(self), self._objective)

    def cutoff(self, value: float) -> float:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return float(self._objective.cutoff(value))

    def plan(self, nodes: Sequence[N], travels: bool) -> Task[N]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Task(tuple(nodes), self.best)

    def adopt(self, outcome: Outcome[N]) -> Outcome[N]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        if outcome.best is not None and outcome.best.value > self.best.value:
            self.best = outcome.best
        return replace(outcome, best=self.best)

    def prove(self, nodes: Sequence[N], cutoff: float) -> Outcome[N]:
        """See `lipyomo.search.engine.protocol.Pipeline`; all bounds are proved already."""
        done = [node.bound for node in nodes if node.bound <= cutoff]
        left = tuple(node for node in nodes if node.bound > cutoff)
        return Outcome(returned=left, closed=max(done, default=-np.inf))

    def improve(self, effort: float, seeds: Sequence[N], clock: Clock) -> Incumbent | None:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return self.best

    def encode(self, nodes: Sequence[N]) -> Arrays:
        """Encode the best point; subclasses add the nodes."""
        return {"best": self.best.points}

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[N]:
        """Restore the best point, evaluating it again."""
        for point in arrays["best"]:
            self.best = self._objective.challenged(self.best, point)
        return Outcome(best=self.best)
