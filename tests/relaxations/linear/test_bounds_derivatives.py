"""Adjoint and tangent bounds hold on every region, and the linear relaxation is never looser."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from lipyomo.base.arrays import Pattern
from lipyomo.base.errors import NetworkError
from lipyomo.networks.network import Network
from lipyomo.problems.domains import AllSpace, Box
from lipyomo.problems.norms import (
    CrossOutput,
    L1Output,
    L2Output,
    LinfOutput,
    OutputNorm,
    maximiser,
)
from lipyomo.relaxations.linear import adjoint_limits, preactivation_bounds, tangent_limits
from networks import DEGENERATE, Case, from_pattern, mixed_network, random_network
from oracle import matrix_norm, regions

OUTPUTS: list[OutputNorm] = [L1Output(), L2Output(), LinfOutput(), CrossOutput(), CrossOutput(0)]
RELAXATIONS = ("interval", "linear")
ROOM = 1e-11


def true_adjoints(network: Network, pattern: Pattern, y: np.ndarray) -> list[np.ndarray]:
    """Adjoints of the hidden outputs and the gradient: [h_1, ..., h_L], then x last."""
    g = y @ network.head.dense_weight
    found = []
    for layer, on in zip(reversed(network.hidden), reversed(pattern), strict=True):
        found.append(g)
        g = (g * layer.slopes(on)) @ layer.dense_weight
    return [*reversed(found), g]


def true_tangents(network: Network, pattern: Pattern, v: np.ndarray) -> list[np.ndarray]:
    """Tangents of the hidden pre-activations and of the outputs."""
    found = []
    for layer, on in zip(network.hidden, pattern, strict=True):
        u = layer.dense_weight @ v
        found.append(u)
        v = layer.slopes(on) * u
    return [*found, network.head.dense_weight @ v]


def in_dual_ball(norm: OutputNorm, m: int, rng: np.random.Generator) -> np.ndarray:
    """Random points of the dual ball, some of them extreme."""
    vertices = norm.vertices(m)
    if vertices is None:
        y = rng.standard_normal((20, m))
        return y / np.linalg.norm(y, axis=1, keepdims=True)
    return np.vstack([vertices, -vertices, rng.dirichlet(np.ones(len(vertices)), 5) @ vertices])


CASES: dict[str, Callable[[], Case]] = {
    **DEGENERATE,
    "random": lambda: Case(random_network(21, (3, 4, 3, 2)), Box(-1, 1, 3)),
    "mixed 3": lambda: Case(mixed_network(22, (2, 4, 3, 3)), Box(-0.5, 0.7, 2)),
}


@cache
def case_with_regions(name: str) -> tuple[Case, list[Pattern]]:
    case = CASES[name]()
    return case, [pattern for pattern, _ in regions(case.network, case.domain)]


@pytest.mark.parametrize("relaxation", RELAXATIONS)
@pytest.mark.parametrize("name", CASES)
def test_bounds_hold_on_every_region(name: str, relaxation: str) -> None:
    case, patterns = case_with_regions(name)
    network, domain = case.network, case.domain
    bounds = preactivation_bounds(network, domain)
    rng, m = np.random.default_rng(0), network.output_dim
    frozen = domain.frozen
    for norm in OUTPUTS:
        found = adjoint_limits(network, bounds, norm, relaxation)
        lows, highs = [*found.lower, found.end_lower], [*found.upper, found.end_upper]
        for pattern in patterns:
            for y in in_dual_ball(norm, m, rng):
                truth = true_adjoints(network, pattern, y)
                # The adjoint of a unit that cannot matter may follow the other slope.
                assert (truth[-1] >= lows[-1] - ROOM)[~frozen].all()
                assert (truth[-1] <= highs[-1] + ROOM)[~frozen].all()
    for norm_in in ("linf", "l1", "l2"):
        found = tangent_limits(network, bounds, norm_in, relaxation=relaxation)
        for pattern in patterns:
            jacobian = network.jacobian(pattern)
            for row in range(m):
                v = np.where(frozen, 0.0, maximiser(np.where(frozen, 0, jacobian[row]), norm_in))
                truth = true_tangents(network, pattern, v)
                for u, low, high in zip(
                    truth,
                    [*found.lower, found.end_lower],
                    [*found.upper, found.end_upper],
                    strict=True,
                ):
                    assert (u >= low - ROOM).all()
                    assert (u <= high + ROOM).all()


@pytest.mark.parametrize("seed", range(4))
def test_adjoints_of_all_layers_hold_in_general_position(seed: int) -> None:
    network, domain = mixed_network(seed, (2, 4, 4, 3, 2)), Box(-1, 1, 2)
    bounds = preactivation_bounds(network, domain)
    c = np.array([1.0, -0.5])
    for relaxation in RELAXATIONS:
        found = adjoint_limits(network, bounds, c, relaxation)
        for point in domain.sample(np.random.default_rng(seed), 200):
            pattern = network.pattern(point)
            truth = true_adjoints(network, pattern, c)
            for i in range(len(network.hidden)):
                assert (truth[i] >= found.lower[i] - ROOM).all()
                assert (truth[i] <= found.upper[i] + ROOM).all()


@pytest.mark.parametrize("norm_in", ["linf", "l1", "l2"])
def test_linear_is_never_looser_than_interval(norm_in: str) -> None:
    network = mixed_network(3, (4, 6, 6, 5, 3))
    bounds = preactivation_bounds(network, Box(-1, 1, 4))
    pairs = [
        [
            tangent_limits(network, bounds, norm_in, relaxation=relaxation)
            for relaxation in RELAXATIONS
        ],
        [adjoint_limits(network, bounds, LinfOutput(), relaxation) for relaxation in RELAXATIONS],
    ]
    for loose, tight in pairs:
        for a, b in zip(
            [*loose.lower, loose.end_lower],
            [*tight.lower, tight.end_lower],
            strict=True,
        ):
            assert (b >= a - ROOM).all()
        assert (tight.end_upper <= loose.end_upper + ROOM).all()
        assert tight.end_upper.sum() < loose.end_upper.sum()


@pytest.mark.parametrize("relaxation", RELAXATIONS)
def test_a_full_pattern_gives_its_jacobian(relaxation: str) -> None:
    network = mixed_network(13, (3, 5, 4, 2))
    pattern = network.pattern(np.array([0.2, -0.4, 0.9]))
    bounds = preactivation_bounds(network, AllSpace(3), from_pattern(network, pattern))
    jacobian = network.jacobian(pattern)
    c = np.array([0.5, 2.0])
    found = adjoint_limits(network, bounds, c, relaxation)
    np.testing.assert_allclose(found.end_upper, c @ jacobian, atol=1e-12)
    np.testing.assert_allclose(found.end_lower, c @ jacobian, atol=1e-12)
    if relaxation == "linear":
        ends = tangent_limits(network, bounds, "linf", relaxation=relaxation)
        np.testing.assert_allclose(ends.end_upper, np.abs(jacobian).sum(axis=1), rtol=1e-9)
        norm = matrix_norm(jacobian, "linf", LinfOutput())
        assert ends.end_upper.max() == pytest.approx(norm)


def test_a_functional_of_the_wrong_length_is_refused() -> None:
    network = random_network(0, (2, 3, 2))
    bounds = preactivation_bounds(network, Box(0, 1, 2))
    with pytest.raises(NetworkError, match="3 entries"):
        adjoint_limits(network, bounds, np.ones(3))
