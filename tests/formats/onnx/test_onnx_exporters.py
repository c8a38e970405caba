"""What PyTorch's two exporters write imports and agrees; also files of other tools."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_builder import model

from lipyomo.base.errors import ImportRefused
from lipyomo.formats.onnx import from_model, load


def torch_modules() -> dict:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
    nn = torch.nn

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

        def forward(self, x):
            return torch.relu(x.view(x.size(0), -1) + self.second(torch.relu(self.first(x))))

    class Mixed(nn.Module):
        def forward(self, x):
            a, b = torch.split(x, 3, dim=1)
            return torch.cat([torch.maximum(a, b), x[:, 1:4].mean(dim=1, keepdim=True)], dim=1)

    return {
        "mlp": (
            nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(), nn.Linear(5, 2)),
            (6,),
        ),
        "conv": (
            nn.Sequential(
                nn.Conv2d(1, 3, 3, padding=1),
                nn.BatchNorm2d(3),
                nn.LeakyReLU(0.1),
                nn.MaxPool2d(2),
                nn.Conv2d(3, 4, 2, stride=2),
                nn.PReLU(4),
                nn.AvgPool2d(2),
                nn.Flatten(),
                nn.Linear(4, 3),
                nn.Hardtanh(),
            ),
            (1, 8, 8),
        ),
        "residual": (Residual(), (6,)),
        "mixed": (Mixed(), (6,)),
    }


@pytest.mark.parametrize(
    ("case", "dynamo", "free_batch"),  # all pairs, not all triples
    [
        (case, dynamo, (k + dynamo) % 2 == 1)
        for k, case in enumerate(["mlp", "conv", "residual", "mixed"])
        for dynamo in (False, True)
    ],
)
def test_torch_exporters(case: str, dynamo: bool, free_batch: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")

    if dynamo:
        pytest.importorskip("onnxscript", reason="the new exporter of PyTorch needs onnxscript")
    module, shape = torch_modules()[case]
    module.eval()
    example = (torch.zeros(2, *shape),)
    path = tmp_path / "net.onnx"
    options: dict = {}
    if free_batch and dynamo:
        options["dynamic_shapes"] = ({0: torch.export.Dim("batch")},)
    elif free_batch:
        options.update(input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    else:
        example = (torch.zeros(1, *shape),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, example, str(path), dynamo=dynamo, **options)
    network = load(path)
    points = np.random.default_rng(0).normal(size=(8, network.input_dim)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(points).reshape(-1, *shape)).reshape(8, -1)
    np.testing.assert_allclose(network.forward(points), expected.numpy(), atol=1e-4)


def test_sklearn_classifier_as_skl2onnx_writes_it() -> None:
    """Cast, MatMul, Relu, Softmax, ArgMax, label lookup, ZipMap: the cut is before the ArgMax."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Cast", ["x"], ["cast"], to=onnx.TensorProto.FLOAT),
        helper.make_node("MatMul", ["cast", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["h"]),
        helper.make_node("MatMul", ["h", "v"], ["m2"]),
        helper.make_node("Add", ["m2", "c"], ["add_result1"]),
        helper.make_node("Softmax", ["add_result1"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["probabilities"], ["best"], axis=1),
        helper.make_node(
            "ArrayFeatureExtractor", ["classes", "best"], ["picked"], domain="ai.onnx.ml"
        ),
        helper.make_node("Reshape", ["picked", "shape"], ["output_label"]),
        helper.make_node(
            "ZipMap",
            ["probabilities"],
            ["output_probability"],
            domain="ai.onnx.ml",
            classlabels_int64s=[0, 1, 2],
        ),
    ]
    constants = {
        "w": rng.normal(size=(4, 5)),
        "b": rng.normal(size=(1, 5)),
        "v": rng.normal(size=(5, 3)),
        "c": rng.normal(size=(1, 3)),
        "classes": np.array([0, 1, 2]),
        "shape": np.array([-1]),
    }
    outputs = ("output_label", "output_probability")
    proto = model(nodes, ["N", 4], constants, outputs=outputs, ml=1)
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    proto.graph.output[1].ClearField("type")
    with pytest.raises(ImportRefused, match="--output-node probabilities"):
        from_model(proto)
    assert from_model(proto, output="probabilities").activations == {"softplus": 3, "sigmoid": 3}
    assert from_model(proto, output="add_result1").sizes == (4, 5, 3)


def test_local_functions_are_inlined() -> None:
    """The new PyTorch exporter may write modules as functions of the model."""
    body = [
        helper.make_node("MatMul", ["a", "w"], ["z"]),
        helper.make_node("Relu", ["z"], ["r"]),
    ]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("local", "Block", ["a", "w"], ["r"], body, opsets)
    nodes = [
        helper.make_node("Block", ["x", "w0"], ["h"], domain="local"),
        helper.make_node("Block", ["h", "w1"], ["y"], domain="local"),
    ]
    rng = np.random.default_rng(0)
    weights = {"w0": rng.normal(size=(3, 4)), "w1": rng.normal(size=(4, 2))}
    proto = model(nodes, ["N", 3], weights)
    proto.opset_import.append(helper.make_opsetid("local", 1))
    proto.functions.append(function)
    assert from_model(proto).sizes == (3, 4, 2, 2)


def test_a_model_in_memory_is_left_alone() -> None:
    buffer = io.BytesIO()
    proto = model([helper.make_node("Relu", ["x"], ["y"])], ["N", 3])
    onnx.save(proto, buffer)
    from_model(proto)
    assert proto.SerializeToString() == buffer.getvalue()
