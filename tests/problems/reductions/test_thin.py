"""Problems without the kinks that their domains decide: the same Jacobian norms on the domain."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from lipyomo import Box, LipschitzProblem, Network
from lipyomo.networks.network import Layer
from lipyomo.networks.phases import count_open
from lipyomo.primal.heuristics.evaluate import point_norms
from lipyomo.relaxations.linear import preactivation_bounds
from networks import random_network

SLOPES = [(0.0, 1.0), (0.2, 1.0), (-1.0, 1.0), (1.0, 0.0)]


def mixed(seed: int, sparse: bool) -> Network:
    """Units of all kinds, a few of them constant; sparse weights if asked for."""
    rng = np.random.default_rng(seed)
    sizes, layers = (6, 12, 9, 3), []
    for before, units in pairwise(sizes):
        weight = rng.standard_normal((units, before)) * (rng.random((units, before)) < 0.5)
        left, right = np.array(SLOPES)[rng.integers(0, len(SLOPES), units)].T
        bias = rng.standard_normal(units)
        layers.append(Layer(sp.csr_array(weight) if sparse else weight, bias, left, right))
    layers[-1] = Layer(layers[-1].weight, layers[-1].bias)
    return Network(layers)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("norms", [("linf", {}), ("l2", {"functional": [1.0, -2.0, 0.5]})])
@pytest.mark.parametrize("seed", range(6))
def test_values_stay(seed: int, norms: tuple[str, dict[str, object]], sparse: bool) -> None:
    """At points of the domain; kinks are those that the bounds leave open."""
    domain = Box(-0.1 * (seed + 1), 0.1 * (seed + 1), 6)
    problem = LipschitzProblem(mixed(seed, sparse), domain, norms[0], **norms[1])
    phases = preactivation_bounds(problem.network, domain).phases
    small = problem.thinned(phases)
    assert small.network.kinked_units == count_open(phases) < problem.network.kinked_units
    if sparse and count_open(phases):  # multiplied through
        assert all(isinstance(layer.weight, np.ndarray) for layer in small.network.layers)
    points = domain.sample(np.random.default_rng(seed), 200)
    assert point_norms(small, points)[0] == pytest.approx(point_norms(problem, points)[0])


def test_nothing_decided() -> None:
    """The problem itself, if all units are unstable."""
    problem = LipschitzProblem(random_network(0, (3, 5, 2)), Box(-9.0, 9.0, 3))
    phases = preactivation_bounds(problem.network, problem.domain).phases
    assert count_open(phases) == problem.network.kinked_units
    assert problem.thinned(phases) is problem
