"""Smoothness constants and eigenvalues of Hessians, against grids, closed forms and each other."""

from __future__ import annotations

import itertools
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import lipyomo
from lipyomo import AllSpace, Box, Network, ball, networks
from lipyomo.base.errors import NetworkError, ProblemError

SHARED = Path(os.environ.get("LIPYOMO_SHARED", "nowhere")) / "smooth"


def made(sizes: tuple[int, ...], kind: str, seed: int) -> Network:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(sizes))
    weights = [rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairs]
    return Network.from_arrays(
        weights, [0.3 * rng.normal(size=b) for _, b in pairs], activation=kind
    )


def norms_of(H: np.ndarray, norm: str) -> np.ndarray:
    """Operator norms of symmetric matrices (N, d, d) from a norm to its dual."""
    if norm == "l1":
        return np.abs(H).max(axis=(1, 2))
    if norm == "l2":
        return np.linalg.norm(H, 2, axis=(1, 2))
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=H.shape[1])))
    return np.abs(H @ signs.T).sum(axis=1).max(axis=1)


def grid(domain: Box, count: int) -> np.ndarray:
    sides = zip(domain.lower, domain.upper, strict=True)
    axes = [np.linspace(low, high, count if low < high else 1) for low, high in sides]
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(axes))


@pytest.mark.parametrize(
    ("kind", "seed", "norm"),
    [("tanh", 0, "linf"), ("tanh", 0, "l2"), ("silu", 2, "l1"), ("silu", 2, "l2")],
)
def test_constants_are_those_of_a_fine_grid(kind: str, seed: int, norm: str) -> None:
    network, domain = made((2, 3, 3, 1), kind, seed), Box(-0.6, 0.8, 2)
    found = lipyomo.smoothness(network, domain, norm, time_limit=60)
    H = networks.hessian(network).forward(grid(domain, 101)).reshape(-1, 2, 2)
    best = norms_of(H, norm).max()
    assert found.is_exact
    assert best <= found.upper * (1 + 1e-9)
    assert found.lower <= best * 1.01
    at = found.witness
    assert at is not None
    there = networks.hessian(network).forward(at.x).reshape(2, 2)
    assert abs(at.functional @ there @ at.direction) == pytest.approx(found.lower, rel=1e-6)


@pytest.mark.parametrize("kind", ["tanh", "sin", "softplus"])
def test_eigenvalues_are_those_of_a_fine_grid(kind: str) -> None:
    network, domain = made((2, 4, 1), kind, 3), Box(-0.3, 0.3, 2)
    found = lipyomo.curvature(network, domain, time_limit=60)
    H = networks.hessian(network).forward(grid(domain, 101)).reshape(-1, 2, 2)
    values = np.linalg.eigvalsh(H)
    assert found.is_exact
    assert found.least[0] <= values.min() + 1e-9
    assert values.max() - 1e-9 <= found.largest[1]
    size = np.abs(values).max()
    assert found.least[1] == pytest.approx(values.min(), abs=0.01 * size)
    assert found.largest[0] == pytest.approx(values.max(), abs=0.01 * size)
    for at, value in zip(found.witnesses, (found.least[1], found.largest[0]), strict=True):
        assert at is not None
        own = np.linalg.eigvalsh(networks.hessian(network).forward(at.x).reshape(2, 2))
        assert np.abs(own - value).min() <= 1e-5 * size


