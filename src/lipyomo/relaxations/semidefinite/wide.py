"""Kernel of one functional over the cube of directions, with the inputs eliminated.

With zeta diagonal, ``C = [[Z, -E/2], [-E^T/2, M]]``, ``E = U_v^T diag(lambda)``, and the inputs are
eliminated: ``K = M - E^T Z^{-1} E / 4`` has the order F, the number of unstable units, and

    C^{-1} = [[Z^{-1} + W W^T, V], [V^T, K^{-1}]],      W = Z^{-1} E L^{-T} / 2,  K = L L^T.

The Newton system in (zeta, lambda) has d + F unknowns.  Its block in zeta is the elementwise
product of ``C_vv^{-1}`` with ``mu C_vv^{-1} + 2 x x^T``; all its blocks take O(d F^2 + d^2 F) work.
With the Gram matrix ``N = U_v Z^{-1} U_v^T`` and ``Q = 1 - U_s - N diag(lambda) / 2``, rows of
``C^{-1}`` and its products with the ``b_k = e_k - U_k`` are

    C^{-1} b = K^{-1} Q^T for the units,      b^T C^{-1} b = Q K^{-1} Q^T + N.

It is factorised, (d + F)^3 / 3, in single precision if it is large.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.dense import add_outer, inverse_of, solved_system
from lipyomo.relaxations.semidefinite.kernel import (
    Factor,
    Kernel,
    NewtonSystem,
    State,
    balance,
    bound_of,
    relative_drop,
)
from lipyomo.relaxations.semidefinite.params import PARAMS
from lipyomo.relaxations.semidefinite.single import SingleTerms, fits_single, solved_in_single


class _Factor(NamedTuple):
    """The factorisation of K, with the Gram matrix N, tau and the log-determinant of C."""

    gram: FloatArray
    lower: FloatArray
    tau: float
    logdet: float

    def scaled(self, scale: float, order: int) -> _Factor:
        """Return the factorisation for C times `scale`."""
        return _Factor(
            self.gram / scale,
            math.sqrt(scale) * self.lower,
            scale * self.tau,
            self.logdet + order * float(np.log(scale)),
        )


class _Blocks(NamedTuple):
    """Parts of the gradient and the Hessian that both solvers need.

    Attributes
    ----------
    half : ndarray, shape (d, F)
        ``Z^{-1} E / 2``.
    K_inverse : ndarray, shape (F, F)
    A, B_inputs : ndarray, shape (d, F)
        Inputs' rows of ``C^{-1} e_k`` and ``C^{-1} b_k``, with ``b_k = e_k - U_k``.
    B_units, BB : ndarray, shape (F, F)
        Units' rows of ``C^{-1} b_k``, and ``b_j^T C^{-1} b_k``.
    slack : ndarray, shape (F,)
        ``b_k . x``.
    """

    half: FloatArray
    K_inverse: FloatArray
    A: FloatArray
    B_inputs: FloatArray
    B_units: FloatArray
    BB: FloatArray
    slack: FloatArray


class WideKernel(Kernel):
    """One functional over the cube of directions, with the inputs eliminated.

    Parameters
    ----------
    rows : ndarray, shape (F, d + F)
        Tangents U of the unstable units.
    objective : ndarray, shape (d + F,)
    inputs : int
        d.
    """

    def __init__(self, rows: FloatArray, objective: FloatArray, inputs: int) -> None:
        self.rows, self.objective, self.objectives = rows, objective, objective[None]
        self.inputs, self.order = inputs, rows.shape[1]
        self._rows_inputs = np.ascontiguousarray(rows[:, :inputs])
        self._columns = np.ascontiguousarray(rows[:, :inputs].T)
        self._triangle = np.eye(len(rows)) - rows[:, inputs:]
        self._c_inputs, self._c_units = objective[:inputs], objective[inputs:]

    def coupling(self, y: FloatArray) -> FloatArray:
        """Return E, shape (d, F)."""
        return self._columns * y[self.inputs :]

    def factor(self, y: FloatArray) -> Factor | None:
        """Factorise K; None if C is not positive definite."""
        zeta, lam = y[: self.inputs], y[self.inputs :]
        if not (zeta.min(initial=1.0) > 0 and lam.min(initial=1.0) > 0):
            return None
        spread = self._rows_inputs / np.sqrt(zeta)
        gram = spread @ spread.T
        K = (lam[:, None] * gram).T
        K *= -0.25
        K += self._triangle
        K *= lam[:, None]
        K += K.T
        K *= 0.5
        lower, info = dpotrf(K.T, lower=1, clean=1, overwrite_a=1)
        if info:
            return None
        logdet = 2.0 * float(np.log(lower.diagonal()).sum()) + float(np.log(zeta).sum())
        return _Factor(gram, lower, float(zeta.sum()), logdet)

    def terms(self, factor: Factor, y: FloatArray) -> tuple[FloatArray, float, float]:
        """Return the primal ``C^{-1} c / 2``, tau, and ``c^T C^{-1} c / 4``."""
        zeta, lam = y[: self.inputs], y[self.inputs :]
        ratio = self._c_inputs / zeta
        passed = lam * (self._rows_inputs @ ratio)
        right = 0.5 * self._c_units + 0.25 * passed
        units, _ = dpotrs(factor.lower, right, lower=1)
        quarter = float(right @ units) + 0.25 * float(ratio @ self._c_inputs)
        seen = (lam * units) @ self._rows_inputs
        inputs = 0.5 * (self._c_inputs + seen) / zeta
        return np.concatenate([inputs, units]), factor.tau, quarter

    def logdet(self, factor: Factor) -> float:
        """Return the log-determinant of C."""
        return float(factor.logdet)

    def _blocks(
        self,
        factor: _Factor,
        y: FloatArray,
        x: FloatArray,
        dtype: type[np.floating] = np.float64,
    ) -> _Blocks:
        one_over, lam = 1.0 / y[: self.inputs], y[self.inputs :]
        half = (0.5 * self.coupling(y) * one_over[:, None]).astype(dtype, copy=False)
        K_inverse = np.ascontiguousarray(inverse_of(np.asfortranarray(factor.lower)), dtype)
        Q = self._triangle - 0.5 * (lam[:, None] * factor.gram).T
        Q = Q.astype(dtype, copy=False)
        B_units = K_inverse @ Q.T
        B_inputs = half @ B_units
        B_inputs -= one_over[:, None] * self._columns
        BB = Q @ B_units
        BB += factor.gram
        slack = self._triangle @ x[self.inputs :] - self._rows_inputs @ x[: self.inputs]
        return _Blocks(half, K_inverse, half @ K_inverse, B_inputs, B_units, BB, slack)

    def system(
        self, factor: Factor, y: FloatArray, x: FloatArray, mu: float
    ) -> NewtonSystem | None:
        """Return the Newton system in all multipliers.

        With ``C^{-1} + x x^T / mu`` in place of ``C^{-1}`` the products of its entries include the
        second derivatives of `quarter` and a rank-one matrix, which is subtracted again.
        """
        if self.order >= PARAMS.single and fits_single(y):
            found = self._system_in_single(factor, y, x, mu)
            if found is not None:
                return found
        parts, d = self._blocks(factor, y, x), self.inputs
        x_inputs, states, slack = x[:d], x[d:], parts.slack
        squares, both = np.square(x_inputs), states * slack
        plain = np.concatenate([1.0 - squares, -both])
        units = -parts.B_units.diagonal()
        inner = parts.A @ parts.half.T
        inner.flat[:: d + 1] += 1.0 / y[:d]
        inputs = -inner.diagonal()
        for matrix, left, right in (
            (parts.K_inverse, states, states),
            (parts.B_units, states, slack),
            (parts.BB, slack, slack),
            (parts.A, x_inputs, states),
            (parts.B_inputs, x_inputs, slack),
        ):
            add_outer(matrix, left, right / mu)
        H_units = parts.B_units * parts.B_units.T
        H_units += np.multiply(parts.K_inverse, parts.BB, out=parts.BB)
        H_units *= 0.5 * mu
        add_outer(H_units, -both, both / mu)
        H_mixed = np.multiply(parts.A, parts.B_inputs, out=parts.B_inputs)
        H_mixed *= mu
        add_outer(H_mixed, -squares, both / mu)
        add_outer(inner, x_inputs, x_inputs / mu)
        corner = np.square(inner, out=inner)
        corner *= mu
        add_outer(corner, -squares, squares / mu)
        hessian = np.empty((self.order, self.order))  # only the upper triangle is used
        hessian[:d, :d], hessian[:d, d:], hessian[d:, d:] = corner, H_mixed, H_units
        return solved_system(plain, np.concatenate([inputs, units]), hessian)

    def _system_in_single(
        self, factor: Factor, y: FloatArray, x: FloatArray, mu: float
    ) -> NewtonSystem | None:
        """Return the system in single precision; None if that is not accurate enough."""
        d = self.inputs
        with np.errstate(over="ignore", invalid="ignore"):  # None after an overflow
            parts = self._blocks(factor, y, x, np.float32)
            inner, states = parts.A @ parts.half.T, x[d:]
            inner.flat[:: d + 1] += 1.0 / y[:d]
            known = (inner, parts.K_inverse, parts.B_units, parts.BB, parts.A, parts.B_inputs)
            found = SingleTerms(*(part.astype(np.float32, copy=False) for part in known))
            hessian = found.hessian(x[:d], states, parts.slack, mu)
            plain = np.concatenate([1.0 - np.square(x[:d]), -states * parts.slack])
            barrier = -np.concatenate([inner.diagonal(), parts.B_units.diagonal()])
            return solved_in_single(plain, barrier.astype(np.float64), hessian)

    def slopes(self, factor: Factor, y: FloatArray, x: FloatArray, mu: float) -> FloatArray:
        """Return derivatives of the barrier function by the logarithms of zeta and lambda."""
        d, one_over, lam = self.inputs, 1.0 / y[: self.inputs], y[self.inputs :]
        spread, _ = dtrtrs(factor.lower, 0.5 * self.coupling(y).T * one_over, lower=1)
        variance = one_over + np.einsum("ij,ij->j", spread, spread)
        inverse = inverse_of(factor.lower)
        units = np.einsum("ij,ij->i", inverse, self._triangle)
        units -= 0.5 * (np.einsum("ij,ij,j->i", inverse, factor.gram, lam))
        slack = self._triangle @ x[d:] - self._rows_inputs @ x[:d]
        moments = np.concatenate([np.square(x[:d]), x[d:] * slack])
        found = -y * (moments + mu * np.concatenate([variance, units]))
        found[:d] += y[:d]
        return np.asarray(found)

    def state(
        self, factor: Factor, y: FloatArray, tau: float, quarter: float, x: FloatArray
    ) -> State:
        """Return the state at these multipliers, rescaled so that tau and quarter are equal."""
        scale = balance(tau, quarter)
        balanced = factor.scaled(scale, self.order)
        return State(y * scale, bound_of(tau, quarter), x / scale, balanced)

    def lookahead(self, state: State) -> tuple[FloatArray, FloatArray]:
        """Return relative drops of the bound, as for a dense kernel."""
        parts = self._blocks(state.factor, state.multipliers, state.primal)
        off = np.square(state.primal[self.inputs :]) / np.diagonal(parts.K_inverse)
        on = np.square(parts.slack) / np.diagonal(parts.BB)
        return relative_drop(off, state.value), relative_drop(on, state.value)
