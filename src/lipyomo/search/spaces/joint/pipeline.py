"""The search of boxes and of the nodes that they are handed over as, in one queue.

The pipeline of the search over phases does most of the work on nodes, and holds the incumbent; this
one processes boxes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.relaxations.cascade import Cascade
from lipyomo.relaxations.semidefinite.choice import root_cost
from lipyomo.search.engine.protocol import (
    NODES,
    Incumbent,
    OnRootProgress,
    Outcome,
    Pulse,
    Recipe,
    Root,
    Task,
)
from lipyomo.search.spaces.bundle import joined
from lipyomo.search.spaces.joint.adaptive import BoxesOrNode, NearCutoff, counted
from lipyomo.search.spaces.joint.beside import JointTask, WithBoxes, gone_on, parted
from lipyomo.search.spaces.joint.context import JointBoxes, JointContext
from lipyomo.search.spaces.joint.halve import halved_in_turn, handed_over
from lipyomo.search.spaces.joint.trial import (
    LATER,
    Race,
    Trial,
    by_boxes,
    soon_closed,
    tried,
)
from lipyomo.search.spaces.phases.context import PhaseQuestion
from lipyomo.search.spaces.phases.node import PhaseNode
from lipyomo.search.spaces.phases.pipeline import PhasePipeline
from lipyomo.search.spaces.phases.points import Points

FIRST_IMPROVEMENT, IMPROVEMENT_SHARE = 4.0, 0.5
"""The effort of the first search for points once boxes are bisected, as the engine counts it, and
the share of all effort that later ones take."""


class JointPipeline(WithBoxes):
    """Searches one problem with few inputs.

    Parameters
    ----------
    beside : PhasePipeline
        Of the same problem.
    context : JointContext
    cascade : Cascade, optional
        Bounds of the whole problem; not needed if only tasks are processed.
    """

    _beside: PhasePipeline

    def __init__(
        self, beside: PhasePipeline, context: JointContext, cascade: Cascade | None = None
    ) -> None:
        super().__init__(beside, context.whole, NearCutoff.first(context.params))
        self._context, self._cascade = context, cascade
        self._effort, self._improved_at, self._turn = 0.0, 0.0, 1.0
        self._race: Race | None = None
        self._top, self._replaced = -math.inf, False

    @classmethod
    def of(cls, question: PhaseQuestion) -> JointPipeline:
        """Return a pipeline that processes tasks sent from another process."""
        beside = PhasePipeline(question)
        context = JointContext.of(question.problem)
        assert context is not None
        return cls(beside, context)

    def recipe(self) -> Recipe[BoxesOrNode, JointTask]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(JointPipeline.of, self._beside.context.question)

    # -- the root ----------------------------------------------------------------------------------

    def root(self, clock: Clock, on_progress: OnRootProgress) -> Root[BoxesOrNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        If the bound of the root node of the search over phases is cheap, boxes have to reach a
        smaller bound than it, and than the search over phases in the same time, unless this has
        closed half of its parts by then.  Otherwise they have to close half of the gap that bounds
        by substitution leave, in logarithms.  If the bound is not far above the incumbent, the
        search over phases is chosen, and boxes are tried beside it from time to time.  It is also
        chosen for balls and polytopes, unless bounds by substitution are useless: boxes gain less
        there, as they also cover points outside.  The same goes for Euclidean norms, for which
        semidefinite bounds are better.  If proving a bound is enough, boxes alone are tried first.
        """
        assert self._cascade is not None
        beside, whole, params = self._beside, self._cascade.value, self._context.params
        euclidean, on_box = self._context.targets.euclidean, self._context.problem.domain.is_box
        if beside.context.question.enough and on_box and not euclidean:
            ended = by_boxes(self._context, beside.context, clock.part())
            if ended is not None:
                return Root(ended)
        proved = whole
        found: Root[Any] | None = None
        rng = np.random.default_rng(0)
        seen = Points(beside.context, rng)
        seen.enter(beside.context.domain.sample(rng, params.samples if euclidean else params.few))
        hopeless = params.hopeless * self.cutoff(seen.best.value)
        if params.compared and whole <= hopeless and (euclidean or not on_box):
            return cast("Root[BoxesOrNode]", beside.root(clock, on_progress))
        if self._is_short:
            found = beside.root(clock, on_progress)
            waiting = [*found.outcome.children, *found.outcome.returned]
            if not waiting:
                return self._root(found, None, clock, on_progress)
            whole = max(node.bound for node in waiting)
            proved = min(proved, max(found.outcome.closed, *(n.proved_bound for n in waiting)))
        if self._is_near(whole, beside.best.value) or clock.expired:
            return self._root(found, None, clock, on_progress)
        work = clock.working()
        trial = tried(self._context, beside.context, beside.best, clock.part(), most=params.trial)
        took = work.seconds
        goal = whole
        if found is None:
            goal = math.sqrt(whole * self.cutoff(trial.best.value))
        lost = trial.bound > goal or self._is_near(whole, trial.best.value)
        if found is not None and params.compared and not lost:
            on = gone_on(beside, found.outcome, work.within(took))
            found = found._replace(outcome=on)
            top = max((node.bound for node in on.children), default=-math.inf)
            lost = top <= max(trial.bound, self.cutoff(beside.best.value))
            lost = lost or 2 * len(on.children) <= on.counters.get(NODES, 0)
        if lost and params.compared:
            return self._root(found, trial, clock, on_progress)
        most = LATER * params.early
        trial = soon_closed(self._context, beside.context, trial.best, clock.part(), most, trial)
        best = self._adopted(trial, clock)
        on_progress(upper=min(trial.bound, proved), best=best)
        return Root(replace(trial.outcome(params.bundle), best=beside.best))

    def _root(
        self,
        found: Root[Any] | None,
        trial: Trial | None,
        clock: Clock,
        on_progress: OnRootProgress,
    ) -> Root[BoxesOrNode]:
        """Start the search over phases, whose root may be known, with boxes beside it."""
        context, work = self._context, clock.working()
        root = found or cast("Root[BoxesOrNode]", self._beside.root(clock, on_progress))
        waiting = [*root.outcome.children, *root.outcome.returned]
        if context.params.compared and waiting:
            whole = max(node.bound for node in waiting)
            self._race = Race(context, self._beside.context, whole, trial, clock, work)
        return root

    def _is_near(self, whole: float, value: float) -> bool:
        """Return whether a bound of the whole problem is near enough to `value` for phases."""
        params = self._context.params
        return params.compared and whole <= params.far * self.cutoff(value)

    @property
    def _is_short(self) -> bool:
        """Whether the bound of the root node of the search over phases is cheap."""
        space = self._beside.context
        cost = root_cost(
            space.targets, space.system.tangents.input_dim, self._beside.unstable_units
        )
        return cost.full < space.params.long_root

    # -- boxes and nodes ---------------------------------------------------------------------------

    def plan(self, nodes: Sequence[BoxesOrNode], travels: bool) -> JointTask:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        task = super().plan(nodes, travels)
        others = () if task.nodes is None else task.nodes.nodes
        self._top = max((node.bound for node in others), default=-math.inf)
        return task

    def _split(self, task: Task[PhaseNode], clock: Clock, pulse: Pulse) -> Outcome[Any]:
        """Process nodes of the search over phases, and count the boxes among them."""
        return counted(task, super()._split(task, clock, pulse))

    def _halved(self, task: JointTask, clock: Clock, pulse: Pulse) -> Outcome[BoxesOrNode]:
        """Process the boxes of a task."""
        space = self._beside.context
        return halved_in_turn(self._context, space, task.boxes, task.best, task.near, clock, pulse)

    def adopt(self, outcome: Outcome[BoxesOrNode]) -> Outcome[BoxesOrNode]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        if outcome.best is not None and outcome.best.point is not None:
            self._beside.points.challenge(outcome.best.point)
        self._near = self._near.after(outcome.counters)
        return super().adopt(self._raced(outcome))

    def _raced(self, outcome: Outcome[BoxesOrNode]) -> Outcome[BoxesOrNode]:
        """Replace the nodes of an outcome by boxes that cover the domain, if they are ahead."""
        if self._race is None:
            return outcome
        nodes = outcome.counters.get(NODES, 0)
        trial = self._race.won(self._top, self._beside.best, nodes)
        if trial is None:
            return outcome
        self._adopted(trial, self._race.clock)
        self._improved_at = self._effort
        self._race, self._replaced = None, True
        own: Outcome[BoxesOrNode] = trial.outcome(self._context.params.bundle)
        closed = max(outcome.closed, own.closed)
        return replace(outcome, children=own.children, returned=(), closed=closed)

    def _parted(self, nodes: Sequence[BoxesOrNode]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Separate boxes from nodes, without the nodes of a search that boxes have replaced."""
        boxes, others = parted(nodes)
        if self._replaced:
            others = handed_over(self._context, others)
        return boxes, others

    def improve(
        self, effort: float, seeds: Sequence[BoxesOrNode], clock: Clock
    ) -> Incumbent | None:
        """See `lipyomo.search.engine.protocol.Pipeline`.

        Boxes are bounded very quickly, so that a search for points at every turn would take most of
        the time.  The next one comes when the search has taken twice as long, or sooner if this one
        has found a better point, and takes a share of the effort in between.
        """
        boxes, nodes = parted(seeds)
        self._effort += effort
        if not boxes:
            return self._beside.improve(effort, nodes, clock)
        before = self._beside.best
        if self._effort < self._turn:
            return before
        since = self._effort - self._improved_at
        effort = IMPROVEMENT_SHARE * since
        best = self._beside.improve(effort, nodes, clock, self._starts(joined(boxes)))
        self._improved_at = self._effort
        self._turn = self._effort + (since if best.value > before.value else self._effort)
        return best

    def _adopted(self, trial: Trial, clock: Clock) -> Incumbent:
        """Adopt a trial's incumbent, search for points about its boxes, and return the best."""
        beside = self._beside
        if trial.best.point is not None:
            beside.points.challenge(trial.best.point)
        if not len(trial.boxes):
            return beside.best
        return beside.improve(FIRST_IMPROVEMENT, [], clock, self._starts(trial.boxes))

    def _starts(self, boxes: JointBoxes) -> Iterator[FloatArray]:
        """Yield the middles of some of the boxes with the largest bounds, without end."""
        rng, params = np.random.default_rng(len(boxes)), self._context.params
        best = boxes.take(np.argsort(-boxes.bounds, kind="stable")[: params.best])
        points = self._context.problem.domain.drawn_in(best.middle) if len(best) else best.low
        while len(points):
            yield points[rng.permutation(len(points))[: params.starts]]
