"""Normalised answers, Pyomo's own contract, duals, and what a Pyomo user gets."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyomo.contrib.solver.common.base import SolverBase
from pyomo.contrib.solver.common.results import Results, SolutionStatus, TerminationCondition
from pyomo.contrib.solver.common.util import NoFeasibleSolutionError, NoOptimalSolutionError

from conformance import instances as known
from lipyomo.base.errors import SolverError
from lipyomo.solvers import SolverOptions, SolveStatus, available_solvers, get_solver, solve_model
from lipyomo.solvers.adapter import RunReport
from lipyomo.solvers.compilation import compile_model
from lipyomo.solvers.outcome import normalise, outcome_of

NUMBERS = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([math.inf, -math.inf, math.nan, 1e30, -1e30])
)


@given(
    st.sampled_from(list(SolveStatus)),
    st.one_of(st.none(), NUMBERS),
    st.booleans(),
    st.sampled_from([pyo.minimize, pyo.maximize]),
)
def test_whatever_a_solver_says_the_answer_is_consistent(
    status: SolveStatus, bound: float | None, found: bool, sense: Any
) -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(bounds=(0, 5))
    model.objective = pyo.Objective(expr=2 * model.x + 1, sense=sense)
    linear = compile_model(model)
    report = RunReport(status, np.array([3.0]) if found else None, bound)
    final = normalise(linear, report, None)
    nothing = math.inf if sense == pyo.maximize else -math.inf
    assert not math.isnan(final.bound)
    if final.status is SolveStatus.INFEASIBLE:
        assert final.bound == -nothing
    elif final.status in (SolveStatus.ERROR, SolveStatus.UNBOUNDED):
        assert final.bound == nothing
    elif final.incumbent is not None:
        assert final.bound >= 7.0 if sense == pyo.maximize else final.bound <= 7.0
    if final.status is SolveStatus.OPTIMAL:
        assert final.incumbent == 7.0
        assert final.bound == pytest.approx(7.0, rel=1e-9)


@pytest.mark.parametrize("status", list(SolveStatus))
def test_a_point_far_outside_the_model_is_no_incumbent(status: SolveStatus) -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(bounds=(0, 5))
    model.objective = pyo.Objective(expr=2 * model.x + 1, sense=pyo.maximize)
    report = RunReport(status, np.array([9.0]), 19.0)
    final = normalise(compile_model(model), report, None)
    assert final.incumbent is None
    assert final.status not in (SolveStatus.OPTIMAL, SolveStatus.GAP)
    if status in (SolveStatus.OPTIMAL, SolveStatus.GAP):
        assert final.bound == math.inf


@pytest.mark.parametrize("name", available_solvers())
def test_every_knob_may_be_as_small_as_it_gets(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    model, optimum = known.knapsack(3, pyo.maximize)
    options = SolverOptions(rel_gap=0.0, abs_gap=0.0, integrality_tolerance=1e-12, threads=1)
    assert solve_model(model, name, options).incumbent == pytest.approx(optimum)
    assert capfd.readouterr() == ("", "")


class Foreign(SolverBase):
    """An adapter that is not ours, with whatever results it is given."""

    name = "foreign"
    results: Results

    def solve(self, model: Any, **kwargs: Any) -> Results:
        return self.results


@pytest.mark.parametrize(
    ("condition", "incumbent", "bound", "status", "expected"),
    [
        ("convergenceCriteriaSatisfied", 5.0, 5.0, SolveStatus.OPTIMAL, 5.0),
        ("convergenceCriteriaSatisfied", 5.0, 5.1, SolveStatus.GAP, 5.1),
        ("convergenceCriteriaSatisfied", 5.0, 4.9, SolveStatus.OPTIMAL, 5.0),
        ("convergenceCriteriaSatisfied", 5.0, None, SolveStatus.GAP, math.inf),
        ("convergenceCriteriaSatisfied", None, 3.0, SolveStatus.ERROR, math.inf),
        ("maxTimeLimit", None, -math.inf, SolveStatus.TIME_LIMIT, -math.inf),
        ("maxTimeLimit", None, None, SolveStatus.TIME_LIMIT, math.inf),
        ("provenInfeasible", None, math.inf, SolveStatus.INFEASIBLE, -math.inf),
        ("unbounded", None, None, SolveStatus.UNBOUNDED, math.inf),
        ("licensingProblems", None, None, SolveStatus.LICENCE, math.inf),
        ("objectiveLimit", None, 7.0, SolveStatus.LIMIT, 7.0),
        ("unknown", None, None, SolveStatus.ERROR, math.inf),
    ],
)
def test_results_of_foreign_adapters_are_read(
    condition: str,
    incumbent: float | None,
    bound: float | None,
    status: SolveStatus,
    expected: float,
) -> None:
    results = Results()
    results.solver_version = (1, 2)
    results.termination_condition = TerminationCondition[condition]
    results.incumbent_objective = incumbent
    results.objective_bound = bound
    outcome = outcome_of(results, "foreign", True, 0.5)
    assert outcome.status is status
    if bound == -math.inf and status is SolveStatus.TIME_LIMIT:
        # The wrong sign of "no bound" is put right.
        assert outcome.bound == math.inf
    else:
        assert outcome.bound == expected
    assert (outcome.version, outcome.seconds, outcome.incumbent) == ("1.2", 0.5, incumbent)


@pytest.mark.parametrize("name", available_solvers())
def test_the_adapters_keep_pyomos_contract(name: str) -> None:
    solver = get_solver(name)
    model, optimum = known.knapsack(3, pyo.maximize)
    results = solver.solve(model)
    assert pyo.value(model.objective) == pytest.approx(optimum)
    assert results.termination_condition is TerminationCondition.convergenceCriteriaSatisfied
    assert results.solution_status is SolutionStatus.optimal
    assert results.incumbent_objective == pytest.approx(optimum)
    assert results.solver_version == solver.version()
    bad = known.infeasible(pyo.maximize, "lp")
    with pytest.raises(NoOptimalSolutionError):
        solver.solve(bad)
    with pytest.raises(NoFeasibleSolutionError):
        solver.solve(bad, raise_exception_on_nonoptimal_result=False)
    results = solver.solve(bad, raise_exception_on_nonoptimal_result=False, load_solutions=False)
    assert results.termination_condition is TerminationCondition.provenInfeasible
    assert results.solution_status is SolutionStatus.noSolution
    assert results.solution_loader.get_number_of_solutions() == 0


def test_warm_starts_through_pyomos_own_option() -> None:
    model, hidden = known.market_split(pyo.minimize)
    for var, value in known.start_at(model, hidden).items():
        var.set_value(value)
    results = get_solver("highs").solve(
        model, load_solutions=False, warmstart_discrete_vars=True, time_limit=10
    )
    assert results.incumbent_objective == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("name", [n for n in available_solvers() if n not in ("scip", "cbc")])
@pytest.mark.parametrize("sense", [pyo.minimize, pyo.maximize])
def test_duals_are_the_change_of_the_optimum(name: str, sense: Any) -> None:
    sign = 1.0 if sense == pyo.maximize else -1.0

    def build(change: float) -> Any:
        model = pyo.ConcreteModel()
        model.x = pyo.Var(bounds=(0, None))
        model.y = pyo.Var(bounds=(0, 3))
        model.weight = pyo.Constraint(expr=model.x + 2 * model.y <= 8 + change)
        model.range = pyo.Constraint(expr=(-9, model.x - model.y, 20))
        model.objective = pyo.Objective(expr=sign * (3 * model.x + 7 * model.y), sense=sense)
        model.dual = pyo.Suffix(direction=pyo.Suffix.IMPORT)
        model.rc = pyo.Suffix(direction=pyo.Suffix.IMPORT)
        return model

    model, shifted = build(0.0), build(0.5)
    outcome, other = solve_model(model, name), solve_model(shifted, name)
    outcome.load()
    assert outcome.incumbent is not None
    assert other.incumbent is not None
    change = (other.incumbent - outcome.incumbent) / 0.5
    assert model.dual[model.weight] == pytest.approx(change)
    assert model.dual[model.range] == pytest.approx(0.0)
    assert model.rc[model.y] == pytest.approx(sign * 7 - 2 * change)


def test_what_the_model_must_not_hold_is_an_error() -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var(bounds=(0, 1))
    model.y = pyo.Var(bounds=(0, 1))
    model.product = pyo.Constraint(expr=model.x * model.y <= 1)
    with pytest.raises(SolverError, match="product"):
        solve_model(model, "highs")
    model.product.deactivate()
    model.one = pyo.Objective(expr=model.x)
    model.two = pyo.Objective(expr=model.y)
    with pytest.raises(SolverError, match="one, two"):
        solve_model(model, "highs")
    model.two.deactivate()
    model.bad = pyo.Constraint(expr=float("nan") * model.x + model.y <= 1)
    with pytest.raises(SolverError, match="bad"):
        solve_model(model, "highs")
    model.bad.deactivate()
    model.one.expr = float("inf") * model.x
    with pytest.raises(SolverError, match="objective"):
        solve_model(model, "highs")
    model.one.expr = model.x
    model.z = pyo.Var(domain=pyo.Any)
    model.odd = pyo.Constraint(expr=model.z + model.x <= 1)
    with pytest.raises(SolverError, match="'z'"):
        solve_model(model, "highs")


def test_relaxing_drops_integrality_only() -> None:
    model, optimum = known.knapsack(3, pyo.maximize)
    outcome = solve_model(model, "highs", relax=True)
    assert outcome.incumbent is not None
    assert outcome.incumbent > optimum
    assert all(-1e-9 <= outcome.value(var) <= 1 + 1e-9 for var in model.x.values())
    assert all(var.is_binary() for var in model.x.values())


def test_the_incumbents_violation_is_measured() -> None:
    model, _ = known.knapsack(3, pyo.maximize)
    linear = compile_model(model)
    assert linear.violation(np.zeros(12)) == 0.0
    assert linear.violation(np.full(12, 0.25)) == 0.25
    assert linear.violation(np.full(12, 2.0)) >= 1.0
    assert solve_model(model, "highs").violation <= 1e-6


def test_the_log_is_printed_only_on_request(capfd: pytest.CaptureFixture[str]) -> None:
    model, _ = known.knapsack(3, pyo.maximize)
    for name in available_solvers():
        outcome = solve_model(model, name)
        printed = capfd.readouterr()
        assert (printed.out, printed.err) == ("", ""), name
        shown = solve_model(model, name, SolverOptions(log=True))
        assert capfd.readouterr().out.strip(), name
        assert shown.log.strip()
        assert outcome.log.strip()


def test_solvers_cost_nothing_until_they_are_used() -> None:
    code = (
        "import sys, lipyomo.solvers\n"
        "heavy = {'highspy', 'gurobipy', 'cplex', 'pyscipopt', 'cbcbox'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
        "import lipyomo.solvers.highs, lipyomo.solvers.solve\n"
        "rest = {'network', 'problem', 'blocks', 'methods', 'cli', 'search'}\n"
        "print(sorted(name for name in rest if 'lipyomo.' + name in sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]
