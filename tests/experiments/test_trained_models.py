"""Networks trained with the experiments' data fit them; random ones are those of their seeds."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.training import he_network, leaders_dataset
from model_files import run


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
