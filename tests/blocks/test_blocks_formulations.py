"""Every formulation of a unit describes the same network; tighter ones have tighter relaxations."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo_models import best as optimum
from pyomo_models import model_of as any_model_of

from lipyomo import Box, Network
from lipyomo.base.errors import ProblemError
from lipyomo.blocks import GradientBlock, NormBlock, ReluNetworkBlock, add_ideal_cuts
from lipyomo.solvers import available_solvers, solve_model
from networks import mixed_network, random_network

LINEAR = [
    ("bigm", {}),
    ("partition", {"groups": 1}),
    ("partition", {"groups": 2}),
    ("partition", {"groups": 99}),
    ("gdp", {}),
]


def model_of(network, formulation="bigm", bounds="linear", **options):
    return any_model_of(network, formulation=formulation, bounds=bounds, **options)


def transformed(m, how="gdp.bigm"):
    if m.net.formulation == "gdp":
        pyo.TransformationFactory(how).apply_to(m)
    return m


@cache
def extreme(seed, sense):
    """Of the plain block's output."""
    plain = model_of(mixed_network(seed, (3, 5, 4, 1)))
    plain.goal = pyo.Objective(expr=plain.net.outputs[0], sense=sense)
    return optimum(plain)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("formulation", "options"), LINEAR)
def test_same_extremes(seed, formulation, options):
    network = mixed_network(seed, (3, 5, 4, 1))
    for sense in (pyo.maximize, pyo.minimize):
        m = model_of(network, formulation, **options)
        m.goal = pyo.Objective(expr=m.net.outputs[0], sense=sense)
        best = optimum(transformed(m))
        assert best == pytest.approx(extreme(seed, sense), abs=1e-5)
        x = np.array([pyo.value(v) for v in m.x.values()])
        assert best == pytest.approx(float(network.forward(x)[0]), abs=1e-5)


@pytest.mark.parametrize(("formulation", "options"), LINEAR)
def test_same_steepest_gradient(formulation, options):
    network = random_network(5, (2, 4, 3, 1))
    found = []
    for name, extra in (("bigm", {}), (formulation, options)):
        m = model_of(network, name, **extra)
        m.slope, m.size = GradientBlock(), NormBlock()
        m.slope.build_formulation(m.net)
        m.size.build_formulation(m.slope.gradient, "l1", sense="max")
        m.goal = pyo.Objective(expr=m.size.value, sense=pyo.maximize)
        found.append(optimum(transformed(m)))
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_hull_transformation_of_disjuncts():
    network = random_network(5, (2, 4, 1))
    m = model_of(network, "gdp")
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    plain = model_of(network)
    plain.goal = pyo.Objective(expr=plain.net.outputs[0], sense=pyo.maximize)
    assert optimum(transformed(m, "gdp.hull")) == pytest.approx(optimum(plain), abs=1e-5)


@pytest.mark.parametrize("formulation", ["sos1", "complementarity"])
@pytest.mark.parametrize("seed", range(2))
def test_formulations_without_switch(seed, formulation):
    gurobi = pyo.SolverFactory("gurobi_direct")
    if not gurobi.available(exception_flag=False):
        pytest.skip("needs gurobipy: HiGHS takes neither special ordered sets nor products")
    network = mixed_network(seed, (2, 4, 3, 1))
    for sense in (pyo.maximize, pyo.minimize):
        plain = model_of(network)
        plain.goal = pyo.Objective(expr=plain.net.outputs[0], sense=sense)
        m = model_of(network, formulation)
        m.goal = pyo.Objective(expr=m.net.outputs[0], sense=sense)
        gurobi.solve(m, options={"MIPGap": 1e-9})
        assert pyo.value(m.goal) == pytest.approx(optimum(plain), abs=1e-4)


@pytest.mark.parametrize("formulation", ["sos1", "complementarity"])
def test_no_switch_needs_no_bounds_but_has_no_derivative(formulation):
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(2))
    m.net, m.slope = ReluNetworkBlock(), GradientBlock()
    m.net.build_formulation(random_network(1, (2, 3, 1)), inputs=m.x, formulation=formulation)
    with pytest.raises(ProblemError, match="no switches"):
        m.slope.build_formulation(m.net)


@pytest.mark.parametrize("formulation", ["sos1", "complementarity", "gdp", "partition"])
def test_layers_without_open_units(formulation):
    # both units of the first layer are on all over the box, one of the second is open
    network = Network.from_arrays(
        [[[1.0, 0.0], [0.0, 1.0]], [[1.0, -1.0]], [[2.0]]], [[5.0, 5.0], [0.5], [0.0]]
    )
    m = model_of(network, formulation)
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    if formulation == "gdp":
        transformed(m)
    with_sets = "scip" if formulation in ("sos1", "complementarity") else "highs"
    if with_sets not in available_solvers():
        pytest.skip("needs pyscipopt: HiGHS takes neither special ordered sets nor products")
    low, high = m.net.inputs[0].bounds
    assert solve_model(m, with_sets).incumbent == pytest.approx(2 * (high - low + 0.5), rel=1e-6)


def test_unknown_formulation():
    with pytest.raises(ProblemError, match="partition"):
        model_of(random_network(1, (2, 3, 1)), "magic")


def relaxation(network, formulation="bigm", cuts=False, **options):
    m = model_of(network, formulation, "interval", **options)
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    if cuts:
        assert add_ideal_cuts(m.net, rounds=20) > 0
    return solve_model(m, "highs", relax=True).bound


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_relaxations_are_ordered(seed):
    network = random_network(seed, (6, 8, 6, 1))
    bigm = relaxation(network)
    two = relaxation(network, "partition", groups=2)
    hull = relaxation(network, "partition", groups=99)
    cuts = relaxation(network, cuts=True)
    assert hull <= two + 1e-6
    assert two <= bigm + 1e-6
    assert hull < bigm - 1e-3
    # Cuts and hull describe the same set; cuts stop at small violations.
    assert hull - 1e-6 <= cuts <= hull + 0.02 * (bigm - hull) + 1e-6


def test_ideal_cuts_cut_nothing_off():
    network = mixed_network(4, (4, 6, 5, 1))
    m = model_of(network)
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    before = optimum(m)
    add_ideal_cuts(m.net)
    assert optimum(m) == pytest.approx(before, abs=1e-5)
    for j, value in enumerate(np.random.default_rng(0).uniform(-1, 1, 4)):
        m.x[j].fix(value)
    x = [pyo.value(v) for v in m.x.values()]
    assert optimum(m) == pytest.approx(float(network.forward(x)[0]), abs=1e-5)


def test_ideal_cuts_need_bigm():
    m = pyo.ConcreteModel()
    m.net = ReluNetworkBlock()
    m.net.build_formulation(
        random_network(1, (2, 3, 1)), domain=Box(0, 1, 2), formulation="partition"
    )
    with pytest.raises(ProblemError, match="bigm"):
        add_ideal_cuts(m.net)
