"""Weights are other units of the inputs: the same as scaling the first layer and the domain."""

from __future__ import annotations

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, Layer, LipschitzProblem, Network
from networks import random_network


def in_units(network: Network, units: np.ndarray) -> Network:
    """The network of inputs that are measured in such units."""
    first, *others = network.layers
    scaled = Layer(np.asarray(first.weight) * units, first.bias, first.left, first.right)
    return Network([scaled, *others])


@pytest.mark.parametrize("part", range(4))
def test_weights_are_other_units(part: int) -> None:
    """Two dozen small networks: each norm with each number of inputs and of outputs."""
    for seed in range(6 * part, 6 * (part + 1)):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(2, 5))
        network = random_network(seed, (d, 4, 3, int(rng.integers(1, 3))))
        weights, norm = np.exp(rng.uniform(-2, 2, d)), ("linf", "l1", "l2")[seed % 3]
        one = lipyomo.solve(LipschitzProblem(network, Box(-1, 1, d), norm, weights=weights))
        box = Box(-1 / weights, 1 / weights)
        two = lipyomo.solve(LipschitzProblem(in_units(network, weights), box, norm))
        assert one.is_exact
        assert two.is_exact
        assert one.lower == pytest.approx(two.lower, rel=1e-9, abs=1e-12), seed
        assert one.upper >= two.lower * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_searches_do_not_depend_on_units(seed: int) -> None:
    """Powers of two do not round: every node is the same."""
    network, units = random_network(seed, (5, 8, 8, 2)), 2.0 ** np.array([-3, 5, 0, 2, -7])
    box = Box(-1 / units, 1 / units)
    plain = lipyomo.solve(LipschitzProblem(network, Box(-1, 1, 5), weights=units))
    other = lipyomo.solve(LipschitzProblem(in_units(network, units), box))
    assert plain.nodes == other.nodes
    assert plain.lower == pytest.approx(other.lower, rel=1e-12)
