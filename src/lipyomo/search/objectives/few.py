"""Values of piecewise-linear networks with few inputs: boxes, handed over to a search over phases.

On wide domains linear programs are weak, since most units are open.  Bisecting boxes decides many
units at once, and batches of boxes are bounded by back-substitution.  Boxes with few open units are
handed over to the search over phases: one program per box closes them, or units are split.  The
number of open units at which they are handed over is learnt from the results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.clock import Clock
from lipyomo.networks.network import Network
from lipyomo.networks.phases import OPEN
from lipyomo.search.engine.params import HALVED
from lipyomo.search.engine.protocol import (
    Arrays,
    Incumbent,
    OnRootProgress,
    Outcome,
    Pulse,
    Recipe,
    Root,
)
from lipyomo.search.objectives.context import ValueQuestion
from lipyomo.search.objectives.examine import SPLITS
from lipyomo.search.objectives.few_boxes import Halving, ValueBoxes, bounded_values
from lipyomo.search.objectives.node import ValueNode
from lipyomo.search.objectives.objective import Largest
from lipyomo.search.objectives.pipeline import ValuePipeline
from lipyomo.search.spaces.bundle import joined
from lipyomo.search.spaces.joint.adaptive import ENDED, EXAMINED, adapted
from lipyomo.search.spaces.joint.beside import JointTask, WithBoxes, gone_on, parted, together_of
from lipyomo.search.spaces.joint.context import PARAMS, Params


class FewPipeline(WithBoxes):
    """The search for the largest value of a network with few inputs.

    The threshold `_near` of boxes that are handed over is a number of unstable units.

    Parameters
    ----------
    question : ValueQuestion
    seed : int, optional
    params : Params, optional
        Parameters of the search for constants with few inputs.
    """

    _beside: ValuePipeline

    def __init__(self, question: ValueQuestion, seed: int = 0, params: Params = PARAMS) -> None:
        self._objective, self._question, self._params = Largest(question), question, params
        beside = ValuePipeline(self._objective, seed)
        whole = partial(ValueBoxes.whole, self._objective.context)
        super().__init__(beside, whole, float(SPLITS.box_units))
        self._effort, self._turn = 0.0, 1.0

    @staticmethod
    def suits(network: Network) -> bool:
        """Return whether bisecting boxes of a piecewise-linear network may help at all."""
        return network.input_dim <= HALVED and bool(network.hidden)

    def recipe(self) -> Recipe[Any, Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(FewPipeline, self._question)

    # -- the root ----------------------------------------------------------------------------------

    def root(self, clock: Clock, on_progress: OnRootProgress) -> Root[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        Unless its root bound is hopeless, the search over phases runs for a moment, and the search
        over boxes is only chosen if it has a better bound after a fraction of that time.  This
        limits the cost of a wrong choice.
        """
        work, beside = clock.working(), self._beside
        found: Outcome[Any] = beside.root(clock, on_progress).outcome
        if not any(_is_wide(node) for node in found.children):
            return Root(found)
        context = self._objective.at(beside.best.value)
        start: Outcome[Any] = Outcome((bounded_values(context, ValueBoxes.whole(context))[0],))
        if not self._params.compared or self._is_hopeless(found.children):
            return Root(replace(found, children=start.children, closed=start.closed))
        found = gone_on(beside, found, work.within(self._params.pause))
        if not found.children or clock.expired:
            return Root(found)
        share = self._params.share / (1.0 - self._params.share)
        boxes = gone_on(self, start, work.within(share * work.seconds))
        if _top(boxes) < _top(found):
            found = together_of([replace(found, children=(), closed=-math.inf), boxes])
        return Root(replace(found, best=beside.best))

    def _is_hopeless(self, nodes: Sequence[ValueNode]) -> bool:
        """Return whether bounds are far above all values, relative to the range of the values."""
        question = self._question
        points = question.domain.sample(np.random.default_rng(0), self._params.few)
        values = question.values(points)
        top = max(node.bound for node in nodes)
        return bool(top - self.best.value > self._params.far * float(np.ptp(values)))

    # -- checkpoints -------------------------------------------------------------------------------

    def encode(self, nodes: Sequence[Any]) -> Arrays:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        course = np.array([self._near, self._effort, self._turn])
        return super().encode(nodes) | {"course": course}

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        self._near, self._effort, self._turn = arrays["course"].tolist()
        return super().decode(arrays)

    # -- boxes -------------------------------------------------------------------------------------

    def _halved(self, task: JointTask, clock: Clock, pulse: Pulse) -> Outcome[Any]:
        return Halving(self._objective, self._params, self._beside.bounded).run(task, clock, pulse)

    def adopt(self, outcome: Outcome[Any]) -> Outcome[Any]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        tried, met = outcome.counters.get(EXAMINED, 0), outcome.counters.get(ENDED, 0)
        self._near = adapted(1.0 + self._near, tried, met) - 1.0
        return super().adopt(outcome)

    def improve(self, effort: float, seeds: Sequence[Any], clock: Clock) -> Incumbent | None:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        Ascents start from the middles of the best boxes, more rarely the longer the search takes.
        """
        boxes, _ = parted(seeds)
        self._effort += effort
        if boxes and self._effort >= self._turn:
            self._turn = 2.0 * self._effort
            found = self._question.ascended(joined(boxes).middle, clock, self.best)
            self._beside.adopt(Outcome(best=found))
        return self.best


def _is_wide(node: ValueNode) -> bool:
    """Return whether more than a few units are open."""
    return int((node.phases == OPEN).sum()) > SPLITS.box_units


def _top(outcome: Outcome[Any]) -> float:
    """Return the largest bound of the open nodes."""
    return max((node.bound for node in outcome.children), default=-math.inf)
