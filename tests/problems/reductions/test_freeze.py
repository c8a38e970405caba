"""Networks as functions of the inputs that can move."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from lipyomo import Network
from lipyomo.networks.network import Layer
from lipyomo.problems.reductions.merge import freeze
from networks import mixed_network

FIXED = np.array([False, True, False, True, False])
VALUES = np.array([9.0, 0.3, 9.0, -0.7, 9.0])
POINTS = np.random.default_rng(0).uniform(-2, 2, (40, 5))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("rounding", [False, True])
def test_the_same_function_of_the_others(rounding: bool, sparse: bool) -> None:
    network = mixed_network(3, (5, 6, 5, 3))
    if sparse:
        first, *rest = network.layers
        first = Layer(sp.csr_array(first.weight), first.bias, first.left, first.right)
        network = Network([first, *rest])
    small = freeze(network, FIXED, VALUES, rounding)
    assert sp.issparse(small.network.layers[-3].weight) == sparse
    assert (small.moving == ~FIXED).all()
    own = small.reduce_point(POINTS)
    full = np.stack([small.lift_point(x) for x in own])
    assert (full == np.where(FIXED, VALUES, POINTS)).all()
    np.testing.assert_allclose(small.network.forward(own), network.forward(full), rtol=1e-9)


def test_biases_that_would_round_stay() -> None:
    network = Network([Layer([[1.0, 0.1]], [1e-9], 0.0, 1.0), Layer([[1.0]], [0.0])])
    fixed, values = np.array([False, True]), np.array([0.0, 0.1])
    exact, rounded = (freeze(network, fixed, values, way).network for way in (False, True))
    assert [len(small.hidden) for small in (exact, rounded)] == [2, 1]
    assert exact.layers[1] is network.layers[0]


def test_a_sum_of_two_points_is_one() -> None:
    small = freeze(mixed_network(3, (5, 6, 5, 3)), FIXED, VALUES)
    parts = np.array([[1.0, 2.0, 3.0], [1e-20, 0.0, 0.0]])
    full = small.lift_point(parts)
    assert full.sum(axis=0)[FIXED].tolist() == [0.3, -0.7]
    assert full[:, ~FIXED].tolist() == parts.tolist()


def test_nothing_fixed() -> None:
    network = mixed_network(3, (5, 6, 5, 3))
    assert freeze(network, np.zeros(5, dtype=bool), VALUES).network is network
