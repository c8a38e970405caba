"""Eigenvalues of symmetric parts of Jacobians in metrics, against samples and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, Network, ball, networks
from lipyomo.base.errors import NetworkError, ProblemError


def made(d: int, kind: str, seed: int) -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(4, d)) / np.sqrt(d), rng.normal(size=(d, 4)) / 2]
    return Network.from_arrays(weights, [0.3 * rng.normal(size=4), np.zeros(d)], activation=kind)


def sampled(f: Network, box: Box, P: np.ndarray) -> tuple[float, float]:
    """Of the eigenvalues at many points."""
    points = np.concatenate([box.sample(np.random.default_rng(1), 5000), [box.lower, box.upper]])
    values = eigenvalues(f, points, P)
    return float(values.min()), float(values.max())


def eigenvalues(f: Network, points: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Of the symmetric parts at points (N, d), shape (N, d)."""
    d = f.input_dim
    J = networks.jacobian(f).forward(points).reshape(-1, d, d)
    root = np.linalg.cholesky(P).T
    turned = root @ J @ np.linalg.inv(root)
    return np.asarray(np.linalg.eigvalsh(0.5 * (turned + turned.transpose(0, 2, 1))))


@pytest.mark.parametrize(
    ("d", "kind", "tilted"),
    [
        *((1, "sin", False), (2, "tanh", True), (2, "softplus", False), (3, "tanh", False)),
        *((3, "gelu", True), (4, "gelu", False)),
    ],
)
def test_all_samples_are_between_the_ends(d: int, kind: str, tilted: bool) -> None:
    f, box, rng = made(d, kind, d), Box(-0.3, 0.4, d), np.random.default_rng(2)
    M = rng.normal(size=(d, d))
    P = np.eye(d) + 0.3 * (M @ M.T + (M @ M.T).T) * tilted
    found = lipyomo.contraction(f, box, P if tilted else None, time_limit=0.3)
    low, high = sampled(f, box, P)
    assert found.low[0] <= low + 1e-9
    assert high - 1e-9 <= found.high[1]
    assert found.low[0] <= found.low[1]
    assert found.high[0] <= found.high[1]
    for at, end in zip(found.witnesses, (found.low[1], found.high[0]), strict=True):
        if at is not None:
            assert np.abs(eigenvalues(f, at.x[None], P) - end).min() <= 1e-7 * (high - low)


def test_linear_fields_have_the_eigenvalues_of_their_matrices() -> None:
    A = np.array([[-1.0, 2.0, 0.0], [0.0, -3.0, 1.0], [0.5, 0.0, -2.0]])
    truth = np.linalg.eigvalsh(0.5 * (A + A.T))
    found = lipyomo.contraction(Network.from_arrays([A]), Box(0, 1, 3), time_limit=10)
    assert found.low[0] <= truth[0] + 1e-12
    assert truth[-1] - 1e-12 <= found.high[1]
    assert found.high[0] == pytest.approx(truth[-1], abs=1e-2)


@pytest.mark.parametrize("moving", [0, 1])
def test_where_states_are_fixed_their_derivatives_count(moving: int) -> None:
    f = made(2, "tanh", 5)
    upper = np.array([0.4, 0.1]) * moving + np.array([0.0, 0.1]) * (1 - moving)
    box = Box([0.0, 0.1], upper, 2)
    found = lipyomo.contraction(f, box, time_limit=10)
    low, high = sampled(f, box, np.eye(2))
    assert found.low == pytest.approx((low, low), abs=1e-4)
    assert found.high == pytest.approx((high, high), abs=1e-4)
    for at, end in zip(found.witnesses, (low, high), strict=True):
        assert at is not None
        assert np.abs(eigenvalues(f, at.x[None], np.eye(2)) - end).min() < 1e-4


@pytest.mark.parametrize("A", [np.zeros((2, 2)), np.diag([3.0, -3.0]), -np.eye(2)])
def test_spectra_that_are_points_symmetric_or_nothing(A: np.ndarray) -> None:
    found = lipyomo.contraction(Network.from_arrays([A]), Box(0, 1, 2))
    values = np.linalg.eigvalsh(A)
    assert found.low == pytest.approx((values[0], values[0]), abs=4e-6)
    assert found.high == pytest.approx((values[-1], values[-1]), abs=4e-6)
    assert found.low[0] <= values[0] <= found.low[1]
    assert found.high[0] <= values[-1] <= found.high[1]
    assert found.status.value == "exact"


def test_a_field_that_contracts_only_in_another_metric() -> None:
    A = np.array([[0.0, 1.0], [-1.0, -1.0]])  # an oscillator with friction
    f, box, P = Network.from_arrays([A]), Box(-1, 1, 2), np.array([[1.0, 0.3], [0.3, 1.0]])
    plain = lipyomo.contraction(f, box, time_limit=5)
    other = lipyomo.contraction(f, box, P, time_limit=5)
    assert plain.high[1] == pytest.approx(0.0, abs=1e-6)
    assert other.high[1] < -0.1


def test_what_is_no_field_or_metric_is_refused() -> None:
    f, box = made(2, "tanh", 0), Box(-1, 1, 2)
    for metric, message in (
        ([[1.0, 2.0], [0.0, 1.0]], "symmetric"),
        ([1.0], "symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "not positive definite"),
        ([[1.0, 1.0], [1.0, 1.0 + 1e-15]], "metric"),
    ):
        with pytest.raises(ProblemError, match=message):
            lipyomo.contraction(f, box, metric)
    with pytest.raises(ProblemError, match="as many outputs"):
        lipyomo.contraction(Network.from_arrays([[[1.0, 1.0]]]), box)
    with pytest.raises(ProblemError, match="must be a box"):
        lipyomo.contraction(f, ball([0.0, 0.0], 1.0, "l2"))
    with pytest.raises(NetworkError, match="kinks"):
        lipyomo.contraction(made(2, "relu", 0), box)