def test_convex_concave_and_neither() -> None:
    """A sum of softplus units is convex; its negative is concave, a wave neither."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=(4, 2))
    up = Network.from_arrays([first, np.ones((1, 4))], activation="softplus")
    down = networks.affine_after(up, [[-1.0]])
    wave = Network.from_arrays([[[2.0, 1.0]], [[1.0]]], activation="sin")
    words = []
    for network in (up, down, wave):
        found = lipyomo.curvature(network, Box(-0.5, 0.5, 2), time_limit=60)
        words.append((found.convex, found.concave))
    assert words == [(True, False), (False, True), (False, False)]


def test_several_outputs_count_by_the_largest_and_one_by_its_functional() -> None:
    network, domain = made((2, 3, 2), "tanh", 5), Box(-0.5, 0.5, 2)
    each = [lipyomo.smoothness(network, domain, functional=row).upper for row in np.eye(2)]
    whole = lipyomo.smoothness(network, domain)
    assert whole.upper == pytest.approx(max(each), rel=1e-5)
    assert whole.details["part"] == int(np.argmax(each))
    with pytest.raises(ProblemError, match="2 outputs"):
        lipyomo.curvature(network, domain)


def test_inputs_that_cannot_move_do_not_count() -> None:
    network = made((2, 3, 1), "tanh", 6)
    domain = Box([-0.5, 0.3], [0.5, 0.3])
    H = networks.hessian(network).forward(grid(domain, 2001)).reshape(-1, 2, 2)[:, 0, 0]
    found = lipyomo.smoothness(network, domain)
    assert found.upper == pytest.approx(np.abs(H).max(), rel=1e-4)
    bent = lipyomo.curvature(network, domain)
    assert bent.least[0] == pytest.approx(H.min(), abs=1e-3)
    assert bent.largest[1] == pytest.approx(H.max(), abs=1e-3)
    with pytest.raises(ProblemError, match="no input can move"):
        lipyomo.smoothness(network, Box([0.0, 0.0], [0.0, 0.0]))


def test_balls_are_domains_too() -> None:
    network = made((2, 3, 1), "tanh", 7)
    found = lipyomo.smoothness(network, ball([0.1, 0.2], 0.4, "l2"), "l2", time_limit=60)
    angles, radii = np.meshgrid(np.linspace(0, 2 * np.pi, 200), np.linspace(0, 0.4, 60))
    points = np.stack([0.1 + radii * np.cos(angles), 0.2 + radii * np.sin(angles)], axis=-1)
    H = networks.hessian(network).forward(points.reshape(-1, 2)).reshape(-1, 2, 2)
    best = norms_of(H, "l2").max()
    assert best <= found.upper * (1 + 1e-9)
    assert found.upper <= best * 1.02


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_all_of_space_has_bounds_where_all_units_are_bounded(norm: str) -> None:
    weights = [[[1.0, 2.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 3.0]], [[1.0, 1.0]]]
    network = Network.from_arrays(weights, activation="tanh")
    found = lipyomo.smoothness(network, AllSpace(2), norm, time_limit=0.5)
    points = 2.0 * np.random.default_rng(0).normal(size=(20_000, 2))
    best = norms_of(networks.hessian(network).forward(points).reshape(-1, 2, 2), norm).max()
    assert 0.9 * best <= found.lower <= found.upper
    assert best <= found.upper < np.inf


def test_lines_have_no_curvature() -> None:
    line = Network.from_arrays([[[2.0, -1.0]]])
    assert lipyomo.smoothness(line, Box(0, 1, 2)).upper == 0.0
    assert lipyomo.curvature(line, Box(0, 1, 2)).least == (0.0, 0.0)


def test_the_first_differences_of_gradients_are_below_the_constant() -> None:
    network, domain = made((3, 4, 1), "gelu", 8), Box(-0.5, 0.5, 3)
    found = lipyomo.smoothness(network, domain, time_limit=60)
    x, y = domain.sample(np.random.default_rng(0), 4000).reshape(2, -1, 3)
    grad = networks.gradient(network)
    rise = np.abs(grad.forward(x) - grad.forward(y)).sum(axis=1)
    assert np.all(rise <= found.upper * np.abs(x - y).max(axis=1) * (1 + 1e-9))


def test_what_has_no_continuous_gradient_is_refused() -> None:
    for question in (lipyomo.smoothness, lipyomo.curvature):
        with pytest.raises(NetworkError, match="kinks"):
            question(made((2, 3, 1), "relu", 0), Box(0, 1, 2))
    with pytest.raises(ProblemError, match="norm 'l3' is unknown"):
        lipyomo.smoothness(made((2, 3, 1), "tanh", 0), Box(0, 1, 2), "l3")
    with pytest.raises(ProblemError, match="3 inputs, the network takes 2"):
        lipyomo.smoothness(made((2, 3, 1), "tanh", 0), Box(0, 1, 3))


@pytest.mark.skipif(not SHARED.exists(), reason="needs the shared folder")
def test_the_hessian_norm_of_a_trained_network() -> None:
    network = lipyomo.load(SHARED / "tanh2.onnx")
    found = lipyomo.smoothness(network, Box(-0.5, 0.5, 2), time_limit=60)
    points = grid(Box(-0.5, 0.5, 2), 41)
    best = norms_of(networks.hessian(network).forward(points).reshape(-1, 2, 2), "linf").max()
    assert found.is_exact
    assert best <= found.upper <= best * 1.02
