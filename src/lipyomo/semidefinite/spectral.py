"""The semidefinite node bound for a whole ball of functionals: l2 outputs, and l1.

For all y in the Euclidean ball at once,

    |y . M w| <= 2 sqrt(tau gamma)    if    gamma I - M C^{-1} M^T / 4 >= 0,

which is one more semidefinite block: the matrix ``[[gamma I, -M/2], [-M^T/2, C]]`` is to be
positive definite, and ``tau + gamma - mu logdet`` of it is minimised.  The cube of functionals (l1
outputs) has a gamma for each output, and their sum for the bound.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf

from lipyomo.network import FloatArray
from lipyomo.semidefinite.barrier import BarrierProblem, BarrierState, Factor, inverse_of

_OFF_BOUNDARY = 1.5
"""Starts have gamma this many times what is needed: on the boundary there is no Newton step."""


class SpectralProblem(BarrierProblem):
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
        The ball of directions.
    separate : bool, optional
        The ball of functionals is the cube instead of the Euclidean ball.
    """

    centred = 0.5

    def __init__(
        self,
        rows: FloatArray,
        objectives: FloatArray,
        inputs: int,
        euclidean: bool,
        separate: bool = False,
    ) -> None:
        super().__init__(rows, objectives[0], inputs, euclidean)
        m = len(objectives)
        self.outputs, self.objectives, self.separate = m, objectives, separate
        n = m + self.size
        self.barrier_size = n
        basis = np.eye(n)
        basis[m:, m:] = self.basis
        self._joint_basis = basis
        self._constant = np.zeros((n, n))
        self._constant[m:, :m] = -0.5 * objectives.T
        self._constant[:m, m:] = -0.5 * objectives
        costly = ([1] * m if separate else [m]) + ([inputs] if euclidean else [1] * inputs)
        self._groups = np.array([*costly, *([1] * len(rows))])
        self._costs = np.zeros(self._groups.size)
        self._costs[: len(costly)] = 1.0
        self._starts = np.concatenate([[0], np.cumsum(self._groups)[:-1]])

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
        top = max(0.25 * float(np.linalg.eigvalsh(self._gram(base))[-1]), 1e-300)
        tau = self._tau(multipliers)
        quarter = top * (self.outputs if self.separate else 1)
        scale = float(np.sqrt(quarter / tau))
        gamma = np.full(self.outputs, _OFF_BOUNDARY * top / scale)
        joint = np.concatenate([gamma, multipliers * scale])
        factor = self.joint_factor(joint)
        if factor is None:
            return None
        return BarrierState(joint, 2.0 * float(np.sqrt(tau * quarter)), base.primal, factor)

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
        """A dummy primal, tau, and the cost of gamma (for a factor of C: as for one objective)."""
        if multipliers.size == self.size:
            return super().terms(factor, multipliers)
        m = self.outputs
        gamma = multipliers[:m]
        cost = float(gamma.sum() if self.separate else gamma[0])
        return gamma, self._tau(multipliers[m:]), cost

    def derivatives(
        self, factor: Factor, x: FloatArray, mu: float
    ) -> tuple[FloatArray, FloatArray]:
        """Gradient and Hessian in (gamma, zeta, lambda)."""
        basis, starts = self._joint_basis, self._starts
        inverse = inverse_of(factor)
        ab = inverse @ basis
        hessian = inverse * (basis.T @ ab)
        hessian += ab * ab.T
        hessian *= 0.5 * mu
        gradient = np.add.reduceat(-mu * ab.diagonal(), starts) + self._costs
        hessian = np.add.reduceat(np.add.reduceat(hessian, starts, axis=0), starts, axis=1)
        return gradient, hessian

    def expand(self, step: FloatArray) -> FloatArray:
        """Repeat the shared entries of gamma and zeta."""
        return np.repeat(step, self._groups)

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
