"""Which kinks bound a region: those of flips that exist come before the others."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.base.arrays import BoolArray
from lipyomo.networks.network import Network
from lipyomo.primal.heuristics.facets import leverages
from lipyomo.primal.heuristics.walks import deep_points
from lipyomo.problems.domains import AllSpace, Box, Domain, Polytope
from networks import mixed_network, random_network


def exist(network: Network, domain: Domain, x: np.ndarray) -> BoolArray:
    """Whether a region with one unit flipped exists, by unit."""
    whole = np.concatenate([on[0] for on in network.pattern(x[None])])
    flipped = whole ^ np.eye(whole.size, dtype=bool)
    sizes = [layer.units for layer in network.hidden]
    patterns = np.split(flipped, np.cumsum(sizes)[:-1], axis=1)
    return deep_points(network, domain, patterns, np.repeat(x[None], whole.size, axis=0))[1]


def test_an_interval_ends_at_the_nearest_kinks() -> None:
    kinks = np.array([0.2, 0.4, 0.7, 0.9])
    network = Network.from_arrays([np.ones((4, 1)), np.ones((1, 4))], [-kinks, np.zeros(1)])
    found = leverages(network, Box(0, 1, 1), np.array([0.5]))
    assert set(np.argsort(-found)[:2]) == {1, 2}
    assert found.sum() < 1.0  # faces have the rest


@pytest.mark.parametrize("shape", [(3, 20, 15, 2), (40, 12, 10, 2)])
def test_flips_that_exist_come_first(shape: tuple[int, ...]) -> None:
    """Few inputs and many: both ways to compute them."""
    shares = []
    for seed in range(4):
        network = random_network(seed, shape)
        x = np.random.default_rng(seed).uniform(0.2, 0.8, shape[0])
        domain = Box(x - 0.2, x + 0.2)
        there = exist(network, domain, x)
        first = np.argsort(-leverages(network, domain, x))[: there.sum()]
        shares.append(there[first].mean() if there.any() else 1.0)
    assert np.mean(shares) > 0.8


@pytest.mark.parametrize(
    "domain",
    [
        AllSpace(3),
        Box(np.zeros(3), np.array([1.0, 1e-9, np.inf])),
        Polytope(np.vstack([np.ones(3), -np.eye(3)]), np.array([1.0, 0.2, 0.2, 0.2])),
    ],
    ids=["all of space", "thin and open", "simplex"],
)
def test_they_are_shares_on_all_domains(domain: Domain) -> None:
    network = mixed_network(0, (3, 4, 3, 2))
    found = leverages(network, domain, domain.center)
    assert ((found >= 0) & (found <= 1)).all()
    at_kink = Network.from_arrays([np.eye(3), np.ones((1, 3))], [-domain.center, np.zeros(1)])
    assert np.isfinite(leverages(at_kink, domain, domain.center)).all()


def test_numbers_that_overflow_are_no_error() -> None:
    huge = Network.from_arrays(
        [np.full((3, 3), 1e200), np.full((1, 3), 1e200)], [np.zeros(3), [0.0]]
    )
    deep = Network.from_arrays([huge.hidden[0].weight] * 2, [np.zeros(3)] * 2)
    for network in (huge, deep):
        found = leverages(network, Box(-1e200, 1e200, 3), np.array([1e-3, 0.1, 1e150]))
        assert ((found >= 0) & (found <= 1)).all()
