"""Pre-activation bounds of networks with smooth units hold, and back-substitution tightens them."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo import AllSpace, Box, Polytope, ball
from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer, Network
from lipyomo.networks.phases import open_phases
from lipyomo.relaxations.linear import preactivation_bounds

KINDS = (
    activation("tanh"),
    activation("softplus"),
    activation("gelu"),
    activation("elu", alpha=0.5),
    activation("hard_swish"),
    activation("sin"),
)


def network_of(seed: int, scale: float = 1.0) -> Network:
    """Three hidden layers of two kinds of smooth units and LeakyReLUs each."""
    rng = np.random.default_rng(seed)
    layers = []
    for k, n in ((3, 6), (6, 5), (5, 4)):
        first, second = rng.choice(len(KINDS), 2, replace=False)
        curves = Curve(KINDS[first], [0, 2]), Curve(KINDS[second], [1])
        weight = scale * rng.standard_normal((n, k)) / np.sqrt(k)
        layers.append(Layer(weight, 0.5 * rng.standard_normal(n), 0.1, 1.0, curves))
    return Network([*layers, Layer(np.ones((1, 4)), [0.0])])


DOMAINS = {
    "box": Box(-np.ones(3), np.array([1.0, 0.5, 2.0])),
    "point": Box(np.full(3, 0.3), np.full(3, 0.3)),
    "tiny": Box(np.full(3, 0.3), np.full(3, 0.3 + 1e-12)),
    "ball": ball(np.zeros(3), 1.0, "l2"),
    "cross": ball(np.array([1.0, 0.0, -1.0]), 0.5, "l1"),
    "polytope": Polytope([[1.0, 1.0, 1.0]], [0.5], -np.ones(3), np.ones(3)),
}


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("scale", [1.0, 1e-6, 30.0])
def test_samples_lie_inside(name, scale):
    domain = DOMAINS[name]
    for seed in range(4):
        network = network_of(seed, scale)
        points = domain.sample(np.random.default_rng(0), 400)
        values = network.preactivations(points)
        for relaxation in ("interval", "linear"):
            found = preactivation_bounds(network, domain, relaxation=relaxation)
            assert not found.empty
            for z, low, high in zip(values, found.lower, found.upper, strict=True):
                room = 1e-13 * (1.0 + np.abs(z).max())
                assert (low - room <= z.min(axis=0)).all()
                assert (z.max(axis=0) <= high + room).all()


def test_back_substitution_tightens():
    shares = []
    for seed in range(5):
        network, domain = network_of(seed), Box(np.full(3, -0.2), np.full(3, 0.2))
        rough = preactivation_bounds(network, domain, relaxation="interval")
        fine = preactivation_bounds(network, domain)
        for i in (1, 2):
            width = fine.upper[i] - fine.lower[i]
            assert (width <= (rough.upper[i] - rough.lower[i]) * (1 + 1e-12)).all()
            shares += list(width / (rough.upper[i] - rough.lower[i]))
    assert np.median(shares) < 0.8


def test_a_ball_is_more_than_its_box():
    network, inside = network_of(0), DOMAINS["ball"]
    ours = preactivation_bounds(network, inside)
    theirs = preactivation_bounds(network, Box(inside.lower, inside.upper))
    assert (ours.upper[0] - ours.lower[0] < 0.99 * (theirs.upper[0] - theirs.lower[0])).all()


def test_unbounded_domains_have_what_saturates():
    layers = [
        Layer(np.eye(2), [0.0, 0.0], curves=[Curve(activation("tanh"), [0, 1])]),
        Layer([[1.0, 2.0]], [0.5], 0.0, 1.0),
        Layer([[1.0]], [0.0]),
    ]
    found = preactivation_bounds(Network(layers), AllSpace(2))
    assert np.isinf(found.upper[0]).all()
    assert found.lower[1] == pytest.approx(-2.5, abs=1e-9)
    assert found.upper[1] == pytest.approx(3.5, abs=1e-9)


def test_phases_are_refused():
    network = network_of(0)
    with pytest.raises(NetworkError, match="phases is for piecewise-linear"):
        preactivation_bounds(network, DOMAINS["box"], open_phases(network))
