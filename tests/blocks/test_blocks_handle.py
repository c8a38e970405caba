"""A user's models by one verb; keys of users' sets; misuse that cannot be written."""

from __future__ import annotations

import pickle

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo_models import best

import lipyomo
from lipyomo import Box, LipschitzProblem
from lipyomo.base.errors import LipyomoError, ProblemError
from lipyomo.blocks import (
    DualBallBlock,
    GradientBlock,
    LipschitzBlock,
    NormBlock,
    ReluNetworkBlock,
    TangentBlock,
    UpperLipschitzBlock,
    rebuild,
)
from networks import random_network

NETWORK = random_network(3, (2, 6, 5, 2))
KEYS = ["angle", "vel"]


def model(keys=KEYS):
    m = pyo.ConcreteModel()
    m.x = pyo.Var(keys, bounds=(-1, 1))
    return m


def point(m, x):
    """Where a solved model is."""
    return np.array([pyo.value(item) for item in x.values()])


def slopes(x):
    return NETWORK.jacobian(NETWORK.pattern(x))


# -- four models -----------------------------------------------------------------------------------


def test_a_network_as_a_constraint():
    m = model()
    net = lipyomo.add_network(m, NETWORK, m.x)
    m.least = pyo.Constraint(expr=net.y[0] >= net.y[1])
    m.goal = pyo.Objective(expr=m.x["angle"], sense=pyo.maximize)
    best(m)
    first, second = NETWORK.forward(point(m, m.x))
    assert first >= second - 1e-6
    assert [pyo.value(net.y[k]) for k in net.y] == pytest.approx([first, second], abs=1e-6)


def test_a_gradient_limit_in_a_design():
    values, limit = [], None
    for _ in range(2):
        m = model()
        m.y = pyo.Var(["y", "z"])
        net = lipyomo.add_network(m, NETWORK, m.x, outputs=m.y)
        if limit is not None:
            m.flat = pyo.Constraint(expr=(-limit, net.jacobian["y", "vel"], limit))
            assert net.row["y"].gradient["vel"] is net.jacobian["y", "vel"]
            assert "z" not in net.row  # nothing was built that was not asked for
        m.goal = pyo.Objective(expr=m.y["y"], sense=pyo.minimize)
        values.append(best(m))
        x = point(m, m.x)
        assert pyo.value(m.y["y"]) == pytest.approx(NETWORK.forward(x)[0], abs=1e-6)
        limit = 0.5 * abs(slopes(x)[0, 1]) if limit is None else limit
    assert abs(pyo.value(net.jacobian["y", "vel"])) <= limit + 1e-6
    assert values[1] > values[0] + 1e-3


def test_the_smallest_constant_over_a_centre():
    m = model()
    net = lipyomo.add_network(m, NETWORK, m.x)
    m.constant = pyo.Var(bounds=(0, None))
    net.lipschitz_at_most(m.constant, radius=0.05)
    m.goal = pyo.Objective(expr=m.constant)
    found, x = best(m), point(m, m.x)
    truth = lipyomo.solve(LipschitzProblem(NETWORK, Box(x - 0.05, x + 0.05), output_norm="linf"))
    assert truth.lower <= found + 1e-6
    whole = lipyomo.solve(LipschitzProblem(NETWORK, Box(-1, 1, 2), output_norm="linf"))
    assert found < whole.lower - 1e-3  # there is a place that is calmer than the steepest one


# -- keys of users' sets ---------------------------------------------------------------------------


def test_derivatives_have_the_keys_of_users_everywhere():
    m = model()
    m.y = pyo.Var(["y", "z"])
    m.net = ReluNetworkBlock(NETWORK, m.x, outputs=m.y)
    m.slope, m.along, m.one = GradientBlock(m.net), TangentBlock(m.net), GradientBlock()
    m.one.build_formulation(m.net, functional="z")
    m.calm = UpperLipschitzBlock(m.net, radius={"vel": 0.2, "angle": 0.1})
    m.size = NormBlock(m.x, "l1", sense="min")
    m.x["angle"].fix(0.3)
    m.x["vel"].fix(-0.4)
    m.along.direction["vel"].fix(1.0)
    m.along.direction["angle"].fix(0.0)
    m.goal = pyo.Objective(expr=m.size.value)
    best(m)
    truth = slopes([0.3, -0.4])
    for k, out in enumerate(["y", "z"]):
        assert pyo.value(m.along.derivative[out]) == pytest.approx(truth[k, 1], abs=1e-6)
        for j, key in enumerate(KEYS):
            entry = m.slope.jacobian[out, key]
            assert pyo.value(entry) == pytest.approx(truth[k, j], abs=1e-6)
            assert entry.expr is m.slope.row[out].gradient[key]
    assert pyo.value(m.one.gradient["vel"]) == pytest.approx(truth[1, 1], abs=1e-6)
    assert m.one.jacobian["z", "vel"].expr is m.one.gradient["vel"]
    assert [pyo.value(m.calm.radius[key]) for key in KEYS] == [0.1, 0.2]
    assert m.size.inputs["vel"].expr is m.x["vel"]
    assert m.net.outputs["z"].expr is m.y["z"]
    assert list(m.net.inputs) == list(m.calm.inputs) == KEYS


