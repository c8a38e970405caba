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
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs, spotrf, spotrs

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.dense import inverse_of, solved_system
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

Digits: TypeAlias = "npt.NDArray[np.floating]"
"""Arrays in the precision of a Newton system."""

_LARGEST = 1e12
"""Limit of multipliers in single precision, and of their inverses: squares of their products stay
normal numbers."""


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

    half: Digits
    K_inverse: Digits
    A: Digits
    B_inputs: Digits
    B_units: Digits
    BB: Digits
    slack: FloatArray

    def hessian(self, inner: Digits, x: FloatArray, mu: float) -> Digits:
        """Return second derivatives of the barrier function, on and above the diagonal.

        With the moments ``M = mu C^{-1} + x x^T`` the one by two terms ``sym(a b^T)`` and
        ``sym(e f^T)`` is half of ``(a C^{-1} e)(b M f) + (a C^{-1} f)(b M e)``, plus half of the
        terms of ``x x^T`` with both pairs exchanged.  They are added up without cancellation.

        Parameters
        ----------
        inner : ndarray, shape (d, d)
            The inputs' block of ``C^{-1}``.
        x : ndarray, shape (d + F,)
            The primal.
        mu : float
        """
        d = len(inner)
        v, s, t = (part.astype(inner.dtype) for part in (x[:d], x[d:], self.slack))
        found = np.zeros((x.size, x.size), dtype=inner.dtype)
        units = np.multiply(self.B_units, mu * self.B_units.T + np.outer(2.0 * t, s))
        units += np.multiply(self.K_inverse, mu * self.BB + np.outer(t, t))
        units += np.multiply(self.BB, np.outer(s, s))
        found[d:, d:] = 0.25 * (units + units.T)
        mixed = np.multiply(self.A, mu * self.B_inputs + np.outer(v, t))
        mixed += np.multiply(self.B_inputs, np.outer(v, s))
        found[:d, d:] = mixed
        found[:d, :d] = np.multiply(inner, mu * inner + np.outer(2.0 * v, v))
        return found


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

        A large one is solved in single precision, in half of the time: a Newton step is only a
        search direction, whose length is found in double precision, and bounds are proved for any
        multipliers.
        """
        if self.order >= PARAMS.single and fits_single(y):
            found = self._system(factor, y, x, mu, np.float32)
            if found is not None:
                return found
        return self._system(factor, y, x, mu, np.float64)

    def _system(
        self, factor: Factor, y: FloatArray, x: FloatArray, mu: float, dtype: type[np.floating]
    ) -> NewtonSystem | None:
        """Return the system in one precision; None if that is not enough."""
        d = self.inputs
        with np.errstate(over="ignore", invalid="ignore"):  # None after an overflow
            parts = self._blocks(factor, y, x, dtype)
            inner = parts.A @ parts.half.T
            inner.flat[:: d + 1] += 1.0 / y[:d]
            plain = np.concatenate([1.0 - np.square(x[:d]), -x[d:] * parts.slack])
            barrier = -np.concatenate([inner.diagonal(), parts.B_units.diagonal()])
            hessian = parts.hessian(inner, x, mu)
        barrier = barrier.astype(np.float64)
        if dtype is np.float32:
            return solved_in_single(plain, barrier, hessian)
        return solved_system(plain, barrier, hessian.astype(np.float64, copy=False))

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


def fits_single(multipliers: FloatArray) -> bool:
    """Whether positive multipliers are safe from overflow and underflow in single precision."""
    least, largest = multipliers.min(initial=1.0), multipliers.max(initial=1.0)
    return bool(least > 1.0 / _LARGEST and largest < _LARGEST)


def solved_in_single(
    plain: FloatArray, barrier: FloatArray, hessian: Digits
) -> NewtonSystem | None:
    """Factorise a Hessian, of which the upper triangle is read and overwritten.

    None if it is not positive definite in single precision.
    """
    diagonal = hessian.diagonal().astype(np.float64)
    if not (np.isfinite(hessian).all() and diagonal.min(initial=1.0) > 0):
        return None
    scale = 1.0 / np.sqrt(diagonal)
    single = scale.astype(np.float32)
    hessian *= single
    hessian *= single[:, None]
    hessian.reshape(-1)[:: len(hessian) + 1] = 1.0 + 16 * np.finfo(np.float32).eps
    factor, info = spotrf(hessian.T, lower=1, clean=0, overwrite_a=1)
    if info:
        return None

    def solve(right: FloatArray) -> FloatArray:
        found, _ = spotrs(factor, (right * scale).astype(np.float32), lower=1)
        return np.asarray(found * scale)

    return NewtonSystem(plain, barrier, solve)
