"""Batches of partial patterns: bounds hold, whatever the batch and the way they are made."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.network import Network
from lipyomo.networks.phases import LEFT, OPEN, RIGHT, open_phases
from lipyomo.problems.domains import Box, Domain, ball
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.relaxations.linear.preactivation import propagate
from networks import mixed_network, random_network

NETWORKS = {
    "narrow": mixed_network(3, (3, 7, 6, 5, 2)),
    "wide": mixed_network(5, (14, 6, 7, 2)),
    "relu": random_network(1, (4, 9, 9, 1)),
}
DOMAINS = {"box": lambda d: Box(-1, 1, d), "l2": lambda d: ball(np.zeros(d), 1.0, "l2")}


def patterns(network: Network, values: FloatArray, share: float) -> FloatArray:
    """Some units decided as points with these pre-activations (B, N) have them."""
    start = np.tile(np.concatenate(open_phases(network)), (len(values), 1))
    chosen = (start == OPEN) & (np.random.default_rng(0).random(start.shape) < share)
    return np.where(chosen, np.where(values > 0, RIGHT, LEFT), start).astype(np.int8)


def bounded(network: Network, domain: Domain, phases: FloatArray, intervals: bool) -> Stack:
    low, high = (np.tile(side, (len(phases), 1)) for side in (domain.lower, domain.upper))
    stack = Stack.unknown(phases, low, high)
    propagate(network.hidden, domain, stack, intervals=intervals)
    return stack


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("intervals", [False, True])
def test_bounds_hold_at_points_of_each_pattern(name: str, kind: str, intervals: bool) -> None:
    network = NETWORKS[name]
    domain = DOMAINS[kind](network.input_dim)
    points = domain.sample(np.random.default_rng(1), 500)
    z = np.hstack(network.preactivations(points))
    phases = patterns(network, z[:4], 0.3)
    stack = bounded(network, domain, phases, intervals)
    assert stack.alive.all()
    for b in range(len(phases)):
        given = np.where(phases[b] == RIGHT, z >= 0, (phases[b] != LEFT) | (z <= 0))
        kinked = np.concatenate([layer.kinked for layer in network.hidden])
        inside = z[(given | ~kinked).all(axis=1)]
        assert (inside >= stack.lower[b] - 1e-12).all()
        assert (inside <= stack.upper[b] + 1e-12).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_a_pattern_is_bounded_alone_as_in_a_batch(name: str) -> None:
    network, domain = NETWORKS[name], Box(-1, 1, NETWORKS[name].input_dim)
    z = np.hstack(network.preactivations(domain.sample(np.random.default_rng(2), 5)))
    phases = patterns(network, z, 0.4)
    together = bounded(network, domain, phases, False)
    for b in range(len(phases)):
        alone = bounded(network, domain, phases[b : b + 1], False)
        assert together.lower[b] == pytest.approx(alone.lower[0], abs=1e-12)
        assert together.upper[b] == pytest.approx(alone.upper[0], abs=1e-12)
        assert (together.phases[b] == alone.phases[0]).all()


@pytest.mark.parametrize("name", NETWORKS)
def test_children_keep_the_ranges_of_the_first_layer(name: str) -> None:
    network, domain = NETWORKS[name], Box(-1, 1, NETWORKS[name].input_dim)
    parent = bounded(network, domain, np.concatenate(open_phases(network))[None], False)
    unit = int(np.flatnonzero(parent.phases[0] == OPEN)[0])
    found = []
    for first in (0, 1):
        phases = np.tile(parent.phases, (2, 1))
        phases[:, unit] = LEFT, RIGHT
        ends = (np.tile(side, (2, 1)) for side in (parent.lower, parent.upper))
        boxes = (np.tile(side, (2, 1)) for side in (parent.low, parent.high))
        child = Stack(phases, *ends, *boxes, np.ones(2, dtype=bool))
        propagate(network.hidden, domain, child, intervals=False, first=first)
        found.append(child)
    assert found[0].lower == pytest.approx(found[1].lower, abs=1e-12)
    assert found[0].upper == pytest.approx(found[1].upper, abs=1e-12)


def test_a_phase_that_no_point_has_closes_its_pattern() -> None:
    network = Network.from_arrays([[[1.0, 1.0]], [[1.0]]], [[3.0], [0.0]])
    phases = np.array([[LEFT], [RIGHT], [OPEN]], dtype=np.int8)
    stack = bounded(network, Box(-1, 1, 2), phases, False)
    assert stack.alive.tolist() == [False, True, True]
    assert stack.phases[1:, 0].tolist() == [RIGHT, RIGHT]


def test_what_inexact_weights_may_change_is_left_open() -> None:
    network, domain = NETWORKS["relu"], Box(-1, 1, 4)
    low, high = domain.lower[None], domain.upper[None]
    plain, loose = (
        Stack.unknown(np.concatenate(open_phases(network))[None], low, high) for _ in range(2)
    )
    errors = np.full(plain.lower.shape[1], 0.25)
    propagate(network.hidden, domain, plain, intervals=False)
    propagate(network.hidden, domain, loose, intervals=False, errors=errors)
    first = network.hidden[0].units
    still = loose.phases[0] == OPEN
    assert (loose.upper - plain.upper >= 0.25 - 1e-12)[:, still].all()
    assert loose.upper[:, :first][:, still[:first]] == pytest.approx(
        plain.upper[:, :first][:, still[:first]] + 0.25
    )
