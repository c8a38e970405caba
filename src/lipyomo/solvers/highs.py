"""Adapter of HiGHS, by highspy: matrices are passed in one call, callbacks report progress.

Large models are solved in a child process, because some steps of HiGHS do not check the time limit.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import SolverError
from lipyomo.base.numerics.lp import silent_highs
from lipyomo.base.system.extras import require
from lipyomo.solvers.adapter import MatrixSolver, RunReport, RunRequest
from lipyomo.solvers.matrices import Feature, LinearModel
from lipyomo.solvers.options import Native
from lipyomo.solvers.process import solve_in_process
from lipyomo.solvers.status import SolveStatus, ended

MOST_TERMS = 250_000
"""Number of nonzeros up to which steps end within about a second; larger models are solved in a
child process."""

SEARCHED = {
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_root_reduced_cost": False,
    "mip_allow_cut_separation_at_nodes": False,
    "mip_pscost_minreliable": 2,
}
"""Options for models of networks with a good start.  Neighbourhood searches solve a sub-MIP each,
which takes most of the time on networks of many inputs.  With less strong branching and no cuts at
nodes there are two to three times as many nodes, each in a third of the time."""

KNOBS = {
    "time_limit": "time_limit",
    "threads": "threads",
    "rel_gap": "mip_rel_gap",
    "abs_gap": "mip_abs_gap",
    "integrality_tolerance": "mip_feasibility_tolerance",
    "node_limit": "mip_max_nodes",
}


class Highs(MatrixSolver):
    """The HiGHS solver (MIT licence), from the package ``highspy``."""

    name = "highs"
    title = "HiGHS"
    package = "highspy"
    terms = "MIT, no limits"
    takes = frozenset({Feature.QUADRATIC_OBJECTIVE})
    least_tolerance = 1e-10

    def check_option(self, name: str, value: Native) -> None:
        """Raise `SolverError` unless HiGHS accepts the option."""
        _set_option(self.module(), silent_highs(), name, value)

    def run(self, model: LinearModel, request: RunRequest) -> RunReport:
        """Solve; see `MatrixSolver.run`."""
        self.module()  # is it installed?
        if model.matrix.nnz > MOST_TERMS:
            return solve_in_process(solve_here, model, request)
        return solve_here(model, request)


def solve_here(model: LinearModel, request: RunRequest) -> RunReport:
    """Solve a model of any size in this process."""
    highspy = require(Highs.package, Highs.title)
    highs = silent_highs()
    _listen(highs, request)
    own = SEARCHED.items() if request.searched else ()
    for name, value in (*own, *request.settings(KNOBS, Highs.least_tolerance)):
        _set_option(highspy, highs, name, value)
    if pass_model(highs, model) == highspy.HighsStatus.kError:
        return RunReport(SolveStatus.ERROR, message="HiGHS refused the model")
    began = time.perf_counter()
    start = _complete(highspy, model, request)
    if start is not None:
        if request.time_limit is not None:
            left = request.time_limit - (time.perf_counter() - began)
            highs.setOptionValue("time_limit", max(left, 0.0))
        known = np.flatnonzero(~np.isnan(start)).astype(np.int32)
        highs.setSolution(known.size, known, start[known])
    _run(highspy, highs, request)
    return _read(highspy, highs, model)


def _run(highspy: Any, highs: Any, request: RunRequest) -> None:
    """Run HiGHS on the model passed to it, until it ends or is interrupted."""
    interrupt = threading.Event()

    def stop(event: Any) -> None:
        if interrupt.is_set():
            event.interrupt()

    highs.cbMipInterrupt += stop
    highs.cbSimplexInterrupt += stop
    highs.cbIpmInterrupt += stop

    def work() -> None:
        highs.run()
        # HiGHS has one scheduler per thread; free it, so that the next solve may use another number
        # of threads.
        highspy.Highs.resetGlobalScheduler(True)

    request.supervisor.run(work, interrupt.set)


def pass_model(highs: Any, model: LinearModel) -> Any:
    """Pass the matrices to HiGHS in one call and return its status."""
    rows, columns = model.size
    matrix = model.matrix
    status = highs.passModel(
        columns,
        rows,
        matrix.nnz,
        1,  # column-wise
        -1 if model.maximise else 1,
        model.offset,
        model.cost,
        model.lower,
        model.upper,
        model.row_lower,
        model.row_upper,
        matrix.indptr.astype(np.int32, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data,
        model.integer.astype(np.int32),
    )
    if model.quadratic is None:
        return status
    # HiGHS defines x^T Q x / 2 and takes the lower triangle, by columns.
    lower = sp.csc_array(sp.tril(2.0 * model.quadratic.matrix(columns), format="csc"))
    lower.sort_indices()
    return highs.passHessian(
        columns,
        lower.nnz,
        1,  # triangular
        lower.indptr.astype(np.int32),
        lower.indices.astype(np.int32),
        lower.data,
    )


def _complete(highspy: Any, model: LinearModel, request: RunRequest) -> FloatArray | None:
    """Return a start with values of all discrete variables, or None.

    HiGHS completes a partial start by a restricted search, whose bounds would be reported as
    progress although they are not valid for the model.  So that search is run here, without
    callbacks.
    """
    start = request.start
    if start is None or not model.is_mip:
        return None
    known = model.integer & ~np.isnan(start)
    if (known == model.integer).all():
        return start
    fixed = np.where(known, np.round(start), 0.0)
    lower = np.where(known, fixed, model.lower)
    upper = np.where(known, fixed, model.upper)
    highs = silent_highs()
    _, few = highs.getOptionValue("mip_max_start_nodes")  # as HiGHS does with starts of its own
    highs.setOptionValue("mip_max_nodes", few)
    highs.setOptionValue("mip_rel_gap", 0.01)
    if request.time_limit is not None:
        highs.setOptionValue("time_limit", 0.1 * request.time_limit)
    if request.threads is not None:
        highs.setOptionValue("threads", request.threads)
    pass_model(highs, replace(model, lower=lower, upper=upper))
    _run(highspy, highs, request)
    return _read(highspy, highs, model).x


def _set_option(highspy: Any, highs: Any, name: str, value: Native) -> None:
    """Set an option; raise if HiGHS does not know it or does not accept the value."""
    status, kind = highs.getOptionType(name)
    if status == highspy.HighsStatus.kError:
        raise SolverError(f"HiGHS has no option '{name}'")
    if kind == highspy.HighsOptionType.kDouble and not isinstance(value, bool | str):
        value = float(value)
    if highs.setOptionValue(name, value) == highspy.HighsStatus.kError:
        raise SolverError(f"HiGHS does not take {value!r} for the option '{name}'")


def _listen(highs: Any, request: RunRequest) -> None:
    """Forward the log and the progress of HiGHS to the supervisor."""
    supervisor = request.supervisor
    highs.setOptionValue("log_to_console", False)
    highs.setOptionValue("output_flag", True)
    highs.cbLogging += lambda event: supervisor.write(event.message)

    def progress(event: Any) -> None:
        data = event.data_out
        supervisor.report(data.mip_primal_bound, data.mip_dual_bound, data.mip_node_count)

    highs.cbMipLogging += progress
    highs.cbMipImprovingSolution += progress
    found = request.found
    if found is not None:
        highs.cbMipImprovingSolution += lambda event: found(np.array(event.data_out.mip_solution))


def _read(highspy: Any, highs: Any, model: LinearModel) -> RunReport:
    """Read status, incumbent, bound and nodes."""
    known, message = ended(Highs.title, highs.getModelStatus().name)
    info = highs.getInfo()
    solution = highs.getSolution()
    feasible = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    x: FloatArray | None = np.array(solution.col_value) if feasible else None
    if model.is_mip:
        nodes = max(int(info.mip_node_count), 0)
        return RunReport(known, x, float(info.mip_dual_bound), nodes, message)
    if known is not SolveStatus.OPTIMAL:
        return RunReport(known, x, None, 0, message)
    return RunReport(
        known,
        x,
        float(info.objective_function_value),
        row_duals=np.array(solution.row_dual),
        reduced_costs=np.array(solution.col_dual),
    )
