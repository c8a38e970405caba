"""What a kernel is: a family of matrices C, linear in multipliers, and what can be asked of one.

With ``w = (v, s)`` and multipliers ``y = (zeta, lambda)`` the matrix

    C = D(zeta) - sum_k lambda_k sym(e_k (U_k - e_k)^T)

bounds ``|c.w| <= sqrt(tau c^T C^{-1} c)`` whenever it is positive definite; with outputs of their
own multipliers gamma (see `spectral`) ``y = (gamma, zeta, lambda)``.  `descent` lowers the bound by

    tau + quarter - mu logdet C,      quarter = c^T C^{-1} c / 4   (or the cost of gamma),

and knows nothing of how a kernel stores and solves:

- `dense.DenseKernel`: C as it stands, tens of units at a time;
- `wide.WideKernel`: inputs eliminated, for many inputs or many units;
- `spectral.SpectralKernel`: a whole ball of functionals;
- `shared.SharedKernel`: several functionals with the same multipliers.

`choice.kernel_for` takes the one with the least predicted cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.params import PARAMS

Factor: TypeAlias = Any
"""What a kernel keeps of a factorised C."""


@dataclass(frozen=True)
class NewtonSystem:
    """Newton's equations of ``tau + quarter - mu logdet C`` at one point.

    Attributes
    ----------
    plain, barrier : ndarray
        The gradient is ``plain + mu * barrier``, in the free multipliers.
    solve : callable
        Inverse of the Hessian, which belongs to the mu that the system was made for.
    """

    plain: FloatArray
    barrier: FloatArray
    solve: Callable[[FloatArray], FloatArray]

    def step(self, mu: float) -> tuple[FloatArray, float]:
        """Newton step and its squared decrement."""
        gradient = self.plain + mu * self.barrier
        step = self.solve(-gradient)
        return step, -float(gradient @ step)


@dataclass(frozen=True)
class State:
    """Multipliers, their factor, and what they give.

    Attributes
    ----------
    multipliers : ndarray
        (gamma, zeta, lambda), scaled so that both halves of the bound are equal.
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


class Kernel(Protocol):
    """A family of matrices C.

    Attributes
    ----------
    rows : ndarray, shape (F, d + F)
        Tangents U of the unstable units.
    inputs, outputs : int
        d, and the number of multipliers gamma.
    euclidean : bool
        The inputs' ball: Euclidean (equal zeta) or the cube.
    order : int
        Size of C.
    free : int
        Multipliers at the end that may have any sign: those of pairs of units.
    rank_one : bool
        Whether the bound is that of one functional, so that `primal` stands for a tangent.
    """

    rows: FloatArray
    inputs: int
    outputs: int
    euclidean: bool
    order: int
    free: int
    rank_one: bool

    def factor(self, y: FloatArray) -> Factor | None:
        """Factorise C; None if it is not positive definite."""

    def terms(self, factor: Factor, y: FloatArray) -> tuple[FloatArray, float, float]:
        """Primal, tau, and quarter."""

    def logdet(self, factor: Factor) -> float:
        """Log-determinant of C."""

    def start(self, stop: Callable[[], bool] | None = None) -> FloatArray | None:
        """Multipliers to begin with, in closed form; None if none was found before `stop`."""

    def system(
        self, factor: Factor, y: FloatArray, x: FloatArray, mu: float
    ) -> NewtonSystem | None:
        """Newton's equations; None if the Hessian is singular to working precision."""

    def slopes(self, factor: Factor, y: FloatArray, x: FloatArray, mu: float) -> FloatArray:
        """Derivatives of the barrier function by the multipliers' logarithms, shaped as a step.

        They take a fraction of the time of `system`.  For kernels without free multipliers; `x` is
        one primal, or several as columns, whose moments are added up.
        """

    def expand(self, step: FloatArray) -> FloatArray:
        """A step in the free multipliers as one in all of them."""

    def reach(self, factor: Factor, y: FloatArray, step: FloatArray) -> float:
        """About the largest t at which ``C(y + t step)`` is still semidefinite."""

    def state(
        self, factor: Factor, y: FloatArray, tau: float, quarter: float, x: FloatArray
    ) -> State:
        """The state at these multipliers, both halves of its bound made equal."""

    def lookahead(self, state: State) -> tuple[FloatArray, FloatArray]:
        """Relative drop of the bound when a unit is decided and the multipliers stay.

        Returns
        -------
        off, on : ndarray, shape (F,)
        """


def bound_of(tau: float, quarter: float) -> float:
    """The bound that the two halves give."""
    return 2.0 * math.sqrt(max(tau * quarter, 0.0))


def balance(tau: float, quarter: float) -> float:
    """Factor of the multipliers that makes the two halves equal."""
    return math.sqrt(quarter / tau) if quarter > 0 and tau > 0 else 1.0


def relative_drop(removed: FloatArray, value: float) -> FloatArray:
    """Relative drop of the bound when `removed` is taken from the balanced quarter form."""
    if value <= 0:
        return np.zeros_like(removed)
    return 1.0 - np.sqrt(np.maximum(1.0 - removed / (0.5 * value), 0.0))


def longest_step(product: Callable[[FloatArray], FloatArray], size: int) -> float:
    """About the largest t with ``I + t A`` semidefinite, from a few Lanczos steps with A.

    The estimate lies above the truth, a little.
    """
    q = np.cos(np.arange(1.0, size + 1.0) ** 2)  # any vector that is in no special direction
    most = min(PARAMS.krylov, size)
    basis = np.empty((most + 1, size))
    basis[0] = q / np.sqrt(q @ q)
    diagonal, off = [], []
    for k in range(most):
        image = product(basis[k])
        diagonal.append(float(image @ basis[k]))
        known = basis[: k + 1]
        for _ in range(2):
            image = image - known.T @ (known @ image)
        length = math.sqrt(float(image @ image))
        off.append(length)
        if not length > 1e-10:
            break
        basis[k + 1] = image / length
    ritz = np.diag(diagonal) + np.diag(off[: len(diagonal) - 1], 1)
    least = float(np.linalg.eigvalsh(ritz, UPLO="U")[0])
    return -1.0 / least if least < 0 else np.inf