@pytest.mark.parametrize("keys", [[1, 2], ["b", 3], [("p", 1), ("p", 2)]], ids=str)
def test_other_keys(keys):
    m = model(keys)
    m.slope = GradientBlock(NETWORK, m.x, functional=1)
    for key, value in zip(keys, (0.3, -0.4), strict=True):
        m.x[key].fix(value)
    m.goal = pyo.Objective(expr=0 * m.slope.gradient[keys[0]])
    best(m)
    for j, key in enumerate(keys):
        found = pyo.value(m.slope.gradient[key])
        assert found == pytest.approx(slopes([0.3, -0.4])[1, j], abs=1e-6)
    m.steep = LipschitzBlock(NETWORK, m.x, wrt=[keys[1]])
    assert list(np.flatnonzero(m.steep.counted)) == [1]


def test_slices_and_dicts_bring_their_keys():
    m = pyo.ConcreteModel()
    m.x = pyo.Var(["now", "then"], KEYS, bounds=(-1, 1))
    m.net = ReluNetworkBlock(NETWORK, m.x["now", :])
    m.other = ReluNetworkBlock(NETWORK, {"b": m.x["then", "vel"], "a": 0.5})
    assert list(m.net.inputs) == KEYS
    assert list(m.other.inputs) == ["b", "a"]


def test_entries_have_the_keys_of_users_only():
    m = model()
    m.slope = GradientBlock(NETWORK, m.x)
    for key in ((0, "speed"), (0, 1)):
        with pytest.raises(KeyError):
            m.slope.jacobian[key]


def test_a_whole_jacobian_says_that_it_has_no_gradient():
    m = model()
    m.slope = GradientBlock(NETWORK, m.x)
    with pytest.raises(ProblemError, match="jacobian"):
        m.slope.gradient["vel"]
    assert not hasattr(m.slope, "gradient")


def test_outputs_may_be_expressions_and_numbers():
    m = model()
    m.y = pyo.Var(bounds=(-9, 9))
    m.net = ReluNetworkBlock(NETWORK, m.x, outputs=[2.0 * m.y + 1.0, NETWORK.forward([0, 0])[1]])
    m.goal = pyo.Objective(expr=m.y, sense=pyo.maximize)
    best(m)
    first, second = NETWORK.forward(point(m, m.x))
    assert (first - 1.0) / 2.0 == pytest.approx(pyo.value(m.y), abs=1e-6)
    assert second == pytest.approx(NETWORK.forward([0, 0])[1], abs=1e-6)
    m.x["vel"].setub(2.0)
    assert rebuild(m) == 1
    with pytest.raises(ProblemError, match="outputs: 3 were given, the network has 2"):
        m.wrong = ReluNetworkBlock(NETWORK, m.x, outputs=[m.y, m.y, m.y])


# -- constructors ----------------------------------------------------------------------------------


def test_blocks_are_built_where_they_are_constructed():
    m = model()
    m.net = ReluNetworkBlock(NETWORK, inputs=m.x)
    m.ruled = ReluNetworkBlock(rule=lambda b: b.build_formulation(NETWORK, inputs=m.x))
    m.ball = DualBallBlock(2, "cross")
    m.size = NormBlock([m.x["vel"], 2.0 * m.x["angle"]], "linf", sense="max")
    m.steep = LipschitzBlock(network=m.net)
    m.many = ReluNetworkBlock(["a", "b"], rule=lambda b, k: b.build_formulation(NETWORK, m.x))
    blocks = [m.net, m.ruled, m.ball, m.size, m.steep, *m.many.values()]
    assert all(block.is_built for block in blocks)
    assert m.ruled.component("layer") is not None
    m.del_component("ruled")  # a lambda cannot be pickled
    m.del_component("many")
    again = pickle.loads(pickle.dumps(m))
    assert again.net.inputs["vel"].expr is again.x["vel"]


