"""Every shipped model imports, and the imported network computes what onnxruntime computes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import lipyomo

FOLDER = Path(__file__).resolve().parents[2] / "models"
RECORDS = json.loads((FOLDER / "provenance.json").read_text())


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_imported_network_agrees_with_onnxruntime(name: str) -> None:
    shape = RECORDS[name]["input"][1:]
    network = lipyomo.load(FOLDER / name)
    assert network.input_dim == np.prod(shape)
    assert network.output_dim == RECORDS[name]["output"][1]

    inputs = np.random.default_rng(0).random((40, *shape)).astype(np.float32)
    session = onnxruntime.InferenceSession(FOLDER / name, providers=["CPUExecutionProvider"])
    expected = session.run(None, {session.get_inputs()[0].name: inputs})[0]
    outputs = network.forward(inputs.reshape(40, -1).astype(np.float64))
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("mnist17_s0", 60),
        ("synthetic10", 70),
        ("leaders100", 120),
        ("plane/ce_1000", 80),
        ("random16_s0", 32),
        ("random10_s0", 20),
        ("iris", 16),
        ("iris_scaler", 16),
        ("mnist_conv", 144),
        ("residual", 36),
        ("leaky", 32),
        ("exchanger", 32),
    ],
)
def test_one_kinked_unit_for_every_activation(name: str, units: int) -> None:
    assert lipyomo.load(FOLDER / f"{name}.onnx").kinked_units == units


@pytest.mark.parametrize(
    ("name", "activation"), [("exchanger_tanh", "tanh"), ("exchanger_silu", "silu")]
)
def test_smooth_units_are_told_by_their_activation(name: str, activation: str) -> None:
    network = lipyomo.load(FOLDER / f"{name}.onnx")
    assert network.activations == {activation: 32}
    assert network.kinked_units == 0


def test_a_maximum_of_four_costs_three_units() -> None:
    network = lipyomo.load(FOLDER / "mnist17_maxpool.onnx")
    assert network.kinked_units == 3 * 27 + 27 + 10
