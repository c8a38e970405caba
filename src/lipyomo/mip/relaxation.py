"""The linear relaxation of a cell's model.

The bound is recomputed from the row duals, so that the solver's tolerances do not matter (see
`lipyomo.base.numerics.lp`).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from lipyomo.base.clock import model_seconds
from lipyomo.base.numerics.lp import weak_duality
from lipyomo.mip.cells import for_models, whole_cell
from lipyomo.mip.model import CellModel
from lipyomo.mip.params import DOUBT
from lipyomo.problems.run import Run
from lipyomo.solvers import SolveOutcome, SolverOptions, SolveStatus
from lipyomo.solvers.compilation import compile_model
from lipyomo.solvers.loading import MatrixSolutionLoader, NoDualsError
from lipyomo.solvers.matrices import LinearModel


def relaxed_bound(run: Run) -> bool:
    """Lower the upper bound of `run` to the optimum of the linear relaxation.

    Parameters
    ----------
    run : Run

    Returns
    -------
    bool
        Whether it was solved to optimality.
    """
    settings, problem = run.settings, for_models(run.problem)
    relaxation = "linear" if settings.bounds == "auto" else settings.bounds
    cell = whole_cell(problem, relaxation, 0.5 * run.clock.left, lambda: run.expired)
    run.state(unstable=cell.bounds.unstable, bounds=cell.bounds.relaxation)
    run.record(interval_bound=cell.upper)
    run.drop_upper(cell.upper)
    if not problem.network.kinked_units:
        return True
    if not run.clock.fits(model_seconds([layer.weight for layer in problem.network.layers])):
        return False
    model = CellModel(problem, cell, settings.formulation)
    outcome = model.solve(run, SolverOptions(), relax=True)
    run.state(formulation=model.encoding, solver=outcome.solver)
    # Any duals give a valid bound, even those of an interrupted solve.
    loader = outcome.results.solution_loader
    own = isinstance(loader, MatrixSolutionLoader)
    found = dual_bound(loader.model if own else compile_model(model.model), outcome)
    run.record(recomputed=found is not None)
    if found is None and (outcome.status is SolveStatus.ERROR or not math.isfinite(outcome.bound)):
        run.warn(
            f"{outcome.solver} was stopped before it had a bound ({outcome.status.value}): the "
            "linear program adds nothing to the bounds that it started from"
        )
        return outcome.status.proven
    if found is None:
        widened = outcome.bound + DOUBT * abs(outcome.bound)
        run.drop_upper(widened, f"solver ({outcome.solver}, widened by {DOUBT:g})")
        run.warn(f"{outcome.solver} gives no duals: its optimum was widened by {DOUBT:g}")
    else:
        run.drop_upper(found)
    return outcome.status.proven


def dual_bound(linear: LinearModel, outcome: SolveOutcome) -> float | None:
    """Bound a maximisation from above by the duals of its relaxation, safe against rounding.

    Parameters
    ----------
    linear : LinearModel
    outcome : SolveOutcome

    Returns
    -------
    float or None
        None if the solver returns no duals, or they prove no finite bound.
    """
    if outcome.results.solution_loader is None:
        return None
    try:
        duals = outcome.results.solution_loader.get_duals()
    except NoDualsError:
        return None
    y = np.array([duals.get(row, 0.0) for row in linear.constraints])
    above = np.flatnonzero(np.isfinite(linear.row_upper))
    below = np.flatnonzero(np.isfinite(linear.row_lower))
    rows = sp.csr_array(linear.matrix)
    A = sp.csr_array(sp.vstack([rows[above], -rows[below]]))
    b = np.concatenate([linear.row_upper[above], -linear.row_lower[below]])
    best = math.inf
    for sign in (1.0, -1.0):  # solvers do not agree on the sign
        weights = np.maximum(sign * np.concatenate([y[above], -y[below]]), 0.0)
        end, loose, _ = weak_duality(linear.cost, A, b, linear.lower, linear.upper, weights)
        if loose == 0.0:
            best = min(best, end + linear.offset)
    return best if math.isfinite(best) else None
