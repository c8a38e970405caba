"""Proof of a bound by multipliers, with the rounding of all factorisations counted.

With ``|v|_inf <= 1`` (or ``|v|_2 <= 1``) and ``s_k (u_k - s_k) = 0`` every w of the network has
``w^T C w <= tau``, so for C positive definite ``|c.w| <= sqrt(tau c^T C^{-1} c)``.

Proved here, for the exact C of the exact weights:

1. Variables are scaled so that C has a unit diagonal, and the inputs' block is eliminated
   (``K = M - E^T E / 4`` is positive definite if and only if C is).
2. The distance between the exact K and the computed one is bounded in the Frobenius norm from the
   magnitudes of `SizedForm`.
3. K is accepted if a Cholesky factorisation of ``K - shift I`` runs through, with the shift above
   that distance and above the factorisation's own rounding (Rump, "Verification of positive
   definiteness", BIT 46, 2006).  This leaves a lower bound kappa of the least eigenvalue.
4. ``c^T C^{-1} c`` (or the largest eigenvalue of ``N C^{-1} N^T``) is bounded by an approximate
   solution, its residual and kappa.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from lipyomo.base.arrays import FloatArray, IntArray, lengths
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF

SMALL, LARGEST = 1e-140, 1e140
"""Magnitudes of matrices between which products neither overflow nor underflow."""

VANISHED = 1e-100
"""Bound of the underflow in the products of a scaled matrix."""


def cholesky_slack(trace: float, size: int) -> float:
    """Return a shift that covers the rounding of a Cholesky factorisation.

    If the factorisation of ``A - s I`` succeeds and s is at least this number, then A is
    positive definite (Rump, "Verification of positive definiteness", BIT 46, 2006).
    """
    return 2.0 * UNIT_ROUNDOFF * (size + 2) * abs(trace)


def proved_shift(matrix: FloatArray, error: float) -> float:
    """Return a shift s such that ``exact + s I`` is proved positive semidefinite.

    Parameters
    ----------
    matrix : ndarray, shape (n, n)
        Symmetric, the computed matrix.
    error : float
        Bound of the spectral norm of ``exact - matrix``.

    Returns
    -------
    float
        As small as the rounding allows if `matrix` is positive definite; infinite if no shift up to
        twice the norm of the matrix suffices.
    """
    n = len(matrix)
    if n == 0:
        return 0.0
    scale = float(np.abs(matrix).sum(axis=1).max())
    trace = float(np.abs(np.diagonal(matrix)).sum())
    shift = 0.0
    while shift <= 2.0 * scale:
        shifted = matrix if shift == 0.0 else matrix + shift * np.eye(n)
        if cholesky_or_none(shifted) is not None:
            return shift + cholesky_slack(trace + n * shift, n) + error
        shift = max(4.0 * shift, 1e-15 * scale, 1e-300)
    return float("inf")


def cholesky_or_none(matrix: FloatArray, overwrite: bool = False) -> FloatArray | None:
    """Return the lower Cholesky factor, or None if the factorisation breaks down."""
    factor, info = dpotrf(matrix.T, lower=1, clean=1, overwrite_a=overwrite)
    return factor if info == 0 else None


def powers(sizes: FloatArray) -> FloatArray:
    """Return powers of two near ``1 / sqrt(size)``, one for zero; scaling by them is exact."""
    exponents = np.frexp(np.where(sizes > 0.0, sizes, 1.0))[1]
    return np.asarray(np.ldexp(1.0, -(exponents // 2)))


@dataclass(frozen=True, eq=False)
class SizedForm:
    """Tangents of unstable units and functionals as rows over ``w = (v, s)``, with error bounds.

    Attributes
    ----------
    rows : ndarray, shape (F, d + F)
        U; row k has no entries in s_k, s_{k+1}, ...
    objective : ndarray, shape (k, d + F)
        N, one row for each functional.
    row_size, objective_size : ndarray
        Magnitudes, same shapes; ``|computed - exact| <= rounding * magnitude``.
    inputs : int
        d.
    rounding : float
    """

    rows: FloatArray
    objective: FloatArray
    row_size: FloatArray
    objective_size: FloatArray
    inputs: int
    rounding: float

    @property
    def count(self) -> int:
        """Number of unstable units F."""
        return len(self.rows)

    def seeing(self, inputs: IntArray) -> SizedForm:
        """The form with some of the inputs only."""
        keep = np.concatenate([inputs, np.arange(self.inputs, self.rows.shape[1])])
        return replace(self.changed(lambda matrix: matrix[:, keep]), inputs=len(inputs))

    def changed(self, change: Callable[[FloatArray], FloatArray]) -> SizedForm:
        """The form with a change of all rows that hardly rounds, and is the same for magnitudes."""
        return replace(
            self,
            rows=change(self.rows),
            objective=change(self.objective),
            row_size=change(self.row_size),
            objective_size=change(self.objective_size),
        )

    def select(self, functionals: IntArray) -> SizedForm:
        """The form with some of the objective rows only."""
        return replace(
            self,
            objective=self.objective[functionals],
            objective_size=self.objective_size[functionals],
        )


def _norm(matrix: FloatArray) -> float:
    flat = matrix.ravel("K")
    return math.sqrt(flat @ flat)


class VerifiedMatrix:
    """The exact matrix C of some multipliers, proved positive definite.

    Parameters
    ----------
    form : SizedForm
    zeta : ndarray, shape (d,)
        Positive; equal entries for a Euclidean ball.
    lam : ndarray, shape (F,)
        Positive.

    Attributes
    ----------
    accepted : bool
        Whether the proof succeeded; otherwise no bound is valid.
    kappa : float
        Proved lower bound of the least eigenvalue of the scaled K.
    """

    def __init__(self, form: SizedForm, zeta: FloatArray, lam: FloatArray) -> None:
        d, count = form.inputs, form.count
        self._form = form
        values = np.concatenate([zeta, lam])
        self.accepted = bool(values.min(initial=1.0) > 0 and values.max(initial=1.0) < math.inf)
        if not self.accepted:
            return
        root = np.sqrt(values)
        scale = self._scale = 1.0 / root
        left = root[d:, None]
        rows, sizes = form.rows * scale, form.row_size * scale
        rows *= left
        sizes *= left
        rounding = form.rounding + 8 * UNIT_ROUNDOFF
        # the scaled C is [[I, -E/2], [-E^T/2, M]], E = rows_v^T, M = I - sym(rows_s)
        self._E = np.ascontiguousarray(rows[:, :d].T)
        states = rows[:, d:]
        K = states + states.T  # in place from here on, as matrices may be large
        K *= -0.5
        K.reshape(-1)[:: count + 1] += 1.0
        inner = self._E.T @ self._E
        inner *= 0.25
        K -= inner
        self._K = np.add(K, K.T, out=inner)
        self._K *= 0.5
        steps = UNIT_ROUNDOFF * (8 + d)
        error_E = rounding * _norm(sizes[:, :d])
        error_M = rounding * _norm(sizes[:, d:]) + 2 * UNIT_ROUNDOFF * math.sqrt(count)
        size_E = _norm(self._E)
        self._distance = (
            error_M
            + 0.5 * size_E * error_E
            + 0.25 * error_E**2
            + steps * size_E**2
            + 4 * UNIT_ROUNDOFF * _norm(self._K)
        )
        self._size_E, self._error_E = size_E + error_E, error_E
        self.kappa = self._least_eigenvalue()
        self.accepted = self.kappa > 0

    def _least_eigenvalue(self) -> float:
        """Prove a lower bound of the least eigenvalue of the exact K; 0 if the proof fails."""
        count = len(self._K)
        if count == 0:
            return 1.0
        factor = cholesky_or_none(self._K)
        if factor is None:
            return 0.0
        needed = self._distance + cholesky_slack(float(self._K.trace()) + 1.0, count)
        self._inverse, _ = dtrtri(factor, lower=1, overwrite_c=1)
        estimate = 0.5 / _norm(self._inverse) ** 2
        for shift in (estimate, 0.1 * estimate, 2.0 * needed):
            if shift > needed:
                shifted = self._K.copy()
                shifted.reshape(-1)[:: count + 1] -= shift
                if cholesky_or_none(shifted, overwrite=True) is not None:
                    return float(shift - needed)
        return 0.0

    def solve(self, right: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Solve ``K x = r`` for the columns r of `right` (F, k), in the scaled variables.

        Returns
        -------
        solution : ndarray, shape (F, k)
        rest : ndarray, shape (k,)
            Proved bounds of ``|r - K x|`` for the exact K.
        square : ndarray, shape (k,)
            Proved bounds of ``r^T K^{-1} r``, up to the last few roundings.
        """
        solution = self._inverse.T @ (self._inverse @ right)
        steps = UNIT_ROUNDOFF * (len(right) + 4)
        parts = (right, solution, right - self._K @ solution)
        size_r, size_x, rest = ((1.0 + steps) * lengths(part, axis=0) for part in parts)
        rest += self._distance * size_x + steps * (_norm(self._K) * size_x + size_r)
        square = (right * solution).sum(axis=0) + size_x * rest + rest**2 / self.kappa
        square += steps * size_r * size_x
        return solution, rest, np.maximum(square, 0.0)

    def quadratic(self, rows: IntArray, weights: FloatArray | None = None) -> float:
        """Bound ``max_y sqrt(y^T N C^{-1} N^T y)`` from above over a ball of functionals y.

        Parameters
        ----------
        rows : ndarray of int, shape (k,)
            The objective rows that form N.
        weights : ndarray, shape (k,), optional
            The ball is ``y^T diag(weights) y <= sum weights``, which contains the cube; without
            weights it is the Euclidean unit ball.
        """
        scale = np.ones(len(rows)) if weights is None else np.sqrt(weights.sum() / weights)
        c_inputs, right, sizes, error, error_c = self._seen(rows, scale[:, None], _norm)
        size_inputs, size_right = sizes
        gram = c_inputs @ c_inputs.T
        slack = UNIT_ROUNDOFF * (self._form.inputs + 8) * size_inputs**2
        if self._form.count:
            solution, rests, _ = self.solve(right.T)
            rest, size_y = _norm(rests), _norm(solution)
            gram = gram + right @ solution
            slack += size_y * rest + rest**2 / self.kappa
            slack += UNIT_ROUNDOFF * (self._form.count + 4) * size_right * size_y
        square = _largest_eigenvalue(gram) + slack
        root = math.sqrt(max(square, 0.0)) + error / math.sqrt(self.kappa) + error_c
        return float(root) * (1.0 + 8 * UNIT_ROUNDOFF)

    def quadratics(self, rows: IntArray) -> FloatArray:
        """Bound ``sqrt(c^T C^{-1} c)`` from above for each of some objective rows c, shape (k,)."""
        _, right, (size_inputs, _), error, error_c = self._seen(rows, 1.0, _lengths)
        square = size_inputs**2
        if self._form.count:
            square += self.solve(right.T)[2]
        root = np.sqrt(square) + error / math.sqrt(self.kappa) + error_c
        return np.asarray(root * (1.0 + 8 * UNIT_ROUNDOFF))

    def _seen(
        self, rows: IntArray, scale: Any, length: Callable[[FloatArray], Any]
    ) -> tuple[FloatArray, FloatArray, tuple[Any, Any], Any, Any]:
        """Eliminate the inputs from some objective rows c times `scale`.

        Returned are the inputs' part of c, the right side for K, lengths of both, and bounds of the
        errors of the right side and of c.
        """
        form, d = self._form, self._form.inputs
        c = scale * form.objective[rows] * self._scale
        c_inputs, c_units = c[:, :d], c[:, d:]
        sizes = form.objective_size[rows] * self._scale
        error_c = (form.rounding + 8 * UNIT_ROUNDOFF) * length(scale * sizes)
        right = c_units + 0.5 * (c_inputs @ self._E)
        size_inputs, size_units = length(c_inputs), length(c_units)
        size_right = size_units + 0.5 * self._size_E * size_inputs
        error = UNIT_ROUNDOFF * (d + 4) * size_right + 0.5 * self._error_E * size_inputs
        error = error + error_c * (1.0 + 0.5 * self._size_E)
        return c_inputs, right, (size_inputs, size_right), error, error_c


