"""Probing decides units rightly, and its conditional bounds hold on every region."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.bounds import (
    adjoint_bounds,
    adjoints_given_switch,
    preactivation_bounds,
    probe,
    tangent_bounds,
    tangents_given_switch,
)
from lipyomo.domains import AllSpace, Box
from lipyomo.network import Network
from lipyomo.norms import LinfOutput, maximiser
from lipyomo.phases import LEFT, OPEN, RIGHT
from networks import domains, mixed_network, random_network
from oracle import regions

ROOM = 1e-11
C = np.array([1.0, -0.5])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["box", "l2 ball", "polytope"])
@pytest.mark.parametrize("make", [random_network, mixed_network])
def test_conditional_bounds_hold(seed: int, kind: str, make: type) -> None:
    network, domain = make(seed, (2, 4, 4, 2)), domains(2)[kind]
    before = preactivation_bounds(network, domain)
    bounds, probes = probe(network, domain, before)
    assert not bounds.empty
    assert bounds.unstable <= before.unstable
    assert probes.count == 2 * bounds.unstable
    adjoints = adjoint_bounds(network, None, bounds, C)
    tangents = tangent_bounds(network, None, bounds, "linf")
    given = [
        adjoints_given_switch(network, probes, adjoints, C),
        tangents_given_switch(network, probes, tangents, "linf"),
    ]
    for pattern, _ in regions(network, domain):
        for layer, on, phase in zip(network.hidden, pattern, bounds.phases, strict=True):
            decided = layer.kinked & (phase != OPEN)
            assert (on == (phase == RIGHT))[decided].all()
        truths = [_adjoints(network, pattern), _tangents(network, pattern)]
        for truth, sides in zip(truths, given, strict=True):
            for i, on in enumerate(pattern):
                low = np.where(on, sides.on_lower[i], sides.off_lower[i])
                high = np.where(on, sides.on_upper[i], sides.off_upper[i])
                open_ = bounds.phases[i] == OPEN
                for t in truth[i]:
                    assert (t >= low - ROOM)[open_].all()
                    assert (t <= high + ROOM)[open_].all()


def _adjoints(network: Network, pattern: tuple) -> list[list[np.ndarray]]:
    g, found = C @ network.head.dense_weight, []
    for layer, on in zip(reversed(network.hidden), reversed(pattern), strict=True):
        found.append([g])
        g = (g * layer.slopes(on)) @ layer.dense_weight
    return found[::-1]


def _tangents(network: Network, pattern: tuple) -> list[list[np.ndarray]]:
    found: list[list[np.ndarray]] = [[] for _ in network.hidden]
    directions = [maximiser(row, "linf") for row in network.jacobian(pattern)]
    for v in [*directions, np.array([1.0, -1.0]), np.array([-1.0, -1.0])]:
        u = v
        for i, (layer, on) in enumerate(zip(network.hidden, pattern, strict=True)):
            u = layer.dense_weight @ u
            found[i].append(u)
            u = layer.slopes(on) * u
    return found


def test_probing_sees_what_bounds_alone_do_not() -> None:
    # Bounds alone do not know that relu(x - 0.1) and relu(-x - 0.1) exclude each other.
    network = Network.from_arrays(
        [[[1.0], [-1.0]], [[1.0, 1.0]], [[1.0]]], [[-0.1, -0.1], [-0.5], [0.0]]
    )
    bounds = preactivation_bounds(network, Box(-1, 1, 1))
    adjoints = adjoint_bounds(network, None, bounds, np.ones((1, 1)))
    bounds, probes = probe(network, Box(-1, 1, 1), bounds)
    assert bounds.unstable == 3
    first_on = (probes.layer == 0) & (probes.unit == 0) & probes.on
    assert probes.phases[0][first_on].tolist() == [[RIGHT, LEFT]]
    given = adjoints_given_switch(network, probes, adjoints, LinfOutput())
    assert given.on_upper[0][0] <= adjoints.upper[0][0]


def test_impossible_sides_are_decided() -> None:
    # The second unit needs both first units on, which exclude each other: |x| > 1.5 on [-1, 1].
    network = Network.from_arrays(
        [[[1.0], [-1.0]], [[1.0, 1.0]], [[1.0]]], [[0.2, 0.2], [-1.3], [0.0]]
    )
    loose = preactivation_bounds(network, Box(-1, 1, 1), rung="interval")
    assert loose.phases[1][0] == OPEN
    bounds, _ = probe(network, Box(-1, 1, 1), loose)
    assert bounds.phases[1][0] == LEFT


def test_unbounded_domains_are_not_probed() -> None:
    network = random_network(0, (2, 3, 2))
    bounds = preactivation_bounds(network, AllSpace(2))
    same, probes = probe(network, AllSpace(2), bounds)
    assert same is bounds
    assert probes.count == 0
    adjoints = adjoint_bounds(network, None, bounds, C)
    given = adjoints_given_switch(network, probes, adjoints, C)
    np.testing.assert_array_equal(given.on_upper[0], adjoints.upper[0])
