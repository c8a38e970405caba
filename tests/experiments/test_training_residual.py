"""Residual networks of PyTorch, from both of its exporters: bounds are between the ends known."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.training import leaders_dataset, train_residual
from lipyomo import AllSpace, LipschitzProblem, Network, load, solve
from lipyomo.base.errors import ProblemError

DATA = leaders_dataset(12, 200, 8, 3, seed=2)


@pytest.fixture(scope="module")
def module() -> Any:
    pytest.importorskip("torch", reason="training needs the extra [torch]")
    how = {"width": 24, "blocks": 8, "epochs": 12, "lr": 3e-3, "batch_size": 20}
    return train_residual(DATA.points, DATA.labels, **how)


@pytest.fixture(scope="module")
def exported(module: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Network]:
    """What either exporter makes of it; each exports once."""
    torch = pytest.importorskip("torch", reason="training needs the extra [torch]")

    @cache
    def made(dynamo: bool) -> Network:
        path: Path = tmp_path_factory.mktemp("residual") / "net.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, (torch.zeros(1, 12),), str(path), dynamo=dynamo)
        return load(path)

    return made


@pytest.fixture(params=[False, True], ids=["script", "dynamo"])
def network(exported: Callable[[bool], Network], request: pytest.FixtureRequest) -> Network:
    if request.param:
        pytest.importorskip("onnxscript", reason="the new exporter of PyTorch needs onnxscript")
    return exported(request.param)


def test_what_is_imported_is_the_trained_function(module: Any, network: Network) -> None:
    torch = pytest.importorskip("torch")
    assert sum(np.count_nonzero(layer.kinked) for layer in network.hidden) == 24 * 17
    points = np.random.default_rng(0).normal(size=(50, 12)).astype(np.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(points)).numpy()
        learnt = module(torch.from_numpy(DATA.points.astype(np.float32))).numpy().argmax(axis=1)
    np.testing.assert_allclose(network.forward(points), expected, rtol=1e-3, atol=1e-3)
    assert (learnt == DATA.labels).mean() > 0.6


@pytest.mark.parametrize(("network", "norm"), [(False, "l2"), (True, "linf")], indirect=["network"])
def test_bounds_are_below_the_product_of_norms_and_above_samples(
    network: Network, norm: Any
) -> None:
    problem = LipschitzProblem(network, AllSpace(12), norm, norm)
    naive = solve(problem, "naive", attain=False).upper
    points = np.random.default_rng(1).normal(size=(100, 12)) * 3.0
    jacobians = [network.jacobian_at(point) for point in points]
    sampled = max(np.linalg.norm(J, 2 if norm == "l2" else np.inf) for J in jacobians)
    quick = solve(problem, "eclipse", attain=False).upper
    assert (
        sampled < solve(problem, "sdp", time_limit=3.0, attain=False).upper <= quick < 0.5 * naive
    )


def test_classes_that_do_not_fit_are_refused() -> None:
    pytest.importorskip("torch", reason="training needs the extra [torch]")
    with pytest.raises(ProblemError, match="one class each"):
        train_residual(DATA.points, DATA.labels[1:], width=3, blocks=1, epochs=1)
