"""Kernels: a family of matrices C, linear in the multipliers, and its operations.

With ``w = (v, s)`` and multipliers ``y = (zeta, lambda)`` the matrix

    C = D(zeta) - sum_k lambda_k sym(e_k (U_k - e_k)^T)

proves ``|c.w| <= sqrt(tau c^T C^{-1} c)`` whenever it is positive definite.  If outputs have
multipliers gamma of their own (see `spectral`), ``y = (gamma, zeta, lambda)``.  `descent` minimises
the barrier function

    tau + quarter - mu logdet C,      quarter = c^T C^{-1} c / 4   (or the cost of gamma),

independently of how a kernel stores and factorises C:

- `dense.DenseKernel`: C as a dense matrix, for tens of units;
- `wide.WideKernel`: inputs eliminated, for many inputs or many units;
- `spectral.SpectralKernel`: a whole ball of functionals.

`choice.kernel_for` takes the one with the least predicted cost.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.ellipsoids import closed_form

Factor: TypeAlias = Any
"""A kernel's factorisation of C."""


class NewtonSystem(NamedTuple):
    """The Newton system of ``tau + quarter - mu logdet C`` at one point.

    Attributes
    ----------
    plain, barrier : ndarray
        The gradient is ``plain + mu * barrier``, in the free multipliers.
    solve : callable
        Applies the inverse of the Hessian for the mu that the system was built with.
    """

    plain: FloatArray
    barrier: FloatArray
    solve: Callable[[FloatArray], FloatArray]

    def step(self, mu: float) -> tuple[FloatArray, float]:
        """Return the Newton step and its squared decrement."""
        gradient = self.plain + mu * self.barrier
        step = self.solve(-gradient)
        return step, -float(gradient @ step)


class State(NamedTuple):
    """Multipliers with the factorisation of C and the bound.

    Attributes
    ----------
    multipliers : ndarray
        (gamma, zeta, lambda), scaled so that tau and quarter are equal.
    value : float
        ``sqrt(tau c^T C^{-1} c)`` in floating point.
    primal : ndarray, shape (d + F,)
        ``C^{-1} c / 2``, an approximate worst tangent.
    factor : Factor
    iterations : int
    """

    multipliers: FloatArray
    value: float
    primal: FloatArray
    factor: Factor
    iterations: int = 0


class Kernel(ABC):
    """A family of matrices C.

    Attributes
    ----------
    rows : ndarray, shape (F, d + F)
        Tangents U of the unstable units.
    objectives : ndarray, shape (k, d + F)
    inputs, outputs : int
        d, and the number of multipliers gamma.
    euclidean : bool
        Whether the ball of inputs is Euclidean (equal zeta) or the cube.
    order : int
        Size of C.
    rank_one : bool
        Whether the bound is that of one functional, so that `primal` approximates a tangent.
    """

    rows: FloatArray
    objectives: FloatArray
    inputs: int
    order: int
    outputs = 0
    euclidean = False
    rank_one = True

    @abstractmethod
    def factor(self, y: FloatArray) -> Factor | None:
        """Factorise C; None if it is not positive definite."""

    @abstractmethod
    def terms(self, factor: Factor, y: FloatArray) -> tuple[FloatArray, float, float]:
        """Return the primal, tau, and quarter."""

    @abstractmethod
    def logdet(self, factor: Factor) -> float:
        """Return the log-determinant of C."""

    def start(self, stop: Callable[[], bool] | None = None) -> FloatArray | None:
        """Return first multipliers in closed form, zeta enlarged until C is definite.

        None if none was found before `stop`.
        """
        found = closed_form(self.rows, self.objectives, self.inputs, self.euclidean, stop)
        return None if found is None else found.definite(self.factor)

    @abstractmethod
    def system(
        self, factor: Factor, y: FloatArray, x: FloatArray, mu: float
    ) -> NewtonSystem | None:
        """Return the Newton system; None if the Hessian is singular to working precision."""

    @abstractmethod
    def slopes(self, factor: Factor, y: FloatArray, x: FloatArray, mu: float) -> FloatArray:
        """Return derivatives of the barrier function by the logarithms of the multipliers.

        They have the shape of a step and cost a fraction of `system`.
        """

    def expand(self, step: FloatArray) -> FloatArray:
        """Expand a step with one zeta for a Euclidean ball to all multipliers."""
        if not self.euclidean:
            return step
        return np.concatenate([np.full(self.inputs, step[0]), step[1:]])

    @abstractmethod
    def state(
        self, factor: Factor, y: FloatArray, tau: float, quarter: float, x: FloatArray
    ) -> State:
        """Return the state at these multipliers, rescaled so that tau and quarter are equal."""

    @abstractmethod
    def lookahead(self, state: State) -> tuple[FloatArray, FloatArray]:
        """Return relative drops of the bound if a unit is decided and the multipliers are kept.

        Returns
        -------
        off, on : ndarray, shape (F,)
        """


def bound_of(tau: float, quarter: float) -> float:
    """Return the bound for optimally scaled multipliers."""
    return 2.0 * math.sqrt(max(tau * quarter, 0.0))


def balance(tau: float, quarter: float) -> float:
    """Return the factor of the multipliers that makes tau and quarter equal."""
    return math.sqrt(quarter / tau) if quarter > 0 and tau > 0 else 1.0


def relative_drop(removed: FloatArray, value: float) -> FloatArray:
    """Return relative drops of the bound when `removed` is subtracted from a balanced quarter."""
    if value <= 0:
        return np.zeros_like(removed)
    return 1.0 - np.sqrt(np.maximum(1.0 - removed / (0.5 * value), 0.0))
