"""Quadratic terms and special ordered sets: who takes them, and who is asked."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo.gdp import Disjunct, Disjunction

from lipyomo import Network
from lipyomo.base.errors import SolverError
from lipyomo.blocks import ReluNetworkBlock
from lipyomo.solvers import SolveStatus, available_solvers, solve_model
from lipyomo.solvers.scip import Scip
from networks import random_network

NETWORK = random_network(1, (2, 4, 3, 1))


def tracking(formulation):
    """A quadratic cost around a network's output, with switches or with ordered sets."""
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    m.net = ReluNetworkBlock()
    m.net.build_formulation(NETWORK, inputs=m.x, formulation=formulation)
    m.cost = pyo.Objective(expr=(m.net.outputs[0] - 0.2) ** 2 + 0.1 * m.x[0] ** 2)
    return m


@pytest.mark.parametrize("formulation", ["bigm", "sos1"])
@pytest.mark.parametrize("solver", ["gurobi", "cplex", "scip"])
def test_quadratic_tracking_of_a_network(solver, formulation):
    if solver not in available_solvers():
        pytest.skip(f"{solver} is not installed")
    m = tracking(formulation)
    outcome = solve_model(m, solver)
    assert outcome.status.proven
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * 2), axis=-1).reshape(-1, 2)
    costs = (NETWORK.forward(grid)[:, 0] - 0.2) ** 2 + 0.1 * grid[:, 0] ** 2
    assert outcome.incumbent <= costs.min() + 1e-6
    x = np.array([outcome.value(m.x[j]) for j in range(2)])
    true = (NETWORK.forward(x)[0] - 0.2) ** 2 + 0.1 * x[0] ** 2
    assert outcome.incumbent == pytest.approx(true, abs=1e-5)


@pytest.mark.parametrize("solver", ["gurobi", "cplex", "scip", "cbc"])
def test_sets_give_what_switches_give(solver):
    if solver not in available_solvers():
        pytest.skip(f"{solver} is not installed")
    found = []
    for formulation in ("bigm", "sos1"):
        m = tracking(formulation)
        m.cost.deactivate()
        m.least = pyo.Objective(expr=m.net.outputs[0])
        outcome = solve_model(m, solver)
        assert outcome.status.proven, outcome.message
        found.append(outcome.incumbent)
    assert found[0] == pytest.approx(found[1], abs=1e-5)


def test_a_named_solver_refuses_and_auto_goes_on():
    m = tracking("sos1")
    for solver in ("highs", "cbc"):
        if solver in available_solvers():
            with pytest.raises(SolverError, match="takes no"):
                solve_model(m, solver)
    if set(available_solvers()) & {"gurobi", "cplex", "scip"}:
        assert solve_model(m, "auto").status.proven


def test_the_model_is_left_as_it_was():
    m = tracking("sos1")
    with pytest.raises(SolverError):
        solve_model(m, "highs")
    assert m.cost.active
    assert all(found.active for found in m.component_data_objects(pyo.SOSConstraint))
    m.cubic = pyo.Constraint(expr=m.x[0] ** 3 <= 1)
    with pytest.raises(SolverError, match="cubic"):
        solve_model(m, "auto")
    assert m.cubic.active


def test_relaxing_lets_sets_go():
    m = tracking("sos1")
    m.cost.deactivate()
    m.least = pyo.Objective(expr=m.net.outputs[0])
    relaxed = solve_model(m, "highs", relax=True)
    assert relaxed.bound <= solve_model(tracking_least(), "highs").incumbent + 1e-6


def tracking_least():
    m = tracking("bigm")
    m.cost.deactivate()
    m.least = pyo.Objective(expr=m.net.outputs[0])
    return m


def test_what_scip_gives_up_on_is_a_status(monkeypatch):
    scip = pytest.importorskip("pyscipopt", reason="needs the extra [scip]")

    class Broken(scip.Model):
        def optimizeNogil(self):
            raise Exception("SCIP: error in LP solver!")

    monkeypatch.setattr(scip, "Model", Broken)
    m = tracking_least()
    results = Scip().solve(m, load_solutions=False, raise_exception_on_nonoptimal_result=False)
    assert results.extra_info.status is SolveStatus.ERROR
    assert "error in LP solver" in results.extra_info.message


def test_disjunctions_are_refused_with_the_remedy():
    network = Network.from_arrays([np.eye(6) - 0.3, np.ones((1, 6))])
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(6), bounds=(-1, 1))
    m.net = ReluNetworkBlock()
    m.net.build_formulation(network, inputs=m.x, formulation="gdp")
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    with pytest.raises(SolverError, match=r"net\..*gdp\.bigm"):
        solve_model(m, "highs")
    m.case = Disjunct(range(9))
    m.either = Disjunction(expr=[m.case[k] for k in range(9)])
    with pytest.raises(SolverError, match="more") as caught:
        solve_model(m, "highs")
    assert len(str(caught.value)) < 300
