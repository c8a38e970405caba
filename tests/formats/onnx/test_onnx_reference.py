"""Files that other tools exported import and agree with onnxruntime, or are refused rightly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_builder import run

from lipyomo.formats.onnx import load


@pytest.mark.reference
def test_every_file_imports_and_agrees_with_onnxruntime(shared: Path) -> None:
    files = sorted((shared / "onnx").glob("*.onnx"))
    assert files
    for path in files:
        network, proto = load(path), onnx.load(path)
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
def test_a_network_with_hidden_sigmoids_whole_and_cut_before_them(shared: Path) -> None:
    path = shared / "onnx" / "keras_3_42_1_0.onnx"
    whole = load(path)
    assert whole.smooth
    assert whole.sizes == (5, 10, 10, 4)
    part = load(path, output="sequential/dense_1/MatMul_Gemm__7:0")
    assert not part.smooth
    assert part.sizes == (5, 10, 10)
