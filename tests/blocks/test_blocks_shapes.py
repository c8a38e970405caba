"""Inputs and outputs of a block have the indices of the tensors in the ONNX file."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import onnx
import pyomo.environ as pyo
import pytest
from onnx import TensorProto, helper, numpy_helper

import lipyomo
from lipyomo import Box, Network
from lipyomo.base.errors import NetworkError, ProblemError
from lipyomo.blocks import (
    GradientBlock,
    NormBlock,
    ReluNetworkBlock,
    Scaling,
    TangentBlock,
    UpperLipschitzBlock,
)
from lipyomo.formats.onnx import from_model
from lipyomo.solvers import solve_model


@pytest.fixture(scope="module")
def network():
    """A file that takes (1, 1, 2, 3) and gives (1, 2, 2): an image in, a table out."""
    rng = np.random.default_rng(0)
    arrays = {"W": rng.normal(size=(6, 5)), "b": rng.normal(size=5), "V": rng.normal(size=(5, 4))}
    stored = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    stored.append(numpy_helper.from_array(np.array([1, 2, 2]), "shape"))
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("Gemm", ["flat", "W", "b"], ["z"]),
        helper.make_node("Relu", ["z"], ["h"]),
        helper.make_node("MatMul", ["h", "V"], ["y"]),
        helper.make_node("Reshape", ["y", "shape"], ["table"]),
    ]
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
        for name, shape in (("image", ["n", 1, 2, 3]), ("table", [1, 2, 2]))
    ]
    graph = helper.make_graph(nodes, "tables", *ends, initializer=stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return from_model(model)


PIXELS = list(itertools.product(range(1), range(2), range(3)))
CELLS = list(itertools.product(range(2), range(2)))


def test_networks_know_their_shapes(network):
    assert (network.input_shape, network.output_shape) == ((1, 2, 3), (2, 2))
    assert network.fused().output_shape == (2, 2)
    assert pickle.loads(pickle.dumps(network)).input_shape == (1, 2, 3)
    iris = lipyomo.load("models/iris.onnx")
    assert (iris.input_shape, iris.output_shape) == ((4,), (3,))
    with pytest.raises(NetworkError, match="4 outputs"):
        Network(network.layers, output_shape=(3, 2))


@pytest.mark.parametrize("given", ["none", "same", "table", "slice", "list"])
def test_values_by_index(network, given):
    m = pyo.ConcreteModel()
    point = np.random.default_rng(1).uniform(-1, 1, (1, 2, 3))
    domain = None
    if given == "none":
        inputs, domain = None, Box(-1, 1, 6)
    elif given == "same":
        inputs = m.x = pyo.Var(*map(range, (1, 2, 3)), bounds=(-1, 1))
    elif given == "table":
        inputs = m.x = pyo.Var(range(2), range(3), bounds=(-1, 1))
    else:
        m.x = pyo.Var(["now", "then"], range(2), range(3), bounds=(-1, 1))
        inputs = m.x["now", :, :] if given == "slice" else list(m.x["now", :, :])
    m.net = ReluNetworkBlock()
    m.net.build_formulation(network, inputs=inputs, domain=domain)
    assert list(m.net.inputs) == PIXELS
    assert list(m.net.outputs) == CELLS
    for key in PIXELS:
        m.net.inputs[key].fix(point[key])
    m.goal = pyo.Objective(expr=m.net.outputs[1, 0] - m.net.outputs[0, 1])
    outcome = solve_model(m, "highs")
    assert outcome.status.proven
    outcome.load()
    truth = network.forward(point.reshape(-1)).reshape(2, 2)
    for key in CELLS:
        assert pyo.value(m.net.outputs[key]) == pytest.approx(truth[key], abs=1e-6)


def test_bounds_by_index_scaling_and_rebuilding(network):
    m = pyo.ConcreteModel()
    m.net = ReluNetworkBlock()
    factor = np.full(4, 2.0)
    bounds = dict.fromkeys(PIXELS, (-1, 1)) | {(0, 1, 2): (0.25, 0.5)}
    scaling = Scaling(output_factor=factor)
    m.net.build_formulation(network, input_bounds=bounds, scaling=scaling)
    assert m.net.inputs[0, 1, 2].bounds == (0.25, 0.5)
    assert list(m.net.outputs) == CELLS
    m.table = NormBlock()
    m.table.build_formulation(m.net.outputs, "linf", sense="max")
    m.net.inputs[0, 1, 2].setub(2.0)
    assert lipyomo.blocks.rebuild(m) >= 1
    assert list(m.net.outputs) == CELLS
    m.again = ReluNetworkBlock()
    with pytest.raises(ProblemError, match="no input"):
        m.again.build_formulation(network, input_bounds={(0, 2, 0): (0, 1)})


def test_derivatives_have_the_indices_of_inputs_and_outputs(network):
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(2), range(3), bounds=(-1, 1))
    m.net, m.slope, m.one, m.along = (
        ReluNetworkBlock(),
        GradientBlock(),
        GradientBlock(),
        TangentBlock(),
    )
    m.net.build_formulation(network, inputs=m.x)
    m.slope.build_formulation(m.net)
    m.one.build_formulation(m.net, functional=3)
    m.v = pyo.Var(range(6), bounds=(0, 1))
    m.along.build_formulation(m.net, direction=m.v)
    point = np.random.default_rng(2).uniform(-1, 1, (2, 3))
    for key, value in np.ndenumerate(point):
        m.x[key].fix(value)
    for j in m.v:
        m.v[j].fix(1.0)
    m.goal = pyo.Objective(expr=m.net.outputs[0, 0])
    solve_model(m, "highs").load()
    truth = network.jacobian(network.pattern(point.reshape(-1)))
    for k, cell in enumerate(CELLS):
        assert pyo.value(m.along.derivative[cell]) == pytest.approx(truth[k].sum(), abs=1e-6)
        for j, pixel in enumerate(PIXELS):
            entry = m.slope.jacobian[cell, pixel]
            assert pyo.value(entry) == pytest.approx(truth[k, j], abs=1e-6)
            assert entry.lb - 1e-6 <= truth[k, j] <= entry.ub + 1e-6
            assert m.slope.row[cell].gradient[pixel] is entry.expr
    assert list(m.one.gradient) == PIXELS
    assert m.one.jacobian[(1, 1), PIXELS[4]].expr is m.one.gradient[PIXELS[4]]
    assert list(m.along.direction) == PIXELS
    m.c = pyo.Var(range(4), bounds=(0, 1))
    for functional in ([1.0, 0.0, 2.0, 0.0], list(m.c.values())):
        block = GradientBlock()
        m.add_component(f"mixed_{len(list(m.component_objects()))}", block)
        block.build_formulation(m.net, functional=functional)
        assert list(block.gradient) == list(m.net.inputs) == PIXELS
        assert block.component("jacobian") is None


def test_upper_blocks_take_images(network):
    m = pyo.ConcreteModel()
    m.calm = UpperLipschitzBlock()
    m.calm.build_formulation(network, domain=Box(-1, 1, 6), radius=0.1)
    assert list(m.calm.inputs) == PIXELS
