"""Affine forms that are carried along with the errors of all units: against rows taken back."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from lipyomo import Box, LipschitzProblem, Network
from lipyomo.base.system.memory import ARRAYS
from lipyomo.formats.onnx import from_model
from lipyomo.search.spaces.boxes.bound import framed
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion, box_bytes
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed

BOXES, POINTS = 24, 60


def loop(seed: int, steps: int = 3, states: int = 2) -> Network:
    """Gated units over some steps (GRU)."""
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(size=(states, states)) for name in ("Wz", "Wr", "Wn", "S")}
    arrays |= {name: rng.normal(size=states) for name in ("bz", "br", "bn")}
    nodes: list[tuple[str, list[str], str]] = []
    at = "x"
    for k in range(steps):
        for name in "zr":
            nodes.append(("Gemm", [at, f"W{name}", f"b{name}"], f"p{name}{k}"))
            nodes.append(("Sigmoid", [f"p{name}{k}"], f"{name}{k}"))
        nodes.append(("Mul", [f"r{k}", at], f"rh{k}"))
        nodes.append(("Gemm", [f"rh{k}", "Wn", "bn"], f"pn{k}"))
        nodes.append(("Tanh", [f"pn{k}"], f"n{k}"))
        nodes.append(("Sub", [at, f"n{k}"], f"d{k}"))
        nodes.append(("Mul", [f"z{k}", f"d{k}"], f"m{k}"))
        nodes.append(("Add", [f"n{k}", f"m{k}"], f"h{k}"))
        at = f"h{k}"
    nodes.append(("MatMul", [at, "S"], "y"))
    made = [helper.make_node(name, inputs, [output]) for name, inputs, output in nodes]
    x, y = (helper.make_tensor_value_info(name, TensorProto.DOUBLE, [1, states]) for name in "xy")
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(made, "loop", [x], [y], weights)
    opset = [helper.make_opsetid("", 17)]
    return from_model(helper.make_model(graph, opset_imports=opset, ir_version=8), check=False)


@pytest.mark.parametrize("seed", range(4))
def test_forms_are_as_low_as_rows_taken_back(seed: int) -> None:
    network, rng = loop(seed), np.random.default_rng(seed)
    problem = LipschitzProblem(network, Box(-1, 1, network.input_dim), output_norm="linf")
    context = BoxContext.of(BoxQuestion(problem.reduced.problem))
    assert context.structure.carries
    whole = Boxes.whole(context)
    some = whole.take(rng.integers(len(whole), size=BOXES))
    middle = rng.uniform(-1, 1, some.low.shape)
    radius = 0.5 ** rng.integers(1, 20, middle.shape)
    signs = rng.choice([-1.0, 0.0, 1.0], some.v_low.shape)
    v_low, v_high = np.where(signs == 0.0, -1.0, signs), np.where(signs == 0.0, 1.0, signs)
    some = replace(some, low=middle - radius, high=middle + radius, v_low=v_low, v_high=v_high)
    frame = framed(context, some)
    carried = relaxed(context, some, (frame.v_low, frame.v_high))
    back = replace(context)
    back.__dict__["carries"] = False
    taken = relaxed(back, some, (frame.v_low, frame.v_high))
    x = (
        middle[:, None]
        + (2.0 * rng.random((BOXES, POINTS, radius.shape[1])) - 1.0) * radius[:, None]
    )
    v = np.where(rng.random((BOXES, POINTS, 1)) < 0.5, v_low[:, None], v_high[:, None])
    h, t = x, v
    for stage, one, other in zip(context.stages, carried.layers, taken.layers, strict=True):
        z, u = h @ stage.weight.T + stage.bias, t @ stage.along.T
        for value, ours, theirs in (
            (z, one.pre, other.pre),
            (u, one.pre_tangent, other.pre_tangent),
        ):
            size = 1.0 + np.abs(theirs.constant) + theirs.radius
            assert (np.abs(ours.constant - theirs.constant) <= 1e-9 * size).all()
            assert (np.abs(ours.radius - theirs.radius) <= 1e-9 * size).all()
            assert np.abs(ours.x - theirs.x).max() <= 1e-9 * (1.0 + np.abs(theirs.x).max())
            if theirs.v is not None:
                assert np.abs(ours.v - theirs.v).max() <= 1e-9 * (1.0 + np.abs(theirs.v).max())
            found = x @ np.swapaxes(ours.x, 1, 2) + ours.constant[:, None]
            if ours.v is not None:
                found = found + v @ np.swapaxes(ours.v, 1, 2)
            assert (np.abs(value - found) <= ours.radius[:, None] + 1e-13 * np.abs(found)).all()
        h, t = stage.outputs(z), stage.sums(stage.slopes(z) * stage.own(u))


def test_forms_count_in_what_a_box_takes() -> None:
    network = loop(0, steps=8)
    problem = LipschitzProblem(network, Box(-1, 1, network.input_dim), output_norm="linf")
    context = BoxContext.of(BoxQuestion(problem.reduced.problem))
    some = Boxes.whole(context).take(np.zeros(200, dtype=np.intp))
    relaxed(context, some.take(slice(0, 1)), (some.v_low[:1], some.v_high[:1]))
    tracemalloc.start()
    relaxed(context, some, (some.v_low, some.v_high))
    most = float(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    most /= 2.0 * len(some)  # all layers' ranges as well
    assert context.batches.box_bytes < most < ARRAYS * context.batches.box_bytes
    assert most > ARRAYS * box_bytes(problem.reduced.problem)
