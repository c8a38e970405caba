"""Every installed solver brings the same constant, and an empty model the right infinity."""

from __future__ import annotations

import math

import pyomo.environ as pyo
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Status
from lipyomo.solvers import available_solvers, solve_model
from networks import random_network

PROBLEM = LipschitzProblem(random_network(4, (3, 6, 5, 2)), Box(-1, 1, 3), "linf", "cross")


@pytest.fixture(scope="module")
def truth():
    return lipyomo.solve(PROBLEM, "mip", solver="highs").lower


@pytest.mark.parametrize(
    ("solver", "formulation"),  # any solver has any matrix: tests of solvers say so
    [
        *(("highs", "adjoint"), ("highs", "tangent"), ("scip", "adjoint"), ("cbc", "tangent")),
        *(("gurobi", "adjoint"), ("cplex", "tangent")),
    ],
)
def test_all_solvers_agree(solver, formulation, truth):
    if solver not in available_solvers():
        pytest.skip(f"{solver} is not installed")
    result = lipyomo.solve(PROBLEM, "mip", solver=solver, formulation=formulation)
    assert result.status is Status.EXACT
    assert result.solver == solver
    assert result.lower == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("sense", [pyo.maximize, pyo.minimize])
def test_bound_of_a_model_that_excludes_everything(sense):
    m = pyo.ConcreteModel()
    m.x = pyo.Var(bounds=(0, 1))
    m.cuts = pyo.ConstraintList()
    m.cuts.add(pyo.Constraint.Infeasible)
    m.goal = pyo.Objective(expr=m.x, sense=sense)
    bound = solve_model(m, "highs").bound
    assert bound == (-math.inf if sense == pyo.maximize else math.inf)
