"""A primal-dual interior-point method for duals whose terms have rank two.

The program (see `quadratic`) minimises gamma over y >= 0 (on inequalities) subject to

    Z = gamma e_0 e_0^T - Q - sum_i y_i sym(a_i b_i^T)   positive semidefinite.

With S_i = sym(A_i B_i^T), P = Z^-1 and the primal matrix X (the moments of the relaxation), the
Schur complement of the HKM direction, ``M_ij = tr(S_i X S_j P)``, is a quarter of

    (A_i X A_j)(B_i P B_j) + (B_i X B_j)(A_i P A_j)
    + (B_i X A_j)(A_i P B_j) + (A_i X B_j)(B_i P A_j)

and needs six dense products and no loop.  Mehrotra's predictor and corrector choose the centring
(Helmberg, Rendl, Vanderbei and Wolkowicz, SIAM J. Optim. 6, 1996).  The dual stays feasible
throughout, so that the method may be stopped at any moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

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
        Whether that distance met the tolerance.
    """

    y: FloatArray
    bound: float
    iterations: int
    gap: float
    converged: bool


@dataclass(frozen=True)
class _Iterate:
    """Dual (v, Z) with v = (gamma, y), and primal (X, x)."""

    v: FloatArray
    Z: FloatArray
    X: FloatArray
    x: FloatArray


@dataclass(frozen=True)
class _Step:
    """Changes of an iterate."""

    v: FloatArray
    Z: FloatArray
    X: FloatArray
    x: FloatArray


BETWEEN, EARLY = 3, 0.5
"""Steps from one renewal of a program to the next, once the relative gap is so small.  Each leads
away from the central path: with one step, there are almost twice as many in all."""

Renewal: TypeAlias = (
    "Callable[[FloatArray, Callable[[QuadraticProgram], bool]], tuple[QuadraticProgram, bool]]"
)
"""A program for moments (N, N), given what tells whether one is feasible; and whether it is the
best one, or only on the way there, so that the next step asks again."""


class _System:
    """The linear algebra of one program with a scaled objective."""

    def __init__(self, program: QuadraticProgram, objective: FloatArray) -> None:
        n = program.variables
        corner = sp.csr_array(([1.0], ([0], [0])), shape=(1, program.left.shape[1]))
        self.program, self.objective = program, objective
        self.A = sp.csr_array(sp.vstack([corner, -program.left]))
        self.B = sp.csr_array(sp.vstack([corner, program.right]))
        places = np.append(0, program.owners + 1)
        shape = len(program.equality) + 1, places.size
        ones = np.ones(places.size)
        self._sums = sp.csr_array((ones, (places, np.arange(places.size))), shape=shape)
        self._single = shape[0] == shape[1]
        inequality = ~program.equality
        self.mask = np.zeros(n)
        if program.ball.size:
            inequality = np.append(inequality, True)
            self.mask[program.ball] = 1.0
            self.mask[0] = -1.0
        self.signed = np.concatenate([[False], inequality])
        self.order = n + int(inequality.sum())

    def combine(self, v: FloatArray) -> FloatArray:
        """``sum_i v_i S_i``, gamma included."""
        total = -self.program.combine(v[1:])
        total[0, 0] += v[0]
        return np.asarray(total)

    def traces(self, matrix: FloatArray) -> FloatArray:
        """``tr(S_i sym(matrix))`` for all i."""
        lifted = self.program.lift(0.5 * (matrix + matrix.T))
        found = np.asarray(self.B.multiply(self.A @ lifted).sum(axis=1)).reshape(-1)
        found = found if self._single else self._sums @ found
        if self.program.ball.size:
            found = np.append(found, float(self.mask @ np.diagonal(matrix)))
        return found

    def schur(self, X: FloatArray, P: FloatArray) -> FloatArray:
        """The matrix M."""
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

    def length(self, at: _Iterate, step: _Step, dual: bool) -> float:
        """Longest step (up to one) that stays inside the cone, with some room."""
        values, change = (at.v, step.v) if dual else (at.x, step.x)
        matrix, move = (at.Z, step.Z) if dual else (at.X, step.X)
        shrinking = self.signed & (change < 0)
        ratio = float((-values[shrinking] / change[shrinking]).min(initial=np.inf))
        full = min(1.0, 0.97 * ratio)
        length = full
        for _ in range(60):
            if cholesky_or_none(matrix + length * move) is not None:
                # keep some distance from the boundary that the factorisation just missed
                return length if length == full else 0.95 * length
            length *= 0.85
        return 0.0


