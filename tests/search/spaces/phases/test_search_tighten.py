"""Dual ascent on stacks of nodes: it only narrows, and never loses a point."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.network import Network
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.problems.affine.system import UnitSystem
from lipyomo.problems.domains import Box, Domain, ball
from lipyomo.relaxations.linear.dual_ascent import DualAscent
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.relaxations.linear.preactivation import propagate
from lipyomo.search.spaces.phases.node import WarmStart
from lipyomo.search.spaces.phases.tighten import tighten
from networks import mixed_network


def stack_under(system: UnitSystem, domain: Domain, phases: FloatArray) -> Stack:
    low, high = (np.tile(side, (len(phases), 1)) for side in (domain.lower, domain.upper))
    stack = Stack.unknown(phases, low, high)
    propagate(system.network.hidden, domain, stack, intervals=False)
    return stack


def ascent_of(system: UnitSystem, domain: Domain) -> DualAscent:
    return DualAscent(system.network.hidden, domain, system.weight_errors)


@pytest.mark.parametrize("domain", [Box(-1, 1, 4), ball(np.zeros(4), 1.2, "l2")], ids=str)
def test_a_path_down_the_tree_keeps_its_point(domain: Domain) -> None:
    """Units are decided one by one as a point has them: its pre-activations stay in the bounds."""
    rng = np.random.default_rng(4)
    for seed in range(6):
        network = mixed_network(seed, (4, 8, 7, 6, 2))
        system = UnitSystem(network, np.eye(2), domain)
        z = np.concatenate(network.preactivations(domain.sample(rng, 1)[0]))
        phases = system.root_phases()[None]
        known: list[WarmStart | None] = [None]
        ascent, before = ascent_of(system, domain), np.inf
        for unit in rng.permutation(np.flatnonzero(system.kinked)):
            stack = stack_under(system, domain, phases)
            plain = stack.upper - stack.lower
            known = tighten(ascent, system, stack, known, [None])
            assert stack.alive.all()
            assert (stack.upper - stack.lower <= plain).all()
            assert ((stack.lower[0] <= z) & (z <= stack.upper[0])).all()
            decided = (stack.phases[0] != OPEN) & system.kinked
            assert ((stack.phases[0] == RIGHT) == (z > 0))[decided].all()
            before = min(before, float(np.count_nonzero(stack.phases == OPEN)))
            phases = stack.phases
            if phases[0, unit] == OPEN:
                phases[0, unit] = RIGHT if z[unit] > 0 else LEFT
        assert before < np.count_nonzero(system.kinked)


def test_bounds_that_are_near_to_deciding_their_units_go_on() -> None:
    decided = []
    for is_proof in (True, False):
        count = 0
        for seed in range(6):
            network, domain = mixed_network(seed, (4, 8, 8, 8, 2)), Box(-1, 1, 4)
            system = UnitSystem(network, np.eye(2), domain)
            phases = system.root_phases()[None]
            z = np.concatenate(network.preactivations(np.full(4, 0.5)))
            phases[0, :8] = np.where(system.kinked & (z > 0), RIGHT, phases[0])[:8]
            stack = stack_under(system, domain, phases)
            tighten(ascent_of(system, domain), system, stack, [None], [None], is_proof=is_proof)
            assert stack.alive.all()
            count += int(np.count_nonzero(stack.phases == OPEN))
        decided.append(count)
    assert decided[1] < decided[0]


def test_children_go_on_from_their_parent() -> None:
    """With a parent's multipliers, bounds are tighter than from scratch with as many steps."""
    system_network = mixed_network(2, (6, 12, 12, 10, 2))
    domain = Box(-1, 1, 6)
    system = UnitSystem(system_network, np.eye(2), domain)
    phases = system.root_phases()[None]
    parent = stack_under(system, domain, phases)
    ascent = ascent_of(system, domain)
    (known,) = tighten(ascent, system, parent, [None], [None], is_proof=True)
    assert known is not None
    child = parent.phases.copy()
    child[0, int(np.flatnonzero(child[0] == OPEN)[0])] = RIGHT
    widths = []
    for inherited in (known, WarmStart(child[0], known.keys[:0], known.values[:0])):
        stack = stack_under(system, domain, child)
        tighten(ascent, system, stack, [inherited], [None], is_proof=True)
        widths.append(float((stack.upper - stack.lower).sum()))
    assert widths[0] < widths[1]


def test_an_impossible_decision_closes_its_node() -> None:
    """relu(x + 1/2) > 1 says x > 1/2; the unit of x - 1/4 cannot be left, whichever came first."""
    network = Network.from_arrays(
        [[[1.0], [1.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]]],
        [np.array([0.5, -0.25]), np.array([-1.0, -10.0]), np.zeros(1)],
    )
    domain = Box(-1, 1, 1)
    system = UnitSystem(network, np.ones((1, 1)), domain)
    before = WarmStart(system.root_phases(), np.zeros(0, np.int64), np.zeros((0, 4), np.float16))
    phases = np.array([[OPEN, LEFT, RIGHT, LEFT], [OPEN, RIGHT, RIGHT, LEFT]], dtype=np.int8)
    stack = stack_under(system, domain, phases)
    tighten(ascent_of(system, domain), system, stack, [before, before], [None, None])
    assert stack.alive.tolist() == [False, True]
