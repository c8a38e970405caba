"""Blocks behave as Pyomo components do: clone, pickle, index, nest, write, relax, fix."""

from __future__ import annotations

import pickle
import re
from io import StringIO

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo_models import best

from lipyomo import Box
from lipyomo.blocks import GradientBlock, LipschitzBlock, NormBlock, ReluNetworkBlock, rebuild
from lipyomo.solvers import solve_model
from networks import mixed_network, random_network

NETWORK = random_network(3, (3, 4, 3, 2))


def full_model(network=NETWORK):
    """Value, gradient and its norm over existing variables; the largest norm is asked for."""
    m = pyo.ConcreteModel(name="plant")
    m.x = pyo.Var(range(network.input_dim), bounds=(-1, 1))
    m.net, m.slope, m.size = ReluNetworkBlock(), GradientBlock(), NormBlock()
    m.net.build_formulation(network, inputs=m.x)
    m.slope.build_formulation(m.net, functional=0)
    m.size.build_formulation(m.slope.gradient, "l1", sense="max")
    m.goal = pyo.Objective(expr=m.size.value, sense=pyo.maximize)
    return m


@pytest.fixture(scope="module")
def truth():
    return best(full_model())


def test_clone(truth):
    model = full_model()
    copy = model.clone()
    assert copy.net.inputs[0].expr is copy.x[0]
    assert copy.x[0] is not model.x[0]
    copy.x[0].fix(0.5)
    assert best(model) == pytest.approx(truth)
    assert best(copy) <= truth + 1e-6


def test_pickle(truth):
    copy = pickle.loads(pickle.dumps(full_model()))
    assert best(copy) == pytest.approx(truth)
    assert copy.net.network.sizes == NETWORK.sizes


def test_instances_of_an_abstract_model(truth):
    a = pyo.AbstractModel()
    a.high = pyo.Param(initialize=1.0)
    a.x = pyo.Var(range(3), bounds=lambda a, _: (-1, a.high))
    a.net = ReluNetworkBlock(NETWORK, a.x)
    a.slope = GradientBlock(a.net, functional=0)

    def size(block):
        block.build_formulation(block.model().slope.gradient, "l1", sense="max")

    a.size = NormBlock(rule=size)
    a.goal = pyo.Objective(rule=lambda a: a.size.value, sense=pyo.maximize)
    wide, narrow = a.create_instance(), a.create_instance({None: {"high": {None: -0.9}}})
    assert wide.net.inputs[0].expr is wide.x[0]
    assert best(wide) == pytest.approx(truth)
    small = full_model()
    for x in small.x.values():
        x.setub(-0.9)
    rebuild(small)
    assert best(narrow) == pytest.approx(best(small))


def test_clone_of_a_block_alone():
    m = pyo.ConcreteModel()
    m.steep = LipschitzBlock()
    m.steep.build_formulation(NETWORK, domain=Box(-1, 1, 3), output_norm="cross")
    m.again = m.steep.clone()
    m.goal = pyo.Objective(expr=m.steep.value + m.again.value, sense=pyo.maximize)
    total = best(m)
    m.goal.deactivate()
    m.one = pyo.Objective(expr=m.steep.value, sense=pyo.maximize)
    assert total == pytest.approx(2 * best(m), rel=1e-6)


def test_indexed_blocks_and_rules():
    m = pyo.ConcreteModel()
    m.kinds = pyo.Set(initialize=["a", "b"])
    m.x = pyo.Var(range(3), bounds=(-1, 1))
    m.net = ReluNetworkBlock(m.kinds)
    networks = {"a": NETWORK, "b": mixed_network(1, (3, 4, 2))}
    for key in m.kinds:
        m.net[key].build_formulation(networks[key], inputs=m.x)
    m.goal = pyo.Objective(expr=m.net["a"].outputs[0] - m.net["b"].outputs[0])
    solve_model(m, "highs").load()
    x = [pyo.value(m.x[j]) for j in range(3)]
    for key, network in networks.items():
        got = [pyo.value(m.net[key].outputs[k]) for k in range(2)]
        np.testing.assert_allclose(got, network.forward(x), atol=1e-6)


