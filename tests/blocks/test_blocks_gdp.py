"""Every block in every place where Pyomo puts blocks: disjuncts, indices, clones, files."""

from __future__ import annotations

import pickle

import highspy
import pyomo.environ as pyo
import pytest
from pyomo.gdp import Disjunct, Disjunction
from pyomo_models import best

from lipyomo.blocks import (
    DualBallBlock,
    GradientBlock,
    LipschitzBlock,
    NormBlock,
    ReluNetworkBlock,
    TangentBlock,
    UpperLipschitzBlock,
)
from networks import random_network

NETWORK = random_network(3, (2, 2, 2, 2))


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
    part.size.build_formulation(x, "l1", sense="both")
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


def plain(build, m):
    """The block by itself, its quantity maximised."""
    variables(m)
    m.part = pyo.Block()
    m.goal = pyo.Objective(expr=build(m.part, m.x), sense=pyo.maximize)
    return m


def disjunctive(build, m):
    """Either the block and its quantity, or nothing and little."""
    variables(m)
    m.gain = pyo.Var(bounds=(-100, 100))
    m.case = Disjunct([0, 1])
    quantity = build(m.case[0], m.x)
    m.case[0].tie = pyo.Constraint(expr=m.gain <= quantity)
    m.case[1].tie = pyo.Constraint(expr=m.gain <= -90.0)
    m.either = Disjunction(expr=[m.case[0], m.case[1]])
    m.goal = pyo.Objective(expr=m.gain, sense=pyo.maximize)
    return m


@pytest.fixture(scope="module")
def truth():
    return {name: best(plain(build, pyo.ConcreteModel())) for name, build in BLOCKS.items()}


TRANSFORMATIONS = ("none", "bigm", "hull", "mbigm")


def transform(model, transformation):
    """Apply a transformation of disjuncts in place."""
    options = {}
    if transformation == "mbigm":  # with more threads Pyomo needs the package dill
        options = {"solver": pyo.SolverFactory("lipyomo_highs"), "threads": 1}
    if transformation != "none":
        pyo.TransformationFactory(f"gdp.{transformation}").apply_to(model, **options)
    return model


def nested(build, transformation):
    """The model twice, in indexed blocks within indexed blocks."""
    fill = plain if transformation == "none" else disjunctive
    m = pyo.ConcreteModel()
    m.outer = pyo.Block(["a", "b"])
    for key in m.outer:
        m.outer[key].inner = pyo.Block([1, 2])
        fill(build, m.outer[key].inner[1])
        m.outer[key].inner[1].goal.deactivate()
    goals = [m.outer[key].inner[1].goal.expr for key in m.outer]
    m.goal = pyo.Objective(expr=sum(goals), sense=pyo.maximize)
    return m


def read_back(path):
    """The optimum of a file, as somebody else's program reads and solves it."""
    if path.suffix == ".nl":
        scip = pytest.importorskip("pyscipopt", reason="needs the extra [scip]").Model()
        scip.hideOutput()
        scip.readProblem(str(path))
        scip.optimize()
        assert scip.getStatus() == "optimal"
        return scip.getObjVal()
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(path)) != highspy.HighsStatus.kError
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return highs.getInfo().objective_function_value


PLACES = [
    ("plain", "nested", "lp"),
    ("cloned", "nested and cloned", "mps"),
    ("pickled", "nested and pickled", "nl", "relaxed"),
]
"""Where a block may stand.  A case takes one line: all pairs of a block, a transformation and a
place occur, not all triples."""
CASES = [
    (name, transformation, PLACES[(i + j) % len(PLACES)])
    for i, name in enumerate(BLOCKS)
    for j, transformation in enumerate(TRANSFORMATIONS)
]


def copied(model, how):
    """The model, or a copy of it."""
    if how.endswith("cloned"):
        return model.clone()
    return pickle.loads(pickle.dumps(model)) if how.endswith("pickled") else model


@pytest.mark.parametrize(("name", "transformation", "places"), CASES)
def test_every_block_everywhere(name, transformation, places, truth, tmp_path):
    """Plain, nested, indexed, cloned, pickled, relaxed, in LP, MPS and NL files."""
    wanted = truth[name]
    build = BLOCKS[name]
    fill = plain if transformation == "none" else disjunctive
    alone, twice, suffix, *relaxed = places
    model = transform(copied(fill(build, pyo.ConcreteModel()), alone), transformation)
    assert best(model) == pytest.approx(wanted, abs=1e-5)
    both = copied(transform(nested(build, transformation), transformation), twice)
    assert best(both) == pytest.approx(2.0 * wanted, abs=1e-5)
    path = tmp_path / f"model.{suffix}"
    model.write(str(path), io_options={"symbolic_solver_labels": True})
    assert read_back(path) == pytest.approx(wanted, abs=1e-5)
    if relaxed:
        pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
        assert best(model) >= wanted - 1e-6


def test_every_pair_of_a_block_a_transformation_and_a_place_occurs():
    met = {(name, place) for name, _, places in CASES for place in places}
    met |= {(transformation, place) for _, transformation, places in CASES for place in places}
    every = [place for places in PLACES for place in places]
    assert met == {(one, place) for one in (*BLOCKS, *TRANSFORMATIONS) for place in every}


@pytest.mark.parametrize("transformation", ["bigm", "hull"])
def test_the_gdp_formulation_within_a_disjunct(transformation, truth):
    m = disjunctive(lambda part, x: relu(part, x, formulation="gdp"), pyo.ConcreteModel())
    transform(m, transformation)
    assert best(m) == pytest.approx(truth["relu"], abs=1e-5)


def test_slices():
    """Layers without unstable units have an empty `switch`, so that slices run through."""
    m = variables(pyo.ConcreteModel())
    relu(m, m.x)
    assert len(list(m.net.layer[:].switch[:])) == m.net.layer_bounds.unstable
    for j in m.x:
        m.x[j].setub(-0.999)
    m.net.rebuild()
    assert m.net.layer_bounds.unstable < 4
    assert len(list(m.net.layer[:].switch[:])) == m.net.layer_bounds.unstable
    m.slope = GradientBlock()
    m.slope.build_formulation(m.net, functional=0)
    assert len(list(m.slope.layer[:].switched[:])) <= m.net.layer_bounds.unstable
