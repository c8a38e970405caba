"""Adapter of SCIP, by pyscipopt: matrices are passed as an MPS file, which SCIP reads."""

from __future__ import annotations

import math
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from lipyomo.base.errors import SolverError
from lipyomo.solvers.adapter import MatrixSolver, RunReport, RunRequest
from lipyomo.solvers.matrices import Feature, LinearModel, QuadraticForm
from lipyomo.solvers.mps import write_mps
from lipyomo.solvers.options import Native
from lipyomo.solvers.status import INFINITE, SolveStatus, ended

CURVE = "CURVE"
"""Name of the column for the quadratic part of the objective."""
KNOBS = {
    "time_limit": "limits/time",
    "rel_gap": "limits/gap",
    "abs_gap": "limits/absgap",
    "integrality_tolerance": "numerics/feastol",
    "node_limit": "limits/nodes",
}


class Scip(MatrixSolver):
    """The SCIP solver (Apache 2.0 licence), from the package ``pyscipopt``.

    Notes
    -----
    SCIP uses one thread; the option ``threads`` is accepted without effect.  Its relative gap
    divides by the smaller of incumbent and bound, so it stops no earlier than the other solvers.
    """

    name = "scip"
    title = "SCIP"
    package = "pyscipopt"
    terms = "Apache 2.0, no limits"
    takes = frozenset(Feature)
    least_tolerance = 1e-10

    def version_of(self, module: Any) -> tuple[int, ...]:
        """Return the version of SCIP."""
        model = module.Model()
        return model.getMajorVersion(), model.getMinorVersion(), model.getTechVersion()

    def check_option(self, name: str, value: Native) -> None:
        """Raise `SolverError` unless SCIP accepts the parameter."""
        _set_parameter(self.module().Model(), name, value)

    def run(self, model: LinearModel, request: RunRequest) -> RunReport:
        """Solve; see `MatrixSolver.run`."""
        scip = self.module()
        with tempfile.TemporaryDirectory(prefix="lipyomo-") as folder:
            target = scip.Model()
            target.hideOutput()
            _keep_small_numbers(target, model)
            for name, value in request.settings(KNOBS, self.least_tolerance):
                _set_parameter(target, name, value)
            path = Path(folder) / "model.mps"
            write_mps(model, path)
            target.readProblem(str(path))
            log = Path(folder) / "scip.log"
            target.setLogfile(str(log))
            variables = {var.name: var for var in target.getVars()}
            columns = [variables[f"C{column}"] for column in range(model.size[1])]
            _pass_quadratic(scip, target, model, columns)
            if request.start is not None and model.is_mip:
                _add_start(target, model, columns, request)
            target.includeEventhdlr(_listener(scip, request), "lipyomo", "reports progress")
            target.setParam("misc/catchctrlc", False)
            failure = _solved(target, request)
            target.setLogfile(None)
            request.supervisor.write(log.read_text("utf-8", errors="replace"))
            if failure is not None:
                return RunReport(SolveStatus.ERROR, message=failure)
            return _read(target, columns, model)


def _solved(target: Any, request: RunRequest) -> str | None:
    """Run SCIP; return its message if it fails, such as "error in LP solver", otherwise None.

    Such errors are plain exceptions without a class of their own.  Only those of SCIP's thread are
    caught, not exceptions of the caller's progress function.
    """

    def work() -> str | None:
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="scip") as pool:
            error = pool.submit(target.optimizeNogil).exception()
        return None if error is None else f"SCIP gave up: {error}"

    return request.supervisor.run(work, target.interruptSolve)


