"""The semidefinite node bound for one small problem, straight on LAPACK.

With ``w = (v, s)`` and multipliers ``m = (zeta, lambda)`` the matrix

    C = D(zeta) - sum_k lambda_k sym(e_k (U_k - e_k)^T) = sym(B diag(m)),   B = [e_i | e_k - U_k]

bounds ``|c.w| <= sqrt(tau c^T C^{-1} c)`` whenever it is positive definite.  The barrier function

    tau + c^T C^{-1} c / 4 - mu logdet C

is minimised by Newton's method; with ``P = C^{-1}`` and ``x = P c / 2`` all derivatives are entries
of P, PB and B^T P B.  At the sizes of a node (tens of units) each step is a dozen calls, so a
child that starts from its parent's multipliers costs a fraction of a millisecond.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg.lapack import dposv, dpotrf, dpotri, dpotrs

from lipyomo.network import FloatArray

_ARMIJO = 0.1
_REACH = 1.1
_MAX_HALVINGS = 25
_START_TRIES = 60

WARM_CENTRED = 0.3
"""Squared Newton decrement (over n mu) up to which mu is lowered after a warm start: few steps are
wanted then, and the parent was central."""

COLD_ITERATIONS = 4
"""A cold start may take this many times more steps: it begins far away, and happens at the root."""

ROOT_ACCURACY = 0.01
"""A cold start goes on to this accuracy though its target is out of reach: its multipliers are
inherited by a whole tree."""

STRETCH = 1.05
"""Inherited zeta are multiplied by this before the first step."""

SHORTEN = 0.35
"""Factor of the line search; one half would often end next to the boundary."""

FALL = 0.2
"""Factor by which mu falls."""

Factor: TypeAlias = Any
"""What a kernel keeps of a factorised C: a Cholesky factor, or its stand-in."""


@dataclass
class BarrierState:
    """Multipliers, their factor, and what they give.

    Attributes
    ----------
    multipliers : ndarray, shape (d + F,)
        (zeta, lambda), scaled so that both halves of the bound are equal.
    value : float
        ``sqrt(tau c^T C^{-1} c)`` in floating point.
    primal : ndarray, shape (d + F,)
        ``C^{-1} c / 2``, an approximate worst tangent.
    factor : ndarray
        Lower Cholesky factor of C (its upper triangle is not used).
    iterations : int
    """

    multipliers: FloatArray
    value: float
    primal: FloatArray
    factor: Factor
    iterations: int = 0


def inverse_of(factor: FloatArray) -> FloatArray:
    """Inverse of the matrix whose lower Cholesky factor is given."""
    inverse, _ = dpotri(factor, lower=1)
    lower = np.tril(inverse, -1)
    lower += lower.T
    lower.flat[:: len(lower) + 1] = inverse.diagonal()
    return np.asarray(lower)


def relative_drop(removed: FloatArray, value: float) -> FloatArray:
    """Relative drop of the bound when `removed` is taken from the balanced quarter form."""
    return 1.0 - np.sqrt(np.maximum(1.0 - removed / (0.5 * value), 0.0))


class BarrierProblem:
    """One objective over one node form.

    Parameters
    ----------
    rows : ndarray, shape (F, d + F)
        Tangents U of the open units.
    objective : ndarray, shape (d + F,)
    inputs : int
        d.
    euclidean : bool
        The inputs' ball: Euclidean (one zeta) or the cube (one zeta an input).
    """

    outputs = 0
    centred = 1.0
    """Squared Newton decrement (over mu) up to which mu is lowered after a cold start.  Too far off
    the central path Newton's method crawls along the boundary; too near it steps are wasted."""

    def __init__(
        self, rows: FloatArray, objective: FloatArray, inputs: int, euclidean: bool
    ) -> None:
        self.rows, self.objective, self.inputs = rows, objective, inputs
        self.euclidean = euclidean
        self.size = rows.shape[1]
        basis = np.zeros((self.size, self.size))
        basis[:, inputs:] = -rows.T
        basis.flat[:: self.size + 1] += 1.0
        self.basis = basis
        self.barrier_size = self.size
        self._half = 0.5 * objective

    def factor(self, multipliers: FloatArray) -> Factor | None:
        """Cholesky factor of C, or None if C is not positive definite."""
        half = self.basis * (0.5 * multipliers)
        half += half.T
        factor, info = dpotrf(half, lower=1, clean=0, overwrite_a=1)
        return factor if info == 0 else None

    def terms(self, factor: Factor, multipliers: FloatArray) -> tuple[FloatArray, float, float]:
        """Primal ``C^{-1} c / 2``, tau, and ``c^T C^{-1} c / 4``."""
        primal, _ = dpotrs(factor, self._half, lower=1)
        d = self.inputs
        tau = float(multipliers[0]) if self.euclidean else float(multipliers[:d].sum())
        return primal, tau, float(primal @ self._half)

    def start(self, warm: FloatArray | None) -> BarrierState | None:
        """A positive definite C from `warm` multipliers (None if it is not), or a cold start."""
        if warm is None:
            return self._cold()
        for stretch in (1.0, 1.1):
            trial = warm.copy()
            trial[: self.inputs] *= stretch
            factor = self.factor(trial)
            if factor is not None:
                return self._balanced(trial, factor)
        return None

    def _cold(self) -> BarrierState | None:
        """Large multipliers on early units, larger ones on the inputs, until C is definite."""
        d, states = self.inputs, self.rows[:, self.inputs :]
        count = len(states)
        lam = np.ones(count)
        reach = np.abs(self.objective[d:])
        for k in range(count - 1, -1, -1):
            lam[k] = max(float(np.abs(states[k + 1 :, k]) @ lam[k + 1 :]), float(reach[k]), 1e-6)
        top = 4.0 * float((lam @ np.abs(self.rows[:, :d])).max(initial=0.0)) + 1e-9
        zeta = np.full(d, max(top, float(np.abs(self.objective[:d]).max(initial=0.0))))
        squares = np.square(states)
        for _ in range(_START_TRIES):
            multipliers = np.concatenate([zeta, lam])
            factor = self.factor(multipliers)
            if factor is not None:
                return self._balanced(multipliers, factor)
            zeta = 2.0 * zeta
            for k in range(count - 1, -1, -1):
                lam[k] += 3.0 * float(squares[k + 1 :, k] @ lam[k + 1 :])
        return None

    def _balanced(self, multipliers: FloatArray, factor: Factor) -> BarrierState:
        primal, tau, quarter = self.terms(factor, multipliers)
        return self.state(factor, multipliers, tau, quarter, primal)

    def _off_boundary(self, y: FloatArray, factor: Factor) -> tuple[FloatArray, Factor]:
        """Inherited multipliers with zeta stretched: next to the boundary Newton steps crawl."""
        stretched = y.copy()
        stretched[self.outputs : self.outputs + self.inputs] *= STRETCH
        moved = self.factor(stretched)
        return (y, factor) if moved is None else (stretched, moved)

    def derivatives(
        self, factor: Factor, x: FloatArray, mu: float
    ) -> tuple[FloatArray, FloatArray]:
        """Gradient and Hessian of the barrier function in the multipliers."""
        d, basis = self.inputs, self.basis
        inverse = inverse_of(factor)
        ab = inverse @ basis
        bb = basis.T @ ab
        bx = x @ basis
        gradient = -x * bx - mu * ab.diagonal()
        hessian = inverse * (mu * bb + np.outer(bx, bx))
        hessian += np.outer(x, x) * bb
        hessian += mu * (ab * ab.T)
        skew = np.outer(bx, x) * ab
        hessian += skew
        hessian += skew.T
        hessian *= 0.5
        if self.euclidean:
            gradient = np.concatenate([[gradient[:d].sum() + 1.0], gradient[d:]])
            hessian = np.concatenate([hessian[:d].sum(0, keepdims=True), hessian[d:]])
            hessian = np.concatenate([hessian[:, :d].sum(1, keepdims=True), hessian[:, d:]], 1)
        else:
            gradient[:d] += 1.0
        return gradient, hessian

    def newton_step(
        self, factor: Factor, multipliers: FloatArray, x: FloatArray, mu: float
    ) -> tuple[FloatArray, float] | None:
        """Newton step in all multipliers and its squared decrement; None if singular."""
        gradient, hessian = self.derivatives(factor, x, mu)
        hessian.flat[:: len(gradient) + 1] *= 1.0 + 1e-12
        _, step, info = dposv(hessian, -gradient, lower=1, overwrite_a=1)
        return None if info else (self.expand(step), -float(gradient @ step))

    def logdet(self, factor: Factor, multipliers: FloatArray) -> float:
        """Log-determinant of C."""
        return 2.0 * float(np.log(factor.diagonal()).sum())

    def lookahead(self, state: BarrierState) -> tuple[FloatArray, FloatArray]:
        """Relative drop of the bound when a unit is decided and the multipliers stay.

        Switching unit k off removes ``x_k^2 / P_kk`` from ``c^T C^{-1} c / 4``, switching it on
        ``(b_k . x)^2 / b_k^T P b_k``, because it restricts w to a hyperplane.

        Returns
        -------
        off, on : ndarray, shape (F,)
        """
        d = self.inputs
        inverse = inverse_of(state.factor)
        x, basis = state.primal, self.basis[:, d:]
        off = np.square(x[d:]) / inverse.diagonal()[d:]
        on = np.square(x @ basis) / np.einsum("ij,ij->j", basis, inverse @ basis)
        return relative_drop(off, state.value), relative_drop(on, state.value)

    def expand(self, step: FloatArray) -> FloatArray:
        """A step in the free multipliers as one in all of them."""
        if not self.euclidean:
            return step
        return np.concatenate([np.full(self.inputs, step[0]), step[1:]])

    def state(
        self, factor: Factor, multipliers: FloatArray, tau: float, quarter: float, x: FloatArray
    ) -> BarrierState:
        """The state at these multipliers, both halves of its bound made equal."""
        scale = float(np.sqrt(max(quarter, 1e-300) / max(tau, 1e-300)))
        return BarrierState(
            multipliers * scale,
            2.0 * float(np.sqrt(max(tau * quarter, 0.0))),
            x / scale,
            factor * np.sqrt(scale),
        )

    def minimise(
        self,
        warm: FloatArray | None = None,
        target: float | None = None,
        max_iterations: int = 60,
        tolerance: float = 1e-3,
        deadline: float = math.inf,
    ) -> BarrierState | None:
        """Lower the bound until it meets `target`, cannot meet it, or is optimal.

        Parameters
        ----------
        warm : ndarray, optional
            Multipliers of the parent.
        target : float, optional
            A bound at or below it prunes the node: nothing lower is needed.  The search also ends
            when the centred barrier shows that the target is out of reach.
        max_iterations : int, optional
            Most Newton steps from inherited multipliers; a cold start may take a few times more.
        tolerance : float, optional
            Relative distance to the optimum at which to stop.
        deadline : float, optional
            Value of ``time.perf_counter()`` at which to stop in any case.

        Returns
        -------
        BarrierState or None
            None if no definite C was found.
        """
        best = None if warm is None else self.start(warm)
        cold = best is None
        if cold:
            best = self.start(None)
        if best is None or (target is not None and best.value <= target):
            return best
        y, factor = best.multipliers, best.factor
        if not cold:
            y, factor = self._off_boundary(y, factor)
        x, tau, quarter = self.terms(factor, y)
        n = self.barrier_size
        mu = (0.3 if cold else 0.05) * (tau + quarter) / n
        near = self.centred if cold else WARM_CENTRED * n
        limit = COLD_ITERATIONS * max_iterations if cold else max_iterations
        for iteration in range(1, limit + 1):
            best.iterations = iteration
            if time.perf_counter() >= deadline:
                break
            newton = self.newton_step(factor, y, x, mu)
            if newton is None:
                break
            step, decrement = newton
            before = tau + quarter - mu * self.logdet(factor, y)
            slack, length = 1e-12 * abs(before), 1.0
            for _ in range(_MAX_HALVINGS):
                trial = y + length * step
                found = self.factor(trial) if trial.min() > 0 else None
                if found is not None:
                    new_x, new_tau, new_quarter = self.terms(found, trial)
                    after = new_tau + new_quarter - mu * self.logdet(found, trial)
                    if after <= before - _ARMIJO * length * decrement + slack:
                        break
                length *= SHORTEN
            else:
                break
            assert found is not None
            y, factor, x, tau, quarter = trial, found, new_x, new_tau, new_quarter
            if 2.0 * float(np.sqrt(max(tau * quarter, 0.0))) < best.value:
                best = self.state(factor, y, tau, quarter, x)
                best.iterations = iteration
            if target is not None:
                if best.value <= target:
                    break
                hopeless = decrement < 0.5 * mu * n and best.value - _REACH * mu * n > target
                if hopeless and (not cold or mu * n < ROOT_ACCURACY * best.value):
                    break
            centred = decrement < near * mu
            if mu * n < tolerance * best.value:
                if centred and (not cold or decrement < mu):
                    break
            elif centred:
                mu *= FALL
            elif length > 0.9 and (mu * n > best.value or not cold):
                mu *= 0.5
        return best
