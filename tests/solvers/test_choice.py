"""Which solver takes a model, and what is said about those that do not."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyomo.environ as pyo
import pytest
from pyomo.contrib.solver.common.base import Availability

from conformance import instances as known
from lipyomo.base.errors import SolverError
from lipyomo.solvers import (
    SolveStatus,
    available_solvers,
    choose_solver,
    get_solver,
    load_settings,
    solve_model,
    solver_table,
)
from lipyomo.solvers.adapter import MatrixSolver
from lipyomo.solvers.cplex import Cplex
from lipyomo.solvers.gurobi import Gurobi
from lipyomo.solvers.highs import Highs
from lipyomo.solvers.settings import SolverSettings

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
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    if not limited(name):
        pytest.skip(f"{name} is not here with its free licence")
    with caplog.at_level(logging.WARNING, "lipyomo.solvers"):
        outcome = solve_model(wide(LIMITS[name] + 1), name)
    assert outcome.solver != name
    assert outcome.status is SolveStatus.OPTIMAL
    assert any(f"{LIMITS[name] + 1} columns" in note for note in outcome.notes)
    assert name in caplog.text


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


class Licensed(Gurobi):
    """Gurobi whose licence looks full, whatever it turns out to be."""

    name = "licensed"

    def available(self) -> Availability:
        return Availability.FullLicense


class Unlicensed(Cplex):
    """CPLEX whose licence is gone by the time it solves."""

    name = "unlicensed"

    def available(self) -> Availability:
        return Availability.FullLicense

    def module(self) -> Any:
        real = super().module()

        def gone() -> None:
            text = "CPLEX Error 32201: ILM Error 16: no license"
            raise real.exceptions.CplexSolverError(text, None, 32201)

        return SimpleNamespace(Cplex=gone, exceptions=real.exceptions, __version__=real.__version__)


def with_adapter(folder: Path, kind: type[MatrixSolver]) -> SolverSettings:
    """Settings with one more solver, under the name of its class."""
    path = folder / "solvers.toml"
    path.write_text(
        f'[solver.{kind.name}]\nbackend = "{kind.__module__}:{kind.__name__}"\n'
        "free_limit = { columns = 2000 }\n"
    )
    return load_settings(path)


def test_a_full_licence_knows_no_limit(tmp_path: Path) -> None:
    settings = with_adapter(tmp_path, Licensed)
    assert choose_solver(wide(2001), "licensed", settings).name == "licensed"


def test_a_licence_that_fails_at_run_time_sends_the_model_on(tmp_path: Path) -> None:
    if not limited("gurobi"):
        pytest.skip("gurobi is not here with its free licence")
    outcome = solve_model(wide(2001), "licensed", settings=with_adapter(tmp_path, Licensed))
    assert outcome.solver != "licensed"
    assert outcome.status is SolveStatus.OPTIMAL
    assert outcome.notes[0].startswith("licensed:")


def test_an_expired_gurobi_licence_is_a_status(tmp_path: Path) -> None:
    pytest.importorskip("gurobipy", reason="needs the extra [gurobi]")
    licence = tmp_path / "gurobi.lic"
    licence.write_text(
        "TYPE=TRIAL\nVERSION=12\nHOSTNAME=nowhere\nHOSTID=12345678\nEXPIRATION=2020-01-01\n"
        "KEY=ABCDEFGH\n"
    )
    script = (
        "import pyomo.environ as pyo\nfrom lipyomo.solvers import solve_model\n"
        "from lipyomo.solvers.gurobi import Gurobi\nm = pyo.ConcreteModel()\n"
        "m.x = pyo.Var(bounds=(0, 1))\nm.objective = pyo.Objective(expr=m.x)\n"
        "found = Gurobi().solve(\n"
        "    m, load_solutions=False, raise_exception_on_nonoptimal_result=False)\n"
        "print(found.extra_info.status.name, found.extra_info.message, solve_model(m).solver)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "GRB_LICENSE_FILE": str(licence)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("LICENCE ")
    assert "expired" in done.stdout
    assert not done.stdout.rstrip().endswith("gurobi")


def test_a_missing_cplex_licence_is_a_status(tmp_path: Path) -> None:
    pytest.importorskip("cplex", reason="needs the extra [cplex]")
    settings = with_adapter(tmp_path, Unlicensed)
    outcome = solve_model(wide(5), "unlicensed", settings=settings, fallback=False)
    assert outcome.status is SolveStatus.LICENCE
    assert "no license" in outcome.message
    assert outcome.incumbent is None
    assert outcome.bound == float("inf")
    moved = solve_model(wide(5), "unlicensed", settings=settings)
    assert moved.solver != "unlicensed"
    assert moved.status is SolveStatus.OPTIMAL
    assert "no license" in moved.notes[0]


class Expired(Highs):
    """HiGHS, if it were commercial and its licence had ended."""

    name = "expired"

    def available(self) -> Availability:
        return Availability.BadLicense


def test_a_missing_licence_is_said(tmp_path: Path) -> None:
    with pytest.raises(SolverError, match="licence"):
        get_solver("expired", with_adapter(tmp_path, Expired))


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
