"""One call from a file or a model to its constant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Network, ball
from lipyomo.base.errors import LipyomoError, ProblemError
from networks import random_network

NETWORK = random_network(0, (3, 5, 4, 2))


def constant(domain: lipyomo.Domain, norm: str = "linf", **outputs: object) -> float:
    problem = LipschitzProblem(NETWORK, domain, norm, **outputs)  # type: ignore[arg-type]
    return lipyomo.solve(problem).lower


def test_domains_are_those_that_are_named(tmp_path: Path) -> None:
    box = Box(-1, 2, 3)
    alone = constant(box)
    for given in ((-1, 2), [-1.0, 2.0], ([-1] * 3, [2] * 3), np.array([-1, 2]), box):
        assert lipyomo.lipschitz(NETWORK, given).lower == alone
    found = lipyomo.lipschitz(NETWORK, center=0.5, radius=0.7, norm="l2")
    assert found.lower == constant(ball([0.5] * 3, 0.7, "l2"), "l2")
    found = lipyomo.lipschitz(NETWORK, center=[0.5, 0, 1], radius=0.7, clip=(0, 1))
    assert found.lower == constant(ball([0.5, 0, 1], 0.7, "linf", (0, 1)))
    query = tmp_path / "query.vnnlib"
    declared = "".join(f"(declare-const X_{j} Real)" for j in range(3))
    bounds = "".join(f"(assert (<= -1 X_{j}))(assert (<= X_{j} 2))" for j in range(3))
    query.write_text(declared + bounds)
    assert lipyomo.lipschitz(NETWORK, vnnlib=query).lower == alone


def test_options_are_passed_on() -> None:
    found = lipyomo.lipschitz(NETWORK, (-1, 2), "l1", functional=[1, -1], method="crown")
    problem = LipschitzProblem(NETWORK, Box(-1, 2, 3), "l1", functional=[1, -1])
    assert found.upper == lipyomo.solve(problem, "crown", attain=False).upper
    found = lipyomo.lipschitz(NETWORK, (-1, 2), output_norm="l2", wrt=[1], time_limit=10)
    problem = LipschitzProblem(NETWORK, Box(-1, 2, 3), output_norm="l2", wrt=[1])
    assert found.lower == lipyomo.solve(problem).lower
    with pytest.raises(LipyomoError, match=r"no keyword patience.*budget, functional"):
        lipyomo.lipschitz(NETWORK, (-1, 2), patience=3)  # type: ignore[call-arg]


def test_files_are_networks(models: Path) -> None:
    found = lipyomo.lipschitz(models / "iris.onnx", (4, 6), margin=1, time_limit=20)
    problem = LipschitzProblem(lipyomo.load(models / "iris.onnx"), Box(4, 6, 4), margin=1)
    assert found.lower == pytest.approx(lipyomo.solve(problem).lower, rel=2e-6)
    first = lipyomo.load(models / "iris.onnx").layers[0]
    with pytest.raises(LipyomoError, match="no input"):
        lipyomo.lipschitz(str(models / "iris.onnx"), (4, 6), fixed={"nothing": 1})
    assert first.inputs == 4


def test_modules_are_networks() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8, 1)
    )
    center = np.full((1, 3, 3), 0.5)
    found = lipyomo.lipschitz(module, center=center, radius=0.1)
    network = lipyomo.from_torch(module, input_shape=(1, 3, 3))
    assert found.lower == lipyomo.lipschitz(network, center=0.5, radius=0.1).lower
    assert lipyomo.lipschitz(module, (center - 0.1, center + 0.1)).is_exact


def test_estimators_are_networks() -> None:
    neural = pytest.importorskip("sklearn.neural_network")
    x = np.random.default_rng(0).normal(size=(40, 2))
    model = neural.MLPRegressor(
        hidden_layer_sizes=(4,), max_iter=20, random_state=0, solver="lbfgs"
    )
    model.fit(x, np.abs(x).sum(axis=1))
    found = lipyomo.lipschitz(model, (-1, 1))
    assert found.lower == lipyomo.lipschitz(lipyomo.from_sklearn(model), (-1, 1)).lower


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "no domain given"),
        ({"box": (0, 1), "center": 0, "radius": 1}, "box and center given"),
        ({"center": 0}, "radius"),
        ({"box": (0, 1), "radius": 1}, "about a ball"),
        ({"box": 3}, "give two"),
        ({"box": (0, 1, 2)}, "3 sides"),
        ({"box": ("a", "b")}, "real numbers"),
        ({"box": ([0, 0], 1)}, "2 entries|2"),
        ({"box": (0, 1), "fixed": {"x": 1}}, "ONNX file"),
    ],
)
def test_what_makes_no_sense(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(LipyomoError, match=words):
        lipyomo.lipschitz(NETWORK, **arguments)


def test_what_is_no_network() -> None:
    for given in (3, None, [1, 2], Network):
        with pytest.raises(ProblemError, match="the network is"):
            lipyomo.lipschitz(given, (0, 1))
