"""All entries of a Jacobian, ``rows . J T``, in one search: each box has an entry and a sign.

The search maximises the *excess*: by how much an entry, or its negative, exceeds the value known to
be attained by it, as a multiple of its own tolerance.  Attained values only rise, so that a bound
of the excess over earlier ones stays valid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.rounding import gamma
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.spaces.boxes.ascent import projected_ascents
from lipyomo.search.spaces.boxes.bound import Bounded, under
from lipyomo.search.spaces.boxes.bounding.collapse import collapsed
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.objective import Objective
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.values import Slopes, derivatives_along, growth, jacobians


class EntriesQuestion(NamedTuple):
    """The largest excess of the entries of ``rows . J T``.

    Attributes
    ----------
    problem : LipschitzProblem
        Without frozen inputs, on a bounded domain; its norms are not used.
    rows : ndarray, shape (p, m)
        Functionals.
    tolerance : ndarray, shape (p, k)
    enough : float
        Excesses up to this are accepted.
    """

    problem: LipschitzProblem
    rows: FloatArray
    tolerance: FloatArray
    enough: float

    def cutoff(self, value: float) -> float:
        """Return the excess that is accepted, whatever is attained."""
        return self.enough


class Entries(Objective):
    """The largest excess of all entries.

    Parameters
    ----------
    question : EntriesQuestion
    attained : ndarray, shape (2, p, k), optional
        The known values of the entries' negatives and of the entries, finite; stored as `known`.
    sample : callable, optional
        Evaluates a point (d,) and returns the new known values, or None if the point is not valid.
        Needed in the main process only.
    """

    question: EntriesQuestion

    def __init__(
        self,
        question: EntriesQuestion,
        attained: FloatArray | None = None,
        sample: Callable[[FloatArray], FloatArray | None] | None = None,
    ) -> None:
        d, *_, m = question.problem.tangent_network.sizes
        targets = Targets.of(question.rows, m, d, "l1")  # each functional with each direction
        asked = BoxQuestion(question.problem)
        super().__init__(question, BoxContext.of(asked, targets=targets))
        self.known, self._sample = attained, sample

    def _known_of(self, boxes: Boxes) -> tuple[FloatArray, FloatArray]:
        """Return the known values of the boxes' entries, and their tolerances, (N,) each."""
        columns = np.abs(boxes.v_low).argmax(axis=1)
        rises = boxes.v_low[np.arange(len(boxes)), columns] > 0
        place = boxes.rows, columns
        return self.known[(rises.astype(np.intp), *place)], self.question.tolerance[place]

    def bounded(self, boxes: Boxes, cutoff: float) -> Bounded:
        """See `Objective`; functions and cutoffs are those of the entries themselves."""
        attained, tolerance = self._known_of(boxes)
        context, plain = self.context, replace(boxes, bounds=np.full(len(boxes), np.inf))
        known = relaxed(context, plain, (boxes.v_low, boxes.v_high))
        errors = context.row_errors[boxes.rows] if context.row_errors.any() else None
        above = collapsed(known, context.rows[boxes.rows], errors)
        found = under(known, above, attained + cutoff * tolerance)
        excess = (found.boxes.bounds - attained) / tolerance
        excess += gamma(0) * np.where(np.isfinite(excess), np.abs(excess), 0.0)  # empty: -inf
        return found._replace(boxes=replace(found.boxes, bounds=np.minimum(excess, boxes.bounds)))

    # -- points ------------------------------------------------------------------------------------

    def first(self, rng: np.random.Generator, clock: Clock) -> Incumbent:
        """See `Objective`; starts ascents of every entry and of its negative."""
        context, params, ends = self.context, self.context.params, self.whole()
        points = context.domain.sample(rng, context.batches.samples // 8)
        values = jacobians(context, points, context.rows)
        own = (values[:, ends.rows] * ends.v_low).sum(axis=2)
        each = int(np.clip(params.starts // len(ends), 1, params.again))
        places = np.argsort(-own, axis=0)[:each].T.reshape(-1)
        self._ascend(points[places], ends.take(np.repeat(np.arange(len(ends)), each)), clock)
        return Incumbent(0.0, context.domain.center)

    def improved(self, best: Incumbent, boxes: Boxes, clock: Clock) -> Incumbent:
        """See `Objective`."""
        self._ascend(boxes.middle, boxes, clock)
        return best

    def _ascend(self, points: FloatArray, boxes: Boxes, clock: Clock) -> None:
        """Ascend from points (N, d), each for the entry of its box, and record the results."""
        context = self.context

        def slopes(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            at = self._slopes_at(x, boxes)
            return at.values, growth(context, at)

        found, values = projected_ascents(
            context.domain, points, slopes, context.params.steps, clock
        )
        for _ in range(len(boxes)):
            excess = self._excess(values, boxes)
            best = int(excess.argmax())
            if not excess[best] > self.question.enough / 2.0 or clock.expired:
                break
            self.challenged(Incumbent(), found[best])
            values[best] = -np.inf

    def _slopes_at(self, points: FloatArray, boxes: Boxes) -> Slopes:
        return derivatives_along(self.context, points, self.context.rows[boxes.rows], boxes.v_low)

    def _excess(self, values: FloatArray, boxes: Boxes) -> FloatArray:
        attained, tolerance = self._known_of(boxes)
        return np.asarray((values - attained) / tolerance)

    def evaluated(
        self, found: Bounded, left: Boxes, best: Incumbent
    ) -> tuple[Incumbent, BoolArray]:
        """See `Objective`."""
        points = np.where(np.isnan(found.points), left.middle, found.points)
        points = self.context.domain.drawn_in(points)
        excess = self._excess(self._slopes_at(points, left).values, left)
        top = int(excess.argmax())
        if excess[top] > max(best.value, self.question.enough / 2.0):
            best = Incumbent(float(excess[top]), points[top])
        _, tolerance = self._known_of(left)
        return best, left.bounds - excess < 2.0 * found.fuzz / tolerance

    def values(self, points: FloatArray) -> FloatArray:
        """See `Objective`; returns the largest excess of any entry."""
        entries = jacobians(self.context, points, self.context.rows)
        over = np.stack([-entries, entries], axis=1) - self.known
        return np.asarray((over / self.question.tolerance).max(axis=(1, 2, 3)))

    def challenged(self, best: Incumbent, point: FloatArray) -> Incumbent:
        """See `Objective`; the point's values become known, and the incumbent stays the same."""
        assert self._sample is not None
        for x in self.context.domain.pulled_in(point):
            found = self._sample(x)
            if found is not None:
                self.known = found
                break
        return best
