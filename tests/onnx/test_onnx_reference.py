"""Files that other tools exported import and agree with onnxruntime, or are refused rightly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_builder import run

from lipyomo.errors import ImportRefused
from lipyomo.onnx import load

REASONS = ("Sigmoid", "Tanh", "training mode", "inputs (")


@pytest.mark.reference
def test_every_file_imports_or_is_refused_for_a_reason(shared: Path) -> None:
    files = sorted((shared / "onnx").glob("*.onnx"))
    assert files
    refused: dict[str, ImportRefused] = {}
    for path in files:
        try:
            network = load(path)
        except ImportRefused as error:
            refused[path.name] = error
            continue
        proto = onnx.load(path)
        stored = {tensor.name for tensor in proto.graph.initializer}
        (entry,) = [value for value in proto.graph.input if value.name not in stored]
        dims = [dim.dim_value or 1 for dim in entry.type.tensor_type.shape.dim]
        points = np.random.default_rng(1).uniform(-1, 1, size=(10, network.input_dim))
        points = points.astype(np.float32)
        expected = run(proto, points, dims)
        scale = 1.0 + np.abs(expected).max()
        np.testing.assert_allclose(
            network.forward(points), expected, atol=1e-4 * scale, rtol=0, err_msg=path.name
        )
    for name, error in refused.items():
        assert any(reason in str(error) for reason in REASONS), f"{name}: {error}"
        assert error.remedy, name
    assert len(refused) < len(files) / 4


@pytest.mark.reference
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("acasxu_1_1", (5, 50, 50, 50, 50, 50, 50, 5)),
        ("marabou_mnist2x10", (784, 10, 10, 10)),
        ("sk_3_42_0_0_relu", (10, 10, 10, 10, 1)),
        ("marabou_linear2-3_bn1-linear3-1", (2, 1)),
    ],
)
def test_layers_are_those_of_the_file(shared: Path, name: str, sizes: tuple[int, ...]) -> None:
    assert load(shared / "onnx" / f"{name}.onnx").sizes == sizes


@pytest.mark.reference
def test_hidden_sigmoid_can_be_cut(shared: Path) -> None:
    path = shared / "onnx" / "keras_3_42_1_0.onnx"
    with pytest.raises(ImportRefused, match="Sigmoid"):
        load(path)
    part = load(path, output="sequential/dense_1/MatMul_Gemm__7:0")
    assert part.sizes == (5, 10, 10)
