"""Starts by local search: feasible, good, and only where they are starts of the model."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo
import pytest

from lipyomo import Box, ball
from lipyomo.blocks import GradientBlock, ReluNetworkBlock
from lipyomo.solvers import available_solvers, solve_model
from lipyomo.solvers.adapter import proposed_start
from lipyomo.solvers.compilation import compile_model
from networks import random_network

NETWORK = random_network(5, (6, 6, 5, 2))


def model(sense=pyo.maximize, weights=(1.0, -2.0), **options):
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(6), bounds=(-1, 1))
    m.net = ReluNetworkBlock()
    m.net.build_formulation(NETWORK, inputs=m.x, **options)
    f = m.net.outputs
    m.goal = pyo.Objective(expr=weights[0] * f[0] + weights[1] * f[1] + 0.3 * m.x[0], sense=sense)
    return m


def start_of(m):
    linear = compile_model(m)
    point = proposed_start(m, linear)
    return None if point is None else linear.objective(point)


@pytest.mark.parametrize("sense", [pyo.maximize, pyo.minimize])
def test_starts_are_feasible_and_good(sense):
    m = model(sense)
    point = proposed_start(m, compile_model(m))
    assert compile_model(m).violation(point) <= 1e-7
    random = np.random.default_rng(0).uniform(-1, 1, (2000, 6))
    values = NETWORK.forward(random) @ [1.0, -2.0] + 0.3 * random[:, 0]
    best, found = solve_model(model(sense, formulation="partition"), "highs").incumbent, start_of(m)
    if sense == pyo.maximize:
        assert values.max() - 1e-9 <= found <= best + 1e-6
    else:
        assert best - 1e-6 <= found <= values.min() + 1e-9


@pytest.fixture(scope="module")
def truth():
    """The optimum of another formulation."""
    return solve_model(model(formulation="partition"), "highs").incumbent


@pytest.mark.parametrize("solver", available_solvers())
def test_every_solver_takes_the_start(solver, truth):
    outcome = solve_model(model(), solver)
    assert outcome.status.proven
    assert outcome.incumbent == pytest.approx(truth, abs=1e-5)


def test_two_networks_with_common_and_fixed_inputs():
    m = model()
    m.other = ReluNetworkBlock()
    m.other.build_formulation(
        random_network(7, (6, 5, 1)), inputs=[m.x[5], *list(m.x.values())[:5]]
    )
    m.x[3].fix(0.25)
    m.goal.expr += m.other.outputs[0]
    found = start_of(m)
    assert found is not None
    assert found <= solve_model(m, "highs").incumbent + 1e-6
    m.goal.expr += m.other.outputs[0] * m.x[1]
    assert m.net.propose_start(m, compile_model(m).columns) is None


def test_a_start_that_breaks_another_constraint_is_none():
    m = model()
    limit = start_of(m) - 0.5
    m.limit = pyo.Constraint(expr=m.goal.expr <= limit)
    assert start_of(m) is None
    assert solve_model(m, "highs").incumbent == pytest.approx(limit, abs=1e-5)


@pytest.mark.parametrize(
    "what", ["no objective", "other variables", "derivatives", "partition", "gdp"]
)
def test_no_start_is_no_harm(what):
    m = model(formulation=what if what in ("partition", "gdp") else "bigm")
    if what == "no objective":
        m.goal.deactivate()
    elif what == "other variables":
        m.y = pyo.Var(bounds=(0, 1))
        m.goal.expr += m.y
    elif what == "derivatives":
        m.slope = GradientBlock()
        m.slope.build_formulation(m.net, functional=0)
    elif what == "gdp":
        pyo.TransformationFactory("gdp.bigm").apply_to(m)
    assert start_of(m) is None
    assert solve_model(m, "highs").status.proven


def test_domains_that_are_no_boxes():
    m = pyo.ConcreteModel()
    m.net = ReluNetworkBlock()
    m.net.build_formulation(NETWORK, domain=ball(np.zeros(6), 1.0, "l1"))
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    m.alike = pyo.Block()
    m.alike.net = ReluNetworkBlock()
    m.alike.net.build_formulation(NETWORK, domain=Box(-1, 1, 6))
    assert solve_model(m, "highs").status.proven
