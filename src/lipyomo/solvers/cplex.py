"""Adapter of CPLEX, by its Python interface."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipyomo.base.errors import SolverError
from lipyomo.solvers.adapter import CommercialSolver, RunReport, RunRequest
from lipyomo.solvers.matrices import Feature, LinearModel
from lipyomo.solvers.options import Native
from lipyomo.solvers.status import INFINITE, SolveStatus, ended

KNOBS = {
    "time_limit": "timelimit",
    "threads": "threads",
    "rel_gap": "mip.tolerances.mipgap",
    "abs_gap": "mip.tolerances.absmipgap",
    "integrality_tolerance": "mip.tolerances.integrality",
    "node_limit": "mip.limits.nodes",
}
_LICENCE_ERRORS = range(32000, 33000)


class Cplex(CommercialSolver):
    """The CPLEX solver (commercial), from the package ``cplex``."""

    name = "cplex"
    title = "CPLEX"
    package = "cplex"
    terms = "free Community Edition"
    free_columns = 1000
    takes = frozenset(Feature) - {Feature.NONCONVEX_CONSTRAINTS}

    def check_option(self, name: str, value: Native) -> None:
        """Raise `SolverError` unless CPLEX accepts the parameter (``group.name``)."""
        cplex = self.module()
        with cplex.Cplex() as target:
            _send_to(target, None)
            _set_parameter(cplex, target, name, value)

    def run(self, model: LinearModel, request: RunRequest) -> RunReport:
        """Solve; see `MatrixSolver.run`."""
        cplex = self.module()
        try:
            with cplex.Cplex() as target:
                _send_to(target, request.supervisor)
                if model.is_mip:
                    contexts = cplex.callbacks.Context.id
                    # Global progress is only reported at CPLEX's synchronisations, minutes apart.
                    when = contexts.global_progress | contexts.local_progress
                    target.set_callback(_Listener(cplex, request), when)
                pass_model(target, model)
                for name, value in request.settings(KNOBS):
                    _set_parameter(cplex, target, name, value)
                if request.start is not None and model.is_mip:  # CPLEX completes missing values
                    known = np.flatnonzero(~np.isnan(request.start))
                    pair = cplex.SparsePair(known.tolist(), request.start[known].tolist())
                    target.MIP_starts.add(pair, target.MIP_starts.effort_level.auto)
                aborter = target.use_aborter(cplex.Aborter())
                request.supervisor.run(target.solve, aborter.abort)
                return _read(cplex, target, model)
        except cplex.exceptions.CplexError as error:
            return _failure(cplex, error)


def _send_to(target: Any, stream: Any) -> None:
    """Send all output to a stream; None closes it."""
    target.set_results_stream(stream)
    target.set_log_stream(stream)
    target.set_warning_stream(stream)
    target.set_error_stream(stream)


def pass_model(target: Any, model: LinearModel) -> None:
    """Pass the matrices to a CPLEX problem."""
    lower = np.maximum(model.lower, -INFINITE).tolist()
    upper = np.minimum(model.upper, INFINITE).tolist()
    # Without types the problem stays an LP.
    types = "".join(np.where(model.integer, "I", "C").tolist()) if model.is_mip else ""
    target.variables.add(obj=model.cost.tolist(), lb=lower, ub=upper, types=types)
    senses, rhs = model.sides
    if rhs:
        target.linear_constraints.add(senses="".join(senses), rhs=rhs)
    entries = model.matrix.tocoo()
    if entries.nnz:
        triples = zip(
            entries.row.tolist(), entries.col.tolist(), entries.data.tolist(), strict=True
        )
        target.linear_constraints.set_coefficients(triples)
    target.objective.set_offset(model.offset)
    sense = target.objective.sense
    target.objective.set_sense(sense.maximize if model.maximise else sense.minimize)
    if model.quadratic is not None:
        # CPLEX defines x^T Q x / 2, and an off-diagonal entry stands for both symmetric ones.
        form = model.quadratic
        for i, j, v in zip(form.first, form.second, form.values, strict=True):
            target.objective.set_quadratic_coefficients(i, j, 2.0 * v if i == j else v)
        if not model.costs_are_convex():
            target.parameters.optimalitytarget.set(3)  # a global optimum
    for row in model.quadratic_rows:
        for sense, side in (("L", row.upper), ("G", row.lower)):
            if np.isfinite(side):
                target.quadratic_constraints.add(
                    lin_expr=[row.columns, row.coefs],
                    quad_expr=[row.form.first, row.form.second, row.form.values],
                    sense=sense,
                    rhs=side,
                )
    for entry in model.sets:
        target.SOS.add(type=str(entry.kind), SOS=[entry.columns, entry.weights])


def _set_parameter(cplex: Any, target: Any, name: str, value: Native) -> None:
    """Set a parameter by its dotted name; raise if it does not exist or the value is refused."""
    parameter: Any = target.parameters
    for part in name.split("."):
        parameter = getattr(parameter, part, None)
    if parameter is None or not hasattr(parameter, "set"):
        raise SolverError(f"CPLEX has no parameter '{name}'")
    try:
        parameter.set(value)
    except (cplex.exceptions.CplexError, TypeError, ValueError) as error:
        raise SolverError(f"CPLEX does not take {value!r} for '{name}': {error}") from None


class _Listener:
    """A generic callback that passes progress to the supervisor."""

    def __init__(self, cplex: Any, request: RunRequest) -> None:
        self._info = cplex.callbacks.Context.info
        self._supervisor = request.supervisor

    def invoke(self, context: Any) -> None:
        self._supervisor.report(
            context.get_double_info(self._info.best_solution),
            context.get_double_info(self._info.best_bound),
            context.get_long_info(self._info.node_count),
        )


def _read(cplex: Any, target: Any, model: LinearModel) -> RunReport:
    """Read status, incumbent, bound and nodes."""
    solution = target.solution
    name = solution.status[solution.get_status()] or "unknown"
    status, message = ended(Cplex.title, name)
    x = np.array(solution.get_values()) if solution.is_primal_feasible() else None
    if model.is_mip:
        nodes = int(solution.progress.get_num_nodes_processed())
        return RunReport(status, x, _mip_bound(cplex, solution), nodes, message)
    if status is not SolveStatus.OPTIMAL or x is None:
        return RunReport(status, x, None, 0, message)
    if model.quadratic is not None or model.quadratic_rows:
        # Nonconvex problems are solved by branch and bound, which has a dual bound.
        tree = name.startswith("MIP") or name == "optimal_tolerance"
        bound = _mip_bound(cplex, solution) if tree else solution.get_objective_value()
        return RunReport(status, x, bound)
    return RunReport(
        status,
        x,
        solution.get_objective_value(),
        row_duals=np.array(solution.get_dual_values()),
        reduced_costs=np.array(solution.get_reduced_costs()),
    )


def _mip_bound(cplex: Any, solution: Any) -> float | None:
    """Return the dual bound, which may exist without an incumbent."""
    try:
        return float(solution.MIP.get_best_objective())
    except cplex.exceptions.CplexError:
        return None


def _failure(cplex: Any, error: Any) -> RunReport:
    """Convert a `CplexError` to a report."""
    code = error.args[2] if isinstance(error, cplex.exceptions.CplexSolverError) else None
    status = SolveStatus.LICENCE if code in _LICENCE_ERRORS else SolveStatus.ERROR
    if code == cplex.exceptions.error_codes.CPXERR_RESTRICTED_VERSION:
        status = SolveStatus.SIZE_LIMIT
    return RunReport(status, message=f"{error}")
