"""The semidefinite node bound for a Euclidean output ball.

For all y in the Euclidean ball at once,

    |y . M w| <= 2 sqrt(tau gamma)    if    gamma I - M C^{-1} M^T / 4 >= 0,

which is one more semidefinite block: the matrix ``[[gamma I, -M/2], [-M^T/2, C]]`` is to be
positive definite, and ``tau + gamma - mu logdet`` of it is minimised.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf

from lipyomo.network import FloatArray
from lipyomo.search.barrier import BarrierProblem, BarrierState, Factor, inverse_of


class SpectralProblem(BarrierProblem):
    """All functionals of a Euclidean ball over one node form.

    The multipliers are ``(gamma repeated m times, zeta, lambda)``.

    Parameters
    ----------
    rows : ndarray, shape (F, d + F)
    objectives : ndarray, shape (m, d + F)
        M.
    inputs : int
    euclidean : bool
    """

    def __init__(
        self, rows: FloatArray, objectives: FloatArray, inputs: int, euclidean: bool
    ) -> None:
        super().__init__(rows, objectives[0], inputs, euclidean)
        m = len(objectives)
        self.outputs, self.objectives = m, objectives
        n = m + self.size
        self.barrier_size = n
        basis = np.eye(n)
        basis[m:, m:] = self.basis
        self._joint_basis = basis
        self._constant = np.zeros((n, n))
        self._constant[m:, :m] = -0.5 * objectives.T
        self._constant[:m, m:] = -0.5 * objectives

    def joint_factor(self, multipliers: FloatArray) -> Factor | None:
        """Cholesky factor of the joint matrix, or None."""
        half = self._joint_basis * (0.5 * multipliers)
        half += half.T
        half += self._constant
        factor, info = dpotrf(half, lower=1, clean=0, overwrite_a=1)
        return factor if info == 0 else None

    def start(self, warm: FloatArray | None) -> BarrierState | None:
        """As for one objective; gamma from the largest eigenvalue."""
        base = super().start(None if warm is None else warm[self.outputs :])
        if base is None:
            return None
        multipliers = base.multipliers
        top = 0.25 * float(np.linalg.eigvalsh(self._gram(base))[-1]) * (1.0 + 1e-3)
        tau = self._tau(multipliers)
        scale = float(np.sqrt(max(top, 1e-300) / tau))
        joint = np.concatenate([np.full(self.outputs, top / scale), multipliers * scale])
        factor = self.joint_factor(joint)
        if factor is None:
            return None
        return BarrierState(joint, 2.0 * float(np.sqrt(tau * top)), base.primal, factor)

    def _gram(self, base: BarrierState) -> FloatArray:
        return np.asarray(self.objectives @ inverse_of(base.factor) @ self.objectives.T)

    def _tau(self, multipliers: FloatArray) -> float:
        return float(multipliers[0] if self.euclidean else multipliers[: self.inputs].sum())

    def factor(self, multipliers: FloatArray) -> Factor | None:
        """Factor of C or of the joint matrix, by the length of `multipliers`."""
        if multipliers.size == self.size:
            return super().factor(multipliers)
        return self.joint_factor(multipliers)

    def terms(self, factor: Factor, multipliers: FloatArray) -> tuple[FloatArray, float, float]:
        """A dummy primal, tau and gamma (or those of one objective for a factor of C)."""
        if multipliers.size == self.size:
            return super().terms(factor, multipliers)
        m = self.outputs
        return multipliers[:m], self._tau(multipliers[m:]), float(multipliers[0])

    def derivatives(
        self, factor: Factor, x: FloatArray, mu: float
    ) -> tuple[FloatArray, FloatArray]:
        """Gradient and Hessian in (gamma, zeta, lambda)."""
        basis, m = self._joint_basis, self.outputs
        inverse = inverse_of(factor)
        ab = inverse @ basis
        hessian = inverse * (basis.T @ ab)
        hessian += ab * ab.T
        hessian *= 0.5 * mu
        gradient = -mu * ab.diagonal()
        groups = [m, self.inputs] if self.euclidean else [m]
        starts = np.concatenate([[0], np.cumsum(groups), np.arange(sum(groups) + 1, len(basis))])
        gradient = np.add.reduceat(gradient, starts)
        hessian = np.add.reduceat(np.add.reduceat(hessian, starts, axis=0), starts, axis=1)
        gradient[0] += 1.0
        gradient[1 : 2 if self.euclidean else 1 + self.inputs] += 1.0
        return gradient, hessian

    def expand(self, step: FloatArray) -> FloatArray:
        """Repeat gamma, and zeta for a Euclidean input ball."""
        return np.concatenate([np.full(self.outputs, step[0]), super().expand(step[1:])])

    def state(
        self, factor: Factor, multipliers: FloatArray, tau: float, quarter: float, x: FloatArray
    ) -> BarrierState:
        """Balance tau and gamma: C times a scale, gamma divided by it."""
        if multipliers.size == self.size:
            return super().state(factor, multipliers, tau, quarter, x)
        m = self.outputs
        scale = float(np.sqrt(quarter / tau))
        factors = np.concatenate([np.full(m, 1.0 / scale), np.full(self.size, scale)])
        balanced = multipliers * factors
        return BarrierState(
            balanced, 2.0 * float(np.sqrt(tau * quarter)), x, np.sqrt(factors)[:, None] * factor
        )

    def lookahead(self, state: BarrierState) -> tuple[FloatArray, FloatArray]:
        """As for one objective: the worst functional's."""
        multipliers = state.multipliers[self.outputs :]
        factor = super().factor(multipliers)
        assert factor is not None
        gram = self.objectives @ inverse_of(factor) @ self.objectives.T
        y = np.linalg.eigh(gram)[1][:, -1]
        scalar = BarrierProblem(self.rows, y @ self.objectives, self.inputs, self.euclidean)
        x, tau, quarter = scalar.terms(factor, multipliers)
        return scalar.lookahead(scalar.state(factor, multipliers, tau, quarter, x))
