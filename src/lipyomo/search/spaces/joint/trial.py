"""Whether to bisect boxes instead: a trial before a search over phases, and a race beside it.

A trial bisects a few hundred boxes, those with the largest bounds first.

How fast either search closes the gap shows only after a while.  Bisecting all edges of boxes takes
2^d times as many boxes, and reduces the error of the bounds by about the same factor each time.  So
the logarithms of the gaps are assumed to fall by the same amount whenever the time is multiplied by
the same factor, as between the last two looks.  Time is CPU time here: with wall-clock time on a
busy machine, the wrong search has won.  Boxes get a tenth of the time, so that no more is lost;
while their gap is the wider one and falls more slowly, they get less and less.  The first look
waits until all 2^d boxes are affordable, roughly: 16 seconds for ten inputs, one for up to six.

With up to three inputs a few thousand boxes often close everything before the search over phases
has split fifty nodes.  So there are two early looks, after 16 nodes and four times as many; they
are counted in nodes and boxes, so that these searches are reproducible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lipyomo.base.clock import Clock
from lipyomo.networks.phases import OPEN
from lipyomo.search.engine.protocol import Incumbent, Outcome
from lipyomo.search.spaces.bundle import bundles, joined
from lipyomo.search.spaces.joint.context import JointBoxes, JointContext
from lipyomo.search.spaces.joint.halve import handed_or_halved
from lipyomo.search.spaces.phases.context import PhaseContext
from lipyomo.search.spaces.phases.node import PhaseNode
from lipyomo.search.spaces.phases.points import Points

NEARLY = 0.2
"""Boxes are soon closed once the logarithm of their bound over the cutoff is below this."""

LATER = 4
"""How many times as many nodes and boxes the second early look has."""


class Trial(NamedTuple):
    """Boxes and nodes that cover the domain, except for the parts that are closed.

    Attributes
    ----------
    boxes : JointBoxes
    nodes : tuple of PhaseNode
        Handed over to the search over phases.
    closed : float
        Largest bound of the parts that are closed.
    best : Incumbent
    bisected : int
        The number of boxes that have been bisected.
    """

    boxes: JointBoxes
    nodes: tuple[PhaseNode, ...]
    closed: float
    best: Incumbent
    bisected: int = 0

    @property
    def bound(self) -> float:
        """The largest bound of all parts."""
        return max([self.closed, self.boxes.bound, *(node.bound for node in self.nodes)])

    def outcome(self, most: int) -> Outcome[JointBoxes | PhaseNode]:
        """Return the same as an outcome for the engine, in bundles of at most `most` boxes."""
        children: tuple[JointBoxes | PhaseNode, ...] = (*bundles(self.boxes, most), *self.nodes)
        return Outcome(children, closed=self.closed, best=self.best)


def tried(
    context: JointContext,
    space: PhaseContext,
    best: Incumbent,
    clock: Clock,
    before: Trial | None = None,
    most: float = math.inf,
) -> Trial:
    """Bisect boxes, those with the largest bounds first, until time is up.

    Parameters
    ----------
    context : JointContext
    space : PhaseContext
        Of the same problem.
    best : Incumbent
    clock : Clock
    before : Trial, optional
        A trial to be continued.
    most : int, optional
        The number of boxes that are bisected in all, `before` included.
    """
    params, rng = context.params, np.random.default_rng(0)
    points = Points(space, rng, best.value)
    now = before
    if now is None:
        points.enter(space.domain.sample(rng, params.samples))
        now = Trial(context.whole(), (), -math.inf, points.best)
    began = now.bisected
    while len(now.boxes) and now.bisected < most and not clock.expired:
        spent = now.bisected - began
        fit = spent * clock.left / max(clock.seconds, 1e-9) if spent else 1.0
        left = min(fit, len(now.boxes) // 2, params.bundle, most - now.bisected)
        now = _after_round(context, space, points, now, max(1, int(left)))
    return now if now.best.value > best.value else now._replace(best=best)


def soon_closed(
    context: JointContext,
    space: PhaseContext,
    best: Incumbent,
    clock: Clock,
    most: float,
    before: Trial | None = None,
) -> Trial:
    """Bisect boxes while it seems that all are closed once `most` have been bisected.

    The logarithm of the gap is assumed to halve whenever ``2^(d/2)`` times as many boxes have been
    bisected, and boxes to be closed once it is below `NEARLY`.

    Parameters
    ----------
    context : JointContext
    space : PhaseContext
        Of the same problem.
    best : Incumbent
    clock : Clock
    most : int
        Of all boxes, those of `before` included.
    before : Trial, optional
        A trial to be continued.
    """
    power = 0.5 * context.problem.network.input_dim
    now, expected, mark = before, 0.0, context.params.bundle
    while now is None or (len(now.boxes) and expected <= most and not clock.expired):
        now = tried(context, space, best, clock, now, mark)
        best, cutoff = now.best, space.cutoff(now.best.value)
        if not cutoff > 0.0 or now.bisected >= most or not _are_light(space, now.nodes):
            break
        gap = math.log(max(now.bound / cutoff, 1.0))
        expected = now.bisected * max(gap / NEARLY, 1.0) ** power
        mark = 2 * now.bisected
    return now


def _are_light(space: PhaseContext, nodes: Sequence[PhaseNode]) -> bool:
    """Return whether nodes are much easier than the whole problem, by their open units.

    A box about a point where all kinks meet is as hard as the whole.
    """
    whole = np.count_nonzero(space.presolved.phases == OPEN)
    still = [node.still for node in nodes]
    return bool(2 * max(still, default=0) <= whole and sum(still) <= 2 * whole)


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
    few = context.params.bundle
    points = Points(space, np.random.default_rng(0))
    now = Trial(context.whole(), (), -math.inf, points.best)
    while len(now.boxes):
        if len(now.boxes) > max(now.bisected, 2 * few) or now.nodes or clock.expired:
            return None
        now = _after_round(context, space, points, now, min(len(now.boxes), few))
    return None if now.nodes else now.outcome(few)


def _after_round(
    context: JointContext, space: PhaseContext, points: Points, now: Trial, count: int
) -> Trial:
    """Bisect the `count` boxes with the largest bounds."""
    order = np.argsort(-now.boxes.bounds, kind="stable")
    found = handed_or_halved(context, space, points, now.boxes.take(order[:count]))
    boxes = joined([found.boxes, now.boxes.take(order[count:])])
    closed = max(now.closed, found.closed)
    return Trial(boxes, (*now.nodes, *found.nodes), closed, points.best, now.bisected + count)


class Course(NamedTuple):
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
        few = edges <= params.early_inputs and context.problem.domain.is_box
        self._early = 2 if few and not context.targets.euclidean else 0
        self._nodes, self._due_nodes, self._boxes = 0, params.early_nodes, params.early
        self._due = params.pause * max(2.0**edges / params.bundle, 1.0)
        self._spent, self._first = 0.0, (max(work.seconds, params.pause), whole)
        self._share = 0.5 * params.share
        self._last_gaps: tuple[tuple[float, float], tuple[float, float]] | None = None

    def won(self, top: float, best: Incumbent, nodes: int) -> Trial | None:
        """Return the boxes if they are to replace the search over phases.

        Parameters
        ----------
        top : float
            The largest bound of the nodes left in the search over phases.
        best : Incumbent
        nodes : int
            How many nodes this search has split since it was asked last.
        """
        work, cutoff = self._work, self.space.cutoff(best.value)
        self._nodes += nodes
        if self._early and self._nodes >= self._due_nodes and top > cutoff > 0.0:
            return self._closed_early(best)
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

    def _closed_early(self, best: Incumbent) -> Trial | None:
        """Look whether a few thousand boxes close everything, or nearly; return them if so."""
        began, part = self._work.seconds, self.clock.part()
        trial = soon_closed(self.context, self.space, best, part, self._boxes, self._trial)
        self._trial, self._spent = trial, self._spent + self._work.seconds - began
        self._early -= 1
        self._due_nodes, self._boxes = LATER * self._nodes, LATER * self._boxes
        return None if len(trial.boxes) or not _are_light(self.space, trial.nodes) else trial
