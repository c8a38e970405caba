"""Solves in a child process, for solvers that exceed the time limit on large models.

HiGHS checks neither its time limit nor its callbacks during presolve and some other steps, which
take minutes on models of millions of terms.  Therefore the process is killed at the time limit; the
last bound and the best point that it has sent are the answer.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from lipyomo.base.errors import ProcessDied
from lipyomo.base.system.processes import MOMENT, ChildProcess
from lipyomo.solvers.matrices import LinearModel
from lipyomo.solvers.status import SolveProgress, SolveStatus
from lipyomo.solvers.supervise import RunReport, RunRequest, Supervisor

UNSENT = ("supervisor", "found")
"""Fields of a request that are not sent to the child process."""

Solve = Callable[[LinearModel, RunRequest], RunReport]


def solve_in_process(solve: Solve, model: LinearModel, request: RunRequest) -> RunReport:
    """Call `solve` in a child process, which is killed at the time limit and by Ctrl-C.

    Parameters
    ----------
    solve : callable
        At module level.  It reports bounds to ``request.supervisor``, points to ``request.found``.
    model : LinearModel
    request : RunRequest

    Returns
    -------
    RunReport
        The report of `solve`, or the last bound and point that it has sent if it was killed.
    """
    halt = threading.Event()
    return request.supervisor.run(lambda: _listen(solve, model, request, halt), halt.set)


def _listen(
    solve: Solve, model: LinearModel, request: RunRequest, halt: threading.Event
) -> RunReport:
    """Receive messages of the child process until it ends or must be killed."""
    limit, began = request.time_limit, time.perf_counter()
    last = math.inf if limit is None else limit + MOMENT
    asked = {name: value for name, value in vars(request).items() if name not in UNSENT}
    bare = replace(model, columns=[], constraints=[])  # without Pyomo's objects
    known = RunReport(SolveStatus.TIME_LIMIT)
    if limit is not None and limit < MOMENT:
        return known
    with ChildProcess(_solve, solve, bare, asked, time.time()) as child:
        try:
            for kind, *said in child:
                if kind == "done":
                    return cast(RunReport, said[0])
                if kind == "log":
                    request.supervisor.write(said[0])
                elif kind == "point":
                    known = replace(known, x=said[0])
                elif kind == "progress":
                    report: SolveProgress = said[0]
                    known = replace(known, bound=report.bound, nodes=report.nodes)
                    request.supervisor.report(report.incumbent, report.bound, report.nodes)
                if halt.is_set():
                    return replace(known, status=SolveStatus.INTERRUPTED)
                if time.perf_counter() - began > last:
                    break
        except ProcessDied as error:
            return replace(known, status=SolveStatus.ERROR, message=str(error))
    return known


def _solve(
    send: Callable[..., None],
    solve: Solve,
    model: LinearModel,
    asked: Mapping[str, Any],
    began: float,
) -> RunReport:
    """Run the solve in the child process; its start-up counts against the time limit."""
    supervisor = Supervisor(
        progress=lambda report: send("progress", report), write=lambda text: send("log", text)
    )
    request = RunRequest(supervisor=supervisor, found=lambda x: send("point", x), **asked)
    if request.time_limit is not None:
        left = request.time_limit - max(time.time() - began, 0.0)
        request = replace(request, time_limit=max(left, 0.0))
    return solve(model, request)
