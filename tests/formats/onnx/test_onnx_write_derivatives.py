"""Derivatives and products as ONNX files, against onnxruntime and read again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import lipyomo
from lipyomo import Box, Network, networks
from lipyomo.base.errors import NetworkError
from lipyomo.formats.onnx import to_onnx

POINTS = np.random.default_rng(1).uniform(-1, 1, (20, 2))


def made(kind: str) -> Network:
    rng = np.random.default_rng(0)
    pairs = list(pairwise((2, 3, 2, 2)))
    weights = [rng.normal(size=(b, a)) for a, b in pairs]
    biases = [0.3 * rng.normal(size=b) for _, b in pairs]
    return Network.from_arrays(weights, biases, activation=kind)


MADE: dict[str, Callable[[Network], Network]] = {
    "gradient": networks.gradient,
    "hessian": networks.hessian,
    "jacobian": networks.jacobian,
    "third": lambda f: networks.directional(f, [1.0, 0.5], 3),
    "product": lambda f: networks.product(f, f),
    "quotient": lambda f: networks.quotient(
        f, networks.affine_after(networks.square(f), np.eye(2), [1.0, 2.0])
    ),
}


def by_runtime(network: Network) -> np.ndarray:
    model = to_onnx(network).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    kind = np.float32 if given.type == "tensor(float)" else np.float64
    return session.run(None, {given.name: POINTS.astype(kind)})[0]


@pytest.mark.parametrize(
    ("kind", "form"),  # every other pair
    [
        (kind, form)
        for i, kind in enumerate(("tanh", "sigmoid", "silu", "sin", "cos"))
        for j, form in enumerate(MADE)
        if (i + j) % 2 == 0
    ],
)
def test_files_compute_the_same_and_are_read_again(kind: str, form: str, tmp_path: Path) -> None:
    network = MADE[form](made(kind))
    expected = network.forward(POINTS)
    size = np.abs(expected).max()
    np.testing.assert_allclose(by_runtime(network), expected, rtol=0, atol=1e-12 * size)
    path = tmp_path / "network.onnx"
    to_onnx(network, path)
    again = lipyomo.load(path)
    np.testing.assert_allclose(again.forward(POINTS), expected, rtol=0, atol=1e-12 * size)


def test_powers_roots_and_logarithms() -> None:
    base = networks.affine_after(made("tanh"), 0.1 * np.eye(2), [2.0, 3.0])
    network = networks.residual(
        base,
        lambda u, x: [
            u[0] ** 3 + u[1] ** -1.5, np.sqrt(u[0]) / u[1], np.log(u[0]) + np.exp(x[1]), u[0] ** 2
        ],
    )  # fmt: skip
    np.testing.assert_allclose(by_runtime(network), network.forward(POINTS), rtol=1e-13)


def test_products_are_products_again(tmp_path: Path) -> None:
    """One Mul a product, so that what is read has as many units, and bounds are as close."""
    network, path = networks.gradient(made("tanh")), tmp_path / "network.onnx"
    model = to_onnx(network, path)
    assert "Sub" in {node.op_type for node in model.graph.node}
    again, domain = lipyomo.load(path), Box(-0.5, 0.5, 2)
    ends = [lipyomo.value_range(one, domain, [1.0, 0.0]) for one in (network, again)]
    assert all(one.is_exact for one in ends)
    assert ends[1].high == pytest.approx(ends[0].high, rel=1e-5)


@pytest.mark.parametrize("kind", ["gelu", "erf"])
def test_constants_that_would_round_are_refused(kind: str) -> None:
    with pytest.raises(NetworkError, match="has no operator in ONNX"):
        to_onnx(networks.gradient(made(kind)))
