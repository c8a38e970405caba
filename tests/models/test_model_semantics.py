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


def test_the_pole_obeys_lagrange_s_equations() -> None:
    """Both accelerations solve them; V is 1 at distance 1."""
    pytest.importorskip("torch", reason="the script needs it")
    from models.train_lyapunov import GAINS, SCALES

    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, (200, 4))
    _, v, angle, w = x = np.array(SCALES) @ z.T
    given = np.array(SCALES) @ run("cartpole_plant.onnx", z).T
    np.testing.assert_allclose(given[[0, 2]], [v, w], rtol=1e-4, atol=1e-4)
    force = 10.0 * np.tanh(np.array(GAINS) @ x / 10.0)
    for_cart = 1.1 * given[1] + 0.05 * (given[3] * np.cos(angle) - w * w * np.sin(angle))
    np.testing.assert_allclose(for_cart, force, rtol=0, atol=1e-3)
    for_pole = 0.5 * given[3] + given[1] * np.cos(angle) - 9.8 * np.sin(angle)
    np.testing.assert_allclose(for_pole, 0.0, atol=1e-3)
    level = run("cartpole.onnx", z / np.linalg.norm(z, axis=1, keepdims=True))
    np.testing.assert_allclose(level, 1.0, rtol=1e-5)
