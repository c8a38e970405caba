"""Known traps of the solvers and of their interfaces: each is shown to be shut."""

from __future__ import annotations

import math
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest

from conformance import instances as known
from conformance.base import covers
from lipyomo.base.errors import SolverError
from lipyomo.solvers import (
    SolveProgress,
    SolverOptions,
    SolveStatus,
    available_solvers,
    solve_model,
)
from lipyomo.solvers.adapter import MatrixSolver, RunReport, RunRequest
from lipyomo.solvers.cbc import Cbc
from lipyomo.solvers.highs import Highs
from lipyomo.solvers.matrices import LinearModel
from lipyomo.solvers.outcome import outcome_of

EXACT = SolverOptions(rel_gap=0.0, abs_gap=0.0)


def need(*names: str) -> None:
    missing = set(names) - set(available_solvers())
    if missing:
        pytest.skip(f"not installed: {', '.join(sorted(missing))}")


LARGE_KNAPSACK_OPTIMUM = 11817.12270733584
"""On which all five solvers agree."""


def large_knapsack(sense: Any) -> Any:
    """Return a knapsack with 45 items, large values, and a gap that does not close at once."""
    rng = np.random.default_rng(11)
    weights, gains = rng.uniform(0, 100, (8, 45)), rng.uniform(0, 1000, 45)
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(45), domain=pyo.Binary)
    model.rows = pyo.Constraint(range(8))
    for row in range(8):
        load = sum(float(weights[row, j]) * model.x[j] for j in range(45))
        model.rows[row] = load <= 850.0
    gain = sum(float(gains[j]) * model.x[j] for j in range(45))
    model.objective = pyo.Objective(expr=gain if sense == pyo.maximize else -gain, sense=sense)
    return model


@pytest.mark.parametrize("name", available_solvers())
def test_unknown_native_options_are_refused(name: str) -> None:
    model, _ = known.knapsack(0, pyo.maximize)
    with pytest.raises(SolverError, match="no_such_option"):
        solve_model(model, name, SolverOptions(native={"no_such_option": 1}))


@pytest.mark.parametrize("name", available_solvers())
def test_native_options_reach_the_solver(name: str) -> None:
    limits = {
        "highs": ("mip_max_nodes", 1),
        "gurobi": ("NodeLimit", 1),
        "cplex": ("mip.limits.nodes", 1),
        "scip": ("limits/nodes", 1),
        "cbc": ("maxNodes", 1),
    }
    option, value = limits[name]
    model, _ = known.market_split(pyo.maximize)
    options = SolverOptions(time_limit=20.0, native={option: value})
    outcome = solve_model(model, name, options)
    assert outcome.status is SolveStatus.LIMIT
    assert outcome.seconds < 15.0
    assert covers(outcome.bound, 0.0, pyo.maximize)


@pytest.mark.parametrize("sense", [pyo.minimize, pyo.maximize])
def test_cbc_does_not_report_its_incumbent_as_the_bound(sense: Any) -> None:
    need("cbc")
    model = large_knapsack(sense)
    optimum = LARGE_KNAPSACK_OPTIMUM if sense == pyo.maximize else -LARGE_KNAPSACK_OPTIMUM
    # A time-out, a loose gap, and a node limit: CBC would print its incumbent or a rounded bound.
    for options in (
        SolverOptions(time_limit=0.1, rel_gap=0.0),
        SolverOptions(rel_gap=0.01, abs_gap=0.0),
        SolverOptions(rel_gap=0.03, abs_gap=0.0),
        SolverOptions(rel_gap=0.08, abs_gap=0.0),
        SolverOptions(abs_gap=300.0, rel_gap=0.0),
        SolverOptions(rel_gap=0.0, native={"maxNodes": 5}),
    ):
        outcome = solve_model(model, "cbc", options)
        assert covers(outcome.bound, optimum, sense, 0.0)
        assert math.isfinite(outcome.bound)
        assert outcome.incumbent is not None
        assert covers(optimum, outcome.incumbent, sense, 1e-12)


@pytest.mark.parametrize("name", available_solvers())
def test_no_time_limit_is_too_short_for_a_true_answer(name: str) -> None:
    model = large_knapsack(pyo.maximize)
    for limit in (0.0, 0.001, 0.003, 0.01, 0.03):
        options = SolverOptions(time_limit=limit, rel_gap=0.0, abs_gap=0.0)
        outcome = solve_model(model, name, options)
        assert outcome.status in (SolveStatus.TIME_LIMIT, SolveStatus.OPTIMAL)
        assert covers(outcome.bound, LARGE_KNAPSACK_OPTIMUM, pyo.maximize)
        if outcome.incumbent is not None:
            assert covers(LARGE_KNAPSACK_OPTIMUM, outcome.incumbent, pyo.maximize)
            assert outcome.violation <= 1e-6
        if outcome.status is SolveStatus.OPTIMAL:
            assert outcome.incumbent == pytest.approx(LARGE_KNAPSACK_OPTIMUM)


def test_cbc_bounds_are_as_exact_as_the_gap() -> None:
    need("cbc")
    model = large_knapsack(pyo.maximize)
    outcome = solve_model(model, "cbc", SolverOptions(rel_gap=0.0, native={"maxNodes": 5}))
    relaxed = solve_model(model, "cbc", relax=True)
    assert outcome.incumbent is not None
    assert relaxed.incumbent is not None
    # The bound that is left is at most the relaxation's, which is known in full precision.
    gap = outcome.bound - outcome.incumbent
    assert gap > 0.0
    assert outcome.bound <= relaxed.incumbent + 1e-5 * gap