def test_two_networks_nested_in_blocks_of_a_model():
    m = pyo.ConcreteModel()
    m.part = pyo.Block([1, 2])
    for k in (1, 2):
        m.part[k].inner = pyo.Block()
        m.part[k].inner.net = ReluNetworkBlock()
        m.part[k].inner.net.build_formulation(NETWORK, domain=Box(-1, 1, 3))
    m.same = pyo.Constraint(
        range(3),
        rule=lambda m, j: m.part[1].inner.net.inputs[j] == m.part[2].inner.net.inputs[j],
    )
    gap = m.part[1].inner.net.outputs[0] - m.part[2].inner.net.outputs[0]
    m.goal = pyo.Objective(expr=gap, sense=pyo.maximize)
    assert best(m) == pytest.approx(0.0, abs=1e-5)


def test_one_network_after_another():
    first, second = random_network(1, (2, 4, 3)), random_network(2, (3, 4, 1))
    m = pyo.ConcreteModel()
    m.first, m.second = ReluNetworkBlock(), ReluNetworkBlock()
    m.first.build_formulation(first, domain=Box(-1, 1, 2))
    m.second.build_formulation(second, inputs=m.first.outputs)
    m.goal = pyo.Objective(expr=m.second.outputs[0])
    solve_model(m, "highs").load()
    x = [pyo.value(m.first.inputs[j]) for j in range(2)]
    expected = float(second.forward(first.forward(x))[0])
    assert pyo.value(m.second.outputs[0]) == pytest.approx(expected, abs=1e-6)


def test_deactivate_and_reactivate(truth):
    model = full_model()
    model.size.deactivate()
    model.goal.deactivate()
    model.low = pyo.Objective(expr=model.net.outputs[0])
    first = best(model)
    model.size.activate()
    model.low.deactivate()
    model.goal.activate()
    assert best(model) == pytest.approx(truth)
    model.goal.deactivate()
    model.low.activate()
    assert best(model) == pytest.approx(first)


def test_fix_and_unfix(truth):
    model = full_model()
    point = [0.2, -0.4, 0.6]
    for j in range(3):
        model.x[j].fix(point[j])
    slope = NETWORK.jacobian(NETWORK.pattern(point))[0]
    assert best(model) == pytest.approx(np.abs(slope).sum(), rel=1e-6)
    model.x.unfix()
    assert best(model) == pytest.approx(truth)


def test_rebuild_after_new_bounds(truth):
    model = full_model()
    model.x.setlb(0.0)
    narrow = best(model)
    assert narrow < truth - 1e-3
    switches = switch_count(model)
    for block in (model.net, model.slope, model.size):
        block.rebuild()
    assert switch_count(model) < switches
    assert best(model) == pytest.approx(narrow)
    model.x.setlb(-1.0)
    assert rebuild(model) >= 1
    assert switch_count(model) == switches
    assert best(model) == pytest.approx(truth)


def switch_count(model):
    return sum(len(layer.switch) for layer in model.net.layer.values())


def test_relaxed_integers(truth):
    model = full_model()
    relax = pyo.TransformationFactory("core.relax_integer_vars")
    relax.apply_to(model)
    assert not any(v.is_integer() for v in model.component_data_objects(pyo.Var))
    assert best(model) >= truth - 1e-6
    relax.apply_to(model, undo=True)
    assert best(model) == pytest.approx(truth)


@pytest.mark.parametrize("suffix", ["lp", "mps", "nl"])
def test_writing(tmp_path, suffix):
    model = full_model()
    path = tmp_path / f"model.{suffix}"
    model.write(str(path), io_options={"symbolic_solver_labels": True})
    assert path.stat().st_size > 1000
    if suffix == "lp":
        text = path.read_text()
        assert "net_layer(0)_switch(" in text


def test_names_are_readable_and_stable():
    texts = []
    for _ in range(2):
        out = StringIO()
        full_model().pprint(ostream=out)
        texts.append(out.getvalue())
    assert texts[0] == texts[1]
    assert not re.search(r"0x[0-9a-f]{6,}", texts[0])
    names = [v.name for v in full_model().component_data_objects(pyo.Var)]
    assert len(names) == len(set(names))
    assert "net.layer[0].switch[0]" in names
    assert "slope.gradient[2]" in names


def test_pyomos_own_interfaces_solve_the_model(truth):
    model = full_model()
    result = pyo.SolverFactory("appsi_highs").solve(model)
    assert pyo.value(model.goal) == pytest.approx(truth, rel=1e-6)
    assert result.solver.termination_condition == pyo.TerminationCondition.optimal
