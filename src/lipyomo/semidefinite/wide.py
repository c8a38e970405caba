"""Newton's method on the multipliers when inputs are many and open units are few.

With zeta diagonal, ``C = [[Z, -E/2], [-E^T/2, M]]``, ``E = U_v^T diag(lambda)``, and the inputs are
eliminated: ``K = M - E^T Z^{-1} E / 4`` is as small as the number F of open units, and

    C^{-1} = [[Z^{-1} + W W^T, V], [V^T, K^{-1}]],      W = Z^{-1} E L^{-T} / 2,  K = L L^T.

The Newton system in (zeta, lambda) has d + F unknowns, but its block in zeta is a diagonal plus
``2 X W W^T X`` (X = diag of the primal v) plus the elementwise square of ``mu^{1/2} W W^T``.  The
first two are inverted exactly by Woodbury's formula and precondition conjugate gradients, to which
the third is applied as ``diag(W (W^T diag(p) W) W^T)``: O(d F^2) a step, no d x d matrix anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from lipyomo.network import FloatArray
from lipyomo.semidefinite.barrier import BarrierProblem, BarrierState, Factor, relative_drop

WIDE = 3
"""Inputs are eliminated when there are this many times more of them than open units (and ten)."""

_CG_STEPS = 25
_CG_ACCURACY = 1e-2


@dataclass
class _Point:
    """Multipliers with everything that one factorisation gives."""

    zeta: FloatArray
    lam: FloatArray
    E: FloatArray
    lower: FloatArray
    right: FloatArray
    tau: float
    quarter: float
    logdet: float

    def scaled(self, scale: float) -> _Point:
        """The point with both multipliers, hence C, times `scale`."""
        size = self.zeta.size + self.lam.size
        return _Point(
            scale * self.zeta,
            scale * self.lam,
            scale * self.E,
            float(np.sqrt(scale)) * self.lower,
            self.right,
            scale * self.tau,
            self.quarter / scale,
            self.logdet + size * float(np.log(scale)),
        )


def rotated(
    rows: FloatArray, objectives: FloatArray, inputs: int
) -> tuple[FloatArray, FloatArray, int]:
    """Rotate the inputs of a Euclidean ball into the span of what is seen of them."""
    seen = np.vstack([rows[:, :inputs], objectives[:, :inputs]])
    triangle = np.asarray(np.linalg.qr(seen.T, mode="r")).T
    count = len(rows)
    return (
        np.hstack([triangle[:count], rows[:, inputs:]]),
        np.hstack([triangle[count:], objectives[:, inputs:]]),
        triangle.shape[1],
    )


class _Eliminated:
    """One functional over the cube of directions; shapes d inputs, F open units."""

    def __init__(self, rows: FloatArray, objective: FloatArray, inputs: int) -> None:
        self.inputs, self.count = inputs, len(rows)
        self.rows_inputs = np.ascontiguousarray(rows[:, :inputs])
        self.columns = np.ascontiguousarray(rows[:, :inputs].T)
        self.triangle = np.eye(self.count) - rows[:, inputs:]
        self.c_inputs, self.c_units = objective[:inputs], objective[inputs:]

    def at(self, zeta: FloatArray, lam: FloatArray) -> _Point | None:
        """Factor at the multipliers; None if C is not positive definite there."""
        if not (zeta.min(initial=1.0) > 0 and lam.min(initial=1.0) > 0):
            return None
        E = self.columns * lam
        scaled = lam[:, None] * self.triangle
        K = 0.5 * (scaled + scaled.T) - 0.25 * (E.T @ (E / zeta[:, None]))
        try:
            lower = np.asarray(np.linalg.cholesky(K), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None
        ratio = self.c_inputs / zeta
        right = 0.5 * self.c_units + 0.25 * (E.T @ ratio)
        half = solve_triangular(lower, right, lower=True, check_finite=False)
        quarter = float(half @ half) + 0.25 * float(ratio @ self.c_inputs)
        logdet = 2.0 * float(np.log(np.diagonal(lower)).sum()) + float(np.log(zeta).sum())
        return _Point(zeta, lam, E, lower, right, float(zeta.sum()), quarter, logdet)

    def cold(self) -> _Point | None:
        """Start with C positive definite by diagonal dominance, zeta as small as that allows."""
        sizes_inputs, sizes_units = (
            np.abs(self.rows_inputs),
            np.abs(np.eye(self.count) - self.triangle),
        )
        sums = sizes_inputs.sum(axis=1) + sizes_units.sum(axis=1)
        reach = np.abs(self.c_units)
        lam = reach + 1e-9 * reach.max(initial=0.0) + 1e-12
        for k in range(self.count - 2, -1, -1):
            inner = sizes_units[k + 1 :].sum(axis=1)
            lam[k] = max(lam[k], 2.0 * float((lam[k + 1 :] * inner) @ sizes_units[k + 1 :, k]))
        root = np.sqrt(np.square(self.columns * np.sqrt(lam)).sum(axis=1))
        root = root + 1e-6 * root.max(initial=0.0) + 1e-12
        zeta = root * root.sum()
        for _ in range(60):
            point = self.at(zeta, lam)
            if point is not None:
                return point
            zeta = 2.0 * zeta
        return self.at(2.0 * ((lam * sums) @ sizes_inputs) + 1e-12, lam)

    def primal(self, point: _Point) -> FloatArray:
        """``C^{-1} c / 2``, shape (d + F,)."""
        units = cho_solve((point.lower, True), point.right, check_finite=False)
        inputs = 0.5 * (self.c_inputs + point.E @ units) / point.zeta
        return np.concatenate([inputs, units])


class _NewtonSystem:
    """Gradient and Hessian of the barrier function at a point, and their Newton direction."""

    def __init__(self, problem: _Eliminated, point: _Point, mu: float) -> None:
        count, d = problem.count, problem.inputs
        triangle, E = problem.triangle, point.E
        inverse_lower = solve_triangular(point.lower, np.eye(count), lower=True, check_finite=False)
        K_inverse = inverse_lower.T @ inverse_lower
        one_over = 1.0 / point.zeta
        half_EZ = 0.5 * E * one_over[:, None]
        self.W = half_EZ @ inverse_lower.T
        self.primal = problem.primal(point)
        x_inputs, x_units = self.primal[:d], self.primal[d:]
        A_inputs = half_EZ @ K_inverse
        B_units = K_inverse @ (triangle.T - half_EZ.T @ problem.columns)
        B_inputs = half_EZ @ B_units - one_over[:, None] * problem.columns
        BB = triangle @ B_units - problem.rows_inputs @ B_inputs
        b = triangle @ x_units - problem.rows_inputs @ x_inputs
        self.slack, self.slack_variance = b, np.diagonal(BB)
        self.unit_variance = np.diagonal(K_inverse)
        self.x, self.mu, self.d = x_inputs, mu, d
        lengths = np.square(self.W).sum(axis=1)
        diagonal = one_over + lengths
        self.gradient = np.concatenate(
            [
                1.0 - x_inputs**2 - mu * diagonal,
                -x_units * b - mu * np.diagonal(B_units),
            ]
        )
        skew = np.outer(b, x_units) * B_units
        self.H_units = 0.5 * (
            K_inverse * (mu * BB + np.outer(b, b))
            + np.outer(x_units, x_units) * BB
            + mu * B_units * B_units.T
            + skew
            + skew.T
        )
        self.H_mixed = mu * A_inputs * B_inputs + x_inputs[:, None] * (
            A_inputs * b + B_inputs * x_units
        )
        self.plain = 2.0 * x_inputs**2 * one_over + mu * one_over * (one_over + 2.0 * lengths)
        self.squares = lengths**2
        self.Q = np.sqrt(2.0) * x_inputs[:, None] * self.W

    def apply(self, p: FloatArray) -> FloatArray:
        """Hessian times `p`."""
        p_inputs, p_units = p[: self.d], p[self.d :]
        inner = (self.W.T * p_inputs) @ self.W
        inputs = (
            self.plain * p_inputs
            + self.Q @ (self.Q.T @ p_inputs)
            + self.mu * ((self.W @ inner) * self.W).sum(axis=1)
            + self.H_mixed @ p_units
        )
        return np.concatenate([inputs, self.H_mixed.T @ p_inputs + self.H_units @ p_units])

    def preconditioner(self) -> Callable[[FloatArray], FloatArray] | None:
        """Inverse of the Hessian with the squared part replaced by a diagonal.

        Its own diagonal comes closest; its row sums are larger but always positive definite.
        """
        row_sums = ((self.W @ (self.W.T @ self.W)) * self.W).sum(axis=1)
        for squared in (self.squares, row_sums):
            D = self.plain + self.mu * squared
            scaled = self.Q / D[:, None]
            try:
                inner = np.linalg.cholesky(np.eye(self.Q.shape[1]) + self.Q.T @ scaled)
                mixed = self._woodbury(self.H_mixed, D, scaled, inner)
                schur = self.H_units - self.H_mixed.T @ mixed
                schur[np.diag_indices_from(schur)] += 1e-12 * np.diagonal(self.H_units)
                lower = np.linalg.cholesky(schur)
            except np.linalg.LinAlgError:
                continue

            def solve(
                r: FloatArray,
                D: FloatArray = D,
                scaled: FloatArray = scaled,
                inner: FloatArray = inner,
                mixed: FloatArray = mixed,
                lower: FloatArray = lower,
            ) -> FloatArray:
                first = self._woodbury(r[: self.d], D, scaled, inner)
                rest = r[self.d :] - self.H_mixed.T @ first
                units = cho_solve((lower, True), rest, check_finite=False)
                return np.concatenate([first - mixed @ units, units])

            return solve
        return None

    def _woodbury(
        self, right: FloatArray, D: FloatArray, scaled: FloatArray, inner: FloatArray
    ) -> FloatArray:
        """``(diag(D) + Q Q^T)^{-1} right``."""
        plain = right / (D[:, None] if right.ndim == 2 else D)
        small = cho_solve((inner, True), self.Q.T @ plain, check_finite=False)
        return np.asarray(plain - scaled @ small)

    def direction(self) -> FloatArray | None:
        """Newton direction by preconditioned conjugate gradients."""
        solve = self.preconditioner()
        if solve is None:
            return None
        residual = -self.gradient
        z = solve(residual)
        p, size = z, float(residual @ z)
        first, x = size, np.zeros_like(residual)
        for _ in range(_CG_STEPS):
            product = self.apply(p)
            curvature = float(p @ product)
            if not curvature > 0:
                break
            step = size / curvature
            x = x + step * p
            residual = residual - step * product
            z = solve(residual)
            new = float(residual @ z)
            if not new > _CG_ACCURACY**2 * first:
                break
            p, size = z + new / size * p, new
        return x if np.any(x) else None


class WideProblem(BarrierProblem):
    """One functional over the cube of directions, with the inputs eliminated.

    Parameters
    ----------
    rows : ndarray, shape (F, d + F)
        Tangents U of the open units.
    objective : ndarray, shape (d + F,)
    inputs : int
        d.
    """

    def __init__(self, rows: FloatArray, objective: FloatArray, inputs: int) -> None:
        # the dense basis of the base class is what this class is there to avoid
        self.rows, self.objective, self.inputs = rows, objective, inputs
        self.euclidean = False
        self.size = self.barrier_size = rows.shape[1]
        self._problem = _Eliminated(rows, objective, inputs)

    def factor(self, multipliers: FloatArray) -> Factor | None:
        """The factorised point, or None if C is not positive definite."""
        return self._problem.at(multipliers[: self.inputs], multipliers[self.inputs :])

    def terms(self, factor: Factor, multipliers: FloatArray) -> tuple[FloatArray, float, float]:
        """Primal ``C^{-1} c / 2``, tau, and ``c^T C^{-1} c / 4``."""
        return self._problem.primal(factor), factor.tau, factor.quarter

    def logdet(self, factor: Factor, multipliers: FloatArray) -> float:
        """Log-determinant of C."""
        return float(factor.logdet)

    def newton_step(
        self, factor: Factor, multipliers: FloatArray, x: FloatArray, mu: float
    ) -> tuple[FloatArray, float] | None:
        """Newton step by conjugate gradients, and its squared decrement."""
        system = _NewtonSystem(self._problem, factor, mu)
        direction = system.direction()
        return None if direction is None else (direction, -float(system.gradient @ direction))

    def state(
        self, factor: Factor, multipliers: FloatArray, tau: float, quarter: float, x: FloatArray
    ) -> BarrierState:
        """The state at these multipliers, both halves of its bound made equal."""
        scale = float(np.sqrt(max(quarter, 1e-300) / max(tau, 1e-300)))
        value = 2.0 * float(np.sqrt(max(tau * quarter, 0.0)))
        return BarrierState(multipliers * scale, value, x / scale, factor.scaled(scale))

    def lookahead(self, state: BarrierState) -> tuple[FloatArray, FloatArray]:
        """As in the base class."""
        d = self.inputs
        system = _NewtonSystem(self._problem, state.factor, 0.0)
        off = np.square(system.primal[d:]) / system.unit_variance
        on = np.square(system.slack) / system.slack_variance
        return relative_drop(off, state.value), relative_drop(on, state.value)

    def _cold(self) -> BarrierState | None:
        point = self._problem.cold()
        if point is None:
            return None
        return self._balanced(np.concatenate([point.zeta, point.lam]), point)
