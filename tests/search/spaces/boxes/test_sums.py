"""Sums of products as quadratic functions, and tangents of powers by ratios, against points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from lipyomo import Box, LipschitzProblem, Network
from lipyomo.formats.onnx import from_model
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import Context, Question
from lipyomo.search.spaces.boxes.quadratic import Quadratic
from lipyomo.search.spaces.boxes.relax import relaxed

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


def some_boxes(context: Context, rng: np.random.Generator) -> Boxes:
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
    context = Context.of(Question(problem))
    assert any(stage.summed.size for stage in context.stages)
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


def test_sums_are_narrower_than_terms() -> None:
    """A mean square hardly exceeds what points reach."""
    problem = LipschitzProblem(network("layer", 1), Box(-1, 1, INPUTS)).reduced.problem
    context = Context.of(Question(problem))
    low = np.full((1, INPUTS), 0.2)
    boxes = Boxes.over(context, low, low + 0.3)
    v = np.ones_like(low)
    known = relaxed(context, boxes, (v, v))
    x = low + 0.3 * np.random.default_rng(0).random((2000, INPUTS))
    place = next(k for k, stage in enumerate(context.stages) if stage.roots is not None)
    row = int(context.stages[place].whole.fresh[0])
    layer = known.layers[place]
    h = x
    for stage in context.stages[: place + 1]:
        z = h @ stage.weight.T + stage.bias
        h = stage.outputs(z)
    spread = float(np.ptp(z[:, row]))
    assert float(layer.high[0, row] - layer.low[0, row]) <= 1.5 * spread


@pytest.mark.parametrize("seed", range(8))
def test_extremes_of_quadratic_functions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = 6, 3
    parts = rng.normal(size=(4, n, d, d))
    convex = rng.random(n) < 0.5
    square = np.swapaxes(parts, 2, 3) @ parts
    matrix = np.where(convex[:, None, None], square, parts).reshape(4, n, -1)
    linear = rng.normal(size=(4, n, d)) * rng.choice([0.0, 1.0, 10.0], (4, n, 1))
    constant, error = rng.normal(size=(4, n)), rng.random((4, n))
    size = np.abs(matrix).sum(axis=2)
    found = Quadratic(constant, linear, matrix, error, size)
    e = rng.uniform(-1.0, 1.0, (3000, d))
    e[::2] = np.round(e[::2])
    pairs = (e[:, :, None] * e[:, None]).reshape(len(e), -1)
    values = constant[..., None] + linear @ e.T + matrix @ pairs.T
    rough, fine = found.range(1e-14), found.extremes(convex, 1e-14)
    for low, high in (rough, fine):
        assert (low + error <= values.min(axis=2)).all()
        assert (high - error >= values.max(axis=2)).all()
    assert (fine[0] >= rough[0] - 1e-9 * size).all()
    lowest = values.min(axis=2)[:, convex] - error[:, convex]
    assert (fine[0][:, convex] >= lowest - 0.25 * (1.0 + size[:, convex])).all()
