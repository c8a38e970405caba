"""Pairs of units whose sides exclude each other: no point of the domain has both."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.base.arrays import BoolArray
from lipyomo.networks.phases import OPEN
from lipyomo.problems.affine.system import UnitSystem
from lipyomo.problems.domains import Box, Domain, ball
from lipyomo.relaxations.linear.dual_ascent import DualAscent
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.relaxations.linear.pairs import Pairs, find_pairs
from lipyomo.relaxations.linear.preactivation import propagate
from networks import mixed_network, random_network


def pairs_and_sides(seed: int, domain: Domain, mixed: bool) -> tuple[Stack, Pairs, BoolArray]:
    """The root of a network, its pairs, and the sides of the units at many points."""
    make = mixed_network if mixed else random_network
    network = make(seed, (3, 12, 10, 2))
    system = UnitSystem(network, np.eye(2), domain)
    low, high = domain.lower[None], domain.upper[None]
    stack = Stack.unknown(system.root_phases()[None], low, high)
    propagate(network.hidden, domain, stack)
    points = domain.sample(np.random.default_rng(seed), 4000)
    on = np.concatenate(network.preactivations(points), axis=1) > 0
    return stack, find_pairs(DualAscent(network.hidden, domain), stack, on[:20]), on


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("domain", [Box(0.2, 0.9, 3), ball(np.ones(3), 0.7, "l2")], ids=str)
def test_no_point_has_both_sides(domain: Domain, mixed: bool) -> None:
    found = 0
    for seed in range(8):
        stack, pairs, on = pairs_and_sides(seed, domain, mixed)
        found += pairs.count
        first, second = on[:, pairs.first], on[:, pairs.second]
        assert not (first & (second == pairs.exclusive)).any()
        assert (stack.phases[0][pairs.first] == OPEN).all()
    assert found > 20


def test_pairs_among_some_units_by_their_places() -> None:
    stack, pairs, _ = pairs_and_sides(3, Box(0.2, 0.9, 3), mixed=False)
    assert set(pairs.exclusive.tolist()) == {False, True}
    units = np.flatnonzero(stack.phases[0] == OPEN)
    places = pairs.among(units)
    assert (units[places.first] == pairs.first).all()
    assert (units[places.second] == pairs.second).all()
    i, j = int(pairs.first[0]), int(pairs.second[0])
    both = pairs.among(np.array(sorted([i, j])))
    assert both.count >= 1
    assert pairs.among(np.array([i])).count == 0
