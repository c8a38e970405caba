"""Solves in a process of their own: their answers, and their ends."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pyomo.environ as pyo
import pytest
import scipy.sparse as sp

from conformance.instances import market_split
from lipyomo.base.errors import SolverError
from lipyomo.solvers import SolveProgress, SolveStatus
from lipyomo.solvers.compilation import compile_model
from lipyomo.solvers.highs import Highs, solve_here
from lipyomo.solvers.matrices import LinearModel
from lipyomo.solvers.process import solve_in_process
from lipyomo.solvers.supervise import RunReport, RunRequest, Supervisor

POINT = np.array([1.0, 2.0])


def _model() -> LinearModel:
    model = pyo.ConcreteModel()
    model.x = pyo.Var([0, 1], domain=pyo.NonNegativeIntegers, bounds=(0, 9))
    model.row = pyo.Constraint(expr=model.x[0] + model.x[1] <= 5)
    model.sum = pyo.Objective(expr=model.x[0] + model.x[1], sense=pyo.maximize)
    return compile_model(model)


def _deaf(model: LinearModel, request: RunRequest) -> RunReport:
    """A solver that tells of a point and of a bound, and then hears nothing."""

    def work() -> RunReport:
        assert request.found is not None
        request.found(POINT)
        request.supervisor.write("presolving\n")
        request.supervisor.report(3.0, 7.5, 11)
        threading.Event().wait()
        return RunReport(SolveStatus.OPTIMAL)

    return request.supervisor.run(work, lambda: None)


def _asleep(model: LinearModel, request: RunRequest) -> RunReport:
    """A solver that never tells anything."""
    time.sleep(1000.0)
    return RunReport(SolveStatus.OPTIMAL)


def _dead(model: LinearModel, request: RunRequest) -> RunReport:
    os._exit(3)


def _refusing(model: LinearModel, request: RunRequest) -> RunReport:
    raise SolverError("no such option")


def _echo(model: LinearModel, request: RunRequest) -> RunReport:
    assert request.time_limit is not None
    assert 0.0 <= request.time_limit < 100.0  # the start of the process counts
    assert (request.native, request.threads) == ({"a": 1}, 2)
    return RunReport(SolveStatus.GAP, request.start, model.objective(POINT), 4)


def test_an_answer_comes_back() -> None:
    request = RunRequest(
        supervisor=Supervisor(), time_limit=100.0, threads=2, native={"a": 1}, start=POINT + 1.0
    )
    report = solve_in_process(_echo, _model(), request)
    assert (report.status, report.bound, report.nodes) == (SolveStatus.GAP, 3.0, 4)
    assert report.x is not None
    assert report.x.tolist() == [2.0, 3.0]


def test_a_deaf_solver_is_ended_and_what_it_told_is_the_answer() -> None:
    stop, said = threading.Event(), list[SolveProgress]()

    def progress(report: SolveProgress) -> None:
        said.append(report)
        stop.set()

    supervisor = Supervisor(progress, stop)
    report = solve_in_process(_deaf, _model(), RunRequest(supervisor=supervisor))
    assert (report.status, report.bound, report.nodes) == (SolveStatus.INTERRUPTED, 7.5, 11)
    assert report.x is not None
    assert report.x.tolist() == POINT.tolist()
    assert supervisor.log == "presolving\n"
    assert [(one.incumbent, one.bound) for one in said] == [(3.0, 7.5)]


def test_a_silent_solver_ends_with_the_time_limit() -> None:
    report = solve_in_process(
        _asleep, _model(), RunRequest(supervisor=Supervisor(), time_limit=0.3)
    )
    assert (report.status, report.x, report.bound) == (SolveStatus.TIME_LIMIT, None, None)


def test_a_process_that_dies_is_an_error_of_the_solver() -> None:
    report = solve_in_process(_dead, _model(), RunRequest(supervisor=Supervisor()))
    assert report.status is SolveStatus.ERROR
    assert "died" in report.message


def test_errors_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the solver, which a process hands on as tests of processes say, and of who listens."""
    with pytest.raises(SolverError, match="no such option"):
        solve_in_process(_refusing, _model(), RunRequest(supervisor=Supervisor()))

    def enough(report: SolveProgress) -> None:
        raise ArithmeticError("enough")

    with pytest.raises(ArithmeticError, match="enough"):
        solve_in_process(_deaf, _model(), RunRequest(supervisor=Supervisor(enough)))


@pytest.mark.parametrize("relax", [False, True])
def test_highs_says_the_same_in_both_processes(relax: bool) -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(6), domain=pyo.Integers, bounds=(0, 4))
    model.row = pyo.Constraint(expr=sum((3 + 2 * i) * model.x[i] for i in range(6)) <= 61)
    model.sum = pyo.Objective(
        expr=sum((2 + 2 * i) * model.x[i] for i in range(6)), sense=pyo.maximize
    )
    linear = compile_model(model)
    linear = linear.relaxed() if relax else linear
    asked = [
        RunRequest(supervisor=Supervisor(), rel_gap=0.0, native={"log_file": ""}) for _ in range(2)
    ]
    here = solve_here(linear, asked[0])
    there = solve_in_process(solve_here, linear, asked[1])
    assert here.status is there.status is SolveStatus.OPTIMAL
    assert (here.bound, here.nodes) == (there.bound, there.nodes)
    assert here.x is not None
    assert there.x is not None
    assert here.x.tolist() == there.x.tolist()
    assert [one.supervisor.log.count("HiGHS") > 0 for one in asked] == [True, True]


def test_highs_solves_large_models() -> None:
    model = LinearModel(
        matrix=sp.csc_array(np.ones((300, 900))),
        row_lower=np.full(300, -np.inf),
        row_upper=np.arange(300.0) + 2.5,
        cost=np.ones(900),
        offset=1.0,
        lower=np.zeros(900),
        upper=np.ones(900),
        integer=np.zeros(900, dtype=bool),
        maximise=True,
        columns=[None] * 900,
        constraints=[None] * 300,
    )
    report = Highs().run(model, RunRequest(supervisor=Supervisor(), time_limit=300.0))
    assert report.status is SolveStatus.OPTIMAL
    assert report.bound == pytest.approx(3.5)
    assert report.x is not None
    assert model.objective(report.x) == pytest.approx(3.5)
    assert model.violation(report.x) < 1e-6


def test_highs_elsewhere_leaves_its_bound_and_its_point() -> None:
    model, _ = market_split(pyo.maximize)
    linear, stop, heard = compile_model(model), threading.Event(), list[SolveProgress]()

    def progress(report: SolveProgress) -> None:
        if report.incumbent is None or not report.bound < 1.0:
            return
        heard.append(report)
        stop.set()

    request = RunRequest(supervisor=Supervisor(progress, stop), time_limit=60.0)
    report = solve_in_process(solve_here, linear, request)
    known = heard[0].incumbent
    assert known is not None
    assert report.status is SolveStatus.INTERRUPTED
    assert report.x is not None
    assert report.bound is not None
    assert known - 1e-6 <= linear.objective(report.x) <= report.bound <= heard[0].bound
