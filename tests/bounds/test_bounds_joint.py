"""The LP rung of derivatives: sound on every region, never looser, and sharp where it can be."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.bounds import (
    GivenSwitch,
    LayerBounds,
    adjoint_bounds,
    preactivation_bounds,
    tangent_bounds,
    tighten_adjoints,
    tighten_tangents,
)
from lipyomo.bounds.derivative import DerivativeBounds
from lipyomo.domains import AllSpace, Box
from lipyomo.network import Network, Pattern
from lipyomo.norms import InputNorm, L1Output, L2Output, LinfOutput, OutputNorm, maximiser
from lipyomo.phases import OPEN
from networks import domains, mixed_network, random_network
from oracle import regions

ROOM = 1e-9
NORMS: list[InputNorm] = ["linf", "l1", "l2"]


def adjoints(network: Network, pattern: Pattern, y: np.ndarray) -> list[np.ndarray]:
    """Adjoints of the hidden outputs, then the gradient."""
    g, found = y @ network.head.dense_weight, []
    for layer, on in zip(reversed(network.hidden), reversed(pattern), strict=True):
        found.append(g)
        g = (g * layer.slopes(on)) @ layer.dense_weight
    return [*found[::-1], g]


def tangents(network: Network, pattern: Pattern, v: np.ndarray) -> list[np.ndarray]:
    """Tangents of the hidden pre-activations, then of the outputs."""
    found = []
    for layer, on in zip(network.hidden, pattern, strict=True):
        found.append(layer.dense_weight @ v)
        v = layer.slopes(on) * found[-1]
    return [*found, network.head.dense_weight @ v]


def check(
    truth: list[np.ndarray],
    pattern: Pattern,
    bounds: LayerBounds,
    found: DerivativeBounds,
    given: GivenSwitch,
) -> None:
    for i, on in enumerate(pattern):
        open_ = bounds.phases[i] == OPEN
        low = np.where(on, given.on_lower[i], given.off_lower[i])
        high = np.where(on, given.on_upper[i], given.off_upper[i])
        assert (truth[i] >= np.maximum(low, found.lower[i]) - ROOM)[open_].all()
        assert (truth[i] <= np.minimum(high, found.upper[i]) + ROOM)[open_].all()
    assert (truth[-1] >= found.end_lower - ROOM).all()
    assert (truth[-1] <= found.end_upper + ROOM).all()


def not_looser(loose: DerivativeBounds, tight: DerivativeBounds) -> None:
    for a, b in zip([*loose.lower, loose.end_lower], [*tight.lower, tight.end_lower], strict=True):
        assert (b >= a).all()
    for a, b in zip([*loose.upper, loose.end_upper], [*tight.upper, tight.end_upper], strict=True):
        assert (b <= a).all()
    assert tight.rung == "lp"


@pytest.mark.parametrize("kind", ["box", "polytope", "l2 ball"])
@pytest.mark.parametrize("make", [random_network, mixed_network])
@pytest.mark.parametrize("norm", [L1Output(), L2Output(), LinfOutput()])
def test_adjoints_hold_on_every_region(kind: str, make: type, norm: OutputNorm) -> None:
    network, domain = make(3, (2, 4, 3, 2)), domains(2)[kind]
    bounds = preactivation_bounds(network, domain)
    loose = adjoint_bounds(network, None, bounds, norm)
    found, given = tighten_adjoints(network, domain, bounds, norm, loose)
    not_looser(loose, found)
    ends = [np.array(y) for y in ([1.0, 0.0], [0.0, -1.0], [0.6, 0.4], [-0.5, 0.5])]
    if isinstance(norm, L1Output):
        ends.append(np.array([1.0, -1.0]))
    for pattern, _ in regions(network, domain):
        for y in ends:
            check(adjoints(network, pattern, y), pattern, bounds, found, given)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("make", [random_network, mixed_network])
def test_tangents_hold_on_every_region(make: type, norm: InputNorm) -> None:
    network, domain = make(4, (2, 4, 3, 2)), Box(-1, 1, 2)
    bounds = preactivation_bounds(network, domain)
    loose = tangent_bounds(network, None, bounds, norm)
    found, given = tighten_tangents(network, domain, bounds, norm, loose)
    not_looser(loose, found)
    for pattern, _ in regions(network, domain):
        for row in [*network.jacobian(pattern), np.array([1.0, -0.3])]:
            v = maximiser(row, norm)
            check(tangents(network, pattern, v), pattern, bounds, found, given)


def test_the_linear_rung_is_the_lp_of_the_switches_alone() -> None:
    # Units that are open at the centre of the box couple no switches: nothing is left to gain.
    rng = np.random.default_rng(0)
    weights = [
        rng.standard_normal((6, 5)),
        rng.standard_normal((4, 6)),
        rng.standard_normal((2, 4)),
    ]
    network = Network.from_arrays(weights)
    domain = Box(-1, 1, 5)
    bounds = preactivation_bounds(network, domain)
    loose = tangent_bounds(network, None, bounds, "linf")
    found, _ = tighten_tangents(network, domain, bounds, "linf", loose)
    np.testing.assert_allclose(found.upper[1], loose.upper[1], rtol=1e-6)
    # s = t / 2 +- |t|_max / 2 for each first unit, in closed form.
    W1, W2 = weights[0], weights[1]
    chord = 0.5 * np.abs(W2 @ W1).sum(axis=1) + 0.5 * np.abs(W2) @ np.abs(W1).sum(axis=1)
    np.testing.assert_allclose(loose.upper[1], chord, rtol=1e-9)


def test_the_domain_couples_switches() -> None:
    # relu(x - 0.1) and relu(-x - 0.1) are never on together, so the slope of their difference is at
    # most 1; bounds that do not link switches to x say 2.
    network = Network.from_arrays([[[1.0], [-1.0]], [[1.0, -1.0]]], [[-0.1, -0.1], [0.0]])
    domain = Box(-1, 1, 1)
    bounds = preactivation_bounds(network, domain)
    loose = adjoint_bounds(network, None, bounds, np.ones(1), "interval")
    found, _ = tighten_adjoints(network, domain, bounds, np.ones(1), loose)
    assert loose.end_upper[0] == pytest.approx(2.0)
    assert found.end_upper[0] < 1.95


def test_limits_and_unbounded_domains_keep_the_bounds() -> None:
    network = random_network(1, (2, 4, 3, 2))
    for domain, limit in ((Box(-1, 1, 2), 0.0), (AllSpace(2), np.inf)):
        bounds = preactivation_bounds(network, domain)
        loose = adjoint_bounds(network, None, bounds, LinfOutput())
        found, given = tighten_adjoints(network, domain, bounds, LinfOutput(), loose, limit)
        for i in range(2):
            np.testing.assert_array_equal(found.upper[i], loose.upper[i])
            np.testing.assert_array_equal(given.on_upper[i], loose.upper[i])
