"""What is known of rows behind products, squares and roots, against points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from lipyomo import Box, LipschitzProblem, Network
from lipyomo.formats.onnx import from_model
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed

INPUTS, ROWS, BOXES, POINTS = 3, 5, 24, 40


def network(kind: str, seed: int) -> Network:
    """Normalised rows, or sums of products and squares, between affine maps and tanh units."""
    rng = np.random.default_rng(seed)
    size = float(rng.choice([0.1, 1.0, 3.0]))
    arrays = {
        "W": size * rng.normal(size=(INPUTS, ROWS)),
        "b": rng.normal(size=ROWS) * rng.choice([0.0, 1.0]),
        "V": rng.normal(size=(INPUTS, ROWS)),
        "S": rng.normal(size=(ROWS, 2)),
        "E": np.vstack([np.eye(2)[:1], rng.choice([0.5, 1.0, 3.0], size=(ROWS - 1, 2))]),
        "g": 1.0 + 0.3 * rng.normal(size=ROWS),
        "c": 0.1 * rng.normal(size=ROWS),
        "e": np.array(0.5),
        "h": rng.normal(size=(ROWS if kind == "layer" else 2, 1)),
    }
    gemm, add, mul = ("Gemm", "Add", "Mul")
    nodes = [(gemm, ["x", "W", "b"], "s")]
    if kind == "layer":
        nodes += [("LayerNormalization", ["s", "g", "c"], "n"), ("Tanh", ["n"], "o")]
    elif kind == "root":
        nodes += [("Tanh", ["s"], "t"), (mul, ["t", "t"], "q"), ("MatMul", ["q", "E"], "m")]
        nodes += [(add, ["m", "e"], "p"), ("Sqrt", ["p"], "r"), ("Reciprocal", ["p"], "i")]
        nodes += [(mul, ["r", "i"], "o")]
    else:
        nodes += [("MatMul", ["x", "V"], "v"), ("Tanh", ["v"], "t"), (mul, ["s", "t"], "p")]
        nodes += [(mul, ["s", "s"], "q"), (add, ["p", "q"], "a"), ("MatMul", ["a", "S"], "m")]
        nodes += [("Tanh", ["m"], "o")]
    nodes += [("MatMul", ["o", "h"], "y")]
    options = {"axis": -1, "epsilon": float(rng.choice([1e-5, 0.1]))}
    made = [
        helper.make_node(op, ends, [end], **(options if op == "LayerNormalization" else {}))
        for op, ends, end in nodes
    ]
    used = {name for _, ends, _ in nodes for name in ends}
    constants = [
        numpy_helper.from_array(array.astype(np.float32), name)
        for name, array in arrays.items()
        if name in used
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, n])
        for name, n in (("x", INPUTS), ("y", 1))
    ]
    graph = helper.make_graph(made, "sums", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return from_model(model)


def some_boxes(context: BoxContext, rng: np.random.Generator) -> Boxes:
    """Boxes of all sizes, points among them; directions are known, open or in a part."""
    shape = (BOXES, INPUTS)
    middle = rng.uniform(-1.0, 1.0, shape)
    width = rng.choice([0.5, 0.1, 1e-3, 1e-8, 0.0], (BOXES, 1)) * rng.random(shape)
    ends = np.clip([middle - width, middle + width], -1.0, 1.0)
    directions = np.sort(rng.choice([-1.0, 1.0], (2, *shape)), axis=0)
    known = rng.random(BOXES) < 0.5
    directions[0, known] = directions[1, known]
    boxes = Boxes.over(context, *ends)
    return replace(boxes, v_low=directions[0], v_high=directions[1])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["layer", "root", "sum"])
def test_what_is_known_of_rows_holds_points(kind: str, seed: int) -> None:
    problem = LipschitzProblem(network(kind, seed), Box(-1, 1, INPUTS)).reduced.problem
    context = BoxContext.of(BoxQuestion(problem))
    rng = np.random.default_rng(seed)
    boxes = some_boxes(context, rng)
    known = relaxed(context, boxes, (boxes.v_low, boxes.v_high))
    assert not known.empty.any()
    for k in range(POINTS):
        shares = rng.random((2, BOXES, INPUTS))
        shares = np.round(shares) if k % 2 else shares
        x = boxes.low + shares[0] * (boxes.high - boxes.low)
        v = boxes.v_low + shares[1] * (boxes.v_high - boxes.v_low)
        h, t = x, v
        for stage, layer in zip(context.stages, known.layers, strict=True):
            z, u = h @ stage.weight.T + stage.bias, t @ stage.along.T
            room = 1e-12 * (1.0 + np.abs(h) @ stage.sizes.T + np.abs(stage.bias))
            pace = 1e-12 * (1.0 + np.abs(t) @ stage.along_sizes.T)
            assert (layer.low - room <= z).all()
            assert (z <= layer.high + room).all()
            assert (np.abs(u - layer.tangent) <= layer.tangent_radius + pace).all()
            for affine, values, off in ((layer.pre, z, room), (layer.pre_tangent, u, pace)):
                line = affine.constant + np.matmul(affine.x, x[:, :, None])[:, :, 0]
                if affine.v is not None:
                    line = line + np.matmul(affine.v, v[:, :, None])[:, :, 0]
                assert (np.abs(values - line) <= affine.radius + off).all()
            h, t = stage.outputs(z), stage.sums(stage.slopes(z) * stage.own(u))
