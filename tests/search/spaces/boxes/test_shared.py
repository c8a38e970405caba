"""Sums of products that have a factor in common: which there are, and planes above them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from lipyomo import Box, LipschitzProblem
from lipyomo.formats.onnx import from_model
from lipyomo.search.spaces.boxes.bounding.shared import jointly
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.structure.stage import Products

INPUTS, ROWS, BOXES, POINTS = 3, 4, 24, 40


def context(seed: int) -> BoxContext:
    """Two gates times four signals each, all of which are functions of the same inputs."""
    rng = np.random.default_rng(seed)
    arrays = {
        "G": rng.normal(size=(INPUTS, 2)),
        "W": rng.normal(size=(INPUTS, 2 * ROWS)),
        "V": rng.normal(size=(2 * ROWS, 1)),
        "shape": np.array([1, 2, ROWS]),
        "column": np.array([1, 2, 1]),
        "flat": np.array([1, 2 * ROWS]),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "G"], ["g"]),
        helper.make_node("Sigmoid", ["g"], ["gate"]),
        helper.make_node("Reshape", ["gate", "column"], ["gates"]),
        helper.make_node("MatMul", ["x", "W"], ["h"]),
        helper.make_node("Sin", ["h"], ["bent"]),
        helper.make_node("Reshape", ["bent", "shape"], ["signals"]),
        helper.make_node("Mul", ["signals", "gates"], ["products"]),
        helper.make_node("Reshape", ["products", "flat"], ["p"]),
        helper.make_node("MatMul", ["p", "V"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, INPUTS])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])
    constants = [
        numpy_helper.from_array(value if value.dtype == int else value.astype(np.float32), name)
        for name, value in arrays.items()
    ]
    graph = helper.make_graph(nodes, "shared", [x], [y], constants)
    opset = [helper.make_opsetid("", 17)]
    net = from_model(helper.make_model(graph, opset_imports=opset, ir_version=9))
    problem = LipschitzProblem(net, Box(-1, 1, INPUTS)).reduced.problem
    return BoxContext.of(BoxQuestion(problem))


def test_each_product_is_in_the_group_of_the_row_that_more_have() -> None:
    left, right = np.array([0, 5, 2, 3, 4, 1]), np.array([5, 1, 5, 4, 4, 6])
    shared = Products(0, left, right, 7).shared
    assert shared is not None
    assert shared.rows.tolist() == [5]
    assert shared.products.tolist() == [0, 1, 2]
    assert shared.others.tolist() == [0, 1, 2]
    assert shared.second.tolist() == [True, False, True]
    assert Products(0, np.array([0, 1]), np.array([2, 3]), 4).shared is None


@pytest.mark.parametrize("seed", range(4))
def test_planes_are_above_sums_at_points(seed: int) -> None:
    found, rng = context(seed), np.random.default_rng(seed)
    ends = np.sort(rng.uniform(-1.0, 1.0, (2, BOXES, INPUTS)), axis=0)
    width = rng.choice([1.0, 0.1, 1e-3, 1e-8, 0.0], (BOXES, 1))
    boxes = Boxes.over(found, ends[0], ends[0] + width * (ends[1] - ends[0]))
    v = np.sort(rng.choice([-1.0, 1.0], (2, BOXES, INPUTS)), axis=0)
    boxes = replace(boxes, v_low=v[0], v_high=v[1])
    known = relaxed(found, boxes, (boxes.v_low, boxes.v_high))
    place = next(k for k, stage in enumerate(found.stages) if stage.products is not None)
    products = found.stages[place].products
    assert products is not None
    shared = products.shared
    assert shared is not None
    assert shared.rows.size == 2
    assert shared.products.size == 2 * ROWS
    a, b = rng.normal(size=(2, BOXES, 2 * ROWS))
    worst = boxes.high, boxes.v_low
    joint = jointly(shared, known.layers[place], (a, b), worst, known.inputs, found.unit)
    tight = np.full((BOXES, 2), np.inf)
    for k in range(POINTS):
        shares = rng.random((2, BOXES, INPUTS))
        shares = np.round(shares) if k % 2 else shares
        z = boxes.low + shares[0] * (boxes.high - boxes.low)
        u = boxes.v_low + shares[1] * (boxes.v_high - boxes.v_low)
        for stage in found.stages[: place + 1]:
            h, t = z, u
            z, u = h @ stage.weight.T + stage.bias, t @ stage.along.T
            h, t = stage.outputs(z), stage.sums(stage.slopes(z) * stage.own(u))
            rows, turns, z, u = z, u, h, t
        own, turned = rows[:, shared.others], turns[:, shared.others]
        r, turn = rows[:, shared.rows], turns[:, shared.rows]
        r_of, turn_of = r[:, shared.group], turn[:, shared.group]
        value = shared.sums(a * own * r_of + b * (turned * r_of + own * turn_of))
        plane = shared.sums(joint.slopes[0] * own + joint.rates[0] * turned) + joint.constant
        plane = plane + joint.slopes[1] * r + joint.rates[1] * turn
        assert (value <= plane + 1e-12 * joint.size).all()
        tight = np.minimum(tight, plane - value)
    points = (width == 0.0)[:, 0] & (v[0] == v[1]).all(axis=1)
    assert (tight[points] <= 1e-10 * joint.size[points]).all()
