"""Networks with products of signals in Pyomo models, against values of the networks."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo_nlp import kkt_point

import lipyomo
from lipyomo import Box, Network
from lipyomo.base.errors import SolverError
from lipyomo.blocks import GradientBlock, NetworkGreyBox, SmoothNetworkBlock, rebuild
from lipyomo.networks import affine_after, product, quotient, square
from lipyomo.solvers import available_solvers, solve_model
from networks import random_network

F = Network.from_arrays([[[1.0, 0.5], [-1.0, 0.7], [0.3, -0.8]], [[1.0, -2.0, 0.5]]])
G = Network.from_arrays([[[0.4, -0.5], [1.0, 0.7]], [[1.0, 0.6]]], [[0.1, 0.2], [0.3]])
SMOOTH = Network.from_arrays([[[1.0, 0.5], [-1.0, 0.7]], [[1.0, -2.0]]], activation="tanh")
LINE = Network.from_arrays([[[1.0, -1.0]]], [[0.25]])


def model_of(network, **options):
    m = pyo.ConcreteModel()
    m.x = pyo.Var(["a", "b"], bounds=(-1, 1))
    m.net = SmoothNetworkBlock(network, m.x, **options)
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    return m


def at(m):
    return np.array([m.x["a"].value, m.x["b"].value])


@pytest.mark.parametrize("solver", ["gurobi", "scip"])
@pytest.mark.parametrize("network", [product(F, G), affine_after(square(F), [[-1.0]])])
def test_solvers_of_quadratic_rows_find_the_largest_value(network, solver):
    if solver not in available_solvers():
        pytest.skip(f"needs {solver}")
    truth = lipyomo.value_range(network, Box(-1, 1, 2), workers=1).high
    m = model_of(network, formulation="bigm")
    found = solve_model(m, solver)
    assert truth[0] - 1e-5 <= found.incumbent <= truth[1] + 1e-5
    found.load()
    assert network.forward(at(m))[0] == pytest.approx(found.incumbent, abs=1e-4)


def test_others_refuse_or_relax_by_segments():
    network = product(F, G)
    with pytest.raises(SolverError, match="no quadratic constraints"):
        solve_model(model_of(network, formulation="bigm"), "highs")
    truth = lipyomo.value_range(network, Box(-1, 1, 2), workers=1).high[0]
    coarse, fine = (
        solve_model(model_of(network, segments=count), "highs").bound for count in (2, 16)
    )
    assert truth - 1e-6 <= fine < coarse
    assert fine == pytest.approx(truth, abs=0.05)


@pytest.mark.parametrize(
    "network",
    [
        product(SMOOTH, LINE),
        quotient(SMOOTH, affine_after(LINE, [[0.1]], [2.0])),
        product(product(SMOOTH, LINE), square(SMOOTH)),
    ],
)
def test_values_and_derivatives_as_expressions(network):
    m = pyo.ConcreteModel()
    m.x = pyo.Var(["a", "b"], bounds=(-1, 1), initialize=0.0)
    m.net = SmoothNetworkBlock(network, m.x, reduced_space=True)
    m.slope = GradientBlock(m.net)
    box = NetworkGreyBox(network)
    for x in np.random.default_rng(0).uniform(-1, 1, (4, 2)):
        m.x["a"].value, m.x["b"].value = x.tolist()
        box.set_input_values(x)
        truth = network.jacobian_at(x)[0]
        assert pyo.value(m.net.outputs[0]) == pytest.approx(network.forward(x)[0])
        found = [pyo.value(m.slope.jacobian[0, key]) for key in m.x]
        assert found == pytest.approx(truth)
        assert box.evaluate_jacobian_outputs().toarray()[0] == pytest.approx(truth)
        steps = [1e-6 * e for e in np.eye(2)]
        ends = [(network.forward(x + e) - network.forward(x - e))[0] / 2e-6 for e in steps]
        assert truth == pytest.approx(ends, abs=1e-6)


def test_ipopt_reaches_a_stationary_point():
    network = product(SMOOTH, LINE)
    m = model_of(network)
    m.x["a"].value, m.x["b"].value = 0.3, -0.2
    for layer, z in zip(m.net.layer.values(), network.preactivations(at(m)), strict=True):
        for k, variable in layer.preactivation.items():
            variable.value = z[k]
    kkt_point(m)
    x = at(m)
    assert pyo.value(m.net.outputs[0]) == pytest.approx(network.forward(x)[0], abs=1e-6)
    slope = network.jacobian_at(x)[0]
    inside = abs(x) < 1 - 1e-6
    assert abs(slope[inside]) == pytest.approx(np.zeros(inside.sum()), abs=1e-4)


def test_ranges_follow_the_bounds_of_the_inputs():
    network = quotient(SMOOTH, affine_after(LINE, [[1.0]], [1.5]))  # divided by 1.75 + a - b
    m = pyo.ConcreteModel()
    m.x = pyo.Var(["a", "b"], bounds=(0, 0.5))
    handle = lipyomo.add_network(m, network, m.x)

    def bounds():
        parts = [handle.net.layer[i].preactivation for i in handle.net.layer]
        return [[variable.bounds for variable in part.values()] for part in parts]

    before = bounds()
    for variable in m.x.values():
        variable.setlb(-0.25)
    rebuild(m)
    assert bounds() != before
    for part, values in zip(bounds(), network.preactivations([-0.25, 0.5]), strict=True):
        for (low, high), z in zip(part, values, strict=True):
            assert low - 1e-12 <= z <= high + 1e-12


def test_random_products_hold_in_their_rows():
    network = product(random_network(1, (2, 4, 2)), random_network(2, (2, 3, 2)))
    m = model_of(network, formulation="bigm")
    for x in np.random.default_rng(0).uniform(-1, 1, (5, 2)):
        for z, i in zip(network.preactivations(x), m.net.layer, strict=True):
            for k, variable in m.net.layer[i].preactivation.items():
                assert variable.lb - 1e-12 <= z[k] <= variable.ub + 1e-12
                variable.value = float(z[k])
            layer = network.hidden[i]
            for k, variable in m.net.layer[i].output.items():
                variable.value = float(layer.activate(z)[k])
            for row in m.net.layer[i].component_data_objects(pyo.Constraint):
                if row.parent_component().local_name == "curve":
                    assert pyo.value(row.body) == pytest.approx(0.0, abs=1e-12)
