"""The adapters in Pyomo's factories, both interfaces."""

from __future__ import annotations

import pickle

import pyomo.environ as pyo
import pytest
from pyomo.contrib.solver.common.factory import SolverFactory as NewFactory
from pyomo.contrib.solver.common.results import SolutionStatus
from pyomo.gdp import Disjunct, Disjunction

import lipyomo.solvers
from conformance.instances import market_split, start_at
from lipyomo.base.errors import SolverError

NAMES = ["highs", "gurobi", "cplex", "scip", "cbc"]


def knapsack():
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(3), domain=pyo.Binary)
    m.room = pyo.Constraint(expr=2 * m.x[0] + 3 * m.x[1] + 4 * m.x[2] <= 6)
    m.gain = pyo.Objective(expr=3 * m.x[0] + 4 * m.x[1] + 5 * m.x[2], sense=pyo.maximize)
    return m


@pytest.mark.parametrize("name", NAMES)
def test_first_interface(name):
    solver = pyo.SolverFactory(f"lipyomo_{name}")
    if not solver.available(exception_flag=False):
        pytest.skip(f"{name} is not installed")
    m = knapsack()
    results = solver.solve(m, timelimit=30)
    assert results.solver.termination_condition == pyo.TerminationCondition.optimal
    assert results.problem.upper_bound == pytest.approx(8.0)
    assert pyo.value(m.gain) == pytest.approx(8.0)
    m.more = pyo.Constraint(expr=m.x[0] + m.x[1] + m.x[2] >= 3)
    results = solver.solve(m, load_solutions=False)
    assert results.solver.termination_condition == pyo.TerminationCondition.infeasible


@pytest.mark.parametrize("name", NAMES)
def test_second_interface(name):
    solver = NewFactory(f"lipyomo_{name}")
    if not solver.available():
        pytest.skip(f"{name} is not installed")
    m = knapsack()
    results = solver.solve(m)
    assert results.solution_status is SolutionStatus.optimal
    assert results.incumbent_objective == pytest.approx(8.0)
    assert solver.config.rel_gap == lipyomo.solvers.load_settings().defaults["rel_gap"]


@pytest.mark.parametrize("factory", [pyo.SolverFactory, NewFactory])
def test_the_program_is_that_of_the_settings(factory, tmp_path, monkeypatch):
    table = tmp_path / "solvers.toml"
    table.write_text('[solver.cbc]\nexecutable = "no-such-cbc"\nthreads = 2\n')
    monkeypatch.setenv("LIPYOMO_SOLVERS", str(table))
    solver = factory("lipyomo_cbc")
    assert solver.program() is None
    with pytest.raises(SolverError, match="no-such-cbc"):
        solver.solve(knapsack())


def test_a_program_for_a_solver_that_calls_none_is_refused(tmp_path, monkeypatch):
    table = tmp_path / "solvers.toml"
    table.write_text('[solver.highs]\nexecutable = "highs"\n')
    monkeypatch.setenv("LIPYOMO_SOLVERS", str(table))
    with pytest.raises(SolverError, match="calls no program"):
        NewFactory("lipyomo_highs")


def test_registering_again_changes_nothing():
    lipyomo.solvers.register()
    solver = pyo.SolverFactory("lipyomo_highs")
    assert "highs" in solver.name
    assert pickle.loads(pickle.dumps(type(solver))) is type(solver)


def first(name):
    solver = pyo.SolverFactory(f"lipyomo_{name}")
    if not solver.available(exception_flag=False):
        pytest.skip(f"{name} is not installed")
    return solver


OWN = {
    "highs": {"mip_max_nodes": 1000},
    "gurobi": {"NodeLimit": 1000},
    "cplex": {"mip.limits.nodes": 1000},
    "scip": {"limits/nodes": 1000},
    "cbc": {"maxN": 1000},
}


