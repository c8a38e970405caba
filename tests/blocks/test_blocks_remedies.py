"""What errors of blocks advise works."""

from __future__ import annotations

import warnings

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo_models import best, model_of

from lipyomo import Box, Network, value_range
from lipyomo.base.errors import BoundsMissing, ProblemError
from lipyomo.blocks import (
    LipschitzBlock,
    NormBlock,
    OneSidedWarning,
    ReluNetworkBlock,
    ToleranceWarning,
    UpperLipschitzBlock,
)
from networks import random_network

NETWORK = random_network(3, (2, 4, 3, 2))


def bound_variables(m):
    for variable in m.x.values():
        variable.bounds = (-1, 1)
    m.net = ReluNetworkBlock(NETWORK, m.x)


def give_input_bounds(m):
    m.net = ReluNetworkBlock(NETWORK, m.x, input_bounds=[(-1, 1)] * 2)


def give_domain(m):
    m.net = ReluNetworkBlock(NETWORK, m.x, domain=Box(-1, 1, 2))


def give_bounds(m):
    sizes = [layer.units for layer in NETWORK.hidden]
    m.net = ReluNetworkBlock(NETWORK, m.x, bounds=[([-50.0] * n, [50.0] * n) for n in sizes])
    m.held = pyo.Constraint([0, 1], rule=lambda m, j: (-1, m.x[j], 1))


@pytest.mark.parametrize("remedy", [bound_variables, give_input_bounds, give_domain, give_bounds])
def test_missing_bounds(remedy):
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1])
    with pytest.raises(BoundsMissing, match=r"input_bounds=.*domain.*bounds of the pre-act"):
        m.net = ReluNetworkBlock(NETWORK, m.x)
    remedy(m)
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    whole = model_of(NETWORK)
    whole.goal = pyo.Objective(expr=whole.net.outputs[0], sense=pyo.maximize)
    assert best(m) == pytest.approx(best(whole), abs=1e-6)


@pytest.mark.parametrize("formulation", ["bigm", "gdp", "sos1"])
def test_bounds_at_which_tolerances_of_solvers_are_large(formulation):
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1e8, 1e8))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        m.net = ReluNetworkBlock(NETWORK, m.x, formulation=formulation)
    told = [str(one.message) for one in caught if one.category is ToleranceWarning]
    assert len(told) == (formulation != "sos1")
    assert all("block 'net'" in text for text in told)
    m.del_component(m.net)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m.net = ReluNetworkBlock(NETWORK, m.x, formulation=formulation, domain=Box(-1, 1, 2))


@pytest.mark.parametrize("name", ["appsi_highs", "cbc", "gurobi_direct", "cplex_direct"])
@pytest.mark.parametrize("power", [-30, -24, -20, 0, 6])
def test_layers_whose_sizes_are_those_of_tolerances(name, power):
    """Solvers are wrong by up to a factor of two where a layer is tiny, and a warning says so."""
    rng, scale = np.random.default_rng(3), 2.0**power
    weights = [scale * rng.standard_normal((6, 2)), rng.standard_normal((1, 6)) / scale]
    network = Network.from_arrays(weights, [scale * 0.3 * rng.standard_normal(6), [0.0]])
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        m.net = ReluNetworkBlock(network, m.x)
    told = [str(one.message) for one in caught if one.category is ToleranceWarning]
    assert len(told) == (power < -17)
    assert all("hidden layer 0 are at most" in text for text in told)
    solver = pyo.SolverFactory(name)
    if told or not solver.available(exception_flag=False):
        return
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    solver.solve(m)
    most = value_range(network, Box(-1, 1, 2)).high
    assert pyo.value(m.goal) == pytest.approx(most[0], rel=1e-5)


def test_small_units_beside_large_ones_are_no_reason_to_warn():
    """An open unit whose range is tiny adds as little to the outputs."""
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0], bounds=(-1, 1))
    network = Network.from_arrays([[[1e-9], [1.0]], [[1.0, 1.0]]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m.net = ReluNetworkBlock(network, m.x)


def test_a_lipschitz_block_that_is_minimised():
    m = model_of(NETWORK)
    m.block = LipschitzBlock(m.net)
    m.goal = pyo.Objective(expr=m.block.value)
    with pytest.raises(ProblemError, match="an UpperLipschitzBlock"):
        best(m)
    m.del_component("goal")
    m.del_component("block")
    m.block = UpperLipschitzBlock(m.net)
    m.goal = pyo.Objective(expr=m.block.value)
    assert best(m) >= 0.0


@pytest.mark.parametrize("sense", ["min", "both"])
def test_a_norm_that_is_minimised(sense):
    m = pyo.ConcreteModel()
    m.g = pyo.Var([0, 1], bounds=(-2, 3), initialize=0.0)
    m.far = pyo.Constraint(expr=m.g[0] + m.g[1] >= 2)
    m.size = NormBlock(m.g, "l1", sense="max")
    m.goal = pyo.Objective(expr=m.size.value)
    with pytest.raises(ProblemError, match=r"sense='min', or sense='both'"):
        best(m)
    m.del_component("goal")
    m.del_component("size")
    m.size = NormBlock(m.g, "l1", sense=sense)
    m.goal = pyo.Objective(expr=m.size.value)
    assert best(m) == pytest.approx(2.0, abs=1e-6)


def test_a_norm_that_is_bounded_on_the_wrong_side():
    m = pyo.ConcreteModel()
    m.g = pyo.Var([0, 1], bounds=(-2, 3))
    m.size = NormBlock(m.g, "l1", sense="max")
    m.cap = pyo.Constraint(expr=m.size.value <= 1)
    m.goal = pyo.Objective(expr=m.g[0], sense=pyo.maximize)
    with pytest.warns(OneSidedWarning, match="sense='both'"):
        assert best(m) == pytest.approx(3.0)  # the cap says nothing
    m.del_component("size")
    m.del_component("cap")
    m.size = NormBlock(m.g, "l1", sense="both")
    m.cap = pyo.Constraint(expr=m.size.value <= 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert best(m) == pytest.approx(1.0)


def test_what_a_rebuild_would_drop():
    m = model_of(NETWORK)
    layer = m.net.layer[0]
    first = min(layer.switch)
    m.use = pyo.Constraint(expr=layer.switch[first] <= 1)
    for j in m.x:
        m.x[j].setlb(0.25)
        m.x[j].setub(0.25)
    with pytest.raises(ProblemError, match=r"'use'.*take it out"):
        m.net.rebuild()
    m.del_component("use")
    m.net.rebuild()
    m.goal = pyo.Objective(expr=m.net.outputs[0])
    assert best(m) == pytest.approx(NETWORK.forward([0.25, 0.25])[0], abs=1e-6)
