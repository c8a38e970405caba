"""What the model files compute, checked against independent formulas and data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from experiments.training import he_network, leaders_dataset

FOLDER = Path(__file__).resolve().parents[2] / "models"


def run(name: str, inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(FOLDER / name, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: inputs.astype(np.float32)})[0]


def agreement(name: str, points: np.ndarray, labels: np.ndarray) -> float:
    return float((run(name, points).argmax(axis=1) == labels).mean())


def test_the_hundred_class_network_is_as_good_as_the_paper_says() -> None:
    data = leaders_dataset(8, 2000, 200, 100, min_separation=0.3, seed=0)
    assert agreement("leaders100.onnx", data.points, data.labels) >= 0.65


def test_the_synthetic_network_fits_its_data_and_beats_the_majority_on_fresh_points() -> None:
    data = leaders_dataset(10, 2000, 20, 2, seed=0)
    assert agreement("synthetic10.onnx", data.points, data.labels) >= 0.9
    fresh = leaders_dataset(10, 2000, 20, 2, seed=2).points
    labels = data.label(fresh)
    assert agreement("synthetic10.onnx", fresh, labels) > 0.1 + np.bincount(labels).max() / 2000


@pytest.mark.parametrize("scheme", ["ce", "fgsm", "l1", "l2"])
def test_plane_snapshots_get_better_with_training(scheme: str) -> None:
    data = leaders_dataset(2, 256, 20, 2, min_separation=0.04, seed=0)
    early = agreement(f"plane/{scheme}_0025.onnx", data.points, data.labels)
    late = agreement(f"plane/{scheme}_1000.onnx", data.points, data.labels)
    assert late > early
    assert late > 0.1 + np.bincount(data.labels).max() / 256


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("sizes", [(16, 16, 16, 2), (10, 10, 10, 1)])
def test_random_files_hold_the_networks_that_their_seeds_give(
    sizes: tuple[int, ...], seed: int
) -> None:
    weights, biases = he_network(sizes, seed)
    points = np.random.default_rng(0).random((50, sizes[0])).astype(np.float32)
    values = points.astype(np.float64)
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        values = np.maximum(values @ weight.T + bias, 0.0)
    values = values @ weights[-1].T + biases[-1]
    outputs = run(f"random{sizes[0]}_s{seed}.onnx", points)
    np.testing.assert_allclose(outputs, values, rtol=1e-4, atol=1e-5)


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
