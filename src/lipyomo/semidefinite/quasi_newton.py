"""Directions of a quasi-Newton method (L-BFGS: Nocedal, Math. Comp. 35, 1980).

For variables that all are of one size, such as logarithms: the first direction is the gradient's.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from lipyomo.network import FloatArray

FIRST, MOST = 1.0, 2.0
"""Largest change of a variable in the first step, and in a later one."""

_REMEMBERED = 10
_CURVED = 1e-10
_TINY = 1e-300


class Memory:
    """The last steps, with what they changed in the gradient."""

    def __init__(self) -> None:
        self._steps: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=_REMEMBERED)
        self._last: tuple[FloatArray, FloatArray] | None = None

    def direction(self, gradient: FloatArray) -> tuple[FloatArray, float]:
        """A direction of descent from a point with this gradient, and the longest step along it."""
        if self._last is not None:
            step, change = self._last[0], gradient - self._last[1]
            curvature = float(step @ change)
            if curvature > _CURVED * float(np.linalg.norm(step) * np.linalg.norm(change)):
                self._steps.append((step, change, curvature))
        found, shares = -gradient, []
        for step, change, curvature in reversed(self._steps):
            shares.append(float(step @ found) / curvature)
            found = found - shares[-1] * change
        if self._steps:
            _, change, curvature = self._steps[-1]
            found = curvature / float(change @ change) * found
        for (step, change, curvature), share in zip(self._steps, reversed(shares), strict=True):
            found = found + (share - float(change @ found) / curvature) * step
        largest = max(float(np.abs(found).max()), _TINY)
        return found, min(1.0, MOST / largest) if self._steps else FIRST / largest

    def moved(self, step: FloatArray, gradient: FloatArray) -> None:
        """Take note of a step from a point with this gradient."""
        self._last = step, gradient
