"""Distances of smooth and mixed networks, by boxes.

On a box the value has an affine upper bound, so it can only reach zero in a half-space.  The
distance from the centre to this half-space within the box is a lower bound; like the affine bound,
its error is quadratic in the box's width.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.rounding import EQUAL, gamma
from lipyomo.problems.domains import Box
from lipyomo.search.engine.protocol import Incumbent, OnRootProgress
from lipyomo.search.objectives.context import ValueQuestion
from lipyomo.search.objectives.halfspace import shortest_steps, steps_of
from lipyomo.search.objectives.nearest import NearestQuestion, confirmed_point
from lipyomo.search.objectives.smooth import Undirected, bounded_by_value, context_of
from lipyomo.search.spaces.boxes.bound import Bounded
from lipyomo.search.spaces.boxes.boxes import Boxes


class Distance(Undirected):
    """Minus the least distance at which ``c . f`` is positive.

    Parameters
    ----------
    question : NearestQuestion
        A question about a network with smooth units, with a named norm.
    start : Incumbent, optional
        Minus the distance of the nearest known point, and that point.
    """

    question: NearestQuestion

    def __init__(self, question: NearestQuestion, start: Incumbent | None = None) -> None:
        reach = question.around.reach(question.most)
        whole = Box(reach.low, reach.high)  # the ball is respected by the distances
        self._value = ValueQuestion(question.network, question.row, whole, params=question.params)
        network = question.network.with_functional(question.row)
        super().__init__(question, context_of(network, whole))
        self._start = start or Incumbent()

    def values(self, points: FloatArray) -> FloatArray:
        """See `Objective`; here the values of ``c . f``, whose sign matters."""
        return self._value.values(points)

    def first(self, rng: np.random.Generator, clock: Clock) -> Incumbent:
        """See `Objective`; starts from the known point."""
        point = self._start.point
        return self._start if point is None else self.challenged(self._start, point)

    def improved(self, best: Incumbent, boxes: Boxes, clock: Clock) -> Incumbent:
        """See `Objective`; points are found while boxes are bounded."""
        return best

    def root(
        self, best: Incumbent, clock: Clock, on_progress: OnRootProgress
    ) -> tuple[Boxes, float]:
        """See `Objective`."""
        on_progress(upper=-self.question.least)
        return super().root(best, clock, on_progress)

    def bounded(self, boxes: Boxes, cutoff: float) -> Bounded:
        """See `Objective`; bounds are minus the least distance at which a value may be positive."""
        reach = self.question.around.reach(-cutoff)
        low, high = np.maximum(boxes.low, reach.low), np.minimum(boxes.high, reach.high)
        near = np.asarray((low <= high).all(axis=1))
        low, high = np.where(near[:, None], (low, high), (boxes.low, boxes.high))
        some = replace(boxes, low=low, high=high, bounds=np.full(len(boxes), np.inf))
        found = bounded_by_value(self.context, some, 0.0)
        bounds = np.minimum(-self._closest(found)[0], boxes.bounds)
        bounds = np.minimum(bounds, -self.question.least)
        bounds = np.where(near & (found.top >= 0.0), bounds, cutoff)  # others are farther away
        return found._replace(boxes=replace(found.boxes, bounds=bounds))

    def evaluated(
        self, found: Bounded, left: Boxes, best: Incumbent
    ) -> tuple[Incumbent, BoolArray]:
        """Return the point beyond which the nearest of the boxes may be positive."""
        distances, points = self._closest(found)
        first = int(distances.argmin())
        best = max(
            best, Incumbent(-float(distances[first]), points[first]), key=lambda one: one.value
        )
        return best, np.abs(found.top - self.values(left.middle)) < 2.0 * found.fuzz

    def _closest(self, found: Bounded) -> tuple[FloatArray, FloatArray]:
        """Bound distances (N,) where affine bounds reach zero from below; also return these points.

        The constants of the affine functions follow from their maxima over the boxes, rounded up.
        """
        boxes, reach = found.boxes, self.question.around.reach(self.question.most)
        sides = found.x * boxes.low, found.x * boxes.high
        sizes = np.maximum(*map(np.abs, sides)).sum(axis=1) + np.abs(found.top)
        error = gamma(2 * found.x.shape[1] + 4) * sizes
        with np.errstate(invalid="ignore"):  # for infinite bounds
            constant = found.top - np.maximum(*sides).sum(axis=1) + error
        centre = self.question.around.centre
        steps = steps_of((boxes.low, boxes.high), (found.x, constant), centre, reach.weights)
        distances, u = shortest_steps(steps, reach.norm or "linf")
        points = centre + u * reach.sizes
        return distances, np.clip(points, boxes.low, boxes.high)

    def challenged(self, best: Incumbent, point: FloatArray) -> Incumbent:
        """Go towards a point until the value is zero, and then iterate on linearised values."""
        around, step = self.question.around, point - self.question.around.centre
        for _ in range(self.question.params.steps):
            last, share = best.value, self._crossed(step)
            if share is None:
                break
            point = around.inside((around.centre + share * step)[None])[0]
            found = confirmed_point(self.question, point)
            if found is not None and found.value > last:
                best = found
            if not best.value > last * (1.0 - EQUAL):
                break
            step = self._linearised(point)
        return best

    def _linearised(self, point: FloatArray) -> FloatArray:
        """Return the shortest step from the centre to a zero of the linearised value."""
        around, slope = self.question.around, self._value.gradients(point[None])
        reach, value = around.reach(self.question.most), self.values(point[None])
        box, affine = (reach.low[None], reach.high[None]), (slope, value - slope @ point)
        steps = steps_of(box, affine, around.centre, reach.weights)
        return np.asarray(shortest_steps(steps, reach.norm or "linf")[1][0] * reach.sizes)

    def _crossed(self, step: FloatArray) -> float | None:
        """Return the share of a step from the centre at which the value is about zero, or None."""
        from scipy.optimize import brentq

        around = self.question.around

        def value(share: float) -> float:
            return float(self.values(around.inside((around.centre + share * step)[None]))[0])

        for share in (1.0, 2.0):  # at the step's end, or beyond
            if value(share) > 0.0:
                return float(brentq(value, 0.0, share, xtol=1e-12)) if value(0.0) < 0.0 else None
        return None
