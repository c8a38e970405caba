"""LipSDP as a CVXPY model: a conic solver finds multipliers, whose bound is then proved.

In the tangents ``w = (v, s)`` of a reduced form, LipSDP (Fazlyab et al., NeurIPS 2019, Theorem 2)
reads

    minimise  tau(zeta) + tau'(gamma)   subject to   [[C, -N^T / 2], [-N / 2, G]] >= 0,
    C = D(zeta) - sum_k lambda_k sym(e_k (U_k - e_k)^T),

with N the outputs.  D = zeta I, tau = zeta bounds ``|v|_2``; D = diag(zeta), tau = sum zeta bounds
``|v|_inf``; G and tau' do the same for the functionals of an l2 or l1 output norm, and are 1 x 1
for one functional.  *Neuron* has one lambda per unit, *Layer* one per layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.errors import SolverError
from lipyomo.relaxations.semidefinite.choice import Ball
from lipyomo.relaxations.semidefinite.verify import SizedForm, VerifiedMatrix, bound_from

Sharing = Literal["neuron", "layer"]

_OPTIONS: dict[str, dict[str, Any]] = {
    "CLARABEL": {},
    "SCS": {"eps": 1e-7, "max_iters": 50_000},
    "MOSEK": {},
}


def _seen_inputs(form: SizedForm, grouped: bool) -> tuple[FloatArray, FloatArray]:
    """Return input columns of rows and objective, rotated into their span for Euclidean balls."""
    d = form.inputs
    both = np.vstack([form.rows[:, :d], form.objective[:, :d]])
    if grouped and len(both) < d:
        both = np.asarray(np.linalg.qr(both.T, mode="r")).T
    return both[: form.count], both[form.count :]


def solve_conic(
    form: SizedForm,
    layers: IntArray,
    grouped: bool,
    ball: Ball,
    sharing: Sharing,
    solver: str,
    time_limit: float | None = None,
) -> tuple[float, FloatArray]:
    """Solve LipSDP for one functional or one ball of functionals.

    Parameters
    ----------
    form : SizedForm
        One objective row for ``ball='vertices'``.
    layers : ndarray of int, shape (F,)
        The layer of each unit.
    grouped : bool
        Whether the ball of directions is Euclidean instead of the cube.
    ball : {'vertices', 'l2', 'l1'}
    sharing : {'neuron', 'layer'}
    solver : str
        Name of a solver in CVXPY: CLARABEL, SCS, MOSEK.
    time_limit : float, optional
        Seconds (Clarabel and SCS).

    Returns
    -------
    upper : float
        Proved bound; infinite if the proof fails.
    lam : ndarray, shape (F,)

    Raises
    ------
    SolverError
        If the solver is not installed or fails.
    """
    import cvxpy as cp

    if solver not in cp.installed_solvers():
        raise SolverError(
            f"CVXPY has no solver {solver} here.  Remedy: pip install {solver.lower()}, or choose "
            f"one of {', '.join(s for s in _OPTIONS if s in cp.installed_solvers())}"
        )
    rows_v, seen = _seen_inputs(form, grouped)
    size = float(np.abs(form.objective).max()) or 1.0
    inputs, count, outputs = rows_v.shape[1], form.count, len(form.objective)
    # units are scaled by the length of their row, so that all multipliers have similar sizes
    reach = _reach(form)
    rows_v = rows_v / reach[:, None]
    rows_s = form.rows[:, form.inputs :] * reach / reach[:, None]
    coupling = np.hstack([seen, form.objective[:, form.inputs :] * reach]) / size
    zeta = cp.Variable(1 if grouped else inputs, nonneg=True)
    gamma = cp.Variable(outputs if ball == "l1" else 1, nonneg=True)
    spread = np.eye(count) if sharing == "neuron" else _layers(layers, reach)
    free = cp.Variable(spread.shape[1], nonneg=True)
    lam = spread @ free
    weight = cp.diag(lam)
    metric = zeta[0] * np.eye(inputs) if grouped else cp.diag(zeta)
    metric_out = cp.diag(gamma) if ball == "l1" else gamma[0] * np.eye(outputs)
    corner = weight - 0.5 * (weight @ rows_s + rows_s.T @ weight)
    across = -0.5 * (rows_v.T @ weight)
    matrix = cp.bmat(
        [
            [metric, across, -0.5 * coupling[:, :inputs].T],
            [across.T, corner, -0.5 * coupling[:, inputs:].T],
            [-0.5 * coupling[:, :inputs], -0.5 * coupling[:, inputs:], metric_out],
        ]
    )
    problem = cp.Problem(cp.Minimize(cp.sum(zeta) + cp.sum(gamma)), [matrix >> 0])
    options = dict(_OPTIONS.get(solver, {}))
    if time_limit is not None and solver in ("CLARABEL", "SCS"):
        options["time_limit" if solver == "CLARABEL" else "time_limit_secs"] = time_limit
    try:
        problem.solve(solver=solver, **options)
    except cp.SolverError as error:
        raise SolverError(f"{solver} failed on LipSDP ({error}).  Remedy: another solver") from None
    if free.value is None or zeta.value is None or gamma.value is None:
        raise SolverError(f"{solver} found no multipliers: it ended as {problem.status}")
    found = np.maximum(spread @ free.value, 0.0) / np.square(reach)
    metric_in = np.maximum(np.full(inputs, zeta.value[0]) if grouped else zeta.value, 0.0)
    weights = np.maximum(gamma.value, 0.0) if ball == "l1" else None
    return _prove(form, metric_in, found, grouped, weights), found


def _reach(form: SizedForm) -> FloatArray:
    """Estimate the sizes of the units' tangents: lengths of rows, with earlier units scaled."""
    reach = np.ones(form.count)
    d = form.inputs
    for k, row in enumerate(form.rows):
        length = float(np.linalg.norm(np.concatenate([row[:d], row[d : d + k] * reach[:k]])))
        reach[k] = length if length > 0 else 1.0
    return reach


