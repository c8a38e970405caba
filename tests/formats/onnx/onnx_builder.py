"""Small ONNX models for the tests, and an independent comparison with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from lipyomo.formats.onnx import from_model

FLOAT, DOUBLE = TensorProto.FLOAT, TensorProto.DOUBLE


def model(
    nodes: list[onnx.NodeProto],
    shape: list[int | str],
    constants: dict[str, np.ndarray] | None = None,
    opset: int = 17,
    kind: int = FLOAT,
    outputs: tuple[str, ...] = ("y",),
    ml: int | None = None,
) -> onnx.ModelProto:
    """A model with the input x of `shape`; float constants take the type of the input."""
    dtype = np.float32 if kind == FLOAT else np.float64
    stored = []
    for name, value in (constants or {}).items():
        array = np.asarray(value)
        stored.append(
            numpy_helper.from_array(array.astype(dtype) if array.dtype.kind == "f" else array, name)
        )
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        stored,
    )
    opsets = [helper.make_opsetid("", opset)]
    if ml:
        opsets.append(helper.make_opsetid("ai.onnx.ml", ml))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def one(
    op: str, size: list[int | str], *constants: np.ndarray | None, **options
) -> onnx.ModelProto:
    """A model of one node ``y = op(x, constants...)``; other keywords are its attributes."""
    known = {key: options.pop(key) for key in ("opset", "kind", "ml") if key in options}
    names = {f"c{i}": value for i, value in enumerate(constants) if value is not None}
    inputs = ["x", *(f"c{i}" if v is not None else "" for i, v in enumerate(constants))]
    domain = options.pop("domain", None)
    node = helper.make_node(op, inputs, ["y"], name="the_node", domain=domain, **options)
    return model([node], size, names, **known)


def run(proto: onnx.ModelProto, points: np.ndarray, shape: list[int | str]) -> np.ndarray:
    """What onnxruntime computes at flattened points, a batch of one at a time."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (entry,) = session.get_inputs()
    dtype = np.float64 if "double" in entry.type else np.float32
    fixed = [size if isinstance(size, int) else 1 for size in shape]
    values = [
        session.run(None, {entry.name: point.astype(dtype).reshape(fixed)})[0].reshape(-1)
        for point in points
    ]
    return np.asarray(values, dtype=np.float64)


def agrees(proto: onnx.ModelProto, shape: list[int | str], seed: int = 0, rtol: float = 2e-5):
    """Import a model, compare it with onnxruntime at random points, and return the network."""
    network = from_model(proto)
    rng = np.random.default_rng(seed)
    points = rng.normal(scale=2.0, size=(20, network.input_dim)).astype(np.float32)
    expected = run(proto, points, shape)
    found = network.forward(points.astype(np.float64))
    assert found.shape == expected.shape
    scale = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=rtol * scale, rtol=0.0)
    return network
