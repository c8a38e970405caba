"""What the model files compute, checked against independent formulas and data."""

from __future__ import annotations

import numpy as np
import pytest

from model_files import run


def test_both_iris_files_are_one_function() -> None:
    rng = np.random.default_rng(0)
    flowers = rng.uniform([4.3, 2.0, 1.0, 0.1], [7.9, 4.4, 6.9, 2.5], (200, 4))
    np.testing.assert_allclose(
        run("iris.onnx", flowers), run("iris_scaler.onnx", flowers), rtol=1e-4, atol=1e-4
    )


def test_iris_knows_typical_flowers() -> None:
    # centroids of setosa, versicolor and virginica (Fisher, 1936), in cm
    means = np.array([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])
    assert run("iris.onnx", means).argmax(axis=1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["exchanger", "exchanger_tanh", "exchanger_silu"])
def test_the_exchanger_follows_the_effectiveness_formula(name: str) -> None:
    rng = np.random.default_rng(7)
    units, ratio = rng.uniform(0.2, 5.0, 5000), rng.uniform(0.0, 0.95, 5000)
    decay = np.exp(-units * (1 - ratio))
    truth = (1 - decay) / (1 - ratio * decay)
    error = np.abs(run(f"{name}.onnx", np.column_stack([units, ratio]))[:, 0] - truth)
    assert error.mean() < 0.004
    assert error.max() < 0.04
