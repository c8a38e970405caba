"""A primal-dual interior-point method for duals whose terms have rank two.

The program (see `quadratic`) minimises gamma over y >= 0 (on inequalities) subject to

    Z = gamma e_0 e_0^T - Q - sum_i y_i sym(a_i b_i^T)   positive semidefinite.

The steps apply to any objective ``c^T v`` instead of gamma, ``Z = sum_i v_i S_i - Q`` and slacks
``G v >= 0`` (`ConicProgram`); here G selects the multipliers of inequalities.

With S_i = sym(A_i B_i^T), P = Z^-1 and the primal matrix X (the moments of the relaxation), the
Schur complement of the HKM direction, ``M_ij = tr(S_i X S_j P)``, is a quarter of

    (A_i X A_j)(B_i P B_j) + (B_i X B_j)(A_i P A_j)
    + (B_i X A_j)(A_i P B_j) + (A_i X B_j)(B_i P A_j)

and needs six dense products and no loop.  The centring is chosen by Mehrotra's predictor-corrector
method (Helmberg, Rendl, Vanderbei and Wolkowicz, SIAM J. Optim. 6, 1996).  The dual stays feasible
throughout, so the method may be stopped at any moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import seconds_of
from lipyomo.base.numerics.rounding import rounded_up
from lipyomo.relaxations.semidefinite.quadratic import (
    QuadraticProgram,
    least_gamma,
    proved_bound,
    starting_multipliers,
)
from lipyomo.relaxations.semidefinite.verify import cholesky_or_none

ITERATIONS = 80
"""Limit of iterations, reached only if they do not converge."""


@dataclass(frozen=True)
class DualPoint:
    """Multipliers and the bound that they prove.

    Attributes
    ----------
    y : ndarray, shape (K,)
    bound : float
        Proved upper bound of the objective.
    iterations : int
    gap : float
        Estimated distance of the bound from the optimum of the relaxation.
    converged : bool
        Whether that distance is within the tolerance.
    """

    y: FloatArray
    bound: float
    iterations: int
    gap: float
    converged: bool


class ConicProgram(Protocol):
    """The linear algebra of a program.

    Attributes
    ----------
    costs : ndarray, shape (K,)
        c.
    """

    costs: FloatArray

    def combine(self, v: FloatArray) -> FloatArray:
        """``sum_i v_i S_i``."""

    def traces(self, matrix: FloatArray) -> FloatArray:
        """``tr(S_i sym(matrix))`` for all i."""

    def slacks(self, v: FloatArray) -> FloatArray:
        """``G v``."""

    def weighted(self, x: FloatArray) -> FloatArray:
        """``G^T x``."""

    def solver(
        self, X: FloatArray, P: FloatArray, ratio: FloatArray
    ) -> Callable[[FloatArray], FloatArray]:
        """Return a solver of systems with matrix ``tr(S_i X S_j P) + (G^T diag(ratio) G)_ij``."""


@dataclass(frozen=True)
class Iterate:
    """Dual variables (v, Z, slacks) and primal ones (X, x), or a step in them."""

    v: FloatArray
    Z: FloatArray
    slacks: FloatArray
    X: FloatArray
    x: FloatArray

    @property
    def gap(self) -> float:
        """Complementarity: the duality gap if the primal is feasible."""
        return float(np.sum(self.X * self.Z)) + float(self.x @ self.slacks)

    @property
    def mu(self) -> float:
        """Mean complementarity."""
        return self.gap / (len(self.Z) + len(self.x))

    def moved(self, step: Iterate, along: float, across: float) -> Iterate:
        """Return the iterate after a step of length `along` in the dual, `across` in the primal."""
        return Iterate(
            self.v + along * step.v,
            self.Z + along * step.Z,
            self.slacks + along * step.slacks,
            self.X + across * step.X,
            self.x + across * step.x,
        )


def advanced(system: ConicProgram, at: Iterate, share: float = 0.95) -> Iterate | None:
    """Take a predictor-corrector step; None if no progress is possible.

    Its length is `share` times the largest one found feasible by factorisation.
    """
    try:
        P = cho_solve((np.linalg.cholesky(at.Z), True), np.eye(len(at.Z)), check_finite=False)
        P = 0.5 * (P + P.T)
        ratio = at.x / at.slacks
        solve = system.solver(at.X, P, ratio)
    except np.linalg.LinAlgError:
        return None
    barrier = system.traces(P) + system.weighted(1.0 / at.slacks)
    nothing = np.zeros_like(at.X), np.zeros_like(at.x)

    def step_for(target: float, bend: tuple[FloatArray, FloatArray] = nothing) -> Iterate:
        right = target * barrier - system.costs
        if bend is not nothing:
            right = right - system.traces(bend[0]) - system.weighted(bend[1])
        v = solve(right)
        Z, slacks = system.combine(v), system.slacks(v)
        move = at.X @ Z @ P + bend[0]
        X = target * P - at.X - 0.5 * (move + move.T)
        x = target / at.slacks - at.x - ratio * slacks - bend[1]
        return Iterate(v, Z, slacks, X, x)

    first = step_for(0.0)
    along, across = _lengths(at, first, share)
    sigma = float(np.clip((at.moved(first, along, across).mu / at.mu) ** 2, 1e-4, 0.9))
    if min(along, across) < 0.1:
        sigma = max(sigma, 0.5)
    bend = first.X @ first.Z @ P, first.x * first.slacks / at.slacks
    step = step_for(sigma * at.mu, bend)
    along, across = _lengths(at, step, share)
    return at.moved(step, along, across) if max(along, across) >= 1e-6 else None


def _lengths(at: Iterate, step: Iterate, share: float) -> tuple[float, float]:
    """Return the lengths of a step, dual and primal."""
    return (
        _length((at.slacks, step.slacks), (at.Z, step.Z), share),
        _length((at.x, step.x), (at.X, step.X), share),
    )


def _length(
    numbers: tuple[FloatArray, FloatArray], matrices: tuple[FloatArray, FloatArray], share: float
) -> float:
    """Return a step length, at most one, that stays inside the cone with some margin."""
    (values, change), (matrix, move) = numbers, matrices
    shrinking = change < 0
    ratio = float((-values[shrinking] / change[shrinking]).min(initial=np.inf))
    full = length = min(1.0, 0.97 * ratio)
    for _ in range(90):
        if cholesky_or_none(matrix + length * move) is not None:
            # keep some distance from the boundary that the factorisation just missed
            return length if length == full else share * length
        length *= 0.9
    return 0.0


def infeasibility(system: ConicProgram, at: Iterate) -> float:
    """Return the largest violation of ``tr(S_i X) + (G^T x)_i = c_i``."""
    return float(np.abs(system.costs - system.traces(at.X) - system.weighted(at.x)).max())


class _TermsOfRankTwo:
    """The linear algebra of a `QuadraticProgram`: v = (gamma, y), and slacks are multipliers."""

    def __init__(self, program: QuadraticProgram) -> None:
        corner = sp.csr_array(([1.0], ([0], [0])), shape=(1, program.left.shape[1]))
        self.program = program
        self.A = sp.csr_array(sp.vstack([corner, -program.left]))
        self.B = sp.csr_array(sp.vstack([corner, program.right]))
        places = np.append(0, program.owners + 1)
        shape = len(program.equality) + 1, places.size
        ones = np.ones(places.size)
        self._sums = sp.csr_array((ones, (places, np.arange(places.size))), shape=shape)
        self._single = shape[0] == shape[1]
        inequality = ~program.equality
        self.mask = np.zeros(program.variables)
        if program.ball.size:
            inequality = np.append(inequality, True)
            self.mask[program.ball] = 1.0
            self.mask[0] = -1.0
        self.signed = np.flatnonzero(np.append(False, inequality))
        self.costs = np.zeros(program.constraints + 1)
        self.costs[0] = 1.0

    def combine(self, v: FloatArray) -> FloatArray:
        """See `ConicProgram`."""
        total = -self.program.combine(v[1:])
        total[0, 0] += v[0]
        return np.asarray(total)

    def traces(self, matrix: FloatArray) -> FloatArray:
        """See `ConicProgram`."""
        lifted = self.program.lift(0.5 * (matrix + matrix.T))
        found = np.asarray(self.B.multiply(self.A @ lifted).sum(axis=1)).reshape(-1)
        found = found if self._single else self._sums @ found
        if self.program.ball.size:
            found = np.append(found, float(self.mask @ np.diagonal(matrix)))
        return found

    def slacks(self, v: FloatArray) -> FloatArray:
        """See `ConicProgram`."""
        return np.asarray(v[self.signed])

    def weighted(self, x: FloatArray) -> FloatArray:
        """See `ConicProgram`."""
        found = np.zeros_like(self.costs)
        found[self.signed] = x
        return found

    def solver(
        self, X: FloatArray, P: FloatArray, ratio: FloatArray
    ) -> Callable[[FloatArray], FloatArray]:
        """See `ConicProgram`."""
        M = self.schur(X, P)
        M[self.signed, self.signed] += ratio
        return positive_solver(M)

    def schur(self, X: FloatArray, P: FloatArray) -> FloatArray:
        """Return the Schur complement M."""
        lifted_X, lifted_P = self.program.lift(X), self.program.lift(P)
        AX, AP = np.asarray(self.A @ lifted_X), np.asarray(self.A @ lifted_P)
        BX, BP = np.asarray(self.B @ lifted_X), np.asarray(self.B @ lifted_P)
        M = np.asarray(self.A @ AX.T)
        M *= self.B @ BP.T
        second = np.asarray(self.B @ BX.T)
        second *= self.A @ AP.T
        M += second
        second = np.asarray(self.B @ AX.T)
        second *= self.A @ BP.T
        M += second
        M += second.T
        M *= 0.25
        if not self._single:
            M = self._sums @ (self._sums @ M).T
        if self.program.ball.size:
            n = len(self.mask)
            column = self._sums @ (0.5 * ((BP * AX + AP * BX)[:, :n] @ self.mask))
            corner = float(self.mask @ ((X * P) @ self.mask))
            M = np.block([[M, column[:, None]], [column[None, :], np.array([[corner]])]])
        return np.asarray(0.5 * (M + M.T))


def positive_solver(M: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return a solver of systems with a positive definite matrix, which is overwritten."""
    diagonal = np.arange(len(M))
    M[diagonal, diagonal] *= 1.0 + 1e-13
    factor = cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
    return lambda right: np.asarray(cho_solve(factor, right, check_finite=False))


