"""The pipeline of piecewise-linear networks, which implements the engine's interface."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock, fits
from lipyomo.base.kept import Kept
from lipyomo.networks.phases import flat
from lipyomo.primal.regions.partial import RegionProgram
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.settings import Settings
from lipyomo.relaxations.cascade import Cascade
from lipyomo.relaxations.semidefinite.choice import root_cost
from lipyomo.relaxations.semidefinite.params import PARAMS as SEMIDEFINITE
from lipyomo.search.engine import protocol
from lipyomo.search.engine.protocol import (
    Arrays,
    Incumbent,
    OnRootProgress,
    Outcome,
    Pulse,
    Recipe,
    Root,
    Task,
)
from lipyomo.search.spaces.phases.bound import proved
from lipyomo.search.spaces.phases.context import PhaseContext, PhaseQuestion
from lipyomo.search.spaces.phases.examine import Workspace
from lipyomo.search.spaces.phases.heuristics import PrimalHeuristics
from lipyomo.search.spaces.phases.node import Child, OutOfTimeError, PhaseNode, Watch
from lipyomo.search.spaces.phases.params import Params
from lipyomo.search.spaces.phases.points import Points
from lipyomo.search.spaces.phases.root import begin
from lipyomo.search.spaces.phases.saved import decode, encode
from lipyomo.search.spaces.phases.split import split, together
from lipyomo.search.spaces.phases.statistics import Statistics


class PhasePipeline(protocol.Pipeline[PhaseNode, Task[PhaseNode]]):
    """The search of one problem over the phases of its units.

    Parameters
    ----------
    question : PhaseQuestion
    seed : int, optional
    cascade : Cascade, optional
        Bounds that the root starts from.

    Attributes
    ----------
    context : PhaseContext
        The current context; only the root changes it.
    points : Points
        The known points, with the incumbent.
    unstable_units : int
        Number of units that are unstable at the root.
    """

    def __init__(
        self, question: PhaseQuestion, seed: int = 0, cascade: Cascade | None = None
    ) -> None:
        self.context = context = PhaseContext.of(question)
        self._cascade, self._rng = cascade, np.random.default_rng(seed)
        self.points = Points(context, self._rng)
        self._region = RegionProgram(context.system, context.domain)
        self._statistics = Statistics.nothing(context.system.count)
        searched = context.problem
        if cascade is not None:
            searched = searched.thinned(cascade.bounds.phases)
        self._heuristics = PrimalHeuristics(searched, self.points, self._rng)
        self.unstable_units = 0 if cascade is None else cascade.bounds.unstable

    @property
    def best(self) -> Incumbent:
        """The best known point."""
        return self.points.best

    @property
    def look_ahead(self) -> FloatArray:
        """Average look-ahead of splits on each unit of the problem's network, shape (N,)."""
        return self.context.presolved.units.lift(self._statistics.average_ahead)

    def cutoff(self, value: float) -> float:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return self.context.cutoff(value)

    def together(self, node: PhaseNode) -> int:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return together(self.context, node)

    def weight(self) -> float:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        units = self.unstable_units
        size = units**2 * min(self.context.system.tangents.input_dim, units)
        return math.sqrt(max(size / self.context.params.common, 1.0))

    def recipe(self) -> Recipe[PhaseNode, Task[PhaseNode]]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(PhasePipeline, self.context.question)

    # -- the root ----------------------------------------------------------------------------------

    def root(self, clock: Clock, on_progress: OnRootProgress) -> Root[PhaseNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        if not self.context.question.enough:  # to prove a given bound, no better point is needed
            self._heuristics.run(*self._heuristics.budget(clock))
        on_progress(best=self.points.best)
        found = begin(
            Workspace(self.context, self.points, self._region, Watch(clock, lambda: None)),
            self._statistics,
            self._cascade,
            lambda upper: on_progress(upper=upper),
            lambda: self._improve_early(clock, on_progress),
        )
        outcome = self._outcome([found.child], found.statistics.since(self._statistics))
        self.context, self._statistics = found.context, found.statistics
        self.unstable_units, child = found.still, found.child
        if child.is_open and not child.node.examined:
            outcome = replace(outcome, children=(), returned=(child.node,))
        outcome = replace(outcome, best=self.points.best)
        effort = 0.5 * self._large if child.is_open else 0.0
        return Root(outcome, 2.0 * found.seconds, effort)

    @property
    def _large(self) -> float:
        """Additional effort of the heuristics at the root, as a multiple; 0 for small networks."""
        params = self.context.params
        return params.large_part * (min(self.weight(), params.most_large) - 1.0)

    def _improve_early(self, clock: Clock, on_progress: OnRootProgress) -> None:
        """Run heuristics once the root has a first bound, if time for the slower bounds remains."""
        context = self.context
        cost = root_cost(context.targets, context.system.tangents.input_dim, self.unstable_units)
        seconds = 2.0 * cost.closed + 4.0 * cost.proof + SEMIDEFINITE.usual_steps * cost.approach
        if self._large and fits(seconds, clock.left):
            on_progress(best=self.improve(0.5 * self._large, [], clock))

    # -- nodes -------------------------------------------------------------------------------------

    def plan(self, nodes: Sequence[PhaseNode], travels: bool) -> Task[PhaseNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        if not travels:  # the statistics and points known here are used
            return Task(tuple(nodes), self.best)
        packed = tuple(_packed(self.points, node, self.context.params.few) for node in nodes)
        return Task(packed, Incumbent(self.best.value), self._statistics)

    def process(self, task: Task[PhaseNode], clock: Clock, pulse: Pulse) -> Outcome[PhaseNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        context, points, statistics = self.context, self.points, self._statistics
        nodes, travels = list(task.nodes), task.known is not None
        if travels:
            points = Points(context, np.random.default_rng(0), task.best.value)
            nodes, statistics = _unpacked(points, nodes), task.known
            self._region.forget()
        known = points.best.value
        workspace = Workspace(context, points, self._region, Watch(clock, pulse))
        try:
            groups, now = split(workspace, nodes, statistics)
        except OutOfTimeError:
            return Outcome(returned=task.nodes)
        outcome = self._outcome(
            [child for group in groups for child in group], now.since(statistics)
        )
        if points.best.value > known:
            outcome = replace(outcome, best=points.best)
        if not travels:
            self._statistics = now
            return replace(outcome, statistics=None)
        packed = tuple(_packed(points, node, context.params.few) for node in outcome.children)
        fathomed = tuple((_packed(points, node, 0), bound) for node, bound in outcome.fathomed)
        return replace(outcome, children=packed, fathomed=fathomed)

    def adopt(self, outcome: Outcome[PhaseNode]) -> Outcome[PhaseNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        if outcome.statistics is None:
            return outcome
        if outcome.best is not None and outcome.best.point is not None:
            self.points.challenge(outcome.best.point)
        self._statistics = self._statistics.plus(outcome.statistics)
        nodes = _unpacked(self.points, [*outcome.children, *outcome.returned])
        count = len(outcome.children)
        children, returned = tuple(nodes[:count]), tuple(nodes[count:])
        best = self.points.best
        return replace(outcome, children=children, returned=returned, best=best)

    def prove(self, nodes: Sequence[PhaseNode], cutoff: float) -> Outcome[PhaseNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        children = [Child(node, proved(self.context, node)) for node in nodes]
        children = [
            child if child.node.bound > cutoff else child.fathom(child.node.bound)
            for child in children
        ]
        outcome = self._outcome(children, Statistics.nothing(0))
        return replace(outcome, children=(), returned=outcome.children)

    def improve(
        self,
        effort: float,
        seeds: Sequence[PhaseNode],
        clock: Clock,
        starts: Iterable[FloatArray] = (),
    ) -> Incumbent:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        After points of the seeds, `starts` gives more arrays (k, d) of points to start from.
        """
        longer = min(1.0 + self._large, self.context.params.large_node) if seeds else 1.0
        evaluations, brief = self._heuristics.budget(clock, longer)
        if not seeds:  # at the root of a large network
            clock = brief
        examined = [node for node in seeds if node.examined]
        order = [examined[k] for k in self._rng.permutation(len(examined))]
        answers = (
            self._region.examine(self.context.system.form(node.phases), node) for node in order
        )
        found = (answer.point[None] for answer in answers if answer.point is not None)
        self._heuristics.run(int(evaluations * effort), clock, chain(found, starts))
        return self.points.best

    def _outcome(self, children: Sequence[Child], statistics: Statistics) -> Outcome[PhaseNode]:
        """Return the outcome that consists of some children."""
        fathomed = [piece for child in children for piece in child.fathomed]
        return Outcome(
            tuple(child.node for child in children if child.is_open),
            closed=max([0.0, *(child.closed for child in children)]),  # norms are at least 0
            fathomed=tuple(fathomed) if self.context.question.record else (),
            statistics=statistics,
            counters=statistics.counters,
        )

    # -- checkpoints -------------------------------------------------------------------------------

    def encode(self, nodes: Sequence[PhaseNode]) -> Arrays:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        question, (points, on) = self.context.question, self.points.pool.all
        data = encode(nodes) | {"points": points, "on": on, "best": self.best.points}
        data |= {f"learnt_{name}": np.asarray(x) for name, x in self._statistics._asdict().items()}
        if question.known is not None:
            data["known"] = question.known
        numbers = {"unstable_units": self.unstable_units, "switched": question.switched}
        return data | {name: np.array(number) for name, number in numbers.items()}

    def decode(self, arrays: Mapping[str, npt.NDArray[Any]]) -> Outcome[PhaseNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        if arrays.get("switched", False):  # files of 0.3.0 do not say
            self.context = self.context.with_switches()
        self.points.pool.append(arrays["points"], arrays["on"])
        for point in arrays["best"]:
            self.points.challenge(point)
        learnt: dict[str, Any] = {name: arrays[f"learnt_{name}"][()] for name in Statistics._fields}
        self._statistics, self.unstable_units = Statistics(**learnt), int(arrays["unstable_units"])
        return Outcome(decode(arrays), best=self.points.best)


def pipeline_for(
    problem: LipschitzProblem,
    settings: Settings,
    checkpoint: Kept | None = None,
    cascade: Cascade | None = None,
    cutoff: float = 0.0,
    params: Params | None = None,
) -> PhasePipeline:
    """Make the pipeline of a search that starts from a cascade or from a checkpoint.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    settings : Settings
        Uses gap and seed.
    checkpoint : Kept, optional
        The state from which the search resumes, if it has one.
    cascade : Cascade, optional
        Bounds that the root starts from.
    cutoff : float, optional
        A bound to be proved: nodes with bounds up to it are fathomed, whatever value is attained.
    params : Params, optional
    """
    state = None if checkpoint is None else checkpoint.state
    known = None if state is None else state.get("known")
    if state is None and cascade is not None:
        known = flat(cascade.bounds.phases)
    question = PhaseQuestion(problem, settings.gap, cutoff, known, params=params or Params())
    return PhasePipeline(question, settings.seed, cascade)


def _packed(points: Points, node: PhaseNode, sample: int) -> PhaseNode:
    """Return a node to be sent to another process, with up to `sample` of its points."""
    return node._replace(points=node.points[:0], sample=points.pool.at(node.points[:sample]))


def _unpacked(points: Points, nodes: Sequence[PhaseNode]) -> list[PhaseNode]:
    """Receive nodes from another process, and enter their points."""
    own = [points.pool.at(np.zeros(0, int)) if n.sample is None else n.sample for n in nodes]
    numbers = points.adopt(own)
    return [
        node._replace(points=here, sample=None) for node, here in zip(nodes, numbers, strict=True)
    ]


Pipeline = PhasePipeline
"""The name in version 0.3, which goes with the former path `lipyomo.search.relu.pipeline`."""