def _layers(layers: IntArray, reach: FloatArray) -> FloatArray:
    """Return one column for each layer: equal multipliers before the scaling of units."""
    member = layers[:, None] == np.unique(layers)[None, :]
    squares = np.square(reach)[:, None] * member
    return np.asarray(squares / squares.max(axis=0))


def _prove(
    form: SizedForm,
    zeta: FloatArray,
    lam: FloatArray,
    grouped: bool,
    weights: FloatArray | None,
) -> float:
    """Prove a bound by multipliers that may lie on the boundary of the cone.

    Increasing zeta moves them inside; the best bound for a few increases is returned.
    """
    rows = np.arange(len(form.objective))
    full = np.full(form.inputs, zeta[0]) if grouped else zeta
    top = float(lam.max(initial=0.0)) or 1.0
    best = np.inf
    for step in (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3):
        moved = full * (1.0 + step) + step * float(full.max(initial=0.0)) / max(form.inputs, 1)
        raised = np.maximum(lam, 1e-12 * top)
        outer = None if weights is None else np.maximum(weights, 1e-12 * weights.max())
        best = min(
            best, bound_from(VerifiedMatrix(form, moved, raised), rows, moved, grouped, outer)
        )
    return float(best)


def along_norms(form: SizedForm) -> SizedForm:
    """Relax the cube to an ellipsoid of a fixed diagonal metric, scaled to a Euclidean ball.

    ``sum_j p_j v_j^2 <= 1`` on the cube for any p >= 0 with sum one; here p_j is proportional to
    the lengths of the columns.  Used if separate multipliers of many inputs would be too large.
    """
    d = form.inputs
    lengths = np.sqrt(
        np.square(form.rows[:, :d]).sum(axis=0) + np.square(form.objective[:, :d]).sum(axis=0)
    )
    share = np.maximum(lengths, 1e-9 * lengths.max()) if lengths.any() else np.ones(d)
    # a sum slightly less than one, so that rounding cannot make it larger
    scale = np.concatenate([np.sqrt(share.sum() / share) * (1.0 + 1e-12), np.ones(form.count)])
    return replace(form.changed(lambda matrix: matrix * scale), rounding=2 * form.rounding)