def predicted_seconds(variables: int, constraints: int) -> float:
    """Predict the time of one iteration."""
    n, k = float(variables), float(constraints)
    return seconds_of(k**3 / 3.0 + 8.0 * k**2 + 20.0 * n**3)


def minimise_gamma(
    program: QuadraticProgram,
    tolerance: float = 1e-6,
    left: Callable[[], float] | None = None,
    progress: Callable[[DualPoint], object] | None = None,
) -> DualPoint:
    """Minimise gamma over the multipliers.

    Parameters
    ----------
    program : QuadraticProgram
    tolerance : float, optional
        Relative distance from the optimum of the relaxation at which to stop.
    left : callable, optional
        Returns the seconds left, called once per iteration; if there is no time for another one,
        the current bound is returned.
    progress : callable, optional
        Called with every iterate.

    Returns
    -------
    DualPoint
    """
    scale = float(np.abs(program.objective).sum(axis=1).max())
    if scale == 0.0:
        rounding = rounded_up(
            program.error * program.objective_mass
        )  # zero if everything has cancelled
        return DualPoint(np.zeros(program.constraints), rounding, 0, 0.0, True)
    objective = program.objective / scale
    system = _TermsOfRankTwo(program)
    y = starting_multipliers(program, objective)
    gamma = least_gamma(-objective - program.combine(y))
    v = np.concatenate([[1.1 * abs(gamma) + 1e-3], y])
    X = _independent_moments(program)
    x = np.maximum(-system.traces(X)[system.signed], 0.1)
    at = Iterate(v, system.combine(v) - objective, system.slacks(v), X, x)
    width = program.variables + len(program.extension)

    def point(done: bool) -> DualPoint:
        y = at.v[1:] * scale
        return DualPoint(y, proved_bound(program, y), iterations, gap * scale, done)

    iterations, gap, took = 0, np.inf, predicted_seconds(width, program.constraints)
    while iterations < ITERATIONS and (left is None or left() > 1.5 * took):
        iterations += 1
        began = time.monotonic()
        following = advanced(system, at)
        if following is None:
            break
        at, took = following, time.monotonic() - began
        gap = at.gap
        if gap <= tolerance * abs(at.v[0]) and infeasibility(system, at) <= 1e-4:
            break
        if progress is not None:
            progress(point(False))
    return point(bool(gap <= tolerance * abs(at.v[0])))


def _independent_moments(program: QuadraticProgram) -> FloatArray:
    """Return second moments of independent variables: switches at one half, others around zero.

    They satisfy the constraints of boxes and switches, and lie well inside the cone.
    """
    switches = program.equality[program.anchors]
    mean = np.concatenate([[1.0], np.where(switches, 0.5, 0.0)])
    variance = np.concatenate([[0.0], np.where(switches, 0.25, 0.5)])
    moments = np.outer(mean, mean) + np.diag(variance)
    return np.asarray(moments)
