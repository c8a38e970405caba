"""Directions of a quasi-Newton method (L-BFGS: Nocedal, Math. Comp. 35, 1980).

For variables that all are of one size, such as logarithms: the first direction is the gradient's,
and no step changes a variable by more than one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
