"""Networks side by side: values, patterns, and regions of all at once."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo import Box, Network
from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer
from lipyomo.primal.regions import interior_point, joint_interior_point, joint_pattern, side_by_side
from networks import mixed_network, random_network

NETWORKS = [
    random_network(0, (3, 5, 4, 2)),
    mixed_network(1, (3, 4, 1)),
    Network.from_arrays([np.ones((2, 3))]),
]


def test_values_and_patterns():
    both = side_by_side(NETWORKS)
    points = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    parts = np.hstack([network.forward(points) for network in NETWORKS])
    np.testing.assert_allclose(both.forward(points), parts, rtol=1e-12)
    for x in points:
        whole = both.pattern(x)
        joined = joint_pattern(NETWORKS, [network.pattern(x) for network in NETWORKS])
        jacobians = [network.jacobian(network.pattern(x)) for network in NETWORKS]
        for pattern in (whole, joined):
            np.testing.assert_allclose(both.jacobian(pattern), np.vstack(jacobians), rtol=1e-12)


def test_interior_points():
    domain = Box(-1, 1, 3)
    x = np.array([0.3, -0.2, 0.7])
    patterns = [network.pattern(x) for network in NETWORKS]
    found = joint_interior_point(NETWORKS, domain, patterns)
    assert found.margin > 0
    for network, pattern in zip(NETWORKS, patterns, strict=True):
        kinked = [layer.kinked for layer in network.hidden]
        for own, want, mask in zip(network.pattern(found.x), pattern, kinked, strict=True):
            assert (own == want)[mask].all()


def test_patterns_that_meet_in_a_face_only():
    domain = Box(-1, 1, 1)
    one = Network.from_arrays([[[1.0]], [[1.0]]])
    two = Network.from_arrays([[[-1.0]], [[1.0]]])
    on = (np.array([True]),)
    for network in (one, two):
        assert interior_point(network, domain, on).margin > 0
    assert joint_interior_point([one, two], domain, [on, on]).margin <= 0


def test_what_does_not_fit():
    with pytest.raises(NetworkError, match=r"inputs of .* differ"):
        side_by_side([NETWORKS[0], random_network(0, (2, 2, 1))])
    with pytest.raises(NetworkError, match="no networks"):
        side_by_side([])
    with pytest.raises(NetworkError, match="patterns"):
        joint_interior_point(NETWORKS, Box(-1, 1, 3), [])


def test_smooth_units_stay_what_they_are_side_by_side():
    rng = np.random.default_rng(0)
    networks = []
    for kind, n in (("tanh", 3), ("silu", 2)):
        units = Layer(
            rng.standard_normal((n, 2)), np.zeros(n), 0.1, 1.0, [Curve(activation(kind), [1])]
        )
        networks.append(Network([units, units.with_map(rng.standard_normal((n, n)), np.ones(n))]))
    networks.append(random_network(1, (2, 3, 1)))
    both = side_by_side(networks)
    points = rng.standard_normal((20, 2))
    parts = np.hstack([network.forward(points) for network in networks])
    assert np.allclose(both.forward(points), parts, rtol=1e-13)
    assert both.activations == {"tanh": 2, "silu": 2}