def test_a_constructor_that_fails_leaves_nothing():
    m = model()
    for make in (
        lambda: ReluNetworkBlock(NETWORK, [1.0]),
        lambda: LipschitzBlock(NETWORK, m.x, encoding="upwards"),
        lambda: NormBlock(m.x, "l7"),
    ):
        with pytest.raises(LipyomoError):
            m.block = make()
        assert m.component("block") is None
    for make in (
        lambda: ReluNetworkBlock([1, 2], inputs=m.x),
        lambda: ReluNetworkBlock(NETWORK, inputs=m.x, rule=print),
    ):
        with pytest.raises((TypeError, ValueError), match=r"rule|inputs"):
            m.block = make()
        assert m.component("block") is None


def test_all_but_network_and_inputs_have_names():
    m = model()
    m.net = ReluNetworkBlock(NETWORK, m.x)
    m.slope, m.size = GradientBlock(), NormBlock()
    with pytest.raises(ProblemError, match=r"inputs= has no meaning.*name what was meant"):
        m.slope.build_formulation(m.net, 1)
    with pytest.raises(TypeError, match="positional"):
        m.size.build_formulation(m.x, "l1", "min")
    assert not m.slope.is_built
    assert not m.size.is_built


def test_nothing_empty_is_printed():
    m = model()
    m.net = ReluNetworkBlock(NETWORK, m.x)
    m.slope, m.along = GradientBlock(m.net), TangentBlock(m.net)
    m.steep, m.calm = LipschitzBlock(m.net), UpperLipschitzBlock(m.net, radius=0.1)
    m.size = NormBlock(m.x)
    empty = [c.name for c in m.component_objects() if c.is_indexed() and len(c) == 0]
    assert not empty


# -- handles ---------------------------------------------------------------------------------------


def test_steepness_can_only_be_made_large():
    m = model()
    net = lipyomo.add_network(m, NETWORK, m.x)
    m.worst = net.steepness.maximise()
    truth = lipyomo.solve(LipschitzProblem(NETWORK, Box(-1, 1, 2), output_norm="linf")).upper
    assert best(m) == pytest.approx(truth, rel=1e-5)
    assert net.steepness.value == pytest.approx(truth, rel=1e-5)
    m.worst.deactivate()
    m.steep = net.steepness.at_least(0.9 * truth)
    m.goal = pyo.Objective(expr=m.x["vel"])
    best(m)
    assert abs(NETWORK.jacobian(net.net.pattern())).sum(axis=1).max() >= 0.9 * truth - 1e-5
    for misuse in (
        lambda: m.add_component("low", pyo.Objective(expr=net.steepness)),
        lambda: m.add_component("most", pyo.Constraint(expr=net.steepness <= 1.0)),
        lambda: -net.steepness,
        lambda: m.x["vel"] - net.steepness,
    ):
        with pytest.raises((TypeError, ValueError)):
            misuse()


def test_handles_live_in_the_model():
    m = model()
    net = lipyomo.add_network(m, NETWORK, m.x, output_norm="l1")
    second = lipyomo.add_network(m, NETWORK, m.x, name="other")
    third = lipyomo.add_network(m, NETWORK, domain=Box(0, 1, 2))
    assert [b.local_name for b in (net, second, third)] == ["net", "other", "net_2"]
    limit = net.lipschitz_at_most(100.0, radius=0.1)
    copy = m.clone()
    assert copy.net.jacobian[1, "vel"].model() is copy
    assert m.net.component("row") is None
    m.x["vel"].setub(2.0)
    assert rebuild(m) >= 2
    m.goal = pyo.Objective(expr=limit.value)
    assert best(m) <= 100.0
    with pytest.raises((TypeError, ValueError)):
        net.lipschitz_at_most("steep")
    assert net.component("limit_2") is None
    with pytest.raises(LipyomoError):
        lipyomo.add_network(m, NETWORK, m.x, bounds="guess")
    assert m.component("net_3") is None
    for key in ((7, "vel"), 0, "vel"):
        with pytest.raises(KeyError, match="no entry"):
            net.jacobian[key]
    with pytest.raises(TypeError, match="bounds"):
        lipyomo.add_network(m, NETWORK, m.x, bunds="linear")
    with pytest.raises(ProblemError, match="'x' was given as a network"):
        m.wrong = ReluNetworkBlock(m.x, NETWORK)
