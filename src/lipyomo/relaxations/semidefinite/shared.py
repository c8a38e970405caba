"""Kernel of several functionals over one form that share multipliers, lowered together.

For one C the bound of a functional c is ``2 (tau q_c)^{1/2}`` with ``q_c = c^T C^{-1} c / 4``.  The
largest q is replaced by ``(sum_c q_c^p)^{1/p}``, which is smooth and only slightly larger.  Its
derivatives are those of one functional with a weighted sum of the moments ``x x^T``, so a step
takes as long as for one functional, and so does the proof of all bounds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.dense import DenseKernel
from lipyomo.relaxations.semidefinite.ellipsoids import closed_form
from lipyomo.relaxations.semidefinite.kernel import Factor, NewtonSystem, State
from lipyomo.relaxations.semidefinite.params import PARAMS
from lipyomo.relaxations.semidefinite.wide import WideKernel


class SharedKernel:
    """The largest bound of some functionals, for quasi-Newton steps only.

    Parameters
    ----------
    kernel : DenseKernel or WideKernel
        Kernel of any one of the functionals.
    objectives : ndarray, shape (k, d + F)
    """

    outputs = 0
    rank_one = False

    def __init__(self, kernel: DenseKernel | WideKernel, objectives: FloatArray) -> None:
        self._kernel, self._objectives = kernel, objectives
        self._each = [kernel.of(objective) for objective in objectives]
        self.rows, self.inputs, self.order = kernel.rows, kernel.inputs, kernel.order
        self.euclidean = kernel.euclidean

    def factor(self, y: FloatArray) -> Factor | None:
        """Factorise C; None if it is not positive definite."""
        return self._kernel.factor(y)

    def terms(self, factor: Factor, y: FloatArray) -> tuple[FloatArray, float, float]:
        """Return primals (d + F, k) times roots of their weights, tau, and the smooth maximum."""
        found = [kernel.terms(factor, y) for kernel in self._each]
        quarters = np.array([quarter for _, _, quarter in found])
        primals, tau = np.stack([primal for primal, _, _ in found], axis=1), found[0][1]
        largest = float(quarters.max())
        if not largest > 0:
            return primals, tau, 0.0
        total = float(((quarters / largest) ** PARAMS.power).sum()) ** (1.0 / PARAMS.power)
        weights = (quarters / (largest * total)) ** (PARAMS.power - 1.0)
        return primals * np.sqrt(weights), tau, largest * total

    def logdet(self, factor: Factor) -> float:
        """Return the log-determinant of C."""
        return self._kernel.logdet(factor)

    def start(self, stop: Callable[[], bool] | None = None) -> FloatArray | None:
        """Return multipliers in closed form, zeta enlarged until C is definite."""
        found = closed_form(self.rows, self._objectives, self.inputs, self.euclidean, stop)
        return None if found is None else found.definite(self.factor)

    def system(
        self, factor: Factor, y: FloatArray, x: FloatArray, mu: float
    ) -> NewtonSystem | None:
        """Return None: Newton steps are taken for single functionals only."""
        return None

    def slopes(self, factor: Factor, y: FloatArray, x: FloatArray, mu: float) -> FloatArray:
        """Return derivatives of the barrier function by the logarithms of the multipliers."""
        return self._kernel.slopes(factor, y, x, mu)

    def expand(self, step: FloatArray) -> FloatArray:
        """Expand a step with one zeta for a Euclidean ball to all multipliers."""
        return self._kernel.expand(step)

    def reach(self, factor: Factor, y: FloatArray, step: FloatArray) -> float:
        """Estimate the largest step length at which C is still semidefinite."""
        return self._kernel.reach(factor, y, step)

    def state(
        self, factor: Factor, y: FloatArray, tau: float, quarter: float, x: FloatArray
    ) -> State:
        """Return the state at these multipliers, rescaled so that tau and quarter are equal."""
        return self._kernel.state(factor, y, tau, quarter, x)

    def lookahead(self, state: State) -> tuple[FloatArray, FloatArray]:
        """Return zeros: there is no look-ahead for several functionals."""
        none = np.zeros(len(self.rows))
        return none, none