def _pass_quadratic(scip: Any, target: Any, model: LinearModel, columns: list[Any]) -> None:
    """Add quadratic terms and special ordered sets to the problem read from the file."""

    def quadratic(form: QuadraticForm) -> Any:
        triples = zip(form.first, form.second, form.values, strict=True)
        return scip.quicksum(v * columns[i] * columns[j] for i, j, v in triples)

    for row in model.quadratic_rows:
        pairs = zip(row.columns, row.coefs, strict=True)
        body = quadratic(row.form) + scip.quicksum(c * columns[j] for j, c in pairs)
        if math.isfinite(row.upper):
            target.addCons(body <= row.upper)
        if math.isfinite(row.lower):
            target.addCons(body >= row.lower)
    if model.quadratic is not None:
        # SCIP's objectives are linear: an additional variable stands for the quadratic part.
        curve = target.addVar(CURVE, lb=None, ub=None, obj=1.0)
        sign = -1.0 if model.maximise else 1.0
        target.addCons(sign * curve - sign * quadratic(model.quadratic) >= 0.0)
    for entry in model.sets:
        add = target.addConsSOS1 if entry.kind == 1 else target.addConsSOS2
        add([columns[j] for j in entry.columns], weights=entry.weights)


def _keep_small_numbers(target: Any, model: LinearModel) -> None:
    """Lower SCIP's epsilon below the model's smallest coefficient; its minimum is 1e-20.

    SCIP drops smaller coefficients when it reads the model, which changes the optimum.
    """
    sizes = np.abs(np.concatenate((model.cost, model.matrix.data)))
    if sizes.max(initial=0.0) >= INFINITE:
        raise SolverError(
            f"SCIP takes numbers from {INFINITE:g} on for infinite, and the model has one of "
            f"{sizes.max():g}.  Remedy: scale the network's weights, or use another solver"
        )
    smallest = float(sizes[sizes > 0.0].min(initial=1.0))
    epsilon = target.getParam("numerics/epsilon")
    if smallest <= 10.0 * epsilon:
        target.setParam("numerics/epsilon", max(0.1 * smallest, 1e-18))


def _set_parameter(target: Any, name: str, value: Native) -> None:
    """Set a parameter; raise if SCIP does not know it or does not accept the value."""
    try:
        target.setParam(name, value)
    except (KeyError, ValueError, TypeError, OverflowError, LookupError) as error:
        raise SolverError(f"SCIP does not take {value!r} for '{name}': {error}") from None


def _add_start(target: Any, model: LinearModel, columns: list[Any], request: RunRequest) -> None:
    """Pass the start to SCIP, whose heuristics complete a partial one."""
    values = np.asarray(request.start)
    partial = bool(np.isnan(values).any()) or model.quadratic is not None
    solution = target.createPartialSol() if partial else target.createSol()
    for var, value in zip(columns, values.tolist(), strict=True):
        if not math.isnan(value):
            target.setSolVal(solution, var, value)
    target.addSol(solution)


def _listener(scip: Any, request: RunRequest) -> Any:
    """Return an event handler that forwards progress to the supervisor."""
    events = scip.SCIP_EVENTTYPE
    kinds = (events.BESTSOLFOUND, events.NODESOLVED)

    class Listener(scip.Eventhdlr):
        def eventinit(self) -> None:
            for kind in kinds:
                self.model.catchEvent(kind, self)

        def eventexit(self) -> None:
            for kind in kinds:
                self.model.dropEvent(kind, self)

        def eventexec(self, event: Any) -> None:
            primal, dual = self.model.getPrimalbound(), self.model.getDualbound()
            request.supervisor.report(primal, dual, self.model.getNTotalNodes())

    return Listener()


def _read(target: Any, columns: list[Any], model: LinearModel) -> RunReport:
    """Read status, incumbent, bound and nodes."""
    status, message = ended(Scip.title, target.getStatus())
    x = None
    if target.getNSols() > 0 and status is not SolveStatus.UNBOUNDED:
        best = target.getBestSol()
        x = np.array([target.getSolVal(best, var) for var in columns])
    bound = target.getDualbound() if status is not SolveStatus.INFEASIBLE else None
    nodes = int(target.getNTotalNodes()) if model.is_mip else 0
    return RunReport(status, x, bound, nodes, message)