@pytest.mark.parametrize("name", available_solvers())
def test_the_bound_survives_a_time_out_without_an_incumbent(name: str) -> None:
    model, hidden = known.market_split(pyo.maximize, slack=False)
    outcome = solve_model(model, name, SolverOptions(time_limit=0.4))
    assert outcome.status is SolveStatus.TIME_LIMIT
    assert outcome.incumbent is None
    assert sum(hidden) <= outcome.bound + 1e-6
    assert outcome.bound < 46.0


def test_partial_starts_do_not_leak_the_bounds_of_a_restricted_search() -> None:
    need("highs")
    model, optimum = known.knapsack(4, pyo.maximize, size=14, rows=3)
    worst = min(range(14), key=lambda j: -solve_model(model, "highs").value(model.x[j]))
    reports: list[SolveProgress] = []
    start = pyo.ComponentMap([(model.x[worst], 0.0)])
    outcome = solve_model(model, "highs", EXACT, start=start, progress=reports.append)
    assert outcome.incumbent == pytest.approx(optimum)
    assert all(covers(report.bound, optimum, pyo.maximize) for report in reports)


def test_scip_keeps_coefficients_that_it_takes_for_zero() -> None:
    need("scip")
    model = pyo.ConcreteModel()
    model.x = pyo.Var(bounds=(0, 1e9))
    model.y = pyo.Var(bounds=(0, 1))
    model.row = pyo.Constraint(expr=1e-9 * model.x + model.y <= 1.5)
    model.objective = pyo.Objective(expr=1e-9 * model.x + 0.25 * model.y, sense=pyo.maximize)
    outcome = solve_model(model, "scip")
    assert outcome.incumbent == pytest.approx(1.125, rel=1e-6)
    assert covers(outcome.bound, 1.125, pyo.maximize)


class Liar(Highs):
    """A solver with a wrong optimum, as big-M models have produced them."""

    name = "liar"

    def __init__(self, claim: SolveStatus) -> None:
        super().__init__()
        self.claim = claim

    def run(self, model: LinearModel, request: RunRequest) -> RunReport:
        report = super().run(model, request)
        assert report.x is not None
        low = np.zeros_like(report.x)
        if self.claim is SolveStatus.INFEASIBLE:
            return RunReport(self.claim)
        return RunReport(self.claim, low, model.objective(low))


@pytest.mark.parametrize("claim", [SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE])
def test_a_wrong_optimum_is_caught_by_a_better_start(claim: SolveStatus) -> None:
    model, optimum = known.knapsack(4, pyo.maximize)
    solution = solve_model(model, "highs", EXACT).solution
    quiet = {"load_solutions": False, "raise_exception_on_nonoptimal_result": False}
    results = Liar(claim).solve(model, start=solution, **quiet)
    outcome = outcome_of(results, "liar", True, 0.0)
    assert outcome.status is SolveStatus.ERROR
    assert outcome.bound == math.inf
    assert f"{optimum:.6g}"[:5] in outcome.message
    # Without a start nothing contradicts it: that is what cross-checks are for.
    assert outcome_of(Liar(claim).solve(model, **quiet), "liar", True, 0.0).status is claim


def fake_cbc(folder: Path, body: str) -> str:
    """Write a program that behaves as `body` says, and return its path."""
    path = folder / "cbc"
    banner = 'if "-version" in sys.argv: sys.exit(print("Cbc version 2.10"))'
    path.write_text(f"#!{sys.executable}\nimport os, sys\n{banner}\n{body}\n", "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.skipif(sys.platform == "win32", reason="programs are written as scripts")
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("print('Result - Optimal solution found', flush=True); os.kill(os.getpid(), 11)", "-11"),
        ("print('no memory'); sys.exit(3)", "no memory"),
        ("pass", "no output"),
    ],
)
def test_a_crash_is_an_error_without_a_bound(tmp_path: Path, body: str, words: str) -> None:
    settings = tmp_path / "solvers.toml"
    program = fake_cbc(tmp_path, body)
    settings.write_text(f'[solver.mine]\nbackend = "cbc"\nexecutable = "{program}"\n', "utf-8")
    model, _ = known.knapsack(0, pyo.maximize)
    outcome = solve_model(model, "mine", settings=settings)
    assert outcome.status is SolveStatus.ERROR
    assert words in outcome.message
    assert outcome.incumbent is None
    assert outcome.bound == math.inf
    with pytest.raises(SolverError, match="no solution"):
        outcome.load()


def test_a_cbc_of_ones_own_is_used(tmp_path: Path) -> None:
    need("cbc")
    settings = tmp_path / "solvers.toml"
    program = Cbc().program()
    settings.write_text(f'[solver.mine]\nbackend = "cbc"\nexecutable = "{program}"\n', "utf-8")
    for sense in (pyo.minimize, pyo.maximize):
        model, optimum = known.knapsack(2, sense)
        outcome = solve_model(model, "mine", EXACT, settings=settings)
        assert outcome.status is SolveStatus.OPTIMAL
        assert outcome.incumbent == pytest.approx(optimum)
        assert covers(outcome.bound, optimum, sense, 1e-9)


def test_an_adapter_without_methods_says_so() -> None:
    model, _ = known.knapsack(0, pyo.maximize)
    with pytest.raises(TypeError, match="run"):
        MatrixSolver().solve(model)
