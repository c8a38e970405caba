"""Every block in every place where Pyomo puts blocks: disjuncts, indices, clones, files."""

from __future__ import annotations

import pickle

import pyomo.environ as pyo
import pytest
from pyomo.gdp import Disjunct, Disjunction

from lipyomo.blocks import (
    DualBallBlock,
    GradientBlock,
    LipschitzBlock,
    NormBlock,
    ReluNetworkBlock,
    TangentBlock,
    UpperLipschitzBlock,
)
from lipyomo.solvers import solve_model
from networks import random_network

NETWORK = random_network(3, (2, 3, 3, 2))


def relu(part, x, **options):
    part.net = ReluNetworkBlock()
    part.net.build_formulation(NETWORK, inputs=x, **options)
    return part.net.outputs[0]


def gradient(part, x):
    relu(part, x)
    part.slope = GradientBlock()
    part.slope.build_formulation(part.net)
    return part.slope.jacobian[0, 1]


def tangent(part, x):
    relu(part, x)
    part.along = TangentBlock()
    part.along.build_formulation(part.net, norm="l1")
    return part.along.derivative[0]


def norm(part, x):
    part.size = NormBlock()
    part.size.build_formulation(x, "l1", "both")
    return part.size.value


def dual_ball(part, x):
    part.ball = DualBallBlock()
    part.ball.build_formulation(2, "cross")
    return part.ball.functional[0]


def lipschitz(part, x):
    part.steep = LipschitzBlock()
    part.steep.build_formulation(NETWORK, inputs=x, output_norm="cross")
    return part.steep.value


def upper(part, x):
    part.calm = UpperLipschitzBlock()
    part.calm.build_formulation(NETWORK, inputs=x, radius=0.1)
    part.top = pyo.Constraint(expr=part.calm.value <= 0.7 * part.calm.value.ub)
    return x[0] - 2.0 * x[1]


BLOCKS = {
    "relu": relu,
    "gradient": gradient,
    "tangent": tangent,
    "norm": norm,
    "dual ball": dual_ball,
    "lipschitz": lipschitz,
    "upper": upper,
}


def variables(m):
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    return m


def plain(build):
    """The block by itself, its quantity maximised."""
    m = variables(pyo.ConcreteModel())
    m.part = pyo.Block()
    m.goal = pyo.Objective(expr=build(m.part, m.x), sense=pyo.maximize)
    return m


def disjunctive(build):
    """Either the block and its quantity, or nothing and zero."""
    m = variables(pyo.ConcreteModel())
    m.gain = pyo.Var(bounds=(-100, 100))
    m.case = Disjunct([0, 1])
    quantity = build(m.case[0], m.x)
    m.case[0].tie = pyo.Constraint(expr=m.gain <= quantity)
    m.case[1].tie = pyo.Constraint(expr=m.gain <= -90.0)
    m.either = Disjunction(expr=[m.case[0], m.case[1]])
    m.goal = pyo.Objective(expr=m.gain, sense=pyo.maximize)
    return m


def best(model):
    outcome = solve_model(model, "highs")
    assert outcome.status.proven, outcome.message
    return outcome.incumbent


@pytest.fixture(scope="module")
def truth():
    return {name: best(plain(build)) for name, build in BLOCKS.items()}


@pytest.mark.parametrize("transformation", ["bigm", "hull"])
@pytest.mark.parametrize("name", BLOCKS)
def test_disjuncts(name, transformation, truth):
    m = disjunctive(BLOCKS[name])
    pyo.TransformationFactory(f"gdp.{transformation}").apply_to(m)
    assert best(m) == pytest.approx(truth[name], abs=1e-5)


@pytest.mark.parametrize("name", BLOCKS)
def test_multiple_big_m(name, truth):
    m = disjunctive(BLOCKS[name])
    solver = pyo.SolverFactory("lipyomo_highs")
    pyo.TransformationFactory("gdp.mbigm").apply_to(m, solver=solver)
    assert best(m) == pytest.approx(truth[name], abs=1e-5)


@pytest.mark.parametrize("transformation", ["bigm", "hull"])
def test_the_gdp_formulation_within_a_disjunct(transformation, truth):
    m = disjunctive(lambda part, x: relu(part, x, formulation="gdp"))
    pyo.TransformationFactory(f"gdp.{transformation}").apply_to(m)
    assert best(m) == pytest.approx(truth["relu"], abs=1e-5)


@pytest.mark.parametrize("name", BLOCKS)
def test_nested_and_indexed(name, truth):
    m = variables(pyo.ConcreteModel())
    m.outer = pyo.Block(["a", "b"])
    total = 0.0
    for key in m.outer:
        m.outer[key].inner = pyo.Block([1])
        variables(m.outer[key].inner[1])
        total += BLOCKS[name](m.outer[key].inner[1], m.outer[key].inner[1].x)
    m.goal = pyo.Objective(expr=total, sense=pyo.maximize)
    assert best(m) == pytest.approx(2 * truth[name], abs=1e-5)


@pytest.mark.parametrize("name", BLOCKS)
def test_cloned_pickled_and_relaxed(name, truth):
    m = plain(BLOCKS[name])
    assert best(m.clone()) == pytest.approx(truth[name], abs=1e-6)
    assert best(pickle.loads(pickle.dumps(m))) == pytest.approx(truth[name], abs=1e-6)
    pyo.TransformationFactory("core.relax_integer_vars").apply_to(m)
    assert best(m) >= truth[name] - 1e-6


@pytest.mark.parametrize("suffix", ["lp", "mps", "nl"])
@pytest.mark.parametrize("name", BLOCKS)
def test_written(name, suffix, tmp_path):
    for model in (plain(BLOCKS[name]), disjunctive(BLOCKS[name])):
        if model.component("either") is not None:
            pyo.TransformationFactory("gdp.bigm").apply_to(model)
        path = tmp_path / f"model.{suffix}"
        model.write(str(path), io_options={"symbolic_solver_labels": True})
        assert path.stat().st_size > 300


def test_slices():
    """Layers without open units have an empty `switch`, so that slices run through."""
    m = variables(pyo.ConcreteModel())
    relu(m, m.x)
    assert len(list(m.net.layer[:].switch[:])) == m.net.layer_bounds.unstable
    for j in m.x:
        m.x[j].setub(-0.999)
    m.net.rebuild()
    assert m.net.layer_bounds.unstable < 6
    assert len(list(m.net.layer[:].switch[:])) == m.net.layer_bounds.unstable
    m.slope = GradientBlock()
    m.slope.build_formulation(m.net, 0)
    assert len(list(m.slope.layer[:].switched[:])) <= m.net.layer_bounds.unstable
