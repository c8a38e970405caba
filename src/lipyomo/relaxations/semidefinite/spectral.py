"""Kernel of a whole ball of functionals, for l2 and l1 output norms.

For all y in the Euclidean ball at once,

    |y . M w| <= 2 sqrt(tau gamma)    if    gamma I - M C^{-1} M^T / 4 >= 0,

which is one more semidefinite block: the matrix ``[[gamma I, -M/2], [-M^T/2, C]]`` must be positive
definite, and ``tau + gamma - mu logdet`` of it is minimised.  The cube of functionals (l1 outputs)
has a gamma for each output, and their sum in the bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.dense import (
    DenseKernel,
    Pencil,
    inverse_of,
    solved_system,
    tangent_basis,
)
from lipyomo.relaxations.semidefinite.ellipsoids import closed_form, enlarged
from lipyomo.relaxations.semidefinite.kernel import Factor, NewtonSystem, State, balance, bound_of


class SpectralKernel(DenseKernel):
    """All functionals of a ball over one node form.

    The multipliers are ``(gamma, zeta, lambda)``, with m entries of gamma (equal ones for a
    Euclidean ball).

    Parameters
    ----------
    rows : ndarray, shape (F, d + F)
    objectives : ndarray, shape (m, d + F)
        M.
    inputs : int
    euclidean : bool
        Whether the ball of directions is Euclidean, or the cube.
    separate : bool, optional
        Whether the ball of functionals is the cube instead of the Euclidean ball.
    """

    rank_one = False

    def __init__(
        self,
        rows: FloatArray,
        objectives: FloatArray,
        inputs: int,
        euclidean: bool,
        separate: bool = False,
    ) -> None:
        m, size = len(objectives), rows.shape[1]
        self.rows, self.inputs, self.euclidean, self.outputs = rows, inputs, euclidean, m
        self.order = m + size
        self.objectives, self._separate = objectives, separate
        basis, constant = np.eye(self.order), np.zeros((self.order, self.order))
        basis[m:, m:] = tangent_basis(rows, inputs)
        constant[:m, m:] = -0.5 * objectives
        self._pencil = Pencil(basis, constant)
        costly = ([1] * m if separate else [m]) + ([inputs] if euclidean else [1] * inputs)
        self._groups = np.array([*costly, *([1] * len(rows))])
        self._costs = np.zeros(self._groups.size)
        self._costs[: len(costly)] = 1.0
        self._starts = np.concatenate([[0], np.cumsum(self._groups)[:-1]])

    def terms(self, factor: Factor, y: FloatArray) -> tuple[FloatArray, float, float]:
        """Return a zero primal, tau, and the cost of gamma."""
        gamma = y[: self.outputs]
        cost = float(gamma.sum() if self._separate else gamma[0])
        first = self.outputs
        zeta = y[first : first + self.inputs]
        return np.zeros(self.order - first), float(zeta[0] if self.euclidean else zeta.sum()), cost

    def start(self, stop: Callable[[], bool] | None = None) -> FloatArray | None:
        """Return multipliers in closed form, gamma from the largest eigenvalue."""
        found = closed_form(self.rows, self.objectives, self.inputs, self.euclidean, stop)
        if found is None:
            return None
        top = 0.25 * float(np.linalg.eigvalsh(found.gram)[-1])
        if not top > 0:
            return None
        tau = 1.0
        scale = balance(tau, top * (self.outputs if self._separate else 1))
        gamma = np.full(self.outputs, 2.0 * top / scale)  # twice the boundary value
        y = np.concatenate([gamma, found.zeta * scale, found.lam * scale])
        return enlarged(y, self.outputs + self.inputs, self.factor)

    def system(
        self, factor: Factor, y: FloatArray, x: FloatArray, mu: float
    ) -> NewtonSystem | None:
        """Return the Newton system in (gamma, zeta, lambda)."""
        starts = self._starts
        hessian, diagonal = self._pencil.curvature(inverse_of(factor), mu)
        barrier = np.add.reduceat(-diagonal, starts)
        hessian = np.add.reduceat(np.add.reduceat(hessian, starts, axis=0), starts, axis=1)
        return solved_system(self._costs, barrier, hessian)

    def slopes(self, factor: Factor, y: FloatArray, x: FloatArray, mu: float) -> FloatArray:
        """Return derivatives of the barrier function by the logarithms of the multipliers."""
        barrier = y * self._pencil.slopes(inverse_of(factor))
        shared = mu * np.add.reduceat(barrier, self._starts)
        return np.asarray(self._costs * y[self._starts] - shared)

    def expand(self, step: FloatArray) -> FloatArray:
        """Repeat the shared entries of gamma and zeta."""
        return np.repeat(step, self._groups)

    def state(
        self, factor: Factor, y: FloatArray, tau: float, quarter: float, x: FloatArray
    ) -> State:
        """Return the state with tau and gamma balanced: C times a scale, gamma divided by it."""
        scale = balance(tau, quarter)
        factors = np.full(self.order, scale)
        factors[: self.outputs] = 1.0 / scale
        return State(y * factors, bound_of(tau, quarter), x, np.sqrt(factors)[:, None] * factor)

    def lookahead(self, state: State) -> tuple[FloatArray, FloatArray]:
        """Return the look-ahead of the worst functional."""
        y = state.multipliers[self.outputs :]
        plain = DenseKernel(self.rows, self.objectives[0], self.inputs, self.euclidean)
        factor = plain.factor(y)
        assert factor is not None
        gram = self.objectives @ inverse_of(factor) @ self.objectives.T
        worst = np.linalg.eigh(gram)[1][:, -1] @ self.objectives
        scalar = DenseKernel(self.rows, worst, self.inputs, self.euclidean)
        x, tau, quarter = scalar.terms(factor, y)
        return scalar.lookahead(scalar.state(factor, y, tau, quarter, x))
