"""Kernel of one functional over a small node form, by direct LAPACK calls.

    C = sym(B diag(y)),   B = [e_i | e_k - U_k]

With ``P = C^{-1}`` and ``x = P c / 2`` all derivatives of the barrier function are entries of P, PB
and B^T P B.  At the size of a node (tens of units) a step is a dozen calls, so a child with a warm
start from its parent's multipliers costs a fraction of a millisecond.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.blas import dger
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.kernel import (
    Factor,
    Kernel,
    NewtonSystem,
    State,
    balance,
    bound_of,
    relative_drop,
)


def inverse_of(factor: FloatArray) -> FloatArray:
    """Return the inverse of a matrix from its lower Cholesky factor, zero above the diagonal."""
    inverse, _ = dpotri(factor, lower=1)
    diagonal = np.einsum("ii->i", inverse)
    diagonal *= 0.5
    return np.asarray(inverse + inverse.T)


def add_outer(matrix: FloatArray, left: FloatArray, right: FloatArray) -> None:
    """Add an outer product to a matrix whose rows are contiguous, in one pass."""
    dger(1.0, right, left, a=matrix.T, overwrite_a=1)


def solved_system(
    plain: FloatArray, barrier: FloatArray, hessian: FloatArray
) -> NewtonSystem | None:
    """Factorise a dense Hessian, of which the upper triangle is read and overwritten.

    None if it is not positive definite, or has overflowed.
    """
    diagonal = np.einsum("ii->i", hessian)
    if not np.isfinite(diagonal).all():
        return None
    diagonal *= 1.0 + 1e-12
    factor, info = dpotrf(hessian.T, lower=1, clean=0, overwrite_a=1)
    if info:
        return None

    def solve(right: FloatArray) -> FloatArray:
        return np.asarray(dpotrs(factor, right, lower=1)[0])

    return NewtonSystem(plain, barrier, solve)


class Pencil:
    """Symmetric matrices ``sym(B diag(y)) + K``, linear in y.

    Parameters
    ----------
    basis : ndarray, shape (n, n)
        B, upper triangular.
    constant : ndarray, shape (n, n), optional
        The part of K on and above the diagonal.
    plain : int, optional
        Number of first columns of B that are those of the identity matrix, and of K zero.
    """

    def __init__(
        self, basis: FloatArray, constant: FloatArray | None = None, plain: int = 0
    ) -> None:
        self.basis, self._constant = basis, constant
        # treating few plain columns separately costs more than it saves
        self._plain = plain if 2 * plain > len(basis) else 0
        self._columns = basis[:, self._plain :]
        self._upper = 0.5 * basis
        self._upper.flat[:: len(basis) + 1] *= 2.0

    def factor(self, y: FloatArray) -> FloatArray | None:
        """Return the lower Cholesky factor, zero above the diagonal, or None."""
        upper = self._upper * y
        if self._constant is not None:
            upper += self._constant
        factor, info = dpotrf(upper.T, lower=1, clean=0, overwrite_a=1)
        return factor if info == 0 else None

    def inverse(self, factor: FloatArray) -> FloatArray:
        """Return the inverse of a matrix from its Cholesky factor; see `inverse_of`.

        The block of the plain columns is diagonal; only the Schur complement of the others is
        inverted.
        """
        plain = self._plain
        if not plain:
            return inverse_of(factor)
        found = np.empty(factor.shape)
        roots = factor.diagonal()[:plain]
        half = (factor[plain:, :plain] / -roots).T
        last = found[plain:, plain:] = inverse_of(factor[plain:, plain:])
        beside = found[:plain, plain:] = half @ last
        found[plain:, :plain] = beside.T
        np.matmul(beside, half.T, out=found[:plain, :plain])
        found.flat[: plain * (len(factor) + 1) : len(factor) + 1] += roots**-2.0
        return found

    def curvature(self, inverse: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:
        """Return second derivatives of ``-mu logdet`` by y, and the diagonal of ``P B``.

        P is the inverse.  Of the derivatives only the upper triangle is meaningful.
        """
        plain, columns = self._plain, self._columns
        product = inverse @ columns
        top, below = product[:plain], product[plain:]
        last = columns.T @ product
        last *= inverse[plain:, plain:]
        last += below * below.T
        last *= 0.5 * mu
        if not plain:
            return last, product.diagonal()
        hessian = np.zeros(inverse.shape)
        first, beside = inverse[:plain, :plain], inverse[:plain, plain:]
        np.multiply(mu * first, first, out=hessian[:plain, :plain])
        np.multiply(mu * beside, top, out=hessian[:plain, plain:])
        hessian[plain:, plain:] = last
        return hessian, np.concatenate([first.diagonal(), below.diagonal()])

    def slopes(self, inverse: FloatArray) -> FloatArray:
        """Return the derivatives of logdet by y, given the inverse."""
        return np.asarray(np.einsum("ij,ij->j", inverse, self.basis))


def tangent_basis(rows: FloatArray, inputs: int) -> FloatArray:
    """Return the basis B: columns ``e_i`` of the inputs and ``e_k - U_k`` of the units."""
    size = rows.shape[1]
    basis = np.zeros((size, size))
    basis[:, inputs:] = -rows.T
    basis.flat[:: size + 1] += 1.0
    return basis


class DenseKernel(Kernel):
    """One objective over one node form.

    Parameters
    ----------
    rows : ndarray, shape (F, d + F)
        Tangents U of the unstable units.
    objective : ndarray, shape (d + F,)
    inputs : int
        d.
    euclidean : bool
        Whether the ball of inputs is Euclidean (one zeta) or the cube (one zeta for each input).
    """

    def __init__(
        self, rows: FloatArray, objective: FloatArray, inputs: int, euclidean: bool
    ) -> None:
        self.rows, self.inputs, self.euclidean = rows, inputs, euclidean
        self.order = rows.shape[1]
        self.objective, self.objectives = objective, objective[None]
        self._half = 0.5 * objective
        self._pencil = Pencil(tangent_basis(rows, inputs), plain=inputs)

    def factor(self, y: FloatArray) -> Factor | None:
        """Return the Cholesky factor of C, or None if C is not positive definite."""
        return self._pencil.factor(y)

    def terms(self, factor: Factor, y: FloatArray) -> tuple[FloatArray, float, float]:
        """Return the primal ``C^{-1} c / 2``, tau, and ``c^T C^{-1} c / 4``."""
        primal, _ = dpotrs(factor, self._half, lower=1)
        d = self.inputs
        tau = float(y[0]) if self.euclidean else float(y[:d].sum())
        return primal, tau, float(primal @ self._half)

    def logdet(self, factor: Factor) -> float:
        """Return the log-determinant of C."""
        return 2.0 * float(np.log(factor.diagonal()).sum())

    def system(
        self, factor: Factor, y: FloatArray, x: FloatArray, mu: float
    ) -> NewtonSystem | None:
        """Return the Newton system in all multipliers."""
        d, pencil = self.inputs, self._pencil
        # P + x x^T / mu in place of P adds the second derivatives of `quarter` and a rank-one
        # term, which is subtracted again
        spread = pencil.inverse(factor)
        add_outer(spread, x, x / mu)
        plain = -x * (x @ pencil.basis)
        hessian, diagonal = pencil.curvature(spread, mu)
        add_outer(hessian, plain, plain / -mu)
        barrier = -plain / mu - diagonal
        if self.euclidean:
            plain = np.concatenate([[plain[:d].sum() + 1.0], plain[d:]])
            barrier = np.concatenate([[barrier[:d].sum()], barrier[d:]])
            hessian = np.concatenate([hessian[:d].sum(0, keepdims=True), hessian[d:]])
            hessian = np.concatenate([hessian[:, :d].sum(1, keepdims=True), hessian[:, d:]], 1)
        else:
            plain[:d] += 1.0
        return solved_system(plain, barrier, hessian)

    def slopes(self, factor: Factor, y: FloatArray, x: FloatArray, mu: float) -> FloatArray:
        """Return derivatives of the barrier function by the logarithms of the multipliers."""
        d, pencil = self.inputs, self._pencil
        moments = x * (pencil.basis.T @ x)
        found = -y * (moments + mu * pencil.slopes(pencil.inverse(factor)))
        if self.euclidean:
            return np.concatenate([[found[:d].sum() + y[0]], found[d:]])
        found[:d] += y[:d]
        return np.asarray(found)

    def state(
        self, factor: Factor, y: FloatArray, tau: float, quarter: float, x: FloatArray
    ) -> State:
        """Return the state at these multipliers, rescaled so that tau and quarter are equal."""
        scale = balance(tau, quarter)
        return State(y * scale, bound_of(tau, quarter), x / scale, factor * math.sqrt(scale))

    def lookahead(self, state: State) -> tuple[FloatArray, FloatArray]:
        """Return relative drops of the bound if a unit is decided and the multipliers are kept.

        Switching unit k off removes ``x_k^2 / P_kk`` from ``c^T C^{-1} c / 4``, switching it on
        ``(b_k . x)^2 / b_k^T P b_k``, because it restricts w to a hyperplane.
        """
        d = self.inputs
        inverse = self._pencil.inverse(state.factor)
        x, basis = state.primal, self._pencil.basis[:, d:]
        off = np.square(x[d:]) / inverse.diagonal()[d:]
        on = np.square(x @ basis) / np.einsum("ij,ij->j", basis, inverse @ basis)
        return relative_drop(off, state.value), relative_drop(on, state.value)
