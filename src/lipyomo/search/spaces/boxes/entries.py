"""All entries of a Jacobian, ``rows . J T``, in one search: each box is one of an entry and a sign.

What is searched is the largest *excess*: by how much an entry, or its negative, exceeds what is
known to be attained of it, in tolerances of its own.  A bound of the excess over what was attained
earlier holds for what is attained later, which is no less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.rounding import gamma
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets
from lipyomo.search.engine.protocol import Incumbent, Outcome, Pulse, Recipe, Root, Tell
from lipyomo.search.spaces.boxes.ascent import projected_ascents
from lipyomo.search.spaces.boxes.bound import Bounded, under
from lipyomo.search.spaces.boxes.boxes import Boxes, bundles, joined
from lipyomo.search.spaces.boxes.bundled import BundlePipeline, Task
from lipyomo.search.spaces.boxes.collapse import collapsed
from lipyomo.search.spaces.boxes.context import Context, Question
from lipyomo.search.spaces.boxes.params import Params
from lipyomo.search.spaces.boxes.relax import relaxed
from lipyomo.search.spaces.boxes.values import Slopes, along, growth, jacobians


@dataclass(frozen=True, eq=False)
class EntriesQuestion:
    """The largest excess of the entries of ``rows . J T``.

    Attributes
    ----------
    problem : LipschitzProblem
        Without frozen inputs, on a bounded domain; its norms do not matter.
    rows : ndarray, shape (p, m)
        Functionals.
    tolerance : ndarray, shape (p, k)
    enough : float
        Excess that does not matter.
    params : Params
    """

    problem: LipschitzProblem
    rows: FloatArray
    tolerance: FloatArray
    enough: float
    params: Params = field(default_factory=Params)

    @property
    def context(self) -> Context:
        """Each functional with each direction."""
        d, *_, m = self.problem.tangent_network.sizes
        targets = Targets.of(self.rows, m, d, "l1")
        return Context.of(Question(self.problem, params=self.params), targets=targets)


@dataclass(frozen=True, eq=False)
class EntriesTask(Task):
    """Boxes to split, and what is attained of all entries' negatives and entries, (2, p, k)."""

    attained: FloatArray = field(default_factory=lambda: np.zeros((2, 0, 0)))


