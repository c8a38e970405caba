"""No wrong values: domains bind, what was relied on is checked, one-sided values are refused."""

from __future__ import annotations

import pickle
import pydoc

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo_models import best, model_of

from lipyomo import Box, Network, ball
from lipyomo.base.errors import BoundsMissing, DomainError, LipyomoError, ProblemError
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
from lipyomo.problems.domains import Polytope
from lipyomo.solvers import solve_model
from networks import random_network

SHIFTED = Network.from_arrays([[[1.0]], [[1.0]]], [[-2.0], [0.0]])  # relu(x - 2)
NETWORK = random_network(3, (2, 4, 3, 2))


@pytest.mark.parametrize(
    "domain",
    [Box(-1, 1, 2), ball([0.1, -0.2], 0.7), ball([0.1, -0.2], 0.7, "l1"), None],
    ids=["box", "linf ball", "l1 ball", "polytope"],
)
def test_a_domain_binds_given_inputs(domain):
    domain = domain or Polytope([[1.0, 1.0]], [0.5], -1.0, 1.0)
    m = model_of(NETWORK, (-5, 5), domain=domain)
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    value = best(m)
    x = np.array([pyo.value(m.x[j]) for j in range(2)])
    assert domain.contains(x, 1e-6)
    assert value == pytest.approx(NETWORK.forward(x)[0], abs=1e-5)
    points = domain.sample(np.random.default_rng(0), 2000)
    assert NETWORK.forward(points)[:, 0].max() <= value + 1e-5
    for push in (1.0, -1.0):
        m.goal.deactivate()
        m.del_component("reach")
        m.reach = pyo.Objective(expr=push * m.x[0], sense=pyo.maximize)
        best(m)
        assert domain.contains([pyo.value(m.x[j]) for j in range(2)], 1e-6)


def test_a_domain_binds_a_lipschitz_block():
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0], bounds=(-5, 5))
    m.steep = LipschitzBlock()
    m.steep.build_formulation(SHIFTED, inputs=m.x, domain=Box(-1, 1, 1))
    m.goal = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
    assert best(m) == pytest.approx(0.0, abs=1e-7)
    assert -1 - 1e-9 <= pyo.value(m.x[0]) <= 1 + 1e-9


def test_wider_bounds_are_an_error_until_rebuilt(tmp_path):
    m = model_of(SHIFTED, (-1, 1))
    m.keep = pyo.Constraint(expr=m.net.outputs[0] <= 100)
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    assert best(m) == pytest.approx(0.0)
    m.x[0].setub(5)
    with pytest.raises(ProblemError, match=r"x\[0\].*rebuild"):
        best(m)
    with pytest.raises(ProblemError, match="rebuild"):
        pyo.SolverFactory("appsi_highs").solve(m)
    for suffix in ("lp", "mps", "nl"):
        with pytest.raises(ProblemError, match="rebuild"):
            m.write(str(tmp_path / f"m.{suffix}"))
    for twin in (m.clone(), pickle.loads(pickle.dumps(m))):
        with pytest.raises(ProblemError, match="rebuild"):
            best(twin)
        twin.net.rebuild()
        assert best(twin) == pytest.approx(3.0)
    output = m.net.outputs[0]
    m.net.rebuild()
    assert m.net.outputs[0] is output  # so `keep` and `goal` still hold
    assert best(m) == pytest.approx(3.0)


def test_narrower_bounds_and_fixing_inside_are_fine():
    m = model_of(SHIFTED, (-1, 4))
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    m.x[0].setub(3)
    assert best(m) == pytest.approx(1.0)
    m.net.inputs[0].fix(2.5)
    assert m.x[0].fixed
    assert m.net.inputs[0].fixed
    assert best(m) == pytest.approx(0.5)
    m.net.inputs[0].unfix()
    m.x[0].fix(17)
    with pytest.raises(ProblemError, match="fixed at 17"):
        best(m)


def test_what_cannot_be_rebuilt_stays_as_it_was():
    m = model_of(SHIFTED, (-1, 4))
    m.goal = pyo.Objective(expr=m.net.outputs[0], sense=pyo.maximize)
    m.x[0].setub(None)
    with pytest.raises(BoundsMissing):
        m.net.rebuild()
    with pytest.raises(ProblemError, match="rebuild"):
        best(m)
    m.x[0].setub(4)
    assert best(m) == pytest.approx(2.0)


