"""Adapter of Gurobi, by gurobipy's matrix interface."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.base.errors import SolverError
from lipyomo.solvers.adapter import CommercialSolver, RunReport, RunRequest
from lipyomo.solvers.matrices import Feature, LinearModel
from lipyomo.solvers.options import Native
from lipyomo.solvers.status import SolveStatus, ended

KNOBS = {
    "time_limit": "TimeLimit",
    "threads": "Threads",
    "rel_gap": "MIPGap",
    "abs_gap": "MIPGapAbs",
    "integrality_tolerance": "IntFeasTol",
    "node_limit": "NodeLimit",
}

_LICENCE_ERRORS = frozenset({10009, 10022, 10030, 10032})

_local = threading.local()


class Gurobi(CommercialSolver):
    """The Gurobi solver (commercial), from the package ``gurobipy``."""

    name = "gurobi"
    title = "Gurobi"
    package = "gurobipy"
    terms = "restricted free licence"
    free_columns = 2000
    takes = frozenset(Feature)
    least_tolerance = 1e-9

    def check_option(self, name: str, value: Native) -> None:
        """Raise `SolverError` unless Gurobi accepts the parameter."""
        gurobi = self.module()
        try:
            with gurobi.Model(env=_environment(gurobi)) as model:
                model.setParam(name, value)
        except (gurobi.GurobiError, TypeError, ValueError) as error:
            raise SolverError(f"Gurobi does not take {value!r} for '{name}': {error}") from None

    def run(self, model: LinearModel, request: RunRequest) -> RunReport:
        """Solve; see `MatrixSolver.run`."""
        gurobi = self.module()
        try:
            with gurobi.Model(env=_environment(gurobi)) as target:
                rows = pass_model(gurobi, target, model)
                target.Params.LogToConsole = 0
                target.Params.OutputFlag = 1
                for name, value in request.settings(KNOBS, self.least_tolerance):
                    target.setParam(name, value)
                if request.start is not None and model.is_mip:  # Gurobi completes missing values
                    unknown = np.isnan(request.start)
                    values = np.where(unknown, gurobi.GRB.UNDEFINED, request.start)
                    target.setAttr("Start", target.getVars(), values.tolist())
                listener = _listener(gurobi, request)
                request.supervisor.run(lambda: target.optimize(listener), target.terminate)
                return _read(gurobi, target, model, rows)
        except gurobi.GurobiError as error:
            return _failure(gurobi, error)


def _environment(gurobi: Any) -> Any:
    """Return this thread's environment, which threads must not share."""
    environment = getattr(_local, "environment", None)
    if environment is None:
        environment = gurobi.Env(empty=True)
        environment.setParam("OutputFlag", 0)
        environment.start()
        _local.environment = environment
    return environment


def pass_model(gurobi: Any, target: Any, model: LinearModel) -> Any:
    """Pass the matrices to a Gurobi model; return its constraints."""
    kinds = np.where(model.integer, gurobi.GRB.INTEGER, gurobi.GRB.CONTINUOUS)
    x = target.addMVar(model.size[1], lb=model.lower, ub=model.upper, obj=model.cost, vtype=kinds)
    letters, rhs = model.sides
    sense = [{"E": "=", "L": "<", "G": ">"}[letter] for letter in letters]
    rows = target.addMConstr(sp.csr_array(model.matrix), x, sense, rhs) if rhs else None
    direction = -1 if model.maximise else 1
    if model.quadratic is not None:
        form = model.quadratic.matrix(model.size[1])
        target.setMObjective(sp.csr_array(form), model.cost, model.offset, x, x, x, direction)
    else:
        target.ObjCon = model.offset
        target.ModelSense = direction
    columns = model.size[1]
    for row in model.quadratic_rows:
        linear = np.zeros(columns)
        np.add.at(linear, row.columns, row.coefs)
        form = sp.csr_array(row.form.matrix(columns))
        if row.lower == row.upper:
            target.addMQConstr(form, linear, "=", row.lower, x, x, x)
            continue
        if row.upper < np.inf:
            target.addMQConstr(form, linear, "<", row.upper, x, x, x)
        if row.lower > -np.inf:
            target.addMQConstr(form, linear, ">", row.lower, x, x, x)
    variables = x.tolist()
    for entry in model.sets:
        kind = gurobi.GRB.SOS_TYPE1 if entry.kind == 1 else gurobi.GRB.SOS_TYPE2
        target.addSOS(kind, [variables[j] for j in entry.columns], entry.weights)
    target.update()
    return rows


def _listener(gurobi: Any, request: RunRequest) -> Any:
    """Return a callback that forwards log and progress to the supervisor."""
    supervisor = request.supervisor
    code = gurobi.GRB.Callback
    parts = (code.MIP_OBJBST, code.MIP_OBJBND, code.MIP_NODCNT)

    def listen(target: Any, where: int) -> None:
        if where == code.MESSAGE:
            supervisor.write(target.cbGet(code.MSG_STRING))
        elif where == code.MIP:
            supervisor.report(*map(target.cbGet, parts))

    return listen


def _read(gurobi: Any, target: Any, model: LinearModel, rows: Any) -> RunReport:
    """Read status, incumbent, bound and nodes."""
    kinds = gurobi.GRB.Status
    words = {getattr(kinds, word): word for word in dir(kinds) if word.isupper()}
    status, message = ended(Gurobi.title, words[target.Status])
    x = np.array(target.X) if target.SolCount > 0 else None
    if model.is_mip:
        return RunReport(status, x, target.ObjBound, int(target.NodeCount), message)
    if model.quadratic is not None or model.quadratic_rows:
        # Nonconvex problems are solved by branch and bound, which has a dual bound.
        bound = getattr(target, "ObjBound", None)
        if bound is None and status is SolveStatus.OPTIMAL:
            bound = target.ObjVal
        return RunReport(status, x, bound, 0, message)
    if status is not SolveStatus.OPTIMAL:
        return RunReport(status, x, None, 0, message)
    return RunReport(
        status,
        x,
        target.ObjVal,
        row_duals=np.array(target.Pi) if rows is not None else np.zeros(0),
        reduced_costs=np.array(target.RC),
    )


def _failure(gurobi: Any, error: Any) -> RunReport:
    """Convert a `GurobiError` to a report."""
    status = SolveStatus.LICENCE if error.errno in _LICENCE_ERRORS else SolveStatus.ERROR
    if error.errno == gurobi.GRB.Error.SIZE_LIMIT_EXCEEDED:
        status = SolveStatus.SIZE_LIMIT
    return RunReport(status, message=f"Gurobi: {error}")
