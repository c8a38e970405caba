"""Pairs of units whose sides exclude each other: no point of the domain has both."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.affine.system import UnitSystem
from lipyomo.bounds.dual_ascent import DualAscent
from lipyomo.bounds.pairs import Pairs, find_pairs
from lipyomo.bounds.preactivation import propagate, within
from lipyomo.bounds.stack import Stack
from lipyomo.domains import Box, Domain, ball
from lipyomo.network import BoolArray
from lipyomo.phases import LEFT, OPEN, RIGHT
from networks import mixed_network, random_network


def pairs_and_sides(seed: int, domain: Domain, mixed: bool) -> tuple[Stack, Pairs, BoolArray]:
    """The root of a network, its pairs, and the sides of the units at many points."""
    make = mixed_network if mixed else random_network
    network = make(seed, (3, 12, 10, 2))
    system = UnitSystem(network, np.eye(2), domain)
    low, high = domain.lower[None], domain.upper[None]
    stack = Stack.unknown(system.root_phases()[None], low, high)
    propagate(network.hidden, within(domain, low, high), stack)
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


def test_pairs_decide_as_points_have_it_and_close_the_rest() -> None:
    stack, pairs, on = pairs_and_sides(3, Box(0.2, 0.9, 3), mixed=False)
    assert set(pairs.exclusive.tolist()) == {False, True}
    rng, some = np.random.default_rng(0), on[:200]
    still = (stack.phases[0] == OPEN) & (rng.random(some.shape) < 0.7)
    phases = np.where(still, OPEN, np.where(some, RIGHT, LEFT)).astype(np.int8)
    wide = np.ones(some.shape)
    many = Stack(phases, -wide, wide, wide[:, :3], wide[:, :3], np.ones(200, dtype=bool))
    pairs.settle(many)
    assert many.alive.all()
    assert (many.phases == OPEN).sum() < still.sum()
    decided = many.phases != OPEN
    assert ((many.phases == RIGHT) == some)[decided].all()
    i, j, exclusive = pairs.first[0], pairs.second[0], pairs.exclusive[0]
    bad = stack.take(np.array([0]))
    bad.phases[0, [i, j]] = RIGHT, RIGHT if exclusive else LEFT
    pairs.settle(bad)
    assert not bad.alive[0]
    places = pairs.among(np.flatnonzero(stack.phases[0] == OPEN))
    assert places.count == pairs.count
    assert pairs.among(np.array([i, j]) if i < j else np.array([j, i])).count >= 1
