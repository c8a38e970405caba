"""The interface of objectives that are maximised by a search over boxes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.clock import Clock
from lipyomo.search.engine.protocol import Incumbent, OnRootProgress
from lipyomo.search.spaces.boxes.bound import Bounded
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.bundle import joined


class Objective(ABC):
    """An objective of the search over boxes; pickling it keeps its question only.

    Parameters
    ----------
    question : object
        Picklable, with a `cutoff`; the objective can be made from it alone.
    context : BoxContext
        The context in which boxes are bounded.

    Attributes
    ----------
    known : object
        What tasks need to know besides the incumbent.
    """

    least = -math.inf
    """A lower bound of all values."""

    def __init__(self, question: Any, context: BoxContext) -> None:
        self.question, self.context = question, context
        self.known: Any = None

    def update(self, known: Any) -> None:
        """Set `known` to that of a task."""
        self.known = known

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.question,)

    def cutoff(self, value: float) -> float:
        """Return the bound at or below which boxes are fathomed, if `value` is attained."""
        return float(self.question.cutoff(value))

    def far(self, cutoff: float) -> float:
        """Return the bound above which children of a box are split again before being bounded."""
        return math.inf

    @abstractmethod
    def bounded(self, boxes: Boxes, cutoff: float) -> Bounded:
        """Compute bounds and scores of boxes."""

    @abstractmethod
    def values(self, points: FloatArray) -> FloatArray:
        """Evaluate the objective at points (n, d) of the domain, in floating point."""

    @abstractmethod
    def challenged(self, best: Incumbent, point: FloatArray) -> Incumbent:
        """Return the new incumbent: the old one, or what is proved to be attained at a point."""

    @abstractmethod
    def first(self, rng: np.random.Generator, clock: Clock) -> Incumbent:
        """Run the first heuristics, and return an incumbent."""

    @abstractmethod
    def improved(self, best: Incumbent, boxes: Boxes, clock: Clock) -> Incumbent:
        """Run heuristics from the middles of boxes, and return the new incumbent."""

    def whole(self) -> Boxes:
        """Return the boxes that the search starts with."""
        return Boxes.whole(self.context)

    def root(
        self, best: Incumbent, clock: Clock, on_progress: OnRootProgress
    ) -> tuple[Boxes, float]:
        """Bound the boxes of `whole`; also return a bound of the rest of the problem.

        Boxes for which there is no time keep their infinite bounds.
        """
        whole, found = self.whole(), []
        for at in range(0, len(whole), self.context.batches.chunk):
            part = whole.take(slice(at, at + self.context.batches.chunk))
            late = at > 0 and clock.expired
            found.append(part if late else self.bounded(part, self.cutoff(best.value)).boxes)
        return joined(found), self.least

    def floor(self, box: Boxes, cutoff: float) -> float:
        """Return a value below which the bound of no part of a box will fall, if one is known."""
        return -math.inf

    def evaluated(
        self, found: Bounded, left: Boxes, best: Incumbent
    ) -> tuple[Incumbent, BoolArray]:
        """Evaluate a point of each box that is `left`; return the best one, still to be verified.

        Also return which boxes (N,) are hopeless: their bounds exceed values by rounding errors
        only.
        """
        points = np.where(np.isnan(found.points), left.middle, found.points)
        points = self.context.domain.drawn_in(points)
        values = self.values(points)
        top = int(values.argmax())
        if values[top] > best.value:
            best = Incumbent(float(values[top]), self.given(points[top]))
        return best, left.bounds - values < 2.0 * found.fuzz

    def given(self, point: FloatArray) -> FloatArray:
        """Return the point (d,) of the original domain for a point of a box."""
        return point

    def examined(self, boxes: Boxes, best: Incumbent, clock: Clock) -> tuple[BoolArray, Incumbent]:
        """Examine hopeless boxes exactly, where float64 points do not show what is attained.

        Return which boxes (N,) can be dropped, and the incumbent, or a better proved point.
        """
        return np.zeros(len(boxes), dtype=bool), best
