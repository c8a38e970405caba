"""Whether to bisect boxes instead: a trial before a search over phases, and a race beside it.

A trial bisects a few hundred boxes, those with the largest bounds first.

How fast either search closes the gap shows only after a while.  Bisecting all edges of boxes takes
2^d times as many boxes, and reduces the error of the bounds by about the same factor each time.  So
the logarithms of the gaps are assumed to fall by the same amount whenever the time is multiplied by
the same factor, as between the last two looks.  Time is CPU time here: with wall-clock time on a
busy machine, the wrong search has won.  Boxes get a tenth of the time, so that no more is lost;
while their gap is the wider one and falls more slowly, they get less and less.  The first look
waits until all 2^d boxes are affordable, roughly: 16 seconds for ten inputs, one for up to six.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lipyomo.base.clock import Clock
from lipyomo.search.engine.protocol import Incumbent, Outcome
from lipyomo.search.spaces.bundle import bundles, joined
from lipyomo.search.spaces.joint.context import JointBoxes, JointContext
from lipyomo.search.spaces.joint.halve import closed_or_halved
from lipyomo.search.spaces.phases.context import PhaseContext
from lipyomo.search.spaces.phases.node import PhaseNode
from lipyomo.search.spaces.phases.points import Points


@dataclass(frozen=True, eq=False)
class Trial:
    """Boxes and nodes that cover the domain, except for the parts that are closed.

    Attributes
    ----------
    boxes : JointBoxes
    nodes : tuple of PhaseNode
        Handed over to the search over phases.
    closed : float
        Largest bound of the parts that are closed.
    best : Incumbent
    """

    boxes: JointBoxes
    nodes: tuple[PhaseNode, ...]
    closed: float
    best: Incumbent

    @property
    def bound(self) -> float:
        """The largest bound of all parts."""
        return max([self.closed, self.boxes.bound, *(node.bound for node in self.nodes)])

    def outcome(self, most: int) -> Outcome[JointBoxes | PhaseNode]:
        """Return the same as an outcome for the engine, in bundles of at most `most` boxes."""
        children: tuple[JointBoxes | PhaseNode, ...] = (*bundles(self.boxes, most), *self.nodes)
        return Outcome(children, closed=self.closed, best=self.best)


def best_sampled(context: JointContext, space: PhaseContext, count: int) -> float:
    """Return the largest norm at `count` random points."""
    rng = np.random.default_rng(0)
    points = Points(context.problem, space.presolved, rng, space.params)
    points.enter(context.problem.domain.sample(rng, count))
    return points.best.value


def tried(
    context: JointContext,
    space: PhaseContext,
    best: Incumbent,
    clock: Clock,
    before: Trial | None = None,
) -> Trial:
    """Bisect boxes, those with the largest bounds first, until a few hundred have been bounded.

    Parameters
    ----------
    context : JointContext
    space : PhaseContext
        Of the same problem.
    best : Incumbent
    clock : Clock
    before : Trial, optional
        A trial to be continued until time is up.
    """
    params, problem = context.params, context.problem
    rng = np.random.default_rng(0)
    points = Points(problem, space.presolved, rng, space.params, best.value)
    now, most = before, math.inf
    if now is None:
        points.enter(problem.domain.sample(rng, params.samples))
        now, most = Trial(context.whole(), (), -math.inf, points.best), params.trial
    spent = 0
    while len(now.boxes) and spent < most and not clock.expired:
        fit = spent * clock.left / max(clock.seconds, 1e-9) if spent else 1.0
        count = max(1, int(min(fit, len(now.boxes) // 2, params.bundle, most - spent)))
        now = _after_round(context, space, points, now, count)
        spent += count
    return now if now.best.value > best.value else Trial(now.boxes, now.nodes, now.closed, best)


def by_boxes(
    context: JointContext, space: PhaseContext, clock: Clock
) -> Outcome[JointBoxes | PhaseNode] | None:
    """Try to prove a sufficient bound by boxes alone; return None once there are too many.

    Parameters
    ----------
    context : JointContext
    space : PhaseContext
        Of the same problem.
    clock : Clock
    """
    few, spent = context.params.bundle, 0
    points = Points(context.problem, space.presolved, np.random.default_rng(0), space.params)
    now = Trial(context.whole(), (), -math.inf, points.best)
    while len(now.boxes):
        if len(now.boxes) > max(spent, 2 * few) or now.nodes or clock.expired:
            return None
        count = min(len(now.boxes), few)
        now = _after_round(context, space, points, now, count)
        spent += count
    return None if now.nodes else now.outcome(few)


def _after_round(
    context: JointContext, space: PhaseContext, points: Points, now: Trial, count: int
) -> Trial:
    """Bisect the `count` boxes with the largest bounds."""
    order = np.argsort(-now.boxes.bounds, kind="stable")
    found = closed_or_halved(context, space, points, now.boxes.take(order[:count]))
    boxes = joined([found.boxes, now.boxes.take(order[count:])])
    return Trial(boxes, (*now.nodes, *found.nodes), max(now.closed, found.closed), points.best)


@dataclass(frozen=True)
class Course:
    """The gap of a search at two moments.

    Attributes
    ----------
    first, last : (float, float)
        CPU seconds spent so far, and the logarithm of the bound over the cutoff.
    """

    first: tuple[float, float]
    last: tuple[float, float]

    @property
    def fall(self) -> float:
        """By how much the gap falls while the time is multiplied by e."""
        (begin, before), (now, gap) = self.first, self.last
        if not (0.0 < begin < now and 0.0 < gap < before):
            return 0.0
        return (before - gap) / math.log(now / begin)

    def after(self, seconds: float) -> float:
        """Return the gap that is expected after this many more seconds."""
        now, gap = self.last
        if not self.fall:
            return gap
        return max(gap - self.fall * math.log((now + seconds) / now), 0.0)

    def trails(self, other: Course) -> bool:
        """Return whether this gap is expected to stay above another one."""
        return self.last[1] >= other.last[1] and self.fall <= other.fall


class Race:
    """A search of boxes that is continued from time to time during a search over phases.

    Parameters
    ----------
    context : JointContext
    space : PhaseContext
        Of the same problem.
    whole : float
        The bound of the root of the search over phases.
    trial : Trial or None
        The boxes to start from.
    clock : Clock
    work : Clock
        A clock of CPU seconds since the root was started (`Clock.working`).
    """

    def __init__(
        self,
        context: JointContext,
        space: PhaseContext,
        whole: float,
        trial: Trial | None,
        clock: Clock,
        work: Clock,
    ) -> None:
        self.context, self.space = context, space
        self._trial, self.clock, self._work = trial, clock, work
        params, edges = context.params, context.problem.network.input_dim
        self._due = params.pause * max(2.0**edges / params.bundle, 1.0)
        self._spent, self._first = 0.0, (max(work.seconds, params.pause), whole)
        self._share = 0.5 * params.share
        self._last_gaps: tuple[tuple[float, float], tuple[float, float]] | None = None

    def won(self, top: float, best: Incumbent) -> Trial | None:
        """Return the boxes if they are to replace the search over phases.

        Parameters
        ----------
        top : float
            The largest bound of the nodes left in the search over phases.
        best : Incumbent
        """
        work, cutoff = self._work, self.space.cutoff(best.value)
        had = work.seconds - self._spent
        if had < self._due or not top > cutoff > 0.0:
            return None
        self._due = 2.0 * had
        began = work.seconds
        part = work.within(self._share / (1.0 - self._share) * had - self._spent)
        self._trial = trial = tried(self.context, self.space, best, part, self._trial)
        self._spent += work.seconds - began
        cutoff = self.space.cutoff(trial.best.value)
        if not (math.isfinite(trial.bound) and top > cutoff):
            return None
        own = self._spent, math.log(max(trial.bound / cutoff, 1.0))
        other = had, math.log(top / cutoff)
        before = self._last_gaps or (own, (self._first[0], math.log(self._first[1] / cutoff)))
        mine, others = Course(before[0], own), Course(before[1], other)
        behind = self._last_gaps is not None and mine.trails(others)
        self._share = 0.5 * self._share if behind else self.context.params.share
        self._due = (4.0 if behind else 2.0) * had
        self._last_gaps = own, other
        left = min(self.clock.left, self.context.params.ahead * had)
        return trial if mine.after(left) < others.after(left) else None
