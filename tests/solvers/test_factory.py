"""The adapters in Pyomo's factories, both interfaces."""

from __future__ import annotations

import pickle

import pyomo.environ as pyo
import pytest
from pyomo.contrib.solver.common.factory import SolverFactory as NewFactory
from pyomo.contrib.solver.common.results import SolutionStatus

import lipyomo.solvers

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


def test_registering_again_changes_nothing():
    lipyomo.solvers.register()
    solver = pyo.SolverFactory("lipyomo_highs")
    assert "highs" in solver.name
    assert pickle.loads(pickle.dumps(type(solver))) is type(solver)
