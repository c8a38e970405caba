"""Newton's method on the multipliers, for a batch of small problems at once.

Minimise over (zeta, lambda) the barrier function

    tau(zeta) + c^T C^{-1} c / 4 - mu logdet C,
    C = D(zeta) - sum_k lambda_k sym(e_k (U_k - e_k)^T),

whose first two terms bound ``|c.w|`` (at their best scaling ``sqrt(tau c^T C^{-1} c)``).  Every
term of C has rank two, ``dC_i = sym(e_i b_i^T)`` with b_i = e_i for zeta and b_i = e_k - U_k for
lambda, so gradient and Hessian are closed forms of ``P = C^{-1}``, ``P B`` and ``B^T P B``.

Numbers found here are multipliers only; `verify` turns them into a proved bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.network import BoolArray, FloatArray
from lipyomo.semidefinite.reduce import IntArray

_ARMIJO = 0.1
_MAX_HALVINGS = 30
_FOREIGN = 1.0
"""A start whose scale changes by more than this logarithm was made for another functional."""


@dataclass
class Batch:
    """A batch of B problems of one shape (padded with decoupled units).

    For a norm over several outputs (dual ball: Euclidean, or a cube for l1) the p outputs join w
    as further variables, C grows to ``[[C, N^T/2], [N/2, diag(gamma)]]`` and the bound becomes
    ``tau + sum gamma``; `objective` is zero then and `coupling` holds N.

    Attributes
    ----------
    rows : ndarray, shape (B, F, d + F)
        U.
    objective : ndarray, shape (B, n)
        c, with n = d + F + p.
    real : ndarray of bool, shape (B, F)
        False for padding.
    inputs : int
        d.
    grouped : bool
        One zeta for all inputs (Euclidean ball) instead of one each (cube).
    coupling : ndarray, shape (B, p, d + F), optional
        N.
    grouped_outputs : bool
        One gamma for all outputs (l2) instead of one each (l1).
    """

    rows: FloatArray
    objective: FloatArray
    real: BoolArray
    inputs: int
    grouped: bool
    coupling: FloatArray | None = None
    grouped_outputs: bool = True

    def __post_init__(self) -> None:
        count, inner = self.rows.shape[1:]
        outputs = 0 if self.coupling is None else self.coupling.shape[1]
        d, n = self.inputs, inner + outputs
        self.count, self.outputs, self.width = count, outputs, n
        basis = np.zeros((len(self.rows), n, n))
        basis[:, np.arange(n), np.arange(n)] = 1.0
        basis[:, :inner, d:inner] -= np.swapaxes(self.rows, 1, 2)
        self.basis = basis
        self.constant: FloatArray | None = None
        if self.coupling is not None:
            self.constant = np.zeros_like(basis)
            self.constant[:, inner:, :inner] = 0.5 * self.coupling
            self.constant[:, :inner, inner:] = 0.5 * np.swapaxes(self.coupling, 1, 2)
        first = [0] * d if self.grouped else list(range(d))
        start = 1 if self.grouped else d
        last = [0] * outputs if self.grouped_outputs else list(range(outputs))
        self.variable = np.array(
            [*first, *(start + np.arange(count)), *(start + count + k for k in last)],
            dtype=np.int64,
        )
        total = int(self.variable.max(initial=-1)) + 1
        self.cost = np.zeros(total)
        self.cost[self.variable[:d]] = 1.0
        self.cost[self.variable[inner:]] = 1.0
        self.groups: FloatArray | None = None
        if total < n:
            self.groups = np.zeros((n, total))
            self.groups[np.arange(n), self.variable] = 1.0

    def matrix(self, y: FloatArray) -> FloatArray:
        """C for the multipliers y = (zeta, lambda, gamma) of shape (B, n), shape (B, n, n)."""
        half = self.basis * (0.5 * y[:, None, :])
        matrix = half + np.swapaxes(half, 1, 2)
        return matrix if self.constant is None else matrix + self.constant

    def inner_cost(self, y: FloatArray) -> FloatArray:
        """Tau, shape (B,)."""
        return np.asarray(y[:, 0] if self.grouped else y[:, : self.inputs].sum(axis=1))

    def outer_cost(self, y: FloatArray) -> FloatArray | float:
        """Sum of gamma, shape (B,); 0 without outputs."""
        if not self.outputs:
            return 0.0
        tail = y[:, self.inputs + self.count :]
        return np.asarray(tail[:, 0] if self.grouped_outputs else tail.sum(axis=1))

    def take(self, index: IntArray) -> Batch:
        """The sub-batch `index`."""
        return Batch(
            self.rows[index],
            self.objective[index],
            self.real[index],
            self.inputs,
            self.grouped,
            None if self.coupling is None else self.coupling[index],
            self.grouped_outputs,
        )


@dataclass
class State:
    """Where a batch stands: multipliers, inverse, and the two terms of the bound."""

    y: FloatArray
    inverse: FloatArray
    logdet: FloatArray
    tau: FloatArray
    quarter: FloatArray
    primal: FloatArray

    @property
    def bound(self) -> FloatArray:
        """``sqrt(tau c^T C^{-1} c)``, shape (B,)."""
        return 2.0 * np.sqrt(np.maximum(self.tau * self.quarter, 0.0))

    def put(self, index: IntArray, other: State) -> None:
        """Replace the problems `index` by those of `other`."""
        self.y[index], self.inverse[index] = other.y, other.inverse
        self.logdet[index], self.tau[index] = other.logdet, other.tau
        self.quarter[index], self.primal[index] = other.quarter, other.primal

    def take(self, index: IntArray) -> State:
        """The sub-batch `index`."""
        return State(
            self.y[index],
            self.inverse[index],
            self.logdet[index],
            self.tau[index],
            self.quarter[index],
            self.primal[index],
        )


def factor(matrices: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Log-determinants and positive definiteness of a batch of symmetric matrices."""
    try:
        lower = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        if len(matrices) == 1:
            return np.full(1, -np.inf), np.zeros(1, dtype=bool)
        parts = [factor(matrix[None]) for matrix in matrices]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    diagonal = np.diagonal(lower, axis1=1, axis2=2)
    return np.asarray(2.0 * np.log(diagonal).sum(axis=1)), np.ones(len(matrices), dtype=bool)


