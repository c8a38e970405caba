"""What is maximised on boxes: how it is bounded there, and what points are worth."""

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
from lipyomo.search.spaces.boxes.context import Context
from lipyomo.search.spaces.bundle import joined


class Objective(ABC):
    """An objective of the search of boxes; it travels as its question alone.

    Parameters
    ----------
    question : object
        Picklable; the objective can be made from it.
    context : Context
        What boxes are bounded in.

    Attributes
    ----------
    known : object
        What tasks have to know beside the incumbent.
    """

    least = -math.inf
    """No value is less."""

    def __init__(self, question: Any, context: Context) -> None:
        self.question, self.context = question, context
        self.known: Any = None

    def told(self, known: Any) -> None:
        """Take over what a task knows."""
        self.known = known

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.question,)

    @abstractmethod
    def cutoff(self, value: float) -> float:
        """What bounds have to exceed in order to matter, where `value` is attained."""

    def far(self, cutoff: float) -> float:
        """Children of boxes with bounds above that are split before they are bounded."""
        return math.inf

    @abstractmethod
    def bounded(self, boxes: Boxes, cutoff: float) -> Bounded:
        """Boxes with bounds and scores."""

    @abstractmethod
    def values(self, points: FloatArray) -> FloatArray:
        """Values at points (n, d) of the domain, in floating point."""

    @abstractmethod
    def challenged(self, best: Incumbent, point: FloatArray) -> Incumbent:
        """The incumbent after a look at what is proved to be attained at a point."""

    @abstractmethod
    def first(self, rng: np.random.Generator, clock: Clock) -> Incumbent:
        """The first look for points."""

    @abstractmethod
    def improved(self, best: Incumbent, boxes: Boxes, clock: Clock) -> Incumbent:
        """The incumbent after another look, near the middles of boxes."""

    def whole(self) -> Boxes:
        """The boxes that the search begins with."""
        return Boxes.whole(self.context)

    def root(
        self, best: Incumbent, clock: Clock, on_progress: OnRootProgress
    ) -> tuple[Boxes, float]:
        """These with bounds, and a bound of what is not among them.

        What there is no time for keeps its infinite bound.
        """
        whole, found = self.whole(), []
        for at in range(0, len(whole), self.context.batches.chunk):
            part = whole.take(slice(at, at + self.context.batches.chunk))
            late = at > 0 and clock.expired
            found.append(part if late else self.bounded(part, self.cutoff(best.value)).boxes)
        return joined(found), self.least

    def floor(self, box: Boxes, cutoff: float) -> float:
        """A bound below which none of the parts of a box will ever come, if one is known."""
        return -math.inf

    def looked(self, found: Bounded, left: Boxes, best: Incumbent) -> tuple[Incumbent, BoolArray]:
        """After a look at boxes, and what was left of them: the best point, to be challenged still.

        And which boxes (N,) are hopeless: all that their bounds are above values is rounding.
        """
        points = np.where(np.isnan(found.points), left.middle, found.points)
        points = self.context.domain.drawn_in(points)
        values = self.values(points)
        top = int(values.argmax())
        if values[top] > best.value:
            best = Incumbent(float(values[top]), self.given(points[top]))
        return best, left.bounds - values < 2.0 * found.fuzz

    def given(self, point: FloatArray) -> FloatArray:
        """A point (d,) of the given domain for one that boxes have ends for."""
        return point

    def examined(self, boxes: Boxes, best: Incumbent, clock: Clock) -> tuple[BoolArray, Incumbent]:
        """Which boxes (N,) hold nothing that counts, and the best point, if a proved one is better.

        Where float64 points do not show what is attained in a box.
        """
        return np.zeros(len(boxes), dtype=bool), best
