"""Derivatives of smooth networks in nonlinear programs: full and reduced space, and grey boxes."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo.contrib.pynumero.interfaces.external_grey_box import ExternalGreyBoxBlock
from pyomo_nlp import kkt_point

import lipyomo
from lipyomo import Curve, Layer, Network
from lipyomo.base.errors import ProblemError
from lipyomo.blocks import GradientBlock, NetworkGreyBox, Scaling, SmoothNetworkBlock, rebuild
from lipyomo.networks.activations import Exp, activation
from networks import random_network

KINDS = {
    "tanh": activation("tanh"),
    "sigmoid": activation("sigmoid"),
    "softplus": activation("softplus", beta=2.0),
    "swish": activation("swish"),
    "mish": activation("mish"),
    "gelu": activation("gelu", approximate="tanh"),
    "sin": activation("sin"),
    "cos": activation("cos"),
    "elu": activation("elu"),
    "celu": activation("celu", alpha=0.7),
    "softsign": activation("softsign"),
}


def smooth(sizes, kind="tanh", seed=0, straight=False):
    """A random network, with one unit that is none in each layer if it is `straight`."""
    rng = np.random.default_rng(seed)
    layers = []
    for i, (before, after) in enumerate(pairwise(sizes)):
        units = range(int(straight), after)
        curves = [Curve(KINDS[kind], list(units))] if i < len(sizes) - 2 else []
        weight = rng.normal(size=(after, before)) / np.sqrt(before)
        layers.append(Layer(weight, rng.normal(size=after), curves=curves))
    return Network(layers)


def slopes_by_differences(network, x, step=1e-6):
    """The Jacobian, shape (m, d)."""
    moves = step * np.eye(network.input_dim)
    columns = [(network.forward(x + e) - network.forward(x - e)) / (2 * step) for e in moves]
    return np.array(columns).T


def put(m, network, x):
    """Give the variables of a full-space model the values that they have at a point."""
    for variable, value in zip(m.x.values(), x, strict=True):
        variable.value = value
    for i, z in enumerate(network.preactivations(x)):
        for k, variable in m.net.layer[i].preactivation.items():
            if variable.is_variable_type():
                variable.value = z[k]


def derivative(row, network, x):
    """The gradient that the rows of a full-space block define, solved backwards."""
    for i in reversed(range(len(network.hidden))):
        part = row.layer[i]
        for _, t in part.component("arriving_affine").items() if len(part.arriving) else ():
            solve_for(t, part.arriving[t.index()])
        for k, rows in part.product.items():
            solve_for(rows, part.passed[k])
    for key, rows in row.gradient_affine.items():
        solve_for(rows, row.gradient[key])
    return np.array([pyo.value(entry) for entry in row.gradient.values()])


def solve_for(row, variable):
    """The value of a variable that is alone on one side of an equation, with coefficient +-1."""
    variable.value = 0.0
    rest = pyo.value(row.body) - pyo.value(row.upper)
    variable.value = 1.0
    factor = pyo.value(row.body) - pyo.value(row.upper) - rest
    variable.value = -rest / factor


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_differences(kind):
    network = smooth((3, 5, 4, 2), kind, straight=True)
    for reduced in (False, True):
        m = pyo.ConcreteModel()
        m.x = pyo.Var(["a", "b", "c"], bounds=(-1, 1))
        m.net = SmoothNetworkBlock(network, m.x, reduced_space=reduced)
        m.slope = GradientBlock(m.net)
        for x in np.random.default_rng(1).uniform(-1, 1, (4, 3)):
            truth = slopes_by_differences(network, x)
            put(m, network, x)
            for k in range(2):
                row = m.slope.row[k]
                if reduced:
                    found = [pyo.value(row.gradient[key]) for key in m.x]
                    assert pyo.value(m.net.outputs[k]) == pytest.approx(network.forward(x)[k])
                else:
                    found = derivative(row, network, x)
                    for part in row.component_data_objects(pyo.Var):
                        assert part.lb - 1e-9 <= part.value <= part.ub + 1e-9
                assert found == pytest.approx(truth[k], abs=1e-7)
                key = (k, "b")
                assert pyo.value(m.slope.jacobian[key]) == pytest.approx(truth[k, 1], abs=1e-7)


def test_slopes_that_jump_are_refused_and_those_on_one_side_are_not():
    for name, word in (("selu", "selu"), ("hard_swish", "hard")):
        m = pyo.ConcreteModel()
        m.x = pyo.Var([0], bounds=(-9, 9))
        unit = Layer([[1.0]], [0.0], curves=[Curve(activation(name), [0])])
        m.net, m.slope = SmoothNetworkBlock(Network([unit]), m.x), GradientBlock()
        with pytest.raises(ProblemError, match=word):
            m.slope.build_formulation(m.net)
        m.x[0].setlb(0.25)
        m.x[0].setub(2.0)
        m.net.rebuild()
        m.slope.build_formulation(m.net)
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    m.bands = SmoothNetworkBlock(smooth((2, 3, 1)), m.x, segments=4)
    m.slope = GradientBlock()
    with pytest.raises(ProblemError, match="segments"):
        m.slope.build_formulation(m.bands)
    bent = Layer(
        [[1.0, 2.0], [1.0, 1.0]],
        [0.0, 0.0],
        [0.0, 1.0],
        [1.0, 1.0],
        curves=[Curve(activation("tanh"), [1])],
    )
    m.mixed = SmoothNetworkBlock(Network([bent]), m.x)
    with pytest.raises(ProblemError, match="kink"):
        m.slope.build_formulation(m.mixed)
    m.short = SmoothNetworkBlock()
    for options in ({"segments": 3}, {}):
        with pytest.raises(ProblemError, match="reduced_space"):
            m.short.build_formulation(Network([bent]), m.x, reduced_space=True, **options)


def test_reduced_space_has_neither_variables_nor_rows():
    network = smooth((2, 4, 3, 2))
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    m.net = SmoothNetworkBlock(network, m.x, reduced_space=True)
    m.slope = GradientBlock(m.net)
    assert list(m.component_data_objects(pyo.Var)) == list(m.x.values())
    assert m.nconstraints() == 0
    m.y = pyo.Var(["p", "q"])
    m.tied = SmoothNetworkBlock(network, m.x, reduced_space=True, outputs=m.y)
    assert m.nconstraints() == 2
    m.x[0].setub(2.0)
    assert rebuild(m) >= 2
    assert m.nconstraints() == 2


@pytest.mark.parametrize("reduced", [False, True])
def test_derivatives_are_rebuilt_written_cloned_and_pickled(reduced, tmp_path):
    network, x = smooth((2, 4, 3, 2)), np.array([1.5, -0.5])
    m = pyo.ConcreteModel()
    m.x = pyo.Var(["a", "b"], bounds=(-1, 1))
    net = lipyomo.add_network(m, network, m.x, reduced_space=reduced)
    entry = net.jacobian[1, "b"]
    m.x["a"].setub(2.0)
    assert rebuild(m) == 2
    assert net.jacobian[1, "b"] is entry
    m.goal = pyo.Objective(expr=net.y[0] + entry)
    m.write(str(tmp_path / "model.nl"))
    header = (tmp_path / "model.nl").read_text().splitlines()[1].split()
    full = 2 + 2 * 7 + 2 + 4 + 7 + 2  # x, z and y, outputs, what arrives and leaves, gradient
    assert int(header[0]) == (2 if reduced else full)
    for copy in (m, m.clone(), pickle.loads(pickle.dumps(m))):
        block = copy.net.net
        if reduced:
            for variable, value in zip(copy.x.values(), x, strict=True):
                variable.value = value
        else:
            for variable, value in zip(copy.x.values(), x, strict=True):
                variable.value = value
            for i, z in enumerate(network.preactivations(x)):
                for k, variable in block.layer[i].preactivation.items():
                    variable.value = z[k]
            derivative(copy.net.row[1], network, x)
        found = pyo.value(copy.net.jacobian[1, "b"])
        assert found == pytest.approx(slopes_by_differences(network, x)[1, 1], abs=1e-7)


# -- nonlinear programs ----------------------------------------------------------------------------


@pytest.mark.parametrize("reduced", [False, True])
def test_a_smooth_network_in_a_nonlinear_program(reduced):
    """The largest output where no derivative exceeds a limit, by IPOPT."""
    network = smooth((2, 6, 5, 1), seed=3)
    m = pyo.ConcreteModel()
    m.x = pyo.Var(["angle", "vel"], bounds=(-2, 2), initialize=0.1)
    net = lipyomo.add_network(m, network, m.x, reduced_space=reduced)
    m.flat = pyo.Constraint(expr=(-0.2, net.jacobian[0, "vel"], 0.2))
    m.goal = pyo.Objective(expr=net.y[0], sense=pyo.maximize)
    kkt_point(m)
    x = np.array([pyo.value(m.x[key]) for key in m.x])
    slope = slopes_by_differences(network, x)[0]
    assert abs(slope[1]) <= 0.2 + 1e-6
    assert pyo.value(net.y[0]) == pytest.approx(network.forward(x)[0], abs=1e-6)
    for move in 1e-3 * np.random.default_rng(0).normal(size=(300, 2)):
        near = np.clip(x + move, -2, 2)
        if abs(slopes_by_differences(network, near)[0, 1]) <= 0.2:
            assert network.forward(near)[0] <= pyo.value(net.y[0]) + 1e-6


def test_a_grey_box_has_right_values_and_derivatives():
    for network in (smooth((4, 6, 5, 3), kind, straight=True) for kind in ("tanh", "swish", "sin")):
        box, rng = NetworkGreyBox(network), np.random.default_rng(0)
        x, weights = rng.uniform(-1, 1, 4), rng.normal(size=3)
        box.set_input_values(x)
        box.set_output_constraint_multipliers(weights)
        assert box.evaluate_outputs() == pytest.approx(network.forward(x))
        jacobian = box.evaluate_jacobian_outputs()
        assert jacobian.toarray() == pytest.approx(slopes_by_differences(network, x), abs=1e-7)
        step = 1e-5
        columns = []
        for e in step * np.eye(4):
            up, down = network.jacobian_at(x + e), network.jacobian_at(x - e)
            columns.append(weights @ (up - down) / (2 * step))
        truth = np.array(columns)
        lower = box.evaluate_hessian_outputs().toarray()
        assert lower == pytest.approx(np.tril(truth), abs=1e-7)
        v = rng.normal(size=4)
        assert box.hessian_product(v) == pytest.approx(truth @ v, abs=1e-6)


def test_a_grey_box_is_one_of_pyomo():
    network = smooth((2, 3, 1))
    m = pyo.ConcreteModel()
    m.x = pyo.Var(["angle", "vel"], bounds=(-1, 1))
    scaling = Scaling(output_factor=2.0)
    m.net = ExternalGreyBoxBlock()
    model = NetworkGreyBox(network, scaling=scaling, inputs=m.x, outputs=["y"])
    m.net.set_external_model(model, inputs=list(m.x.values()))
    assert model.input_names() == ["angle", "vel"]
    assert list(m.net.outputs) == ["y"]
    model.set_input_values([0.1, 0.2])
    assert model.evaluate_outputs() == pytest.approx(2.0 * network.forward([0.1, 0.2]))
    for wrong in ({"inputs": ["a"]}, {"inputs": ["a", "a"]}):
        with pytest.raises(ProblemError, match="names"):
            NetworkGreyBox(network, **wrong)
    linear = NetworkGreyBox(Network.from_arrays([[[1.0, 2.0]]]))
    assert not linear.evaluate_hessian_outputs().toarray().any()
    kinked = NetworkGreyBox(random_network(0, (2, 3, 1)))
    kinked.set_input_values([0.3, 0.4])
    assert kinked.evaluate_jacobian_outputs().shape == (1, 2)


def test_a_grey_box_leads_ipopt_to_a_stationary_point():
    ipyopt = pytest.importorskip("ipyopt", reason="IPOPT: pip install 'lipyomo[ipopt]'")
    network = smooth((3, 8, 6, 1), seed=5)
    box = NetworkGreyBox(network)

    def value(x):
        box.set_input_values(x)
        return float(box.evaluate_outputs()[0])

    def gradient(x, out):
        box.set_input_values(x)
        out[:] = box.evaluate_jacobian_outputs().toarray()[0]

    def hessian(x, _, factor, out):
        box.set_input_values(x)
        box.set_output_constraint_multipliers([factor])
        out[:] = box.evaluate_hessian_outputs().data

    none = np.zeros(0)
    problem = ipyopt.Problem(
        3,
        -np.ones(3),
        np.ones(3),
        0,
        none,
        none,
        ([], []),
        np.tril_indices(3),
        value,
        gradient,
        lambda x, out: None,
        lambda x, out: None,
        hessian,
        ipopt_options={"print_level": 0, "sb": "yes"},
    )
    x, least, status = problem.solve(np.full(3, 0.1))
    assert status == 0
    slope = slopes_by_differences(network, x)[0]
    inside = (x > -1 + 1e-6) & (x < 1 - 1e-6)
    assert abs(slope[inside]) == pytest.approx(np.zeros(inside.sum()), abs=1e-5)
    assert (slope[x >= 1 - 1e-6] <= 1e-6).all()
    assert (slope[x <= -1 + 1e-6] >= -1e-6).all()
    assert least == pytest.approx(network.forward(x)[0])


def test_units_that_are_right_on_some_domain_only_are_refused():
    network = Network([Layer([[1.0]], [0.0], curves=[Curve(Exp(), [0])])])
    m = pyo.ConcreteModel()
    m.net = SmoothNetworkBlock()
    with pytest.raises(ProblemError, match="the domain is unbounded"):
        m.net.build_formulation(network)
    assert not m.net.is_built
    m.x = pyo.Var([0], bounds=(-1, 1))
    m.net.build_formulation(network, m.x)
    part = m.net.layer[0]
    part.preactivation[0].value, part.output[0].value = 0.5, np.exp(0.5)
    assert pyo.value(part.curve[0].body) == pytest.approx(0.0)
