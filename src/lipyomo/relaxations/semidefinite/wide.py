"""Kernel of one functional over the cube of directions, with the inputs eliminated.

With zeta diagonal, ``C = [[Z, -E/2], [-E^T/2, M]]``, ``E = U_v^T diag(lambda)``, and the inputs are
eliminated: ``K = M - E^T Z^{-1} E / 4`` has the order F, the number of unstable units, and

    C^{-1} = [[Z^{-1} + W W^T, V], [V^T, K^{-1}]],      W = Z^{-1} E L^{-T} / 2,  K = L L^T.

The Newton system in (zeta, lambda) has d + F unknowns.  Its block in zeta is the elementwise
product of ``C_vv^{-1}`` with ``mu C_vv^{-1} + 2 x x^T``; all its blocks take O(d F^2 + d^2 F) work.
With the Gram matrix ``N = U_v Z^{-1} U_v^T`` and ``Q = 1 - U_s - N diag(lambda) / 2``, rows of
``C^{-1}`` and its products with the ``b_k = e_k - U_k`` are

    C^{-1} b = K^{-1} Q^T for the units,      b^T C^{-1} b = Q K^{-1} Q^T + N.

It is solved in one of two ways, whichever is predicted to be cheaper:

- `direct`: formed and factorised, (d + F)^3 / 3, in single precision if it is large;
- `conjugate`: its block in zeta is a diagonal plus ``2 X W W^T X`` (X = diag of the primal v) plus
  the elementwise square of ``mu^{1/2} W W^T``.  The first two are inverted exactly by Woodbury's
  formula and precondition conjugate gradients, to which the third is applied as
  ``diag(W (W^T diag(p) W) W^T)``: O(d F^2) per iteration, without any d x d matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.dense import add_outer, inverse_of, solved_system
from lipyomo.relaxations.semidefinite.ellipsoids import closed_form
from lipyomo.relaxations.semidefinite.kernel import (
    Factor,
    NewtonSystem,
    State,
    balance,
    bound_of,
    longest_step,
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


class WideKernel:
    """One functional over the cube of directions, with the inputs eliminated.

    Parameters
    ----------
    rows : ndarray, shape (F, d + F)
        Tangents U of the unstable units.
    objective : ndarray, shape (d + F,)
    inputs : int
        d.
    direct : bool, optional
        Whether Newton systems are solved directly, else by conjugate gradients.
    """

    outputs = 0
    euclidean = False
    rank_one = True

    def __init__(
        self,
        rows: FloatArray,
        objective: FloatArray,
        inputs: int,
        direct: bool = False,
    ) -> None:
        self.rows, self.inputs, self.order = rows, inputs, rows.shape[1]
        self.objective, self._direct = objective, direct
        self._rows_inputs = np.ascontiguousarray(rows[:, :inputs])
        self._columns = np.ascontiguousarray(rows[:, :inputs].T)
        self._triangle = np.eye(len(rows)) - rows[:, inputs:]
        self._c_inputs, self._c_units = objective[:inputs], objective[inputs:]

    def of(self, objective: FloatArray) -> WideKernel:
        """Return the kernel of another functional over the same form."""
        return WideKernel(self.rows, objective, self.inputs, self._direct)

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

    def start(self, stop: Callable[[], bool] | None = None) -> FloatArray | None:
        """Return multipliers in closed form, zeta enlarged until C is definite."""
        found = closed_form(self.rows, self.objective[None], self.inputs, False, stop)
        return None if found is None else found.definite(self.factor)

    def expand(self, step: FloatArray) -> FloatArray:
        """Return the step itself, as all zeta are independent."""
        return step

    def reach(self, factor: Factor, y: FloatArray, step: FloatArray) -> float:
        """Estimate the largest step length at which C is still semidefinite."""
        d, triangle, lower = self.inputs, self._triangle, factor.lower
        root, lam = np.sqrt(y[:d]), y[d:]
        d_zeta, d_lam = step[:d], step[d:]

        def product(v: FloatArray) -> FloatArray:
            units, _ = dtrtrs(lower, v[d:], lower=1, trans=1)
            switched = d_lam * units
            along = self._columns @ (lam * units)
            inputs = (v[:d] + 0.5 * along / root) / root
            first = (d_zeta * inputs - 0.5 * (self._columns @ switched)) / root
            slack = triangle @ units - self._rows_inputs @ inputs
            second = d_lam * slack + switched @ triangle
            second += lam * (self._rows_inputs @ (first / root))
            second *= 0.5
            rest, _ = dtrtrs(lower, second, lower=1)
            return np.concatenate([first, rest])

        shrinking = np.flatnonzero(step < 0)
        simple = float((-y[shrinking] / step[shrinking]).min(initial=np.inf))
        return min(simple, longest_step(product, self.order))

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
        large = self._direct and self.order >= PARAMS.single
        if large and fits_single(y):
            found = self._system_in_single(factor, y, x, mu)
            if found is not None:
                return found
        parts, d = self._blocks(factor, y, x), self.inputs
        x_inputs, states, slack = x[:d], x[d:], parts.slack
        squares, both = np.square(x_inputs), states * slack
        plain = np.concatenate([1.0 - squares, -both])
        units = -parts.B_units.diagonal()
        if self._direct:
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
        if not self._direct:
            equations = _Conjugate(factor, parts.half, y[:d], x_inputs, mu, H_units, H_mixed)
            return equations.system(plain, np.concatenate([-equations.variance, units]))
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
        x = x.reshape(len(x), -1)
        slack = self._triangle @ x[d:] - self._rows_inputs @ x[:d]
        moments = np.concatenate([np.square(x[:d]), x[d:] * slack]).sum(axis=1)
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


class _Conjugate:
    """Newton systems solved by preconditioned conjugate gradients."""

    def __init__(
        self,
        factor: _Factor,
        half: FloatArray,
        zeta: FloatArray,
        x: FloatArray,
        mu: float,
        H_units: FloatArray,
        H_mixed: FloatArray,
    ) -> None:
        self._d, self._mu, self._H_units, self._H_mixed = len(zeta), mu, H_units, H_mixed
        self._W = dtrtrs(factor.lower, half.T, lower=1)[0].T
        one_over = 1.0 / zeta
        lengths = np.square(self._W).sum(axis=1)
        self.variance = one_over + lengths
        self._plain = 2.0 * x**2 * one_over + mu * one_over * (one_over + 2.0 * lengths)
        self._squares = lengths**2
        self._Q = np.sqrt(2.0) * x[:, None] * self._W

    def _apply(self, p: FloatArray) -> FloatArray:
        """Return the Hessian times `p`."""
        W, Q = self._W, self._Q
        p_inputs, p_units = p[: self._d], p[self._d :]
        inner = (W.T * p_inputs) @ W
        inputs = (
            self._plain * p_inputs
            + Q @ (Q.T @ p_inputs)
            + self._mu * ((W @ inner) * W).sum(axis=1)
            + self._H_mixed @ p_units
        )
        return np.concatenate([inputs, self._H_mixed.T @ p_inputs + self._H_units @ p_units])

    def _preconditioner(self) -> Callable[[FloatArray], FloatArray] | None:
        """Return the inverse of the Hessian with its squared part replaced by a diagonal.

        The diagonal of that part is the best approximation; its row sums, tried next, always give a
        positive definite matrix.
        """
        row_sums = ((self._W @ (self._W.T @ self._W)) * self._W).sum(axis=1)
        identity = np.eye(self._Q.shape[1])
        for squared in (self._squares, row_sums):
            D = self._plain + self._mu * squared
            scaled = self._Q / D[:, None]
            try:
                inner = np.asarray(np.linalg.cholesky(identity + self._Q.T @ scaled))
                mixed = self._woodbury(self._H_mixed, D, scaled, inner)
                schur = self._H_units - self._H_mixed.T @ mixed
                schur[np.diag_indices_from(schur)] += 1e-12 * np.diagonal(self._H_units)
                lower = np.asarray(np.linalg.cholesky(schur))
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
                first = self._woodbury(r[: self._d], D, scaled, inner)
                rest = r[self._d :] - self._H_mixed.T @ first
                units, _ = dpotrs(lower, rest, lower=1)
                return np.concatenate([first - mixed @ units, units])

            return solve
        return None

    def _woodbury(
        self, right: FloatArray, D: FloatArray, scaled: FloatArray, inner: FloatArray
    ) -> FloatArray:
        """Return ``(diag(D) + Q Q^T)^{-1} right``."""
        plain = right / (D[:, None] if right.ndim == 2 else D)
        small, _ = dpotrs(inner, self._Q.T @ plain, lower=1)
        return np.asarray(plain - scaled @ small)

    def system(self, plain: FloatArray, barrier: FloatArray) -> NewtonSystem | None:
        """Return the Newton system; None if there is no preconditioner."""
        precondition = self._preconditioner()
        if precondition is None:
            return None

        def solve(right: FloatArray) -> FloatArray:
            residual, x = right, np.zeros_like(right)
            z = precondition(residual)
            p, size = z, float(residual @ z)
            first = size
            for _ in range(PARAMS.krylov):
                product = self._apply(p)
                curvature = float(p @ product)
                if not curvature > 0:
                    break
                step = size / curvature
                x = x + step * p
                residual = residual - step * product
                z = precondition(residual)
                new = float(residual @ z)
                if not new > PARAMS.coarse**2 * first:
                    break
                p, size = z + new / size * p, new
            return x

        return NewtonSystem(plain, barrier, solve)
