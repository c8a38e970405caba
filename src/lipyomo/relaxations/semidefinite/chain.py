"""The semidefinite bound of a network layer by layer: a Riccati recursion instead of one matrix.

Under partial phases the tangents of a layer are functions of those of the layer before it,

    u_i = A_i y_{i-1}  (unstable units),    y_i = F_i y_{i-1} + H_i s_i,    0 <= s_k / u_k <= 1,

with y_0 = v.  For slopes in [a, b], ``F = diag(a) W`` and ``H = b - a`` in rows of unstable units;
skips and stable units are in F and need no multiplier.  For functionals M the form

    |M y_L|^2 / 4  +  sum_k lambda_k s_k (u_k - s_k)

is at least ``|M y_L|^2 / 4`` at every tangent of the network.  Maximised over s layer by layer,
from the outputs to the inputs, it is ``y_i^T P_i y_i`` with P_L = M^T M / 4 and

    Q_i = diag(lambda_i) - H^T P_i H,    G_i = diag(lambda_i) A_i / 2 + H^T P_i F_i,
    P_{i-1} = F_i^T P_i F_i + G_i^T Q_i^{-1} G_i,

as long as every Q_i is positive definite.  So ``|M J v| <= 2 sqrt(v^T P_0 v)``, and with
``D(zeta) >= P_0`` the constant is at most ``2 sqrt(tau)``: tau is zeta for a Euclidean ball and its
sum for the cube.  This is the relaxation of `lipyomo.relaxations.semidefinite.kernel` (Fazlyab et
al., LipSDP, 2019) with the outputs' multiplier one, at O(depth width^3) instead of O((depth
width)^3).

One sweep back from the inputs gives the covariances of all signals under the inverse of the whole
matrix, and from them the gradient and the exact Hessian of its log-determinant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs

from lipyomo.base.arrays import FloatArray, IntArray, dense
from lipyomo.networks.network import Layer
from lipyomo.problems.affine.signal import UnitMap


@dataclass(frozen=True, eq=False)
class Step:
    """One layer of a chain: the matrices A, F and H of its units.

    Attributes
    ----------
    width : int
        Units n of the layer.
    open_rows : ndarray, shape (o, p)
        A: weights of the unstable units.
    units : ndarray of int, shape (o,)
        Their positions among the units.
    change : ndarray, shape (o,)
        H: coefficients of s_k in the outputs of these units.
    passed : ndarray of int, shape (c,)
        Units with nonzero rows of F.
    passed_rows : ndarray, shape (c, p)
        Those rows of F.
    """

    width: int
    open_rows: FloatArray
    units: IntArray
    change: FloatArray
    passed: IntArray
    passed_rows: FloatArray

    @classmethod
    def of(cls, weight: FloatArray, unit_map: UnitMap) -> Step:
        """Build the step of a layer with weights (n, p) under phases."""
        passed = np.flatnonzero(unit_map.slope)
        return cls(
            len(weight),
            weight[unit_map.units],
            unit_map.units,
            unit_map.change,
            passed,
            unit_map.slope[passed, None] * weight[passed],
        )

    @property
    def count(self) -> int:
        """Number of unstable units o."""
        return self.units.size

    def after(self, rows: FloatArray) -> Step:
        """Return the layer composed with a linear map before it, given by its rows (p, p')."""
        return Step(
            self.width,
            self.open_rows @ rows,
            self.units,
            self.change,
            self.passed,
            self.passed_rows @ rows,
        )

    def all_passed(self) -> FloatArray:
        """Return F as a full matrix, shape (n, p)."""
        found = np.zeros((self.width, self.passed_rows.shape[1]))
        found[self.passed] = self.passed_rows
        return found

    def spread(self, matrix: FloatArray) -> FloatArray:
        """Return H times a matrix (o, k), shape (n, k)."""
        found = np.zeros((self.width, matrix.shape[1]))
        found[self.units] = self.change[:, None] * matrix
        return found

    def forward(self, shares: FloatArray) -> FloatArray:
        """Return ``F + H B`` for B (o, p), which acts on the signal before the layer; (n, p)."""
        found = self.all_passed()
        found[self.units] += self.change[:, None] * shares
        return found


@dataclass(frozen=True, eq=False)
class ChainPoint:
    """Multipliers and the results of the recursion at them.

    Attributes
    ----------
    lam : ndarray, shape (N,)
        Multipliers of the unstable units of all layers.
    zeta : ndarray, shape (d,)
        Multipliers of the inputs.
    factors : tuple of (ndarray, ndarray)
        ``(L_i, L_i^{-1} G_i)`` with ``Q_i = L_i L_i^T``, layer by layer.
    inner : ndarray, shape (d, d)
        P_0.
    slack : ndarray, shape (d, d)
        The Cholesky factor of ``D(zeta) - P_0``.
    logdet : float
        Log-determinant of the whole matrix.
    tau : float
        The sum of zeta for the cube, else zeta.
    value : float
        The bound of the constant, in floating point, with zeta scaled to the smallest feasible one.
    """

    lam: FloatArray
    zeta: FloatArray
    factors: tuple[tuple[FloatArray, FloatArray], ...]
    inner: FloatArray
    slack: FloatArray
    logdet: float
    tau: float
    value: float

    def shape(self, chain: Chain) -> FloatArray | None:
        """Return zeta scaled to sum one; None for a Euclidean ball, where all entries are equal."""
        return None if chain.euclidean else self.zeta / self.tau


@dataclass(frozen=True, eq=False)
class Chain:
    """A network under partial phases, layer by layer, with a ball of inputs and of outputs.

    Attributes
    ----------
    steps : tuple of Step
        Layers with unstable units.
    head : ndarray, shape (m, n)
        M: the Euclidean norm of ``M y_L`` is bounded.
    inputs : int
        d.
    euclidean : bool
        Whether the ball of inputs is Euclidean, or the cube.
    """

    steps: tuple[Step, ...]
    head: FloatArray
    inputs: int
    euclidean: bool

    @classmethod
    def of(
        cls,
        layers: Sequence[Layer],
        unit_maps: Sequence[UnitMap],
        head: FloatArray,
        euclidean: bool,
    ) -> Chain:
        """Build the chain of hidden layers under phases.

        Layers without unstable units are multiplied into the next ones.  If a Euclidean ball has
        more inputs than the rank of the first layer, the inputs are rotated into the span of its
        rows, which leaves the bounds unchanged.

        Parameters
        ----------
        layers : sequence of Layer
            At least one has unstable units.
        unit_maps : sequence of UnitMap
            One for each layer.
        head : ndarray, shape (m, n)
            Functionals of the outputs of the last layer.
        euclidean : bool
        """
        steps: list[Step] = []
        before: FloatArray | None = None
        for layer, unit_map in zip(layers, unit_maps, strict=True):
            step = Step.of(dense(layer.weight), unit_map)
            step = step if before is None else step.after(before)
            before = None if step.count else step.all_passed()
            if step.count:
                steps.append(step)
        head = head if before is None else head @ before
        inputs = steps[0].open_rows.shape[1]
        if euclidean:
            steps[0], inputs = _rotated(steps[0])
        return cls(tuple(steps), head, inputs, euclidean)

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """Slice of each layer's unstable units among those of all layers."""
        ends = np.cumsum([0, *(step.count for step in self.steps)]).tolist()
        return tuple(slice(a, b) for a, b in pairwise(ends))

    @property
    def units(self) -> int:
        """Number of unstable units N."""
        return int(self.spans[-1].stop)

    @property
    def order(self) -> int:
        """Order of the whole matrix, which is never formed."""
        return self.inputs + self.units

    def at(self, lam: FloatArray, mu: float | None, shape: FloatArray) -> ChainPoint | None:
        """Run the recursion at given multipliers.

        Parameters
        ----------
        lam : ndarray, shape (N,)
        mu : float or None
            Weight of the barrier: zeta is scaled to minimise ``tau - mu logdet``.  With None, mu is
            chosen such that zeta is about twice the smallest feasible one.
        shape : ndarray, shape (d,)
            Proportions of zeta: all ones for a Euclidean ball, with sum one for the cube.

        Returns
        -------
        ChainPoint or None
            None if some Q_i is not positive definite.
        """
        if not lam.min() > 0:
            return None
        inner, logdet = 0.25 * (self.head.T @ self.head), 0.0
        factors = []
        for step, span in zip(reversed(self.steps), reversed(self.spans), strict=True):
            found = eliminated(step, inner, lam[span])
            if found is None:
                return None
            lower, scaled, inner = found
            factors.append((lower, scaled))
            logdet += 2.0 * float(np.log(lower.diagonal()).sum())
        root = 1.0 / np.sqrt(shape)
        values = np.asarray(np.linalg.eigvalsh(root[:, None] * inner * root), dtype=np.float64)
        top = max(float(values[-1]), np.finfo(np.float64).tiny)
        tau = best_scale(values, top, top / len(values) if mu is None else mu)
        zeta = tau * shape
        gap = -inner
        gap[np.diag_indices_from(gap)] += zeta
        slack = cholesky(gap)
        if slack is None:
            return None
        logdet += 2.0 * float(np.log(slack.diagonal()).sum())
        value = 2.0 * float(np.sqrt(top))
        return ChainPoint(lam, zeta, tuple(reversed(factors)), inner, slack, logdet, tau, value)

    def sizes(self, point: ChainPoint) -> list[FloatArray]:
        """Return the covariances of the signals before each layer: blocks of the inverse matrix."""
        found = [inverse(point.slack)]
        for step, (lower, scaled) in zip(self.steps[:-1], point.factors[:-1], strict=True):
            forward = step.forward(solved(lower, scaled))
            noise = step.spread(step.spread(inverse(lower)).T)
            found.append(forward @ found[-1] @ forward.T + noise)
        return found

    def slopes(self, point: ChainPoint) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives (d,), (N,) of the log-determinant by zeta and lambda only."""
        found, before = np.empty(self.units), inverse(point.slack)
        by_zeta = before.diagonal()
        for step, span, (lower, scaled) in zip(self.steps, self.spans, point.factors, strict=True):
            passed, noise = solved(lower, scaled), inverse(lower)
            left = passed - step.open_rows
            found[span] = ((passed @ before) * left).sum(axis=1) + noise.diagonal()
            forward = step.forward(passed)
            before = forward @ before @ forward.T + step.spread(step.spread(noise).T)
        return by_zeta, found

    def derivatives(self, point: ChainPoint) -> tuple[FloatArray, FloatArray]:
        """Return derivatives of the log-determinant by (zeta, lambda), one zeta if Euclidean.

        Returns
        -------
        gradient : ndarray, shape (z + N,)
            Gradient of the log-determinant; z is one, or d for the cube.
        hessian : ndarray, shape (z + N, z + N)
            Hessian of minus the log-determinant; positive semidefinite.
        """
        d, first = self.inputs, 1 if self.euclidean else self.inputs
        size = first + self.units
        gradient, hessian = np.empty(size), np.empty((size, size))
        before = inverse(point.slack)
        diagonal = before.diagonal()
        gradient[:first] = diagonal.sum() if self.euclidean else diagonal
        hessian[:first, :first] = (before * before).sum() if self.euclidean else before * before
        # covariances of the signal before a layer with the inputs, all s and all r = s - u so far
        with_inputs = before
        with_s, with_r = np.zeros((d, 0)), np.zeros((d, 0))
        for step, span, (lower, scaled) in zip(self.steps, self.spans, point.factors, strict=True):
            own = slice(first + span.start, first + span.stop)
            passed, noise = solved(lower, scaled), inverse(lower)
            left = passed - step.open_rows
            mixed = passed @ before
            ss, sr = mixed @ passed.T + noise, mixed @ left.T + noise
            rr = left @ before @ left.T + noise
            gradient[own] = sr.diagonal()
            hessian[own, own] = 0.5 * (ss * rr + sr * sr.T)
            inner = (passed @ with_inputs) * (left @ with_inputs)
            hessian[own, :first] = inner.sum(axis=1, keepdims=True) if self.euclidean else inner
            if span.start:
                earlier = slice(first, first + span.start)
                hessian[own, earlier] = 0.5 * (
                    (passed @ with_s) * (left @ with_r) + (passed @ with_r) * (left @ with_s)
                )
            forward, spread = step.forward(passed), step.spread(noise)
            with_inputs = forward @ with_inputs
            with_s = np.hstack([forward @ with_s, forward @ mixed.T + spread])
            with_r = np.hstack([forward @ with_r, forward @ (before @ left.T) + spread])
            before = forward @ before @ forward.T + step.spread(spread.T)
        upper = np.triu_indices(size, 1)
        hessian[upper] = hessian.T[upper]
        return gradient, hessian


def _rotated(step: Step) -> tuple[Step, int]:
    """Rotate the inputs of the first layer into the span of its rows; also return their number."""
    seen = np.vstack([step.open_rows, step.passed_rows])
    rank = min(seen.shape)
    if seen.shape[1] <= rank:
        return step, seen.shape[1]
    triangle = np.asarray(np.linalg.qr(seen.T, mode="r")).T
    rows, passed = triangle[: step.count], triangle[step.count :]
    return Step(step.width, rows, step.units, step.change, step.passed, passed), rank


def eliminated(
    step: Step, inner: FloatArray, lam: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Eliminate one layer: ``(L, L^{-1} G, P_{i-1})``; None if Q is not positive definite.

    Parameters
    ----------
    step : Step
    inner : ndarray, shape (n, n)
        P_i.
    lam : ndarray, shape (o,)
    """
    seen = inner[:, step.units] * step.change
    quadratic = -(step.change[:, None] * seen[step.units])
    quadratic[np.diag_indices_from(quadratic)] += lam
    lower = cholesky(quadratic)
    if lower is None:
        return None
    mixed = 0.5 * lam[:, None] * step.open_rows
    if step.passed.size:
        mixed = mixed + seen[step.passed].T @ step.passed_rows
    scaled = np.asarray(dtrtrs(lower, mixed, lower=1)[0])
    found = scaled.T @ scaled
    if step.passed.size:
        rest = inner[np.ix_(step.passed, step.passed)]
        found += step.passed_rows.T @ (rest @ step.passed_rows)
    return lower, scaled, found


def best_scale(values: FloatArray, top: float, mu: float) -> float:
    """Minimise ``k - mu sum_j log(k - e_j)`` over k above all e_j, the largest of which is `top`.

    k is the root of ``mu sum_j 1 / (k - e_j) = 1``, found by Newton's method from below.
    """
    found = top + mu
    for _ in range(60):
        gaps = 1.0 / (found - values)
        change = (mu * float(gaps.sum()) - 1.0) / (mu * float((gaps * gaps).sum()))
        nearer = found + change
        if not nearer > top:
            nearer = 0.5 * (found + top)
        if abs(nearer - found) < 1e-14 * found:
            return nearer
        found = nearer
    return found


def cholesky(matrix: FloatArray) -> FloatArray | None:
    """Return the lower Cholesky factor; None if there is none."""
    lower, info = dpotrf(matrix, lower=1, clean=1)
    return None if info or not np.isfinite(lower[-1, -1]) else np.asarray(lower)


def inverse(lower: FloatArray) -> FloatArray:
    """Return the inverse of a matrix from its lower Cholesky factor."""
    half = np.asarray(dpotri(lower, lower=1)[0])
    return np.asarray(np.tril(half) + np.tril(half, -1).T)


def solved(lower: FloatArray, scaled: FloatArray) -> FloatArray:
    """Return ``B = Q^{-1} G`` from ``L^{-1} G``."""
    return np.asarray(dtrtrs(lower, scaled, lower=1, trans=1)[0])