def test_rebuilding_a_whole_model():
    m = model_of(NETWORK, (-0.2, 0.2))
    m.slope, m.size, m.along, m.steep = (
        GradientBlock(),
        NormBlock(),
        TangentBlock(),
        LipschitzBlock(),
    )
    m.slope.build_formulation(m.net, functional=0)
    m.size.build_formulation(m.slope.gradient, "l1", sense="max")
    m.along.build_formulation(m.net)
    m.steep.build_formulation(m.net)
    m.goal = pyo.Objective(expr=m.size.value, sense=pyo.maximize)
    small = best(m)
    m.x.setub(1)
    m.x.setlb(-1)
    m.net.rebuild()
    with pytest.raises(ProblemError, match="was rebuilt"):
        best(m)
    assert rebuild(m) == 4
    assert rebuild(m) == 0
    fresh = model_of(NETWORK, (-1, 1))
    fresh.slope, fresh.size = GradientBlock(), NormBlock()
    fresh.slope.build_formulation(fresh.net, functional=0)
    fresh.size.build_formulation(fresh.slope.gradient, "l1", sense="max")
    fresh.goal = pyo.Objective(expr=fresh.size.value, sense=pyo.maximize)
    assert small <= best(fresh) + 1e-6
    assert best(m) == pytest.approx(best(fresh), rel=1e-6)
    m.goal.deactivate()
    m.next = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
    assert best(m) > 0


def test_a_lipschitz_block_with_its_own_network_is_rebuilt_in_place():
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0], bounds=(-1, 1))
    m.steep = LipschitzBlock()
    m.steep.build_formulation(SHIFTED, inputs=m.x)
    m.goal = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
    assert best(m) == pytest.approx(0.0)
    m.x.setub(5)
    with pytest.raises(ProblemError, match="rebuild"):
        best(m)
    assert rebuild(m) == 1
    assert best(m) == pytest.approx(1.0)


def test_domains_that_do_not_fit():
    for domain in (Box(2, 3, 2), Box(-1, 1, 3), ball([0, 0], 1, "l2"), [(-1, 1), (-1, 1)]):
        m = pyo.ConcreteModel()
        m.x = pyo.Var([0, 1], bounds=(-1, 1))
        m.net = ReluNetworkBlock()
        with pytest.raises((DomainError, ProblemError)):
            m.net.build_formulation(NETWORK, inputs=m.x, domain=domain)
        assert not list(m.net.component_objects())
        assert not m.net.is_built
        m.net.build_formulation(NETWORK, inputs=m.x)


# -- one-sided values ------------------------------------------------------------------------------


def steep_model():
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    m.steep = LipschitzBlock()
    m.steep.build_formulation(NETWORK, inputs=m.x)
    return m


def test_minimising_a_lower_bound_is_refused():
    m = steep_model()
    m.goal = pyo.Objective(expr=m.steep.value)
    with pytest.raises(ProblemError, match="minimised"):
        solve_model(m, "highs")
    with pytest.raises(ProblemError, match="minimised"):
        pyo.SolverFactory("appsi_highs").solve(m)
    m.goal.deactivate()
    m.size = NormBlock()
    m.size.build_formulation(m.x, "l1", sense="min")
    m.other = pyo.Objective(expr=m.size.value, sense=pyo.maximize)
    with pytest.raises(ProblemError, match="maximised"):
        solve_model(m, "highs")


@pytest.mark.filterwarnings("error")
def test_right_uses_pass_in_silence():
    m = steep_model()
    m.asked = pyo.Constraint(expr=m.steep.value >= 0.1)
    m.goal = pyo.Objective(expr=m.x[0])
    best(m)
    m.goal.deactivate()
    m.cap = pyo.Constraint(expr=m.steep.value <= 1e3)
    m.more = pyo.Objective(expr=-m.steep.value)
    best(m)


@pytest.mark.parametrize("encoding", ["adjoint", "tangent"])
@pytest.mark.parametrize("output_norm", ["linf", "l1", "cross", "cross(1)"])
def test_values_are_bounded(encoding, output_norm):
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    m.steep = LipschitzBlock()
    m.steep.build_formulation(NETWORK, inputs=m.x, encoding=encoding, output_norm=output_norm)
    assert m.steep.value.lb == 0.0
    m.goal = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
    top = m.steep.value.ub
    value = best(m)
    assert 0 < value <= top * (1 + 1e-9)
    m.steep.value.setub(None)
    assert best(m) == pytest.approx(value)


