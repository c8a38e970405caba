"""Blocks agree with the network: values, gradients, tangents, norms, dual balls."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo_models import solved

from lipyomo import Box, LinearOutput, Network
from lipyomo.base.errors import BoundsMissing, LipyomoError, NormError, ProblemError, SolverError
from lipyomo.blocks import (
    ChainLimits,
    DualBallBlock,
    GradientBlock,
    LipschitzBlock,
    NormBlock,
    ReluNetworkBlock,
    Scaling,
    TangentBlock,
    adjoint_limits,
    tangent_limits,
)
from lipyomo.problems.domains import Polytope
from lipyomo.problems.norms import parse_output_norm
from lipyomo.relaxations.linear.balls import InputBoxes
from lipyomo.solvers import SolverOptions, available_solvers, solve_model
from networks import mixed_network, random_network
from oracle import matrix_norm


def values(component):
    return np.array([pyo.value(item) for item in component.values()])


def net_model(network, point=None, bounds="linear", **options):
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(network.input_dim), bounds=(-1, 1))
    m.net = ReluNetworkBlock()
    m.net.build_formulation(network, inputs=m.x, bounds=bounds, **options)
    if point is not None:
        for j, value in enumerate(point):
            m.x[j].fix(value)
    m.nothing = pyo.Objective(expr=0.0 * m.net.inputs[0])
    return m


@pytest.mark.parametrize("bounds", ["interval", "linear", "lp"])
@pytest.mark.parametrize("seed", range(3))
def test_value_and_derivatives_at_points(seed, bounds):
    network = mixed_network(seed, (3, 5, 4, 2))
    x = np.random.default_rng(seed).uniform(-1, 1, 3)
    v = np.array([1.0, -0.5, 0.25])
    m = net_model(network, x, bounds)
    m.jacobian, m.row, m.along = GradientBlock(), GradientBlock(), TangentBlock()
    m.jacobian.build_formulation(m.net)
    m.row.build_formulation(m.net, functional=[2.0, -1.0])
    m.v = pyo.Var(range(3), bounds=(-1, 1))
    m.along.build_formulation(m.net, direction=m.v)
    for j in range(3):
        m.v[j].fix(v[j])
    solved(m)
    truth = network.jacobian(network.pattern(x))
    np.testing.assert_allclose(values(m.net.outputs), network.forward(x), atol=1e-6)
    np.testing.assert_allclose(values(m.jacobian.jacobian).reshape(2, 3), truth, atol=1e-6)
    np.testing.assert_allclose(values(m.row.gradient), [2.0, -1.0] @ truth, atol=1e-6)
    np.testing.assert_allclose(values(m.along.derivative), truth @ v, atol=1e-6)
    h = x
    for i, layer in enumerate(network.hidden):
        z = layer.preactivation(h)
        h = layer.activate(z)
        np.testing.assert_allclose(values(m.net.layer[i].activation), h, atol=1e-6)
        for k, variable in m.net.layer[i].preactivation.items():
            assert pyo.value(variable) == pytest.approx(z[k], abs=1e-6)
    for got, true, layer in zip(m.net.pattern(), network.pattern(x), network.hidden, strict=True):
        assert (got == true)[layer.kinked].all()


@pytest.mark.parametrize("sense", [pyo.maximize, pyo.minimize])
def test_extreme_values_bound_samples(sense):
    network = random_network(5, (3, 6, 5, 1))
    m = net_model(network)
    m.nothing.deactivate()
    m.best = pyo.Objective(expr=m.net.outputs[0], sense=sense)
    best = solved(m).incumbent
    assert best == pytest.approx(float(network.forward(values(m.x))[0]), abs=1e-6)
    sampled = network.forward(np.random.default_rng(0).uniform(-1, 1, (2000, 3)))
    assert sampled.max() <= best + 1e-6 if sense == pyo.maximize else best - 1e-6 <= sampled.min()


def test_polytope_domain_becomes_rows():
    network = random_network(5, (2, 6, 1))
    area = Polytope([[1.0, 1.0]], [0.2], -1.0, 1.0)
    m = pyo.ConcreteModel()
    m.net = ReluNetworkBlock()
    m.net.build_formulation(network, domain=area)
    m.far = pyo.Objective(expr=m.net.inputs[0] + m.net.inputs[1], sense=pyo.maximize)
    assert solved(m).incumbent == pytest.approx(0.2)


def test_user_bounds_and_wrong_ones():
    network = random_network(1, (2, 3, 1))
    m = net_model(network, [0.3, -0.2], bounds=[(-10.0, 10.0)])
    solved(m)
    assert pyo.value(m.net.outputs[0]) == pytest.approx(
        float(network.forward([0.3, -0.2])[0]), abs=1e-6
    )
    with pytest.raises(ProblemError, match="2 pairs"):
        net_model(network, bounds=[(-1.0, 1.0), (-1.0, 1.0)])
    with pytest.raises(BoundsMissing, match="unit 0 of hidden layer 0"):
        net_model(network, bounds=[(-np.inf, 1.0)])


def test_missing_bounds_name_the_inputs():
    m = pyo.ConcreteModel()
    m.x = pyo.Var(["speed", "mass"])
    m.x["mass"].setub(3)
    m.net = ReluNetworkBlock()
    with pytest.raises(BoundsMissing, match="x\\[speed\\]"):
        m.net.build_formulation(random_network(1, (2, 3, 1)), inputs=m.x)


@pytest.mark.parametrize("given", [[1.0, np.nan], [0.0], "xy"], ids=["NaN", "too few", "text"])
def test_inputs_that_are_not_variables(given):
    m = pyo.ConcreteModel()
    m.net = ReluNetworkBlock()
    with pytest.raises(ProblemError):
        m.net.build_formulation(random_network(1, (2, 3, 1)), inputs=given)


def test_an_index_without_order_is_refused():
    m = pyo.ConcreteModel()
    m.x = pyo.Var({"speed": 1, "mass": 2}, bounds=(0, 1))
    m.net = ReluNetworkBlock()
    with pytest.raises(ProblemError, match="no order"):
        m.net.build_formulation(random_network(1, (2, 3, 1)), inputs=m.x)
    m.again = ReluNetworkBlock()
    m.again.build_formulation(random_network(1, (2, 3, 1)), inputs=[m.x["speed"], m.x["mass"]])
    assert m.again.inputs[0].expr is m.x["speed"]


def test_scaling_reaches_values_and_gradients():
    network = random_network(2, (2, 4, 1))
    scaling = Scaling([1.0, 2.0], [2.0, 4.0], 5.0, 3.0)
    m = net_model(network, [0.5, -0.5], scaling=scaling)
    m.gradient = GradientBlock()
    m.gradient.build_formulation(m.net)
    solved(m)
    inner = (np.array([0.5, -0.5]) - [1.0, 2.0]) / [2.0, 4.0]
    truth = 5.0 + 3.0 * network.forward(inner)
    slope = 3.0 * network.jacobian(network.pattern(inner))[0] / [2.0, 4.0]
    np.testing.assert_allclose(values(m.net.outputs), truth, atol=1e-6)
    np.testing.assert_allclose(values(m.gradient.gradient), slope, atol=1e-6)
    with pytest.raises(ProblemError, match="zero"):
        Scaling(input_factor=[1.0, 0.0])


NORMS = ["l1", "linf", "cross", "cross(1)", LinearOutput(vertices=[[1, 2, 0], [0, 1, -3]])]


@pytest.mark.parametrize("sense", ["max", "min", "both"])
@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_norms_of_points(norm, sense):
    chosen = parse_output_norm(norm) if isinstance(norm, str) else norm
    for seed in range(4):
        point = np.random.default_rng(seed).uniform(-2, 3, 3)
        m = pyo.ConcreteModel()
        m.g = pyo.Var(range(3), bounds=(-2, 3))
        m.size = NormBlock()
        m.size.build_formulation(m.g, norm, sense=sense)
        for k in range(3):
            m.g[k].fix(point[k])
        towards = pyo.maximize if sense == "max" else pyo.minimize
        m.goal = pyo.Objective(expr=m.size.value, sense=towards)
        assert solved(m).incumbent == pytest.approx(float(chosen.value(point)), abs=1e-6)


def test_epigraph_has_no_binaries_and_needs_no_bounds():
    m = pyo.ConcreteModel()
    m.g = pyo.Var(range(3))
    m.one, m.top = NormBlock(), NormBlock()
    m.one.build_formulation(m.g, "l1", sense="min")
    m.top.build_formulation(m.g, "linf", sense="min")
    assert not any(v.is_binary() for v in m.component_data_objects(pyo.Var))
    m.hypo = NormBlock()
    with pytest.raises(BoundsMissing, match="g\\[0\\]"):
        m.hypo.build_formulation(m.g, "l1", sense="max")


def test_signs_that_bounds_decide_take_no_binary():
    m = pyo.ConcreteModel()
    m.g = pyo.Var(range(3))
    for k, ends in enumerate([(0, 2), (-3, 0), (-1, 1)]):
        m.g[k].setlb(ends[0])
        m.g[k].setub(ends[1])
    m.size = NormBlock()
    m.size.build_formulation(m.g, "l1", sense="max")
    assert list(m.size.sign) == [2]


@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_dual_balls_support_their_norm(norm, half):
    chosen = parse_output_norm(norm) if isinstance(norm, str) else norm
    for seed in range(4):
        f = np.random.default_rng(seed).standard_normal(3)
        best = -np.inf
        for sign in (1.0, -1.0):
            m = pyo.ConcreteModel()
            m.ball = DualBallBlock()
            m.ball.build_formulation(3, norm, half=half)
            y = m.ball.functional
            m.goal = pyo.Objective(
                expr=sum(sign * float(f[k]) * y[k] for k in range(3)), sense=pyo.maximize
            )
            found = solved(m).incumbent
            best = max(best, found)
            if not half:
                assert found == pytest.approx(float(chosen.value(f)), abs=1e-6)
        assert best == pytest.approx(float(chosen.value(f)), abs=1e-6)


def test_dual_ball_by_inequalities():
    diamond = LinearOutput(A=[[1, 1], [-1, -1], [1, -1], [-1, 1]], b=[1, 1, 2, 2])
    eye = np.eye(3)
    brick = LinearOutput(A=np.vstack([eye, -eye]), b=[1, 2, 0.5, 1, 2, 0.5])  # 8 corners, 6 faces
    for norm, f, truth in ((diamond, [1.0, 0.0], 1.5), (brick, [1.0, -1.0, 2.0], 4.0)):
        m = pyo.ConcreteModel()
        m.ball = DualBallBlock()
        m.ball.build_formulation(len(f), norm)
        y = m.ball.functional
        m.goal = pyo.Objective(expr=sum(c * y[k] for k, c in enumerate(f)), sense=pyo.maximize)
        assert solved(m).incumbent == pytest.approx(truth)
    assert m.ball.component("inequality") is not None


@pytest.mark.parametrize("outputs", [2, 13])
def test_gradient_of_a_functional_that_the_model_chooses(outputs):
    network = random_network(3, (2, 5, outputs))
    x = np.array([0.3, -0.6])
    m = net_model(network, x)
    m.nothing.deactivate()
    m.c = pyo.Var(range(outputs), bounds=(-1, 2))
    m.slope = GradientBlock()
    m.slope.build_formulation(m.net, functional=m.c)
    m.goal = pyo.Objective(expr=m.slope.gradient[1], sense=pyo.maximize)
    column = network.jacobian(network.pattern(x))[:, 1]
    truth = np.maximum(-column, 2.0 * column).sum()
    assert solved(m).incumbent == pytest.approx(truth, rel=1e-6)
    m.free, m.other = pyo.Var(range(outputs)), GradientBlock()
    with pytest.raises(BoundsMissing, match="functional has no bounds"):
        m.other.build_formulation(m.net, functional=m.free)
    corners = np.stack([np.full(outputs, -1.0), np.full(outputs, 2.0)])
    limits = adjoint_limits(network, m.net.layer_bounds, InputBoxes(corners[:1], corners[1:]))
    m.other.build_formulation(m.net, functional=m.free, limits=limits)  # which need none of those
    assert (m.other.gradient[1].lb, m.other.gradient[1].ub) == pytest.approx(
        (limits.end_lower[1], limits.end_upper[1])
    )


def test_limits_bound_directions_that_the_model_chooses():
    network = random_network(3, (2, 5, 2))
    x = np.array([0.3, -0.6])
    m = net_model(network, x)
    m.nothing.deactivate()
    m.v, m.along = pyo.Var([0, 1], bounds=(-2, 2)), TangentBlock()
    limits = tangent_limits(network, m.net.layer_bounds, "linf", 2.0)
    assert isinstance(limits, ChainLimits)
    m.along.build_formulation(m.net, direction=m.v, limits=limits)
    m.goal = pyo.Objective(expr=m.along.derivative[1], sense=pyo.maximize)
    truth = 2.0 * np.abs(network.jacobian(network.pattern(x))[1]).sum()
    assert solved(m).incumbent == pytest.approx(truth, rel=1e-6)
    assert truth <= limits.end_upper[1] * (1 + 1e-9)


def test_slices_are_inputs_and_stand_ins_have_values():
    network = random_network(4, (2, 4, 1))
    m = pyo.ConcreteModel()
    m.part = pyo.Block(range(2), rule=lambda b, k: b.add_component("x", pyo.Var(bounds=(-1, 1))))
    m.net = ReluNetworkBlock()
    m.net.build_formulation(network, inputs=m.part[:].x)
    m.net.inputs[0].value = 0.5
    m.net.inputs[1].set_value(-0.25)
    assert [m.part[k].x.value for k in range(2)] == [0.5, -0.25]
    assert [m.net.inputs[k].value for k in range(2)] == [0.5, -0.25]
    for k in range(2):
        m.net.inputs[k].fix(m.net.inputs[k].value)
    m.nothing = pyo.Objective(expr=0.0 * m.net.outputs[0])
    solved(m)
    np.testing.assert_allclose(values(m.net.outputs), network.forward([0.5, -0.25]), atol=1e-6)


@pytest.mark.parametrize("encoding", ["adjoint", "tangent"])
@pytest.mark.parametrize("norm", ["linf", "l1"])
def test_lipschitz_block_at_a_fixed_point_is_the_operator_norm(norm, encoding):
    network = random_network(8, (3, 5, 4, 2))
    x = np.array([0.3, -0.7, 0.1])
    m = pyo.ConcreteModel()
    m.steep = LipschitzBlock()
    m.steep.build_formulation(
        network,
        domain=Box(-1, 1, 3),
        norm=norm,
        output_norm="l1",
        encoding=encoding,
    )
    for j in range(3):
        m.steep.net.inputs[j].fix(x[j])
    m.goal = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
    jacobian = network.jacobian(network.pattern(x))
    truth = matrix_norm(jacobian, norm, parse_output_norm("l1"))
    assert solved(m).incumbent == pytest.approx(truth, rel=1e-6)


def test_blocks_refuse_what_is_not_linear():
    m = pyo.ConcreteModel()
    m.steep, m.size, m.ball = LipschitzBlock(), NormBlock(), DualBallBlock()
    network = random_network(1, (2, 3, 2))
    with pytest.raises(NormError, match="bnb"):
        m.steep.build_formulation(network, domain=Box(0, 1, 2), norm="l2")
    m.g = pyo.Var(range(2), bounds=(0, 1))
    with pytest.raises(NormError, match="not linear"):
        m.size.build_formulation(m.g, "l2")
    with pytest.raises(NormError, match="not a polytope"):
        m.ball.build_formulation(2, "l2")
    with pytest.raises(NormError, match="sense"):
        m.size.build_formulation(m.g, "l1", sense="sideways")


def test_derivatives_need_a_built_network():
    m = pyo.ConcreteModel()
    m.net, m.gradient = ReluNetworkBlock(), GradientBlock()
    with pytest.raises(ProblemError, match="build_formulation"):
        m.gradient.build_formulation(m.net)
    m.net.build_formulation(random_network(1, (2, 3, 2)), domain=Box(0, 1, 2))
    with pytest.raises(ProblemError, match="out of range"):
        m.gradient.build_formulation(m.net, functional=5)
    with pytest.raises(LipyomoError, match="built already"):
        m.net.build_formulation(random_network(1, (2, 3, 2)), domain=Box(0, 1, 2))


def test_affine_network():
    network = Network.from_arrays([[[1.0, -2.0]]], [[0.5]])
    m = net_model(network, [0.5, 0.25])
    m.gradient, m.along = GradientBlock(), TangentBlock()
    m.gradient.build_formulation(m.net)
    m.along.build_formulation(m.net)
    m.nothing.deactivate()
    m.goal = pyo.Objective(expr=m.along.derivative[0], sense=pyo.maximize)
    assert solved(m).incumbent == pytest.approx(3.0)
    np.testing.assert_allclose(values(m.gradient.gradient), [1.0, -2.0])
    assert pyo.value(m.net.outputs[0]) == pytest.approx(0.5)


@pytest.mark.parametrize("solver", ["gurobi", "cplex", "scip", "highs", "cbc"])
def test_euclidean_gradient_norms_are_bounded_by_cones(solver):
    if solver not in available_solvers():
        pytest.skip(f"{solver} is not installed")
    network = random_network(3, (2, 6, 5, 1))
    points = np.stack(np.meshgrid(*[np.linspace(-1, 1, 201)] * 2), axis=-1).reshape(-1, 2)
    sizes = np.linalg.norm(network.gradients(points, [1.0]), axis=-1)
    limit = float(np.quantile(sizes, 0.5))
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    m.net, m.slope, m.size = ReluNetworkBlock(), GradientBlock(), NormBlock()
    m.net.build_formulation(network, inputs=m.x)
    m.slope.build_formulation(m.net, functional=0)
    m.size.build_formulation(m.slope.gradient, "l2", sense="min")
    m.gentle = pyo.Constraint(expr=m.size.value <= limit)
    m.goal = pyo.Objective(expr=m.x[0] + m.x[1], sense=pyo.maximize)
    if solver in ("highs", "cbc"):
        with pytest.raises(SolverError, match=r"size\.cone"):
            solve_model(m, solver)
        return
    best = float((points.sum(axis=1))[sizes <= limit].max())
    outcome = solve_model(m, solver, SolverOptions(integrality_tolerance=1e-9))
    assert outcome.status.proven
    assert best - 1e-6 <= outcome.incumbent <= best + 0.03
    m.goal.deactivate()
    m.gentle.deactivate()
    m.least = pyo.Objective(expr=m.size.value)
    assert solve_model(m, solver).incumbent <= sizes.min() + 1e-5


def test_euclidean_norms_are_refused_where_they_are_made_large():
    m = pyo.ConcreteModel()
    m.g = pyo.Var([0, 1], bounds=(-1, 1))
    for sense in ("max", "both"):
        m.size = NormBlock()
        with pytest.raises(NormError, match="sense='min'"):
            m.size.build_formulation(m.g, "l2", sense=sense)
        m.del_component(m.size)