@pytest.mark.parametrize("name", NAMES)
def test_usual_words_are_taken(name, tmp_path, capsys):
    solver = first(name)
    m = knapsack()
    for var in m.x.values():
        var.value = 0
    m.dual = pyo.Suffix(direction=pyo.Suffix.IMPORT)
    log = tmp_path / "log.txt"
    solver.solve(
        m,
        tee=True,
        timelimit=30,
        mipgap=1e-6,
        threads=1,
        warmstart=True,
        options=OWN[name],
        logfile=str(log),
        suffixes=["dual"],
        keepfiles=False,
        symbolic_solver_labels=True,
        load_solutions=True,
        report_timing=False,
        solver_io=None,
    )
    assert pyo.value(m.gain) == pytest.approx(8.0)
    assert log.read_text().strip()
    assert capsys.readouterr().out.strip()
    assert solver.warm_start_capable()


def test_words_of_a_call_end_with_it():
    solver, m = first("highs"), knapsack()
    solver.solve(m, timelimit=47, mipgap=0.5, options={"mip_max_nodes": 1000})
    assert solver.config.time_limit != 47
    assert solver.config.rel_gap != 0.5
    assert not solver.config.solver_options.value()
    assert pyo.value(m.gain) is not None
    solver.options["mip_max_nodes"] = 100
    solver.solve(m, options_string="mip_max_leaves=50")
    assert dict(solver.options.value()) == {"mip_max_nodes": 100}
    assert pyo.value(m.gain) == pytest.approx(8.0)


def test_a_warm_start_is_used():
    solver = first("highs")
    m, hidden = market_split(pyo.minimize)
    for var, value in start_at(m, hidden).items():
        var.value = value
    assert solver.solve(m, warmstart=True, timelimit=3.0).problem.upper_bound == pytest.approx(0.0)
    for var in m.component_data_objects(pyo.Var):
        var.value = None
    results = solver.solve(m, timelimit=0.5, load_solutions=False)
    assert results.problem.upper_bound != pytest.approx(0.0)


WRONG = {
    "mip_rel_gap": (1e-3, "options="),
    "timlimit": (3, "timelimit="),
    "warm_start": (True, "warmstart="),
    "nonsense": (3, "one of"),
    "timelimit": (-3, "time_limit"),
    "mipgap": ("small", "rel_gap"),
    "keepfiles": (True, "leave it out"),
    "solver_io": ("lp", "leave it out"),
    "suffixes": (["slack"], "dual"),
    "options": ({"mipgap": 1e-3}, "mipgap"),
    "options_string": ("nonsense=3", "nonsense"),
}


@pytest.mark.parametrize("word", WRONG)
def test_wrong_words_are_errors_that_name_the_right_ones(word):
    value, said = WRONG[word]
    with pytest.raises(SolverError, match=said):
        first("highs").solve(knapsack(), **{word: value})


def test_without_a_solution_nothing_is_loaded(caplog):
    solver, m = first("highs"), knapsack()
    m.more = pyo.Constraint(expr=m.x[0] + m.x[1] + m.x[2] >= 3)
    results = solver.solve(m)
    assert results.solver.termination_condition == pyo.TerminationCondition.infeasible
    assert "nothing was loaded" in caplog.text
    assert all(var.value is None for var in m.x.values())


@pytest.mark.parametrize("name", NAMES)
def test_gdpopt_branch_and_bound(name):
    first(name)
    m = pyo.ConcreteModel()
    m.x = pyo.Var(bounds=(0, 8), domain=pyo.Integers)
    m.y = pyo.Var(bounds=(0, 8), domain=pyo.Integers)
    m.low, m.odd = Disjunct(), Disjunct()
    m.low.row = pyo.Constraint(expr=m.x + m.y <= 3)
    # Nothing but a search finds that no integers do this.
    m.odd.row = pyo.Constraint(expr=2 * m.x + 4 * m.y == 13)
    m.either = Disjunction(expr=[m.low, m.odd])
    m.goal = pyo.Objective(expr=m.x + 2 * m.y, sense=pyo.maximize)
    results = pyo.SolverFactory("gdpopt.lbb").solve(m, minlp_solver=f"lipyomo_{name}")
    assert results.solver.termination_condition == pyo.TerminationCondition.optimal
    assert pyo.value(m.goal) == pytest.approx(6.0)
