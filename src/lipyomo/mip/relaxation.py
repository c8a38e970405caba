"""The linear relaxation of a cell's model, and a sampled value beside it.

The bound is recomputed from the duals y of the rows: over ``rl <= A x <= ru`` and ``l <= x <= u``,

    c . x  <=  sum_i max(y_i rl_i, y_i ru_i)  +  sum_j max(r_j l_j, r_j u_j),   r = c - A^T y,

for any y, so that the solver's tolerances do not matter (Neumaier and Shcherbina, 2004).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pyomo.contrib.solver.common.util import NoDualsError

from lipyomo.methods.support import Clock, best_witness
from lipyomo.mip.cells import whole
from lipyomo.mip.model import CellModel
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Witness
from lipyomo.settings import Settings
from lipyomo.solvers import SolveOutcome, SolverOptions, SolveStatus, solve_model
from lipyomo.solvers.matrices import LinearModel, compile_model

SAFETY = 1e-6
"""Relative widening of a linear optimum whose solver gives no duals."""

SAMPLES = 512


def relaxed_bound(
    problem: LipschitzProblem, settings: Settings, clock: Clock, facts: dict[str, Any]
) -> tuple[float, list[str]]:
    """Upper bound by the linear relaxation.

    Parameters
    ----------
    problem : LipschitzProblem
        Reduced.
    settings : Settings
    clock : Clock
    facts : dict
        Formulation, solver, sizes and whether the program was solved are entered here.

    Returns
    -------
    upper : float
    warnings : list of str
    """
    limit = 0.5 * clock.left if math.isfinite(clock.left) else None
    rung = "linear" if settings.bounds == "auto" else settings.bounds
    cell = whole(problem, rung, limit)
    facts.update(unstable=cell.bounds.unstable, bounds=cell.bounds.rung)
    facts.update(formulation=None, solver=None, interval_bound=cell.upper, done=True)
    if not problem.network.kinked_units:
        return cell.upper, []
    model = CellModel(problem.network, cell, problem.input_norm, settings.formulation)
    options = SolverOptions(
        time_limit=max(clock.left, 0.05) if math.isfinite(clock.left) else None,
        threads=settings.threads,
    )
    outcome = solve_model(
        model.model,
        settings.solver,
        options,
        stop=_Stop(clock),
        relax=True,
        settings=settings.solvers_file,
    )
    facts.update(formulation=model.encoding, solver=outcome.solver)
    facts["done"] = outcome.status.proven
    notes = list(outcome.notes)
    if outcome.status is SolveStatus.ERROR or not math.isfinite(outcome.bound):
        notes.append(f"{outcome.solver} found no bound ({outcome.status.value})")
        return cell.upper, notes
    found = dual_bound(compile_model(model.model), outcome)
    facts["recomputed"] = found is not None
    if found is None:
        found = outcome.bound + SAFETY * abs(outcome.bound)
        notes.append(f"{outcome.solver} gives no duals: its optimum was widened by {SAFETY:g}")
    return min(cell.upper, found), notes


def dual_bound(linear: LinearModel, outcome: SolveOutcome) -> float | None:
    """Upper bound of a maximisation from the duals of its relaxation, safe against rounding.

    Parameters
    ----------
    linear : LinearModel
    outcome : SolveOutcome

    Returns
    -------
    float or None
        None if the solver gives no duals, or they prove nothing.
    """
    try:
        duals = outcome.results.solution_loader.get_duals()
    except NoDualsError:
        return None
    y = np.array([duals.get(row, 0.0) for row in linear.constraints])
    rows, columns = linear.size
    unit = 2.0**-52 * (rows + columns + 8)
    best = math.inf
    for weights in (y, -y):  # solvers do not agree on the sign
        side = np.where(weights > 0, linear.row_upper, linear.row_lower)
        w = np.where(np.isfinite(side), weights, 0.0)
        reduced = linear.cost - linear.matrix.T @ w
        ends = np.where(reduced > 0, linear.upper, linear.lower)
        if not np.isfinite(ends[reduced != 0]).all():
            continue
        terms = np.where(reduced == 0, 0.0, reduced * np.where(reduced == 0, 0.0, ends))
        product = np.where(w == 0, 0.0, w * np.where(w == 0, 0.0, side))
        reach = np.where(np.isfinite(ends), np.abs(ends), 0.0)
        size = np.abs(product).sum() + reach @ (
            np.abs(linear.cost) + abs(linear.matrix).T @ np.abs(w)
        )
        best = min(best, float(product.sum() + terms.sum() + unit * size) + linear.offset)
    return best if math.isfinite(best) else None


class _Stop:
    """A stop event that is set when the caller asks to stop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def is_set(self) -> bool:
        """Whether the caller asked to stop."""
        return self._clock.interrupted


def sampled_witness(problem: LipschitzProblem, seed: int) -> Witness | None:
    """The best of a few random points."""
    rng = np.random.default_rng(seed)
    count = max(16, min(SAMPLES, 500_000 // problem.domain.dimension))
    points = problem.domain.sample(rng, count)
    return best_witness(problem, points, problem.values(points))