def _advance(system: _System, at: _Iterate, P: FloatArray) -> tuple[_Step, float]:
    """Predictor and corrector; returns the step and the centring parameter."""
    signed = system.signed
    M = system.schur(at.X, P)
    index = np.flatnonzero(signed)
    ratio = at.x[signed] / at.v[signed]
    M[index, index] += ratio
    diagonal = np.arange(len(M))
    M[diagonal, diagonal] *= 1.0 + 1e-13
    factor = cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
    aim = np.zeros(len(at.v))
    aim[0] = -1.0
    barrier = system.traces(P)
    barrier[signed] += 1.0 / at.v[signed]
    mu = _centre(system, at)

    def step_for(target: float, fix: FloatArray | None, fix_x: FloatArray | None) -> _Step:
        right = aim + target * barrier
        if fix is not None and fix_x is not None:
            right = right - system.traces(fix)
            right[signed] -= fix_x
        v = cho_solve(factor, right, check_finite=False)
        Z = system.combine(v)
        move = at.X @ Z @ P
        X = target * P - at.X - 0.5 * (move + move.T)
        x = np.zeros_like(v)
        x[signed] = target / at.v[signed] - at.x[signed] - ratio * v[signed]
        if fix is not None and fix_x is not None:
            X -= 0.5 * (fix + fix.T)
            x[signed] -= fix_x
        return _Step(v, Z, X, x)

    first = step_for(0.0, None, None)
    along = min(system.length(at, first, True), 1.0)
    across = min(system.length(at, first, False), 1.0)
    ahead = _Iterate(
        at.v + along * first.v,
        at.Z + along * first.Z,
        at.X + across * first.X,
        at.x + across * first.x,
    )
    sigma = float(np.clip((_centre(system, ahead) / mu) ** 2, 1e-4, 0.9))
    if min(along, across) < 0.1:
        sigma = max(sigma, 0.5)
    bend = first.X @ first.Z @ P
    bend_x = first.x[signed] * first.v[signed] / at.v[signed]
    return step_for(sigma * mu, bend, bend_x), sigma


def _centre(system: _System, at: _Iterate) -> float:
    """Average complementarity mu."""
    products = float(np.sum(at.X * at.Z)) + float(at.x[system.signed] @ at.v[system.signed])
    return products / system.order


def predicted_seconds(variables: int, constraints: int) -> float:
    """About how long one iteration takes."""
    n, k = float(variables), float(constraints)
    return seconds_of(k**3 / 3.0 + 8.0 * k**2 + 20.0 * n**3)


