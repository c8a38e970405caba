"""``solvers.toml``: what it means, and that every mistake names the file and the key."""

from __future__ import annotations

import sys
from pathlib import Path

import pyomo.environ as pyo
import pytest

import lipyomo.solvers
from conformance.instances import knapsack
from lipyomo.base.errors import SolverError
from lipyomo.solvers import SolverOptions, get_solver, load_settings, solve_model
from lipyomo.solvers.highs import Highs

ROOT = Path(__file__).resolve().parents[2]


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, "utf-8")
    return path


def test_the_file_at_the_top_level_changes_nothing_as_it_stands() -> None:
    packaged = Path(lipyomo.solvers.__file__).with_name("solvers.toml")
    ours = load_settings(ROOT / "solvers.toml")
    plain = load_settings(packaged)
    assert (ours.auto, ours.defaults, ours.entries) == (plain.auto, plain.defaults, plain.entries)


def test_a_file_is_laid_over_the_packaged_one(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        auto = ["mine", "highs"]
        [defaults]
        rel_gap = 0.01
        [solver.highs]
        threads = 1
        [solver.mine]
        backend = "cbc"
        time_limit = 5
        options = { maxNodes = 100 }
        """,
    )
    settings = load_settings(path)
    assert settings.auto == ("mine", "highs")
    assert settings.entry("gurobi").max_rows == 2000
    assert settings.knobs("highs")["threads"] == 1
    assert settings.knobs("highs")["rel_gap"] == 0.01
    assert settings.knobs("highs")["abs_gap"] == 1e-9
    assert settings.knobs("mine")["time_limit"] == 5
    assert settings.entry("mine").options == {"maxNodes": 100}


def test_the_file_in_the_working_directory_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "solvers.toml").write_text('auto = ["scip"]\n', "utf-8")
    monkeypatch.chdir(tmp_path)
    assert load_settings().auto == ("scip",)
    (tmp_path / "solvers.toml").unlink()
    assert load_settings().auto[0] == "gurobi"


def test_a_call_overrides_an_entry_and_an_entry_the_defaults(tmp_path: Path) -> None:
    text = "[solver.highs]\nthreads = 2\noptions = { presolve = 'on', random_seed = 1 }\n"
    asked = []

    class Asked(Highs):
        def solve_compiled(self, model, config, pyomo_model=None, called=None):  # type: ignore[no-untyped-def]
            asked.append(config)
            return super().solve_compiled(model, config, pyomo_model, called)

    sys.modules[__name__].Asked = Asked  # type: ignore[attr-defined]
    path = write(tmp_path, text.replace("threads", f"backend = '{__name__}:Asked'\nthreads"))
    options = SolverOptions(rel_gap=0.5, native={"random_seed": 2})
    solve_model(knapsack(0, pyo.maximize)[0], "highs", options, settings=path)
    (config,) = asked
    assert (config.rel_gap, config.abs_gap, config.threads) == (0.5, 1e-9, 2)
    assert dict(config.solver_options.value()) == {"presolve": "on", "random_seed": 2}


def test_options_that_are_not_given_have_defaults() -> None:
    defaults = {"rel_gap": 0.1, "abs_gap": 1e-9, "options": {"presolve": "on", "seed": 1}}
    options = SolverOptions(rel_gap=0.5, native={"seed": 2}).with_defaults(defaults)
    assert (options.rel_gap, options.abs_gap, options.threads) == (0.5, 1e-9, None)
    assert dict(options.native) == {"presolve": "on", "seed": 2}


def test_switches_are_integers_for_highs_unless_a_file_says_otherwise(tmp_path: Path) -> None:
    assert get_solver("highs").config.integrality_tolerance == 1e-9
    path = tmp_path / "solvers.toml"
    path.write_text("[defaults]\nintegrality_tolerance = 1e-5\n", "utf-8")
    assert get_solver("highs", path).config.integrality_tolerance == 1e-5


def test_a_given_time_limit_wins_over_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "solvers.toml"
    path.write_text("[defaults]\ntime_limit = 7\n", "utf-8")
    assert get_solver("highs", path).config.time_limit == 7
    assert get_solver("highs", path, time_limit=3.0).config.time_limit == 3.0


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("colour = 1", "colour"),
        ("[defaults]\nspeed = 1", "defaults.speed"),
        ("[defaults]\nrel_gap = -1", "defaults.rel_gap"),
        ('[defaults]\ntime_limit = "long"', "defaults.time_limit"),
        ("[defaults]\nthreads = 1.5", "defaults.threads"),
        ("[defaults]\nthreads = 0", "defaults.threads"),
        ("[defaults]\nlog = 1", "defaults.log"),
        ("[defaults]\nintegrality_tolerance = 0.7", "defaults.integrality_tolerance"),
        ("[solver.highs]\nlegs = 4", "solver.highs.legs"),
        ("[solver.highs]\nthreads = true", "solver.highs.threads"),
        ("[solver.highs]\nfree_limit = { cols = 3 }", "solver.highs.free_limit.cols"),
        ("[solver.highs]\nfree_limit = { rows = -3 }", "solver.highs.free_limit.rows"),
        ("[solver.highs]\nfree_limit = 7", "solver.highs.free_limit"),
        ("[solver.highs]\noptions = { presolve = [1] }", "solver.highs.options.presolve"),
        ("[solver.mine]\nthreads = 1", "solver.mine.backend"),
        ('[solver.mine]\nbackend = "glpk"', "solver.mine.backend"),
        ("[solver.mine]\nbackend = 3", "solver.mine.backend"),
        ('[solver.auto]\nbackend = "cbc"', "solver.auto"),
        ("[solver]\nmine = 3", "solver.mine"),
        ("solver = 3", "solver"),
        ('auto = ["glpk"]', "auto"),
        ('auto = "highs"', "auto"),
        ("auto = [", "TOML"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(tmp_path: Path, text: str, key: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SolverError) as caught:
        load_settings(path)
    assert str(path) in str(caught.value)
    assert key in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SolverError, match=r"nowhere\.toml"):
        load_settings(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("solver", "option", "good", "bad"),
    [
        ("highs", "presolve", '"off"', '"sometimes"'),
        ("gurobi", "MIPFocus", "1", "9"),
        ("cplex", "mip.strategy.search", "1", "77"),
        ("scip", "limits/nodes", "10", '"many"'),
        ("cbc", "maxNodes", "10", '"many"'),
    ],
)
def test_native_options_are_checked_by_the_solver(
    tmp_path: Path, solver: str, option: str, good: str, bad: str
) -> None:
    if not get_installed(solver):
        pytest.skip(f"{solver} is not installed")
    get_solver(solver, write(tmp_path, f'[solver.{solver}.options]\n"{option}" = {good}\n'))
    for name, value in ((option, bad), ("no_such_option", "1")):
        path = write(tmp_path, f'[solver.{solver}.options]\n"{name}" = {value}\n')
        with pytest.raises(SolverError) as caught:
            get_solver(solver, path)
        assert str(path) in str(caught.value)
        assert f"solver.{solver}.options.{name}" in str(caught.value)


def get_installed(name: str) -> bool:
    return name in lipyomo.solvers.available_solvers()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[solver.mine]\nbackend = "no.such.module:Solver"', "no.such.module"),
        ('[solver.mine]\nbackend = "json:Nothing"', "json:Nothing"),
        ('[solver.mine]\nbackend = "json:JSONDecoder"', "SolverBase"),
        ('[solver.mine]\nbackend = "pyomo.contrib.solver.solvers.highs:Highs"\nexecutable = "x"',
         "executable"),
        ('[solver.mine]\nbackend = "cbc"\nexecutable = "no-such-program"', "not installed"),
        ('[solver.mine]\nbackend = "highs"\nexecutable = "highs"', "executable"),
    ],
)  # fmt: skip
def test_a_back_end_that_cannot_be_used_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SolverError, match=words):
        get_solver("mine", write(tmp_path, text))


def test_an_unknown_solver_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(SolverError, match="highs"):
        get_solver("glpk")


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("time_limit", -1.0),
        ("threads", 0),
        ("threads", True),
        ("rel_gap", float("nan")),
        ("abs_gap", "small"),
        ("integrality_tolerance", 0.0),
        ("log", 1),
    ],
)
def test_a_bad_knob_is_named(knob: str, value: object) -> None:
    with pytest.raises(SolverError, match=knob):
        SolverOptions(**{knob: value})  # type: ignore[arg-type]