def evaluate(batch: Batch, y: FloatArray) -> tuple[State, BoolArray]:
    """State at the multipliers `y`; problems whose C is not positive definite are flagged."""
    matrices = batch.matrix(y)
    logdet, good = factor(matrices)
    if not good.all():
        matrices[~good] = np.eye(batch.width)
    inverse = np.linalg.inv(matrices)
    primal = 0.5 * (inverse @ batch.objective[:, :, None])[:, :, 0]
    quarter = 0.5 * np.einsum("bi,bi->b", primal, batch.objective) + batch.outer_cost(y)
    return State(y, inverse, logdet, batch.inner_cost(y), quarter, primal), good


def rescaled(batch: Batch, y: FloatArray) -> tuple[State, BoolArray]:
    """State with the two terms of the bound in balance; C is scaled, the bound is the same."""
    state, good = evaluate(batch, y)
    scale = np.sqrt(np.maximum(state.quarter, 1e-300) / np.maximum(state.tau, 1e-300))
    scale = np.clip(scale, 1e-100, 1e100)[:, None]
    inner = batch.inputs + batch.count
    state, still = evaluate(
        batch, np.concatenate([state.y[:, :inner] * scale, state.y[:, inner:] / scale], axis=1)
    )
    return state, good & still


def newton_direction(batch: Batch, state: State, mu: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Newton direction (B, n) and squared decrement (B,) of the barrier function."""
    basis, inverse, x = batch.basis, state.inverse, state.primal
    weight = mu[:, None, None]
    ab = inverse @ basis
    bb = np.swapaxes(basis, 1, 2) @ ab
    hessian = weight * (inverse * bb + ab * np.swapaxes(ab, 1, 2))
    gradient = -mu[:, None] * np.diagonal(ab, axis1=1, axis2=2)
    if not batch.outputs:
        bx = (x[:, None, :] @ basis)[:, 0, :]
        skew = (bx[:, :, None] * x[:, None, :]) * ab
        hessian += inverse * (bx[:, :, None] * bx[:, None, :])
        hessian += (x[:, :, None] * x[:, None, :]) * bb
        hessian += skew + np.swapaxes(skew, 1, 2)
        gradient = gradient - x * bx
    hessian *= 0.5
    d, inner = batch.inputs, batch.inputs + batch.count
    gradient[:, d:inner][~batch.real] = 0.0
    if batch.groups is not None:
        hessian = batch.groups.T @ hessian @ batch.groups
        gradient = gradient @ batch.groups
    gradient = gradient + batch.cost
    diagonal = np.arange(hessian.shape[1])
    hessian[:, diagonal, diagonal] *= 1.0 + 1e-12
    hessian[:, diagonal, diagonal] += 1e-300
    direction = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
    decrement = -np.einsum("bi,bi->b", gradient, direction)
    return np.asarray(direction[:, batch.variable]), np.asarray(decrement)


def line_search(
    batch: Batch, state: State, mu: FloatArray, direction: FloatArray, decrement: FloatArray
) -> tuple[BoolArray, FloatArray]:
    """Backtrack from the full step; `state` is updated in place where a step was accepted."""
    value = state.tau + state.quarter - mu * state.logdet
    step = np.ones(len(mu))
    todo = np.ones(len(mu), dtype=bool)
    for _ in range(_MAX_HALVINGS):
        index = np.flatnonzero(todo)
        part = batch if index.size == len(mu) else batch.take(index)
        trial, good = evaluate(part, state.y[index] + step[index, None] * direction[index])
        new = trial.tau + trial.quarter - mu[index] * trial.logdet
        slack = _ARMIJO * step[index] * decrement[index] - 1e-12 * np.abs(value[index])
        good &= new <= value[index] - slack
        good &= (trial.y > 0).all(axis=1)
        chosen = np.flatnonzero(good)
        state.put(index[chosen], trial if good.all() else trial.take(chosen))
        todo[index[chosen]] = False
        if not todo.any():
            break
        step[todo] *= 0.5
    return ~todo, step


def cold_start(batch: Batch) -> FloatArray:
    """Multipliers with C positive definite, shape (B, n).

    ``s_k u_k <= s_k^2 / 2 + u_k^2 / 2`` and ``u_k^2 <= |U_k|_1 sum_j |U_kj| w_j^2`` show that
    ``lambda_j >= 2 sum_k lambda_k |U_k|_1 |U_kj|`` (and the same for zeta) leaves C above
    ``diag(zeta / 2, lambda / 4)``; the recursion runs from the last unit to the first.
    """
    d, inner = batch.inputs, batch.inputs + batch.count
    sizes = np.abs(batch.rows)
    sums = sizes.sum(axis=2)
    reach = np.abs(batch.objective)
    if batch.coupling is not None:
        reach[:, :inner] += np.abs(batch.coupling).sum(axis=1)
    y = reach + 1e-9 * reach.max(axis=1, keepdims=True) + 1e-12
    for k in range(inner - 1, d - 1, -1):
        later = np.einsum(
            "bj,bj,bj->b", y[:, k + 1 : inner], sums[:, k + 1 - d :], sizes[:, k + 1 - d :, k]
        )
        y[:, k] = np.maximum(y[:, k], 2.0 * later)
    first = 2.0 * np.einsum("bj,bj,bji->bi", y[:, d:inner], sums, sizes[:, :, :d])
    y[:, :d] = np.maximum(y[:, :d], first)
    if batch.grouped:
        y[:, :d] = y[:, :d].max(axis=1, keepdims=True)
    if batch.coupling is not None:
        y[:, inner:] = _cold_outputs(batch, y)
    return np.asarray(y)


def _cold_outputs(batch: Batch, y: FloatArray) -> FloatArray:
    """Gamma above ``N C^{-1} N^T / 4`` by diagonal dominance, shape (B, p)."""
    inner = batch.inputs + batch.count
    assert batch.coupling is not None
    matrix = (batch.matrix(y))[:, :inner, :inner]
    product = batch.coupling @ np.linalg.solve(matrix, np.swapaxes(batch.coupling, 1, 2))
    gamma = 0.3 * np.abs(product).sum(axis=2)
    gamma = gamma + 1e-9 * gamma.max(axis=1, keepdims=True) + 1e-12
    if batch.grouped_outputs:
        gamma = np.repeat(gamma.max(axis=1, keepdims=True), batch.outputs, axis=1)
    return np.asarray(gamma)


def start_cost(batch: Batch, start: FloatArray) -> FloatArray:
    """Tau of unscaled multipliers, kept positive."""
    return np.maximum(batch.inner_cost(start), 1e-300)


def _blended(batch: Batch, y: FloatArray, usable: BoolArray) -> FloatArray:
    """Pull multipliers of another functional off the boundary, where they are of no use as a start.

    Sums of positive definite C are positive definite, so a cold start of the same cost is added.
    """
    cold = cold_start(batch)
    share = start_cost(batch, y) / start_cost(batch, cold)
    mixed = y + share[:, None] * cold
    return np.where(usable[:, None], mixed, cold)


@dataclass(frozen=True)
class Stop:
    """When to stop the iteration.

    Attributes
    ----------
    target : float
        A bound at or below it is good enough.
    tolerance : float
        Relative accuracy of the minimum.
    iterations : int
    """

    target: float = -np.inf
    tolerance: float = 1e-3
    iterations: int = 60


def minimise(
    batch: Batch, start: FloatArray | None, stop: Stop
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """Minimise the bounds of a batch.

    Parameters
    ----------
    batch : Batch
    start : ndarray, shape (B, n), optional
        Warm multipliers with C positive definite; problems where it is not start cold.
    stop : Stop

    Returns
    -------
    bounds : ndarray, shape (B,)
        The best bounds (not yet proved).
    multipliers : ndarray, shape (B, n)
        What gave them.
    primal : ndarray, shape (B, n)
        ``C^{-1} c / 2`` there.
    iterations : ndarray of int, shape (B,)
    """
    warm = start is not None
    y = cold_start(batch) if start is None else start.copy()
    state, good = rescaled(batch, y)
    if start is not None:
        foreign = ~good | (np.abs(np.log(state.tau / start_cost(batch, start))) > _FOREIGN)
        if foreign.any():
            index = np.flatnonzero(foreign)
            part = batch.take(index)
            fresh, fresh_good = rescaled(part, _blended(part, y[index], good[index]))
            state.put(index, fresh)
            good[index] = fresh_good
    mu = (state.tau + state.quarter) / batch.width * (0.05 if warm else 0.3)
    bounds, best = state.bound, state.y.copy()
    primal = state.primal.copy()
    iterations = np.zeros(len(bounds), dtype=np.int64)
    live = np.flatnonzero(good & (bounds > stop.target))
    for _ in range(stop.iterations):
        if not live.size:
            break
        whole = live.size == len(bounds)
        part, here = (batch, state) if whole else (batch.take(live), state.take(live))
        weight = mu[live]
        direction, decrement = newton_direction(part, here, weight)
        moved, step = line_search(part, here, weight, direction, decrement)
        if not whole:
            state.put(live, here)
        iterations[live] += 1
        better = here.bound < bounds[live]
        chosen = live[better]
        bounds[chosen], best[chosen] = here.bound[better], here.y[better]
        primal[chosen] = here.primal[better]
        gap = weight * batch.width
        centred = decrement < 0.5 * weight
        done = ~moved | (bounds[live] <= stop.target)
        done |= centred & (gap < stop.tolerance * bounds[live])
        done |= (
            (decrement < weight)
            & (bounds[live] - 1.2 * gap > stop.target)
            & (gap < 30.0 * stop.tolerance * bounds[live])
            & np.isfinite(stop.target)
        )
        # off the central path Newton crawls: lower mu only near it, or while mu is far too large
        near = (step > 0.9) & ((decrement < 2.0 * weight) | (gap > bounds[live]))
        mu[live] *= np.where(centred, 0.15, np.where(near, 0.5, 1.0))
        live = live[~done]
    return np.where(good, bounds, np.inf), best, primal, iterations