def test_errors_are_lipyomos():
    m = steep_model()
    with pytest.raises(LipyomoError, match="built already"):
        m.steep.build_formulation(NETWORK, inputs=m.x)
    m.fresh = LipschitzBlock()
    with pytest.raises(LipyomoError, match="not built yet"):
        m.fresh.rebuild()


# -- arguments and documentation -------------------------------------------------------------------


@pytest.mark.parametrize(
    "block",
    [
        ReluNetworkBlock,
        GradientBlock,
        TangentBlock,
        NormBlock,
        DualBallBlock,
        LipschitzBlock,
        UpperLipschitzBlock,
    ],
)
def test_documentation_is_where_people_look(block):
    text = pydoc.plain(pydoc.render_doc(block))
    assert ">>>" in text
    assert "Parameters" in text
    m = pyo.ConcreteModel()
    m.many = block([1, 2])
    with pytest.raises(ProblemError, match="indexed"):
        m.many.build_formulation()
    m.one = block()
    assert "Parameters" in m.one.build_formulation.__doc__


BAD_CALLS = {
    "a path": lambda m: m.net.build_formulation("net.onnx", inputs=m.x),
    "bounds milp": lambda m: m.net.build_formulation(NETWORK, inputs=m.x, bounds="milp"),
    "bounds None": lambda m: m.net.build_formulation(NETWORK, inputs=m.x, bounds=None),
    "bounds 3": lambda m: m.net.build_formulation(NETWORK, inputs=m.x, bounds=3),
    "bounds of wrong length": lambda m: m.net.build_formulation(
        NETWORK, inputs=m.x, bounds=[([-1.0] * 3, [1.0] * 3)] * 2
    ),
    "bounds NaN": lambda m: m.net.build_formulation(
        NETWORK, inputs=m.x, bounds=[(np.nan, 1.0), (-1.0, 1.0)]
    ),
    "groups": lambda m: m.net.build_formulation(
        NETWORK, inputs=m.x, formulation="partition", groups=-3
    ),
    "formulation": lambda m: m.net.build_formulation(NETWORK, inputs=m.x, formulation="primal"),
    "formulation None": lambda m: m.net.build_formulation(NETWORK, inputs=m.x, formulation=None),
    "values": lambda m: m.net.build_formulation(NETWORK, inputs=m.x, values="no"),
    "scaling": lambda m: m.net.build_formulation(NETWORK, inputs=m.x, scaling=3),
    "scaling key": lambda m: m.net.build_formulation(NETWORK, inputs=m.x, scaling={"mean": 0}),
    "scaling text": lambda m: m.net.build_formulation(
        NETWORK, inputs=m.x, scaling={"input_offset": "x"}
    ),
    "domain list": lambda m: m.net.build_formulation(NETWORK, inputs=m.x, domain=[0, 1]),
    "input_bounds": lambda m: m.net.build_formulation(
        NETWORK, inputs=m.x, input_bounds={7: (0, 1)}
    ),
    "input_bounds pair": lambda m: m.net.build_formulation(
        NETWORK, inputs=m.x, input_bounds=[(0, 1), 3]
    ),
    "input_bounds crossed": lambda m: m.net.build_formulation(
        NETWORK, inputs=m.x, input_bounds=[(0, 1), (2, 1)]
    ),
    "inputs text": lambda m: m.net.build_formulation(NETWORK, inputs="x"),
    "inputs set": lambda m: m.net.build_formulation(NETWORK, inputs={1.0, 2.0}),
    "inputs None in list": lambda m: m.net.build_formulation(NETWORK, inputs=[m.x[0], None]),
    "functional True": lambda m: m.slope.build_formulation(m.built, functional=True),
    "functional NaN": lambda m: m.slope.build_formulation(m.built, functional=[np.nan, 1.0]),
    "functional length": lambda m: m.slope.build_formulation(m.built, functional=[1.0]),
    "functional text": lambda m: m.slope.build_formulation(m.built, functional="first"),
    "functional range": lambda m: m.slope.build_formulation(m.built, functional=5),
    "gradient limits": lambda m: m.slope.build_formulation(m.built, functional=0, limits=3),
    "gradient limits for numbers": lambda m: m.slope.build_formulation(
        m.built, functional=0, limits=np.eye(2)
    ),
    "gradient limits for all": lambda m: m.slope.build_formulation(m.built, limits=np.eye(2)),
    "rebuild a number": lambda m: rebuild(3),
    "gradient of a network": lambda m: m.slope.build_formulation(NETWORK, functional=0),
    "gradient of nothing built": lambda m: m.slope.build_formulation(m.net, functional=0),
    "tangent norm": lambda m: m.along.build_formulation(m.built, norm="l2"),
    "tangent norm None": lambda m: m.along.build_formulation(m.built, norm=None),
    "tangent limits": lambda m: m.along.build_formulation(m.built, limits=3),
    "norm": lambda m: m.size.build_formulation(m.x, "l7"),
    "norm number": lambda m: m.size.build_formulation(m.x, 2),
    "norm sense": lambda m: m.size.build_formulation(m.x, "l1", sense="most"),
    "norm of nothing": lambda m: m.size.build_formulation([], "l1"),
    "ball size": lambda m: m.ball.build_formulation(0),
    "ball size text": lambda m: m.ball.build_formulation("3"),
    "ball label": lambda m: m.ball.build_formulation(2, "cross(5)"),
    "lipschitz path": lambda m: m.steep.build_formulation("net.onnx", inputs=m.x),
    "lipschitz norm": lambda m: m.steep.build_formulation(NETWORK, inputs=m.x, norm="l2"),
    "lipschitz output": lambda m: m.steep.build_formulation(NETWORK, inputs=m.x, output_norm=None),
    "lipschitz encoding": lambda m: m.steep.build_formulation(
        NETWORK, inputs=m.x, encoding="primal"
    ),
    "lipschitz encoding None": lambda m: m.steep.build_formulation(
        NETWORK, inputs=m.x, encoding=None
    ),
    "lipschitz formulation": lambda m: m.steep.build_formulation(
        NETWORK, inputs=m.x, formulation="primal"
    ),
    "lipschitz wrt": lambda m: m.steep.build_formulation(NETWORK, inputs=m.x, wrt=[5]),
    "lipschitz wrt of nothing": lambda m: m.steep.build_formulation(NETWORK, inputs=m.x, wrt=[]),
    "lipschitz wrt number": lambda m: m.steep.build_formulation(NETWORK, inputs=m.x, wrt=1),
    "tangent wrt and direction": lambda m: m.along.build_formulation(
        m.built, direction=m.x, wrt=[0]
    ),
    "lipschitz of a gradient": lambda m: m.steep.build_formulation(m.slope),
    "lipschitz twice scaling": lambda m: m.steep.build_formulation(m.built, scaling={}),
    "gradient twice domain": lambda m: m.slope.build_formulation(
        m.built, functional=0, domain=Box(0, 1, 2)
    ),
    "lipschitz twice inputs": lambda m: m.steep.build_formulation(m.built, inputs=m.x),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_raise_lipyomos_errors_and_leave_nothing(name):
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    m.built, m.net = ReluNetworkBlock(), ReluNetworkBlock()
    m.built.build_formulation(NETWORK, inputs=m.x)
    m.slope, m.along, m.size = GradientBlock(), TangentBlock(), NormBlock()
    m.ball, m.steep = DualBallBlock(), LipschitzBlock()
    before = [c.name for c in m.component_objects()]
    with pytest.raises(LipyomoError) as caught:
        BAD_CALLS[name](m)
    assert len(str(caught.value)) > 20
    assert [c.name for c in m.component_objects()] == before


# -- inputs as Pyomo writes them -------------------------------------------------------------------


def value_at(network_inputs, model, network=NETWORK, **options):
    """Output at a point where everything is fixed."""
    model.net = ReluNetworkBlock()
    model.net.build_formulation(network, inputs=network_inputs, **options)
    model.goal = pyo.Objective(expr=model.net.outputs[0])
    return best(model)


def test_indices_slices_arrays_and_nesting():
    m = pyo.ConcreteModel()
    m.x = pyo.Var(["t0", "t1"], [0, 1], bounds=(-1, 1))
    truth = NETWORK.forward([0.3, -0.4])[0]
    for j, value in enumerate([0.3, -0.4]):
        m.x["t1", j].fix(value)
        m.x["t0", j].fix(0.9)
    m.w = pyo.Var(range(1), range(2), bounds=(-1, 1))
    m.w[0, 0].fix(0.3)
    m.w[0, 1].fix(-0.4)
    given = [
        m.x["t1", :],
        m.w,
        np.array([[m.x["t1", 0], m.x["t1", 1]]], dtype=object),
        [[m.x["t1", 0]], [m.x["t1", 1]]],
        {"a": m.x["t1", 0], "b": m.x["t1", 1]},
        pyo.Reference(m.x["t1", :]),
    ]
    for inputs in given:
        assert value_at(inputs, m) == pytest.approx(truth, abs=1e-6)
        m.del_component("net")
        m.del_component("goal")


def test_expressions_params_and_numbers():
    m = pyo.ConcreteModel()
    m.x = pyo.Var(bounds=(0, 1))
    m.p = pyo.Param(initialize=0.25, mutable=True)
    m.constant = pyo.Param(initialize=-0.4)
    m.sum = pyo.Expression(expr=2 * m.x + m.p - 0.5)
    m.x.fix(0.3)
    truth = NETWORK.forward([2 * 0.3 + 0.25 - 0.5, -0.4])[0]
    for second in (m.constant, -0.4):
        assert value_at([m.sum, second], m) == pytest.approx(truth, abs=1e-6)
        m.del_component("net")
        m.del_component("goal")
    assert value_at([0.3, m.p], m) == pytest.approx(NETWORK.forward([0.3, 0.25])[0], abs=1e-6)
    m.del_component("net")
    m.del_component("goal")
    value_at([m.sum, m.p], m)
    m.x.fix(3.0)  # outside its own bounds
    with pytest.raises(ProblemError, match="rebuild"):
        best(m)
    m.x.fix(0.3)
    m.del_component("net")
    m.del_component("goal")
    value_at([0.3, m.p], m)
    m.p = 0.9
    with pytest.raises(ProblemError, match="rebuild"):
        best(m)
    assert rebuild(m) == 1
    assert best(m) == pytest.approx(NETWORK.forward([0.3, 0.9])[0], abs=1e-6)
    m.del_component("net")
    m.del_component("goal")
    # With bounds for the parameter, one block serves all its values.
    found = value_at([0.3, m.p], m, input_bounds=[(0.3, 0.3), (-1, 1)])
    assert found == pytest.approx(NETWORK.forward([0.3, 0.9])[0], abs=1e-6)


def test_input_bounds_by_key_and_by_position():
    m = pyo.ConcreteModel()
    m.x = pyo.Var(["a", "b"])
    m.net = ReluNetworkBlock()
    m.net.build_formulation(NETWORK, inputs=m.x, input_bounds={"a": (-1, 0.5), "b": (0, 1)})
    m.goal = pyo.Objective(expr=m.x["a"] - m.x["b"], sense=pyo.maximize)
    assert best(m) == pytest.approx(0.5)
    m.own = ReluNetworkBlock()
    m.own.build_formulation(NETWORK, input_bounds=[(-1, 1), (-2, 2)])
    assert m.own.inputs[1].bounds == (-2, 2)


def test_scalings_of_omlt():
    omlt = pytest.importorskip("omlt.scaling", reason="compares with OMLT, the extra [bench]")
    scaling = omlt.OffsetScaling(
        offset_inputs={0: 1.0, 1: -2.0},
        factor_inputs={0: 2.0, 1: 4.0},
        offset_outputs={0: 0.5, 1: 0.0},
        factor_outputs={0: 10.0, 1: 1.0},
    )
    x = np.array([1.5, -1.0])
    truth = 0.5 + 10.0 * NETWORK.forward((x - [1.0, -2.0]) / [2.0, 4.0])[0]
    as_dict = {
        "offset_inputs": [1.0, -2.0],
        "factor_inputs": {0: 2.0, 1: 4.0},
        "offset_outputs": [0.5, 0.0],
        "factor_outputs": [10.0, 1.0],
    }
    for given in (scaling, as_dict):
        m = pyo.ConcreteModel()
        m.x = pyo.Var([0, 1], bounds=(-3, 3))
        m.x[0].fix(x[0])
        m.x[1].fix(x[1])
        assert value_at(m.x, m, scaling=given) == pytest.approx(truth, abs=1e-5)
