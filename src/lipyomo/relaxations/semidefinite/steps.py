"""What descents of one matrix and of layers have in common: their directions, and their ends.

Directions are those of a quasi-Newton method (L-BFGS: Nocedal, Math. Comp. 35, 1980), for variables
that all are of one size, such as logarithms: the first direction is the gradient's, and no step
changes a variable by more than one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.params import PARAMS


@dataclass(frozen=True)
class Memory:
    """The last steps, with what they changed in the gradient.

    Attributes
    ----------
    steps : tuple of (ndarray, ndarray, float)
        Steps, changes of the gradient, and their products.
    last : (ndarray, ndarray), optional
        The last step and the gradient where it began, before what it changed is known.
    """

    steps: tuple[tuple[FloatArray, FloatArray, float], ...] = ()
    last: tuple[FloatArray, FloatArray] | None = None

    def at(self, gradient: FloatArray) -> Memory:
        """What is known at a point with this gradient, where the last step has led."""
        if self.last is None:
            return self
        step, change = self.last[0], gradient - self.last[1]
        curvature, size = float(step @ change), float(np.sqrt(change @ change))
        # a change whose square underflows says nothing either
        if not (size > 0.0 and curvature > 1e-10 * float(np.linalg.norm(step)) * size):
            return replace(self, last=None)
        return Memory((*self.steps, (step, change, curvature))[-PARAMS.krylov :])

    def direction(self, gradient: FloatArray) -> tuple[FloatArray, float]:
        """A direction of descent from a point with this gradient, and the longest step along it."""
        found, shares = -gradient, []
        for step, change, curvature in reversed(self.steps):
            shares.append(float(step @ found) / curvature)
            found = found - shares[-1] * change
        if self.steps:
            _, change, curvature = self.steps[-1]
            found = curvature / float(change @ change) * found
        for (step, change, curvature), share in zip(self.steps, reversed(shares), strict=True):
            found = found + (share - float(change @ found) / curvature) * step
        largest = max(float(np.abs(found).max()), np.finfo(float).tiny)
        return found, min(1.0, 1.0 / largest) if self.steps else 1.0 / largest

    def moved(self, step: FloatArray, gradient: FloatArray) -> Memory:
        """With a step from a point with this gradient."""
        return replace(self, last=(step, gradient))


class Stepped(Protocol):
    """A descent as a value, whose steps are of two kinds: the first ones are quicker."""

    @property
    def done(self) -> bool:
        """Whether nothing more is to be gained."""

    @property
    def approaching(self) -> bool:
        """Whether the next step is one of the first kind."""

    @property
    def seconds(self) -> float:
        """What the next step is expected to take; zero before the first one of its kind."""

    def stepped(self) -> Self:
        """One step further."""

    def timed(self, seconds: float) -> Self:
        """With what the next step is expected to take."""


D = TypeVar("D", bound=Stepped)


def stepped_until(descent: D, enough: Callable[[D], Any]) -> D:
    """A descent that goes on until it is done, or enough, which is asked before each step."""
    while not descent.done and not enough(descent):
        began = time.perf_counter()
        then = descent.stepped()
        # the next step is expected to take most of the time of the longest one at least
        took = max(time.perf_counter() - began, 0.8 * descent.seconds)
        descent = then.timed(took if then.approaching == descent.approaching else 0.0)
    return descent
