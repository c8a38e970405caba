"""Which solver takes a model, and what is said about those that do not."""

from __future__ import annotations

import logging
from pathlib import Path

import pyomo.environ as pyo
import pytest
from pyomo.contrib.solver.common.base import Availability

from lipyomo.errors import SolverError
from lipyomo.solvers import (
    SolveStatus,
    available_solvers,
    choose_solver,
    get_solver,
    load_settings,
    solve_model,
    solver_table,
)
from lipyomo.solvers.contract import instances as known
from lipyomo.solvers.gurobi import Gurobi
from lipyomo.solvers.highs import Highs

LIMITS = {"gurobi": 2000, "cplex": 1000}


def wide(columns: int) -> pyo.ConcreteModel:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(columns), bounds=(0, 1))
    model.row = pyo.Constraint(expr=sum(model.x.values()) <= 2.5)
    model.objective = pyo.Objective(expr=sum(model.x.values()), sense=pyo.maximize)
    return model


def limited(name: str) -> bool:
    return name in available_solvers() and (
        get_solver(name).available() is Availability.LimitedLicense
    )


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_a_model_beyond_a_free_licence_goes_to_the_next_solver(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not limited(name):
        pytest.skip(f"{name} is not here with its free licence")
    monkeypatch.setattr(f"lipyomo.solvers.{name}.pass_model", refuse_to_write)
    with caplog.at_level(logging.WARNING, "lipyomo.solvers"):
        outcome = solve_model(wide(LIMITS[name] + 1), name)
    assert outcome.solver != name
    assert outcome.status is SolveStatus.OPTIMAL
    assert any(f"{LIMITS[name] + 1} columns" in note for note in outcome.notes)
    assert name in caplog.text


def refuse_to_write(*arguments: object) -> None:
    raise AssertionError("the model was written although it is too large")


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_without_fallback_the_size_limit_is_a_status(name: str) -> None:
    if not limited(name):
        pytest.skip(f"{name} is not here with its free licence")
    outcome = solve_model(wide(LIMITS[name] + 1), name, fallback=False)
    assert outcome.solver == name
    assert outcome.status is SolveStatus.SIZE_LIMIT
    assert outcome.incumbent is None
    assert outcome.bound == float("inf")
    assert outcome.message


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_the_limit_itself_fits(name: str) -> None:
    if not limited(name):
        pytest.skip(f"{name} is not here with its free licence")
    outcome = solve_model(wide(LIMITS[name]), name, fallback=False)
    assert outcome.status is SolveStatus.OPTIMAL


def test_a_full_licence_knows_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gurobi, "available", lambda self: Availability.FullLicense)
    assert choose_solver(wide(2001), "gurobi").name == "gurobi"


def test_a_licence_that_fails_at_run_time_sends_the_model_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not limited("gurobi"):
        pytest.skip("gurobi is not here with its free licence")
    # The licence looks full and turns out not to be.
    monkeypatch.setattr(Gurobi, "available", lambda self: Availability.FullLicense)
    outcome = solve_model(wide(2001), "gurobi")
    assert outcome.solver != "gurobi"
    assert outcome.status is SolveStatus.OPTIMAL
    assert outcome.notes[0].startswith("gurobi:")


def test_an_expired_gurobi_licence_is_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    gurobi = pytest.importorskip("gurobipy")

    def expired(module: object) -> None:
        raise gurobi.GurobiError(10009, "Restricted license expired")

    get_solver("gurobi").available()
    monkeypatch.setattr("lipyomo.solvers.gurobi._environment", expired)
    check_unlicensed("gurobi", "expired")


def test_a_missing_cplex_licence_is_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    cplex = pytest.importorskip("cplex")

    def unlicensed(*arguments: object) -> None:
        text = "CPLEX Error 32201: ILM Error 16: no license"
        raise cplex.exceptions.CplexSolverError(text, None, 32201)

    get_solver("cplex").available()
    monkeypatch.setattr("lipyomo.solvers.cplex.pass_model", unlicensed)
    check_unlicensed("cplex", "no license")


def check_unlicensed(name: str, words: str) -> None:
    outcome = solve_model(wide(5), name, fallback=False)
    assert outcome.status is SolveStatus.LICENCE
    assert words in outcome.message
    assert outcome.incumbent is None
    assert outcome.bound == float("inf")
    moved = solve_model(wide(5), name)
    assert moved.solver != name
    assert moved.status is SolveStatus.OPTIMAL
    assert words in moved.notes[0]


def test_a_missing_licence_is_said() -> None:
    class Unlicensed(Highs):
        def available(self) -> Availability:
            return Availability.BadLicense

    from lipyomo.solvers.registry import _require_available

    with pytest.raises(SolverError, match="licence"):
        _require_available(load_settings().entry("gurobi"), Unlicensed())


def test_auto_takes_the_first_usable_in_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "solvers.toml"
    path.write_text(
        'auto = ["absent", "highs", "gurobi"]\n'
        '[solver.absent]\nbackend = "cbc"\nexecutable = "no-such-cbc"\ninstall = "fetch it"\n',
        "utf-8",
    )
    assert choose_solver(wide(3), "auto", path).name == "highs"
    assert get_solver("auto", path).name == "highs"
    rows = {row.name: row for row in solver_table(path)}
    assert not rows["absent"].installed
    assert rows["absent"].install == "fetch it"
    assert (rows["absent"].auto, rows["highs"].auto, rows["scip"].auto) == (1, 2, None)
    with pytest.raises(SolverError, match="fetch it"):
        solve_model(wide(3), "absent", settings=path)


def test_if_no_solver_is_left_the_reasons_are_given(tmp_path: Path) -> None:
    path = tmp_path / "solvers.toml"
    path.write_text('auto = ["gurobi"]\n', "utf-8")
    if not limited("gurobi"):
        pytest.skip("gurobi is not here with its free licence")
    with pytest.raises(SolverError, match="2001 columns"):
        solve_model(wide(2001), "auto", settings=path)


def test_a_fifth_solver_is_a_few_lines(tmp_path: Path) -> None:
    path = tmp_path / "solvers.toml"
    path.write_text(
        '[solver.other]\nbackend = "pyomo.contrib.solver.solvers.highs:Highs"\nthreads = 1\n',
        "utf-8",
    )
    for sense in (pyo.minimize, pyo.maximize):
        model, optimum = known.knapsack(1, sense)
        outcome = solve_model(model, "other", settings=path)
        assert outcome.solver == "other"
        assert outcome.status.proven
        assert outcome.incumbent == pytest.approx(optimum, rel=1e-6)
        assert outcome.bound == pytest.approx(optimum, rel=1e-5)
        relaxed = solve_model(model, "other", settings=path, relax=True)
        assert relaxed.incumbent != pytest.approx(optimum, rel=1e-6)
        assert all(var.is_binary() for var in model.x.values())
        start = pyo.ComponentMap((var, 1.0) for var in model.x.values())
        started = solve_model(model, "other", settings=path, start=start)
        assert started.incumbent == pytest.approx(optimum, rel=1e-6)
        assert all(var.value is None for var in model.x.values())
    outcome = solve_model(known.infeasible(pyo.maximize, "mip"), "other", settings=path)
    assert outcome.status is SolveStatus.INFEASIBLE
    assert outcome.bound == float("-inf")


def test_the_table_tells_what_is_here() -> None:
    for row in solver_table():
        assert row.install
        assert row.title
        assert row.installed == bool(row.version)
        if row.name in LIMITS and limited(row.name):
            assert str(LIMITS[row.name]) in row.size_limit
        if row.name == "highs":
            assert (row.usable, row.size_limit) == (True, "")