def minimise_gamma(
    program: QuadraticProgram,
    tolerance: float = 1e-6,
    left: Callable[[], float] | None = None,
    max_iterations: int = 80,
    tell: Callable[[DualPoint], object] | None = None,
    renew: Renewal | None = None,
    enough: float = -np.inf,
) -> DualPoint:
    """Minimise gamma over the multipliers.

    Parameters
    ----------
    program : QuadraticProgram
    tolerance : float, optional
        Relative distance from the optimum of the relaxation at which to stop.
    left : callable, optional
        Seconds that may still be used.  Asked once an iteration; if there is no time for another
        one, the bound of the moment is returned.
    max_iterations : int, optional
    tell : callable, optional
        Hears of every iterate.
    renew : callable, optional
        Another program for the moments of an iterate, which differs in its objective alone; it is
        asked whether the multipliers are feasible there.  The method ends after a renewal.
    enough : float, optional
        A bound that is good enough.

    Returns
    -------
    DualPoint
    """
    scale = float(np.abs(program.objective).sum(axis=1).max())
    if scale == 0.0:
        rounding = rounded_up(
            program.error * program.objective_mass
        )  # zero where all has cancelled
        return DualPoint(np.zeros(program.constraints), rounding, 0, 0.0, True)
    objective = program.objective / scale
    system = _System(program, objective)
    y = starting_multipliers(program, objective)
    gamma = least_gamma(-objective - program.combine(y))
    v = np.concatenate([[1.1 * abs(gamma) + 1e-3], y])
    X = _independent_moments(program)
    x = np.zeros_like(v)
    x[system.signed] = np.maximum(-system.traces(X)[system.signed], 0.1)
    at = _Iterate(v, -objective + system.combine(v), X, x)
    width = program.variables + len(program.extension)

    def point(done: bool) -> DualPoint:
        y = at.v[1:] * scale
        return DualPoint(y, proved_bound(program, y), iterations, gap * scale, done)

    whole = True
    iterations, gap, took = 0, np.inf, predicted_seconds(width, program.constraints)
    while iterations < max_iterations and (left is None or left() > 1.5 * took):
        iterations += 1
        began = time.monotonic()
        try:
            P = cho_solve((np.linalg.cholesky(at.Z), True), np.eye(program.variables))
            step, _ = _advance(system, at, 0.5 * (P + P.T))
        except np.linalg.LinAlgError:
            break
        along, across = system.length(at, step, True), system.length(at, step, False)
        if max(along, across) < 1e-6:
            break
        at = _Iterate(
            at.v + along * step.v,
            -objective + system.combine(at.v + along * step.v),
            at.X + across * step.X,
            at.x + across * step.x,
        )
        early = gap > EARLY * abs(at.v[0])
        settled = renew is None or iterations % BETWEEN == 0 or early or not whole
        if renew is not None and settled:
            program, at, whole = _renewed(system, at, program, renew, scale)
            objective = program.objective / scale
        took = time.monotonic() - began
        infeasible = np.abs(_residual(system, at)).max()
        gap = _centre(system, at) * system.order
        if settled and gap <= tolerance * abs(at.v[0]) and infeasible <= 1e-4:
            break
        if at.v[0] * scale <= enough:
            break
        if tell is not None:
            tell(point(False))
    return point(bool(gap <= tolerance * abs(at.v[0])))


def _renewed(
    system: _System, at: _Iterate, program: QuadraticProgram, renew: Renewal, scale: float
) -> tuple[QuadraticProgram, _Iterate, bool]:
    """A renewed program, and the iterate there; both as they were if that is not feasible."""

    def moved(other: QuadraticProgram) -> _Iterate | None:
        v, Z = at.v, system.combine(at.v) - other.objective / scale
        if cholesky_or_none(Z) is None:
            if cholesky_or_none(Z[1:, 1:]) is None:
                return None
            more = least_gamma(Z) * (1.0 + 1e-6) + _centre(system, at)
            v = np.append(v[0] + more, v[1:])
            Z[0, 0] += more
            if cholesky_or_none(Z) is None:
                return None
        return _Iterate(v, Z, at.X, at.x)

    other, whole = renew(at.X, lambda other: moved(other) is not None)
    found = moved(other)
    return (program, at, False) if found is None else (other, found, whole)


def _independent_moments(program: QuadraticProgram) -> FloatArray:
    """Second moments of independent variables: switches at one half, all others around zero.

    They meet the constraints of the boxes and of the switches, and lie deep inside the cone.
    """
    switches = program.equality[program.anchors]
    mean = np.concatenate([[1.0], np.where(switches, 0.5, 0.0)])
    variance = np.concatenate([[0.0], np.where(switches, 0.25, 0.5)])
    moments = np.outer(mean, mean) + np.diag(variance)
    return np.asarray(moments)


def _residual(system: _System, at: _Iterate) -> FloatArray:
    """Primal infeasibility ``b_i - tr(S_i X) - x_i``."""
    rest = -system.traces(at.X) - np.where(system.signed, at.x, 0.0)
    rest[0] += 1.0
    return rest
