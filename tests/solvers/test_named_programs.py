"""Programs and modules run only if the user has named them, and no longer than they may."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pyomo.environ as pyo
import pytest

from conformance import instances as known
from lipyomo.base.errors import SolverError
from lipyomo.cli.main import main
from lipyomo.solvers import (
    SolverOptions,
    SolveStatus,
    get_solver,
    load_settings,
    solve_model,
    solver_table,
)
from lipyomo.solvers.cbc import Cbc

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs are written as scripts")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without files of solvers, in a folder of her own."""
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))
    monkeypatch.delenv("LIPYOMO_SOLVERS", raising=False)
    return place


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def program(path: Path, *lines: str) -> Path:
    """Write a program for the shell."""
    path.write_text("\n".join(("#!/bin/sh", *lines, "")), "utf-8")
    path.chmod(0o755)
    return path


def run(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """The command line in that folder, of which no module can be imported."""
    assert "" not in sys.path
    assert str(folder) not in sys.path
    out, err = io.StringIO(), io.StringIO()
    with chdir(folder), redirect_stdout(out), redirect_stderr(err):
        code = main([*map(str, words)])
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


REFUSED = {
    "executable": '[solver.cbc]\nexecutable = "./harm"',
    "backend": '[solver.mine]\nbackend = "harm:Solver"',
    "install": '[solver.scip]\ninstall = "curl harm | sh"',
    "options.log": '[solver.cbc.options]\nlog = "a/file"',
}


@pytest.mark.parametrize("key", REFUSED)
def test_a_file_of_the_current_folder_names_no_programs(here: Path, key: str) -> None:
    (here / "solvers.toml").write_text(REFUSED[key] + "\n")
    program(here / "harm", f"touch {here}/done")
    (here / "harm.py").write_text(f"open({str(here / 'done')!r}, 'w')")
    ran = run(here, "solvers")
    assert ran.returncode == 1
    for word in ("./solvers.toml", key, "--solvers-file", "LIPYOMO_SOLVERS"):
        assert word in ran.stderr
    assert not (here / "done").exists()
    with pytest.raises(SolverError, match="current folder"):
        load_settings()


def test_a_file_of_the_current_folder_sets_order_tolerances_threads_and_limits(
    here: Path, models: Path
) -> None:
    (here / "solvers.toml").write_text(
        'auto = ["highs"]\n[defaults]\nrel_gap = 1e-3\n[solver.quick]\nbackend = "highs"\n'
        "threads = 1\noptions = { mip_max_nodes = 5 }\n[solver.cplex]\nfree_limit = { rows = 7 }\n"
    )
    settings = load_settings()
    assert settings.auto == ("highs",)
    assert settings.knobs("quick")["rel_gap"] == 1e-3
    assert settings.entry("cplex").max_rows == 7
    assert "solvers.toml" in run(here, "solvers").stderr
    net = models / "iris.onnx"
    assert "solvers.toml" in run(here, net, "--box", "0,1", "--solver", "highs").stderr
    assert "solvers.toml" not in run(here, net, "--box", "0,1").stderr


@pytest.mark.parametrize("solver", [("--exact", "--solver", "highs"), ("--exact",), ()])
def test_certify_names_the_files_that_its_solver_uses(
    here: Path, models: Path, solver: tuple[str, ...]
) -> None:
    (here / "solvers.toml").write_text("[defaults]\nrel_gap = 1e-3\n")
    (here / "data.csv").write_text("5,3,1,0.2\n")
    words = ["certify", models / "iris.onnx", "data.csv", "--radius", "0.1", "--workers", "1"]
    ran = run(here, *words, *solver)
    assert ran.returncode in (0, 2), ran.stderr
    assert ("solvers.toml" in ran.stderr) == ("--solver" in solver)


@pytest.mark.parametrize("way", ["argument", "variable", "configuration"])
def test_named_files_name_programs(
    here: Path, home: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = here / "mine.toml"
    if way == "configuration":
        place = home / "config" / "lipyomo" / "solvers.toml"
        place.parent.mkdir(parents=True)
    place.write_text('[solver.mine]\nbackend = "cbc"\nexecutable = "/bin/named"\n')
    if way == "variable":
        monkeypatch.setenv("LIPYOMO_SOLVERS", str(place))
    settings = load_settings(place if way == "argument" else None)
    assert settings.entry("mine").executable == "/bin/named"
    assert settings.files == (place,)


def test_a_variable_that_names_nothing_is_an_error(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIPYOMO_SOLVERS", "no/such.toml")
    with pytest.raises(SolverError, match="LIPYOMO_SOLVERS"):
        load_settings()


def test_a_named_file_is_laid_over_that_of_the_user(here: Path, home: Path) -> None:
    own = home / "config" / "lipyomo" / "solvers.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[defaults]\nthreads = 3\nrel_gap = 0.5\n")
    (here / "solvers.toml").write_text("[defaults]\nthreads = 2\n")
    knobs = load_settings().knobs("highs")
    assert (knobs["threads"], knobs["rel_gap"]) == (2, 0.5)


@pytest.mark.parametrize("text", ["bin/cbc", "./bin/cbc", "cbc"])
def test_a_relative_program_lies_beside_its_file(tmp_path: Path, here: Path, text: str) -> None:
    folder = tmp_path / "settings"
    (folder / "bin").mkdir(parents=True)
    place = folder / "bin" / "cbc" if "/" in text else folder / "cbc"
    program(place, f'exec {Cbc().program()} "$@"')
    table = folder / "solvers.toml"
    table.write_text(f'[solver.mine]\nbackend = "cbc"\nexecutable = "{text}"\n')
    (row,) = [row for row in solver_table(table) if row.name == "mine"]
    assert row.usable
    model, optimum = known.knapsack(0, pyo.maximize)
    outcome = solve_model(model, "mine", settings=table)
    assert outcome.incumbent == pytest.approx(optimum)


def test_a_program_of_the_current_folder_is_not_found_by_an_empty_entry_of_the_path(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(here / "other-cbc", "echo Cbc version 2.10")
    table = here.parent / "mine.toml"
    table.write_text('[solver.mine]\nbackend = "cbc"\nexecutable = "other-cbc"\n')
    monkeypatch.setenv("PATH", os.pathsep + os.environ["PATH"])
    with pytest.raises(SolverError, match="no program 'other-cbc'"):
        get_solver("mine", table)


def sleeper(folder: Path, *lines: str) -> Path:
    """Settings with a program that sleeps, unless it is asked for what `lines` answer."""
    path = program(folder / "sleeper", *lines, "sleep 300")
    table = folder / "sleeping.toml"
    table.write_text(f'[solver.mine]\nbackend = "cbc"\nexecutable = "{path}"\n')
    return table


def test_a_program_that_sleeps_hides_no_other_solver(tmp_path: Path) -> None:
    ran = run(tmp_path, "solvers", "--solvers-file", sleeper(tmp_path))
    assert ran.returncode == 0
    assert "highs" in ran.stdout
    assert "did not answer" in ran.stdout
    rows = json.loads(
        run(tmp_path, "solvers", "--solvers-file", sleeper(tmp_path), "--json").stdout
    )
    assert rows["highs"]["usable"]
    assert not rows["mine"]["usable"]


def test_a_back_end_that_is_not_there_hides_no_other_solver(tmp_path: Path) -> None:
    table = tmp_path / "mine.toml"
    table.write_text('[solver.mine]\nbackend = "no.such.module:Solver"\n')
    ran = run(tmp_path, "solvers", "--solvers-file", table)
    assert ran.returncode == 0
    assert "highs" in ran.stdout
    assert "no.such.module" in ran.stdout


ANSWERS = 'case "$*" in *-version*) echo "Cbc version 2.10"; exit;; esac'


@pytest.mark.parametrize("answers", [True, False])
def test_a_time_limit_binds_a_program_that_sleeps(
    tmp_path: Path, models: Path, answers: bool
) -> None:
    table = sleeper(tmp_path, *[ANSWERS] * answers)
    words = ("--box", "0,1", "--solvers-file", table, "--solver", "mine", "--time-limit", "1")
    ran = run(tmp_path, models / "iris.onnx", *words)
    if answers:
        assert "interval" in ran.stdout or "constant" in ran.stdout
    else:
        assert ran.returncode == 1
        assert "did not answer within" in ran.stderr


def test_a_program_that_was_ended_at_its_limit_says_so(tmp_path: Path) -> None:
    model, _ = known.knapsack(0, pyo.maximize)
    table = sleeper(tmp_path, ANSWERS, "printf 'Continuous objective value is 1'")
    outcome = solve_model(model, "mine", SolverOptions(time_limit=0.5), settings=table)
    assert outcome.status is SolveStatus.TIME_LIMIT
    assert outcome.bound == math.inf
    assert outcome.incumbent is None


@pytest.mark.parametrize("lines", [("echo a list of files",), ("exit 3",), ("yes",)])
def test_another_program_is_not_taken_for_a_solver(tmp_path: Path, lines: tuple[str, ...]) -> None:
    path = program(tmp_path / "other", *lines)
    table = tmp_path / "mine.toml"
    table.write_text(f'[solver.mine]\nbackend = "cbc"\nexecutable = "{path}"\n')
    (row,) = [row for row in solver_table(table) if row.name == "mine"]
    assert not row.usable
    assert "is not CBC" in row.trouble
    with pytest.raises(SolverError, match="is not CBC"):
        get_solver("mine", table)


def test_a_program_of_ones_own_that_is_missing_is_not_to_be_installed_as_a_package(
    tmp_path: Path,
) -> None:
    table = tmp_path / "mine.toml"
    table.write_text('[solver.cbc]\nexecutable = "/no/such/cbc"\n')
    with pytest.raises(SolverError) as caught:
        get_solver("cbc", table)
    assert "/no/such/cbc" in str(caught.value)
    assert "pip" not in str(caught.value)
    assert "pip install cbcbox" not in run(tmp_path, "solvers", "--solvers-file", table).stdout