def _lengths(rows: FloatArray) -> FloatArray:
    """Return the Euclidean lengths of the rows, rounded up."""
    return np.asarray(lengths(rows) * (1.0 + UNIT_ROUNDOFF * (rows.shape[1] + 4)))


def _largest_eigenvalue(gram: FloatArray) -> float:
    """Bound the largest eigenvalue of the symmetric part of `gram` from above."""
    if len(gram) == 1:
        return float(gram[0, 0])
    symmetric = 0.5 * (gram + gram.T)
    top = float(np.linalg.eigvalsh(symmetric)[-1])
    return top + 8 * UNIT_ROUNDOFF * len(gram) ** 2 * _norm(symmetric)


def bound_from(
    matrix: VerifiedMatrix,
    rows: IntArray,
    zeta: FloatArray,
    grouped: bool,
    weights: FloatArray | None = None,
) -> float:
    """Return a proved upper bound of ``max_y |y^T N w|``; infinite if `matrix` is not accepted.

    Parameters
    ----------
    matrix : VerifiedMatrix
    rows : ndarray of int
        Objective rows: one for a functional, several for a ball of them.
    zeta : ndarray, shape (d,)
        The multipliers of `matrix`.
    grouped : bool
        Whether the ball of directions is Euclidean (tau = zeta) instead of the cube (tau = sum
        zeta).
    weights : ndarray, optional
        See `VerifiedMatrix.quadratic`.
    """
    if not matrix.accepted:
        return float("inf")
    if len(rows) == 1 and weights is None:
        return float(bounds_from(matrix, rows, zeta, grouped)[0])
    return matrix.quadratic(rows, weights) * _root_of_tau(zeta, grouped)


def bounds_from(
    matrix: VerifiedMatrix, rows: IntArray, zeta: FloatArray, grouped: bool
) -> FloatArray:
    """Return proved upper bounds of ``|c . w|`` for some objective rows c; see `bound_from`."""
    if not matrix.accepted:
        return np.full(len(rows), np.inf)
    return matrix.quadratics(rows) * _root_of_tau(zeta, grouped)


def _root_of_tau(zeta: FloatArray, grouped: bool) -> float:
    tau = float(zeta.max(initial=0.0)) if grouped else float(zeta.sum())
    return math.sqrt(tau) * (1.0 + UNIT_ROUNDOFF * (len(zeta) + 8))
