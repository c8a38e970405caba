"""Every block takes networks, files and built blocks; directions count along what can move."""

from __future__ import annotations

import pickle
import shutil
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo_models import best, model_of

import lipyomo
from lipyomo import Box, LipschitzProblem
from lipyomo.base.errors import LipyomoError, ProblemError
from lipyomo.blocks import (
    DualBallBlock,
    FixedInputWarning,
    GradientBlock,
    LipschitzBlock,
    NormBlock,
    ReluNetworkBlock,
    Scaling,
    TangentBlock,
    UpperLipschitzBlock,
    rebuild,
)
from lipyomo.formats.onnx import to_onnx
from lipyomo.solvers import available_solvers, solve_model
from networks import random_network

NETWORK = random_network(3, (3, 4, 3, 2))
SCALING = Scaling([0.1, 0.2, 0.3], [2.0, 1.0, 0.5], 1.0, [3.0, 1.0])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The network as an ONNX file, and what is in it."""
    found = tmp_path_factory.mktemp("nets") / "net.onnx"
    found.write_bytes(to_onnx(NETWORK).SerializeToString())
    return found


def quantity(name, model, network, **own):
    """The largest value of something that a block bounds."""
    kinds = {
        "relu": ReluNetworkBlock,
        "gradient": GradientBlock,
        "tangent": TangentBlock,
        "lipschitz": LipschitzBlock,
        "upper": UpperLipschitzBlock,
    }
    model.block = kinds[name]()
    model.block.build_formulation(network, **own)
    if name == "upper":
        model.goal = pyo.Objective(expr=model.block.value)
    else:
        value = {
            "relu": lambda b: b.outputs[0],
            "gradient": lambda b: b.jacobian[1, 2],
            "tangent": lambda b: b.derivative[0],
            "lipschitz": lambda b: b.value,
        }[name](model.block)
        model.goal = pyo.Objective(expr=value, sense=pyo.maximize)
    return best(model)


@pytest.mark.parametrize("name", ["relu", "gradient", "tangent", "lipschitz", "upper"])
def test_a_network_its_file_and_a_built_block_are_the_same(name, path):
    own = {"domain": Box(-1, 1, 3), "scaling": SCALING}
    truth = quantity(name, pyo.ConcreteModel(), NETWORK, **own)
    stored = quantity(name, pyo.ConcreteModel(), lipyomo.load(path), **own)
    assert stored == pytest.approx(truth, rel=1e-5)
    given = path if name == "relu" else str(path)
    assert quantity(name, pyo.ConcreteModel(), given, **own) == pytest.approx(stored)
    m = model_of(NETWORK, scaling=SCALING)
    assert quantity(name, m, m.net) == pytest.approx(truth, rel=1e-6)
    inputs = [
        getattr(item, "expr", item) for item in getattr(m.block, "inputs", m.net.inputs).values()
    ]
    assert all(item is m.x[j] for j, item in enumerate(inputs))


def test_a_file_is_read_once(path, tmp_path):
    copy = tmp_path / "copy.onnx"
    shutil.copy(path, copy)
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(3), bounds=(-1, 1))
    m.steep = LipschitzBlock()
    m.steep.build_formulation(copy, inputs=m.x)
    copy.unlink()
    m.x[0].setub(2.0)
    assert rebuild(m) == 1


@pytest.mark.parametrize(
    "kind", [ReluNetworkBlock, GradientBlock, TangentBlock, LipschitzBlock, UpperLipschitzBlock]
)
def test_what_is_no_network_is_refused(kind, tmp_path):
    m = pyo.ConcreteModel()
    m.other, m.block = ReluNetworkBlock(), kind()
    for wrong in (tmp_path / "none.onnx", 3, None, pyo.Block(), m.other):
        with pytest.raises(LipyomoError):
            m.block.build_formulation(wrong)
    assert not m.block.is_built


def test_upper_blocks_share_the_inputs_of_a_network_block():
    m = model_of(NETWORK, scaling=SCALING, domain=Box(-0.5, 0.5, 3))
    m.calm = UpperLipschitzBlock()
    with pytest.raises(ProblemError, match="inputs="):
        m.calm.build_formulation(m.net, inputs=m.x)
    m.calm.build_formulation(m.net, radius=0.1)
    m.goal = pyo.Objective(expr=m.calm.value)
    assert best(m) > 0
    m.net.deactivate()
    with pytest.raises(ProblemError, match=r"'calm'.*'net'"):
        best(m)


@pytest.mark.parametrize("formulation", ["partition", "gdp"])
def test_formulation_means_units_in_every_block(formulation):
    values = []
    for chosen in ("bigm", formulation):
        m = pyo.ConcreteModel()
        m.steep = LipschitzBlock()
        m.steep.build_formulation(NETWORK, domain=Box(-1, 1, 3), formulation=chosen)
        assert m.steep.net.formulation == chosen
        m.goal = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
        if chosen == "gdp":
            pyo.TransformationFactory("gdp.bigm").apply_to(m)
        values.append(best(m))
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_blocks_stand_for_their_results():
    last = random_network(9, (2, 4, 1))
    truth = None
    for plain in (True, False):
        m = model_of(NETWORK)
        m.slope, m.size, m.ball, m.back, m.last = (
            GradientBlock(),
            NormBlock(),
            DualBallBlock(),
            GradientBlock(),
            ReluNetworkBlock(),
        )
        m.slope.build_formulation(m.net, functional=0)
        m.ball.build_formulation(2, "linf")
        m.size.build_formulation(m.slope.gradient if plain else m.slope, "l1", sense="max")
        m.back.build_formulation(m.net, functional=m.ball.functional if plain else m.ball)
        m.last.build_formulation(last, inputs=m.net.outputs if plain else m.net)
        total = m.size.value + m.back.gradient[1] + m.last.outputs[0]
        m.goal = pyo.Objective(expr=total, sense=pyo.maximize)
        truth = best(m) if plain else truth
    assert best(m) == pytest.approx(truth, rel=1e-6)
    m.all, m.none = GradientBlock(), NormBlock()
    m.all.build_formulation(m.net)
    for wrong in (m.all, ReluNetworkBlock()):
        with pytest.raises(ProblemError, match="does not have"):
            m.none.build_formulation(wrong)
    m.none.build_formulation(m.all.row[1], "linf", sense="min")


# -- inputs that cannot move -----------------------------------------------------------------------

LOW, HIGH = np.array([-1.0, 0.3, -1.0]), np.array([1.0, 0.3, 1.0])


def still(m, how):
    """Inputs of which the second cannot move, at 0.3."""
    m.x = pyo.Var(range(3), bounds=(-1, 1))
    m.p = pyo.Param(initialize=0.3, mutable=True)
    m.y = pyo.Var(bounds=(-1, 1))
    if how == "flat":
        m.x[1].bounds = (0.3, 0.3)
    elif how == "fixed":
        m.x[1].fix(0.3)
    elif how == "number":
        return {"inputs": [m.x[0], 0.3, m.x[2]]}
    elif how == "param":
        return {"inputs": [m.x[0], m.p, m.x[2]]}
    elif how == "expression":
        m.y.fix(0.1)
        return {"inputs": [m.x[0], 3.0 * m.y, m.x[2]]}
    elif how == "domain":
        return {"inputs": m.x, "domain": Box(LOW, HIGH)}
    elif how == "own":
        return {"domain": Box(LOW, HIGH)}
    return {"inputs": m.x}


HOW = ["flat", "fixed", "number", "param", "expression", "domain", "own"]


@cache
def truth_of(input_norm, low=tuple(LOW), high=tuple(HIGH)):
    found = lipyomo.solve(LipschitzProblem(NETWORK, Box(low, high), input_norm, "l1"))
    assert found.lower == pytest.approx(found.upper, rel=1e-5)
    return found.upper


@pytest.mark.parametrize(
    ("how", "encoding", "input_norm"),  # all pairs, not all triples
    [
        (how, encoding, norms[k % 2])
        for k, how in enumerate(HOW)
        for encoding, norms in (("adjoint", ("linf", "l1")), ("tangent", ("l1", "linf")))
    ],
)
def test_directions_along_still_inputs_do_not_count(how, encoding, input_norm):
    m = pyo.ConcreteModel()
    own = still(m, how)
    m.steep = LipschitzBlock()
    chosen = {"norm": input_norm, "output_norm": "l1", "encoding": encoding}
    with pytest.warns(FixedInputWarning, match="'steep': 1 of 3"):
        m.steep.build_formulation(NETWORK, **own, **chosen)
    m.goal = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
    wanted = truth_of(input_norm)
    copied = {"flat": pyo.ConcreteModel.clone, "own": lambda m: pickle.loads(pickle.dumps(m))}
    assert best(copied.get(how, lambda m: m)(m)) == pytest.approx(wanted, rel=1e-5)
    m.all = LipschitzBlock()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = {"inputs": m.x} if how == "own" else own
        m.all.build_formulation(NETWORK, **own, **chosen, wrt=range(3))
    m.goal.deactivate()
    m.other = pyo.Objective(expr=m.all.value, sense=pyo.maximize)
    assert best(m) >= wanted - 1e-6


@pytest.mark.parametrize("solver", available_solvers())
def test_every_solver_agrees_on_still_inputs(solver):
    m = pyo.ConcreteModel()
    own = still(m, "flat")
    m.steep = LipschitzBlock()
    with pytest.warns(FixedInputWarning):
        m.steep.build_formulation(NETWORK, **own, output_norm="l1")
    m.goal = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
    assert solve_model(m, solver).incumbent == pytest.approx(truth_of("linf"), rel=1e-5)


def test_what_moves_again_counts_again():
    m = pyo.ConcreteModel()
    m.steep = LipschitzBlock()
    own = still(m, "fixed")
    with pytest.warns(FixedInputWarning):
        m.steep.build_formulation(NETWORK, **own, output_norm="l1")
    m.goal = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
    m.x[1].unfix()
    with pytest.raises(ProblemError, match=r"x\[1\].*can move.*rebuild"):
        best(m)
    assert rebuild(m) == 1
    whole = truth_of("linf", (-1.0,) * 3, (1.0,) * 3)
    assert best(m) == pytest.approx(whole, rel=1e-5)
    m.x[1].fix(0.3)  # fixed afterwards: the directions are those that the block was built for
    assert best(m) >= truth_of("linf") - 1e-6
    with pytest.warns(FixedInputWarning, match="1 of 3"):
        m.steep.rebuild()
    assert best(m) == pytest.approx(truth_of("linf"), rel=1e-5)


def test_at_a_single_point_it_is_the_norm_of_the_jacobian():
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(3), bounds=(-1, 1))
    point = [0.2, -0.4, 0.7]
    for j in m.x:
        m.x[j].fix(point[j])
    m.steep = LipschitzBlock()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        m.steep.build_formulation(NETWORK, inputs=m.x)
        m.goal = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
        value = best(m)
    slopes = NETWORK.jacobian(NETWORK.pattern(point))
    assert value == pytest.approx(np.abs(slopes).sum(axis=1).max(), rel=1e-6)


def test_some_inputs_by_name():
    m = model_of(NETWORK)
    values = []
    for j in range(3):
        m.del_component("steep")
        m.del_component("goal")
        m.steep = LipschitzBlock()
        m.steep.build_formulation(m.net, wrt=[j], output_norm="l1")
        m.goal = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
        values.append(best(m))
    points = np.random.default_rng(0).uniform(-1, 1, (500, 3))
    for x in points:
        slopes = np.abs(NETWORK.jacobian(NETWORK.pattern(x))).sum(axis=0)
        assert (slopes <= np.array(values) + 1e-6).all()
    assert max(values) <= truth_of("l1", (-1.0,) * 3, (1.0,) * 3) * (1 + 1e-5)


def test_upper_blocks_leave_still_inputs_where_they_are():
    m = pyo.ConcreteModel()
    own = still(m, "flat")
    m.calm, m.both = UpperLipschitzBlock(), UpperLipschitzBlock()
    with pytest.warns(FixedInputWarning, match="'calm': 1 of 3"):
        m.calm.build_formulation(NETWORK, **own, radius=0.0)
    m.both.build_formulation(NETWORK, **own, radius=0.0, wrt=range(3))
    for j in (0, 2):
        m.x[j].fix(0.1)
    m.goal = pyo.Objective(expr=m.calm.value + m.both.value)
    best(m)
    slopes = np.abs(NETWORK.jacobian(NETWORK.pattern([0.1, 0.3, 0.1])))
    moving = slopes[:, [0, 2]].sum(axis=1).max()
    assert pyo.value(m.calm.value) == pytest.approx(moving, abs=1e-5)
    assert pyo.value(m.both.value) == pytest.approx(slopes.sum(axis=1).max(), abs=1e-5)
    assert [pyo.value(m.calm.radius[j]) for j in range(3)] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("radius", [0.2, [0.2, 0.0, 0.2]], ids=["one", "each"])
def test_upper_blocks_stay_above_the_constant_of_what_moves(radius):
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(3), bounds=(-1, 1))
    if radius == 0.2:
        m.x[1].fix(0.3)
    m.calm = UpperLipschitzBlock()
    with pytest.warns(FixedInputWarning):
        m.calm.build_formulation(NETWORK, inputs=m.x, radius=radius)
    m.goal = pyo.Objective(expr=m.calm.value)
    for centre in np.random.default_rng(3).uniform(-0.8, 0.8, (3, 3)):
        centre[1] = 0.3
        for j in range(3):
            m.x[j].fix(centre[j])
        reach = np.array([0.2, 0.0, 0.2])
        problem = LipschitzProblem(NETWORK, Box(centre - reach, centre + reach))
        assert best(m) >= lipyomo.solve(problem).lower - 1e-6


def test_a_fixed_centre_has_a_box_around_it():
    m = pyo.ConcreteModel()
    m.calm = UpperLipschitzBlock()
    m.calm.build_formulation(NETWORK, inputs=[0.1, 0.2, -0.3], radius=0.3)
    m.goal = pyo.Objective(expr=m.calm.value)
    centre = np.array([0.1, 0.2, -0.3])
    problem = LipschitzProblem(NETWORK, Box(centre - 0.3, centre + 0.3))
    assert best(m) >= lipyomo.solve(problem).lower - 1e-6


def test_the_table_of_blocks_is_true():
    """Every row of the table that opens docs/blocks.md runs as it is written."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "blocks.md").read_text(encoding="utf-8")
    start = text.index("| what you want to say |")
    table = text[start : text.index("\n\n", start)].splitlines()[2:]
    rows = [line.split(" | ") for line in table]
    m = pyo.ConcreteModel()
    m.x = pyo.Var([0, 1], bounds=(-1, 1))
    names = {"m": m, "pyo": pyo, "net": random_network(3, (2, 5, 4, 2))}
    names |= {name: getattr(lipyomo.blocks, name) for name in lipyomo.blocks.__all__}
    for row in rows:
        for line in row[-1].rstrip(" |").split("<br>"):
            exec(line.strip("`"), names)
    assert len(rows) == 8
    assert m.steep.value.ub > 0
    assert m.net.stale() is None
    assert m.calm.stale() is None
