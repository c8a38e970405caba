"""Bounds with fixed proportions of zeta: the cube of directions is relaxed to an ellipsoid.

With ``zeta = t z``, ``sum z = 1``, the cube lies in the ellipsoid ``sum z_i v_i^2 <= 1``: the unit
ball of ``sqrt(z) v``.  A ball can be rotated into the span of the units' rows, so that 784 inputs
of a layer of 20 units become 20, and a Newton step costs a fiftieth.  Nodes of a tree inherit good
proportions, which are corrected between two minimisations: at a point of the central path with all
of zeta free,

    X_ii = x_i^2 + mu (C^{-1})_ii = 1    for every input i,

so ``z_i`` is multiplied by ``X_ii^(1/4)``, half of the step that would be exact if nothing else
changed.  The results are ordinary multipliers zeta and lambda.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.dense import DenseKernel
from lipyomo.relaxations.semidefinite.descent import minimise
from lipyomo.relaxations.semidefinite.ellipsoids import enlarged
from lipyomo.relaxations.semidefinite.kernel import State
from lipyomo.relaxations.semidefinite.params import PARAMS
from lipyomo.relaxations.semidefinite.wide import WideKernel


@np.errstate(all="ignore")
def minimise_in_proportion(
    kernel: WideKernel,
    start: FloatArray,
    aim: float | None,
    steps: int,
    stop: Callable[[], bool] | None,
) -> tuple[DenseKernel, State] | None:
    """Minimise a bound with fixed proportions of zeta, twice, and correct them in between.

    Parameters
    ----------
    kernel : WideKernel
    start : ndarray, shape (d + F,)
        Multipliers zeta and lambda.
    aim : float or None
        Stop once the bound is at most this value.
    steps : int
        Limit of Newton steps; if zero, the proportions are kept.
    stop : callable, optional
        Polled before each step.

    Returns
    -------
    (DenseKernel, State) or None
        The state's primal and factor are those of the kernel, its multipliers zeta and lambda.
        None if units and objective do not depend on the inputs, or numbers overflow.
    """
    d = kernel.inputs
    best: tuple[DenseKernel, State] | None = None
    for turn in range(2 if steps else 1):
        tau = float(start[:d].sum())
        z = start[:d] / tau
        ball = _as_ball(kernel, z)
        if ball is None:
            break
        warm = np.concatenate([np.full(ball.inputs, tau), start[d:]])
        state = minimise(ball, warm, aim, steps, stop=stop)
        if state is None:
            break
        lam = state.multipliers[ball.inputs :]
        full = np.concatenate([state.multipliers[0] * z, lam])
        if best is None or state.value < best[1].value:
            best = ball, state._replace(multipliers=full)
        if turn or (aim is not None and state.value <= aim):
            break
        corrected = _corrected(kernel, full)
        if corrected is None:
            break
        start = corrected
    return best


def _as_ball(kernel: WideKernel, z: FloatArray) -> DenseKernel | None:
    """Return the kernel after scaling and rotation."""
    d, count = kernel.inputs, len(kernel.rows)
    seen = np.vstack([kernel.rows[:, :d], kernel.objective[:d]]) / np.sqrt(z)
    gram = seen @ seen.T
    if not (np.isfinite(gram).all() and gram.any()):
        return None
    few = _root(gram, d)
    rows = np.hstack([few[:count], kernel.rows[:, d:]])
    objective = np.concatenate([few[count], kernel.objective[d:]])
    return DenseKernel(rows, objective, few.shape[1], euclidean=True)


def _root(gram: FloatArray, rank: int) -> FloatArray:
    """Return R with few columns and ``R R^T = gram``, whose rank is at most `rank`."""
    if len(gram) <= rank:
        lower, info = dpotrf(gram.T, lower=1, clean=1)
        if not info:  # a tenth of the time of eigenvectors
            return np.asarray(lower)
    sizes, axes = np.linalg.eigh(gram)
    use = sizes > len(gram) * np.finfo(np.float64).eps * sizes[-1]
    return np.asarray(axes[:, use] * np.sqrt(sizes[use]))


def _corrected(kernel: WideKernel, y: FloatArray) -> FloatArray | None:
    """Return multipliers with better proportions of zeta, enlarged until C is definite."""
    d = kernel.inputs
    factor = kernel.factor(y)
    if factor is None:
        return None
    x, tau, _ = kernel.terms(factor, y)
    square, zeta = np.square(x[:d]), y[:d]
    spread, _ = dtrtrs(factor.lower, kernel.coupling(y).T, lower=1)
    variance = 1.0 / zeta + np.square(spread).sum(axis=0) / np.square(2.0 * zeta)
    mu = max(float((tau - zeta @ square) / (zeta @ variance)), 0.0)
    correction = np.clip(square + mu * variance, PARAMS.coarse, 1.0 / PARAMS.coarse) ** 0.25
    better = np.concatenate([correction * zeta, y[d:]])
    return enlarged(better, d, kernel.factor, growth=1.25, tries=6)
