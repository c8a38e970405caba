"""The training scripts run again with the documented commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

FOLDER = Path(__file__).resolve().parents[2] / "models"


def rerun(script: str, out: Path, *options: str) -> dict[str, dict[str, object]]:
    subprocess.run(
        [sys.executable, "-B", "-m", f"models.{script}", "--out", out, *options],
        cwd=FOLDER.parent,
        check=True,
        capture_output=True,
        timeout=120,
    )
    return json.loads((out / "provenance.json").read_text())


def test_random_networks_come_out_the_same(tmp_path: Path) -> None:
    records = rerun("make_random", tmp_path, "--seeds", "1")
    assert sorted(records) == ["random10_s0.onnx", "random16_s0.onnx"]
    for name in records:
        again, shipped = (onnx.load(folder / name).graph for folder in (tmp_path, FOLDER))
        assert [node.op_type for node in again.node] == [node.op_type for node in shipped.node]
        for a, b in zip(again.initializer, shipped.initializer, strict=True):
            np.testing.assert_array_equal(numpy_helper.to_array(a), numpy_helper.to_array(b))


def test_iris_trains_again_and_is_as_good(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="training needs the extra [torch]")
    pytest.importorskip("sklearn", reason="the iris data come with scikit-learn")
    records = rerun("train_iris", tmp_path)
    assert sorted(records) == ["iris.onnx", "iris_scaler.onnx"]
    for name, record in records.items():
        assert record["accuracy"] >= 0.9
        onnxruntime.InferenceSession(tmp_path / name, providers=["CPUExecutionProvider"])


@pytest.mark.reference
def test_mnist_trains_again_and_picks_the_same_images(tmp_path: Path, shared: Path) -> None:
    pytest.importorskip("torch", reason="training needs the extra [torch]")
    mnist = str(shared / "data" / "mnist")
    records = rerun("train_mnist17", tmp_path, "--mnist", mnist, "--seeds", "1")
    assert records["mnist17_s0.onnx"]["accuracy"] >= 0.98
    again, shipped = (np.load(folder / "mnist17_images.npz") for folder in (tmp_path, FOLDER))
    for key in ("images", "labels", "digits", "index", "attribution"):
        np.testing.assert_array_equal(again[key], shipped[key])
