"""The project's own networks: exact in seconds, and where two inputs are, quicker by cells."""

from __future__ import annotations

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Status
from lipyomo.primal.heuristics.evaluate import point_norms


@pytest.mark.parametrize("index", [0, 21])
def test_ones_and_sevens(models, index):
    network = lipyomo.load(models / "mnist17_s0.onnx")
    image = np.load(models / "mnist17_images.npz")["images"][index].astype(float)
    problem = LipschitzProblem(network, lipyomo.ball(image, 0.1), functional=[1.0, -1.0])
    result = lipyomo.solve(problem, "mip", solver="highs", workers=1, time_limit=60)
    assert result.status is Status.EXACT
    inside = problem.domain.sample(np.random.default_rng(0), 200)
    assert point_norms(problem, inside)[0].max() <= result.upper * (1 + 1e-9)


@pytest.mark.parametrize("name", ["iris", "leaky", "residual"])
def test_small_models(models, name):
    network = lipyomo.load(models / f"{name}.onnx")
    problem = LipschitzProblem(network, Box(0.0, 1.0, network.input_dim))
    result = lipyomo.solve(problem, "mip", solver="highs", workers=1, time_limit=60, gap=0.4)
    assert result.gap <= 0.4
    sampled = point_norms(problem, problem.domain.sample(np.random.default_rng(0), 2000))[0].max()
    assert sampled <= result.upper * (1 + 1e-9)


def test_margin_of_a_convolutional_network(models):
    network = lipyomo.load(models / "mnist_conv.onnx")
    image = np.load(models / "mnist10_images.npz")["images"][0].reshape(-1).astype(float)
    problem = LipschitzProblem(network, lipyomo.ball(image, 0.005), margin=3)
    result = lipyomo.solve(problem, "mip", solver="highs", workers=1, time_limit=60)
    assert result.status is Status.EXACT
    assert problem.value_at(result.witness.x).value == pytest.approx(result.lower, rel=1e-12)


def test_plane_networks_are_cut_into_cells(models, monkeypatch):
    monkeypatch.setattr("lipyomo.mip.loop.CellLoop.solve_quickly", lambda self: False)
    network = lipyomo.load(models / "plane" / "ce_0250.onnx")
    problem = LipschitzProblem(network, Box(0.0, 1.0, 2), functional=[1.0, -1.0])
    result = lipyomo.solve(problem, "mip", solver="highs", workers=1, time_limit=60)
    assert result.status is Status.EXACT
    assert result.details["cells"] > 1
