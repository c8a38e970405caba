"""Normalised rows: which products are, and what is known of them, against points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from lipyomo import Box, LipschitzProblem, Network
from lipyomo.formats.onnx import from_model
from lipyomo.search.spaces.boxes.bound import bounded
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.relaxing.normalised import normalised, ranges_of
from lipyomo.search.spaces.boxes.relaxing.planes import output_signals
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.values import jacobians

INPUTS, BOXES, POINTS = 4, 32, 60


def network(centred: bool, epsilon: float, bent: bool = True, rows: int = INPUTS) -> Network:
    """A normalised row of the inputs, or of what an affine map makes of them, and what follows."""
    rng = np.random.default_rng(int(centred) + 2)
    scale = np.array([0.5, 3.0, 1.0, -2.0, 1.0, -0.3])[:rows]
    arrays = {
        "W": rng.normal(size=(INPUTS, rows)),
        "b": 0.1 * rng.normal(size=rows),
        "scale": scale,
        "S": rng.normal(size=(rows, 1)),
    }
    operator = "LayerNormalization" if centred else "RMSNormalization"
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["z"]),
        helper.make_node("Add", ["z", "b"], ["h"]),
        helper.make_node(operator, ["h", "scale"], ["o"], epsilon=epsilon),
        helper.make_node("Tanh" if bent else "Identity", ["o"], ["t"]),
        helper.make_node("MatMul", ["t", "S"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, INPUTS])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])
    constants = [
        numpy_helper.from_array(value.astype(np.float32), name) for name, value in arrays.items()
    ]
    graph = helper.make_graph(nodes, "normalised", [x], [y], constants)
    opset = [helper.make_opsetid("", 23)]
    return from_model(helper.make_model(graph, opset_imports=opset, ir_version=10))


def context_of(net: Network, size: float = 1.0) -> BoxContext:
    problem = LipschitzProblem(net, Box(-size, size, INPUTS)).reduced.problem
    return BoxContext.of(BoxQuestion(problem))


def some_boxes(context: BoxContext, seed: int) -> Boxes:
    """Boxes of all sizes, many of which hold, or are near, the origin."""
    rng = np.random.default_rng(seed)
    middle = rng.uniform(-1.0, 1.0, (BOXES, INPUTS)) * rng.choice([1.0, 0.1, 0.0], (BOXES, 1))
    radius = rng.choice([1.0, 0.1, 1e-2, 1e-3, 1e-9], (BOXES, 1)) * rng.random((BOXES, INPUTS))
    boxes = Boxes.over(context, np.maximum(middle - radius, -1), np.minimum(middle + radius, 1))
    v = np.sort(rng.choice([-1.0, 1.0], (2, BOXES, INPUTS)), axis=0)
    return replace(boxes, v_low=v[0], v_high=v[1])


@pytest.mark.parametrize("centred", [False, True])
def test_normalised_rows_are_seen(centred: bool) -> None:
    stages = context_of(network(centred, 1e-3)).stages
    roots = [stage.roots for stage in stages if stage.roots is not None]
    assert len(roots) == 1
    assert roots[0].least == pytest.approx([1e-3])
    assert roots[0].weights == pytest.approx(np.full(INPUTS, 1.0 / INPUTS))
    found = next(stage for stage in stages if stage.quotients is not None)
    assert found.products is not None
    assert found.quotients is not None
    assert found.quotients.products.tolist() == list(range(found.products.left.size))
    assert found.quotients.squares.tolist() == list(range(INPUTS))


@pytest.mark.parametrize("epsilon", [1e-1, 1e-5, 1e-10])
@pytest.mark.parametrize(("centred", "rows"), [(False, INPUTS), (True, INPUTS), (True, 6)])
def test_points_are_within_ranges(centred: bool, rows: int, epsilon: float) -> None:
    context = context_of(network(centred, epsilon, rows=rows))
    boxes, unit = some_boxes(context, 1), context.unit
    known = relaxed(context, boxes, (boxes.v_low, boxes.v_high))
    place = next(k for k, stage in enumerate(context.stages) if stage.roots is not None)
    roots, (before, own, after) = context.stages[place].roots, known.layers[place - 1 : place + 2]
    assert roots is not None
    ends = own.low[:, roots.units], own.high[:, roots.units]
    ranges = normalised(roots, ranges_of(roots, before), ends, unit)
    outputs = output_signals(context.stages[place + 1], after, None, unit)
    rng = np.random.default_rng(2)
    for k in range(POINTS):
        x, v = (
            low
            + (np.round(rng.random(low.shape)) if k % 2 else rng.random(low.shape)) * (high - low)
            for low, high in ((boxes.low, boxes.high), (boxes.v_low, boxes.v_high))
        )
        z, u = x, v
        signals = []
        for stage in context.stages[: place + 2]:
            z, u = z @ stage.weight.T + stage.bias, u @ stage.along.T
            signals.append((z, u))
            z, u = stage.outputs(z), stage.sums(stage.slopes(z) * stage.own(u))
        (s, along), (sums, turns) = signals[place - 1], signals[place]
        s, along = s[:, roots.squares], along[:, roots.squares]
        root = sums[:, roots.units] ** -0.5
        slope = -0.5 * root**3 * turns[:, roots.units]
        truth = (s * root, root * along + s * slope, turns[:, roots.units], slope)
        sizes = (1.0, np.abs(root * along).sum(axis=1, keepdims=True) + np.abs(s * slope), 1.0, 1.0)
        for true, size, (low, high) in zip(truth, sizes, ranges[:4], strict=True):
            room = 1e-12 * (size + np.abs(true))
            assert (true >= low - room).all()
            assert (true <= high + room).all()
        for true, signal in zip((z, u), outputs, strict=True):
            room = 1e-12 * (1.0 + np.abs(true) + sizes[1].max())
            assert (np.abs(true - signal.middle) <= signal.radius + room).all()


@pytest.mark.parametrize("epsilon", [1e-1, 1e-5, 1e-10])
@pytest.mark.parametrize(("centred", "rows"), [(False, INPUTS), (True, INPUTS), (True, 6)])
def test_bounds_are_above_points(centred: bool, rows: int, epsilon: float) -> None:
    context = context_of(network(centred, epsilon, rows=rows))
    boxes = some_boxes(context, 3)
    bounds = bounded(context, boxes, -np.inf).boxes.bounds
    weights = context.rows[:, None] * np.ones((BOXES, 1, 1))
    rng = np.random.default_rng(4)
    for _ in range(POINTS):
        x = boxes.low + rng.random(boxes.low.shape) * (boxes.high - boxes.low)
        gradients = jacobians(context, x, weights)[:, 0]
        values = np.maximum(gradients * boxes.v_low, gradients * boxes.v_high).sum(axis=1)
        assert (values <= bounds + 1e-11 * (1.0 + np.abs(gradients).sum(axis=1))).all()


@pytest.mark.parametrize("centred", [False, True])
def test_about_the_origin_bounds_grow_like_one_inverse_root(centred: bool) -> None:
    found = []
    for epsilon in (1e-4, 1e-12):
        context = context_of(network(centred, epsilon, bent=False))
        boxes = Boxes.whole(context)
        found.append(float(bounded(context, boxes, -np.inf).boxes.bounds.max()))
    assert found[1] <= 1.001e4 * found[0]
