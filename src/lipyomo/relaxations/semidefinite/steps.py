"""Common parts of descents: quasi-Newton directions, and the loop over steps.

Directions are those of L-BFGS (Nocedal, Math. Comp. 35, 1980) for variables of similar scale, such
as logarithms: the first direction is the negative gradient, and no step changes a variable by more
than one.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.params import PARAMS


class Memory(NamedTuple):
    """The memory of L-BFGS: the last steps and the changes of the gradient.

    Attributes
    ----------
    steps : tuple of (ndarray, ndarray, float)
        Steps, changes of the gradient, and their inner products.
    last : (ndarray, ndarray), optional
        The last step and the gradient at its start, until the gradient at its end is known.
    """

    steps: tuple[tuple[FloatArray, FloatArray, float], ...] = ()
    last: tuple[FloatArray, FloatArray] | None = None

    def at(self, gradient: FloatArray) -> Memory:
        """Update the memory by the gradient at the end of the last step."""
        if self.last is None:
            return self
        step, change = self.last[0], gradient - self.last[1]
        curvature, size = float(step @ change), float(np.sqrt(change @ change))
        # no update either if the square of the change underflows
        if not (size > 0.0 and curvature > 1e-10 * float(np.linalg.norm(step)) * size):
            return self._replace(last=None)
        return Memory((*self.steps, (step, change, curvature))[-PARAMS.memory :])

    def direction(self, gradient: FloatArray) -> tuple[FloatArray, float]:
        """Return a descent direction from a point with this gradient, and the longest step."""
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
        """Record a step from a point with this gradient."""
        return self._replace(last=(step, gradient))


@dataclass(frozen=True, eq=False, kw_only=True)
class Stepwise(ABC):
    """An immutable descent with two kinds of steps: faster ones, as long as it has a memory.

    Attributes
    ----------
    done : bool
        Whether the bound cannot be lowered further.
    memory : Memory or None
        Memory of the quasi-Newton steps; None once Newton steps have begun.
    seconds : float
        Expected time of the next step, from previous ones of its kind; zero if unknown.
    """

    done: bool = False
    memory: Memory | None = None
    seconds: float = 0.0

    @property
    def approaching(self) -> bool:
        """Whether the next step is a quasi-Newton step."""
        return self.memory is not None

    @abstractmethod
    def stepped(self) -> Self:
        """Take one step."""

    def until(self, enough: Callable[[Self], Any]) -> Self:
        """Take steps until the descent is done or `enough`, called before each step, is true."""
        descent = self
        while not descent.done and not enough(descent):
            began = time.perf_counter()
            then = descent.stepped()
            # expect at least most of the time of the longest step so far
            took = max(time.perf_counter() - began, 0.8 * descent.seconds)
            same = then.approaching == descent.approaching
            descent = replace(then, seconds=took if same else 0.0)
        return descent