class EntriesPipeline(BundlePipeline):
    """Searches the largest excess of all entries.

    Parameters
    ----------
    question : EntriesQuestion
    attained : ndarray, shape (2, p, k), optional
        What is known of the entries' negatives and of the entries; finite.
    look : callable, optional
        From a point (d,) to what is known to be attained after a look at it, or None if the point
        does not count.  Needed at home.
    seed : int, optional
    """

    def __init__(
        self,
        question: EntriesQuestion,
        attained: FloatArray | None = None,
        look: Callable[[FloatArray], FloatArray | None] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(question.context)
        self._question, self._look = question, look
        self._attained = np.zeros((2, 0, 0)) if attained is None else attained
        self._rng = np.random.default_rng(seed)

    def recipe(self) -> Recipe[Boxes, Task]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return Recipe(EntriesPipeline, self._question)

    def _met(self, value: float) -> float:
        return self._question.enough

    def plan(self, nodes: Sequence[Boxes], travels: bool) -> Task:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        return EntriesTask(tuple(nodes), self._best, attained=self._attained)

    def process(self, task: Task, clock: Clock, pulse: Pulse) -> Outcome[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        assert isinstance(task, EntriesTask)
        self._attained = task.attained
        return super().process(task, clock, pulse)

    def _known_of(self, boxes: Boxes) -> tuple[FloatArray, FloatArray]:
        """What is attained of the entries that boxes are for, and their tolerances; (N,) each."""
        columns = np.abs(boxes.v_low).argmax(axis=1)
        rises = boxes.v_low[np.arange(len(boxes)), columns] > 0
        place = boxes.rows, columns
        return self._attained[(rises.astype(np.intp), *place)], self._question.tolerance[place]

    def _bounds_of(self, boxes: Boxes, cutoff: float) -> Bounded:
        """See `BundlePipeline`; functions and cutoffs are those of the entries as they are."""
        attained, tolerance = self._known_of(boxes)
        context, plain = self._context, replace(boxes, bounds=np.full(len(boxes), np.inf))
        known = relaxed(context, plain, (boxes.v_low, boxes.v_high))
        errors = context.row_errors[boxes.rows] if context.row_errors.any() else None
        above = collapsed(known, context.rows[boxes.rows], errors)
        found = under(known, above, attained + cutoff * tolerance)
        excess = (found.boxes.bounds - attained) / tolerance
        excess += gamma(0) * np.where(np.isfinite(excess), np.abs(excess), 0.0)  # empty: -inf
        return replace(found, boxes=replace(found.boxes, bounds=np.minimum(excess, boxes.bounds)))

    # -- the search --------------------------------------------------------------------------------

    def root(self, clock: Clock, tell: Tell) -> Root[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        context = self._context
        self._first_look(clock)
        self._best = Incumbent(0.0, context.domain.center)
        tell(best=self._best)
        whole, found = Boxes.whole(context), []
        cutoff = self.cutoff(0.0)
        for at in range(0, len(whole), context.chunk):
            part = whole.take(slice(at, at + context.chunk))
            found.append(part if clock.expired else self._bounds_of(part, cutoff).boxes)
        return Root(self.adopt(self.settle(bundles(joined(found), context.bundle), cutoff)))

    def adopt(self, outcome: Outcome[Boxes]) -> Outcome[Boxes]:
        """See `lipyomo.search.engine.protocol.Pipeline`."""
        best = outcome.best
        if best is not None and best.point is not None and best.value > 0.0:
            self._challenge(best.point)
        return replace(outcome, best=self._best)

    # -- points ------------------------------------------------------------------------------------

    def _ascend_from(self, boxes: Boxes, clock: Clock) -> None:
        self._ascend(boxes.middle, boxes, clock)

    def _first_look(self, clock: Clock) -> None:
        """Ascents of every entry, and of its negative, from the best points of a sample."""
        context, params = self._context, self._context.params
        points = context.domain.sample(self._rng, context.samples // 8)
        values = jacobians(context, points, context.rows)
        ends = Boxes.whole(context)
        each = int(np.clip(params.starts // len(ends), 1, params.again))
        columns = np.abs(ends.v_low).argmax(axis=1)
        signs = ends.v_low[np.arange(len(ends)), columns]
        own = signs * values[:, ends.rows, columns]
        places = np.argsort(-own, axis=0)[:each].T.reshape(-1)
        self._ascend(points[places], ends.take(np.repeat(np.arange(len(ends)), each)), clock)

    def _ascend(self, points: FloatArray, boxes: Boxes, clock: Clock) -> None:
        """Ascend from points (N, d), each for the entry of its box, and take what is found."""
        context = self._context

        def slopes(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            at = self._slopes_at(x, boxes)
            return at.values, growth(context, at)

        found, values = projected_ascents(
            context.domain, points, slopes, context.params.steps, clock
        )
        for _ in range(len(boxes)):
            excess = self._excess(values, boxes)
            best = int(excess.argmax())
            if not excess[best] > self._question.enough / 2.0 or clock.expired:
                break
            self._challenge(found[best])
            values[best] = -np.inf

    def _slopes_at(self, points: FloatArray, boxes: Boxes) -> Slopes:
        return along(self._context, points, self._context.rows[boxes.rows], boxes.v_low)

    def _excess(self, values: FloatArray, boxes: Boxes) -> FloatArray:
        attained, tolerance = self._known_of(boxes)
        return np.asarray((values - attained) / tolerance)

    def _looked(self, found: Bounded, left: Boxes, best: Incumbent) -> tuple[Incumbent, BoolArray]:
        """See `BundlePipeline`."""
        points = np.where(np.isnan(found.points), left.middle, found.points)
        points = self._context.domain.drawn_in(points)
        excess = self._excess(self._slopes_at(points, left).values, left)
        top = int(excess.argmax())
        if excess[top] > max(best.value, self._question.enough / 2.0):
            best = Incumbent(float(excess[top]), points[top])
        _, tolerance = self._known_of(left)
        return best, left.bounds - excess < 2.0 * found.fuzz / tolerance

    def _values(self, points: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _challenge(self, point: FloatArray) -> bool:
        """See `BundlePipeline`: whether more of some entry is attained at a point."""
        assert self._look is not None
        for x in self._context.domain.pulled_in(point):
            found = self._look(x)
            if found is not None:
                before, self._attained = self._attained, found
                return bool((found > before).any())
        return False
