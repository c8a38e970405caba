"""Nodes of a search for the largest value: narrowing loses no point above the cutoff."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo import Box, ball
from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.clock import Clock
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.problems.domains import Domain
from lipyomo.search.objectives.context import ValueContext, ValueQuestion
from lipyomo.search.objectives.node import ValueNode
from lipyomo.search.objectives.objective import chosen, narrowed
from networks import random_network


def held(context: ValueContext, nodes: list[ValueNode], points: FloatArray) -> BoolArray:
    """Which points lie in one of some nodes, and have pre-activations in its ranges."""
    z = np.hstack(context.system.network.preactivations(points))
    kinked, found = context.system.kinked, np.zeros(len(points), dtype=bool)
    for node in nodes:
        phases, room = node.phases[: z.shape[1]], 1e-9 * (1.0 + np.abs(z))
        agrees = (phases == OPEN) | ((phases == RIGHT) == (z > 0)) | ~kinked
        ranged = (z <= node.upper[: z.shape[1]] + room) & (z >= node.lower[: z.shape[1]] - room)
        inside = (points >= node.low) & (points <= node.high)
        found |= inside.all(axis=1) & (agrees & (ranged | ~kinked)).all(axis=1)
    return found


@pytest.mark.parametrize("domain", [Box(-1, 1, 3), ball([0.1] * 3, 0.9, "l2")], ids=["box", "ball"])
@pytest.mark.parametrize("seed", range(3))
def test_no_point_above_the_cutoff_is_lost(seed: int, domain: Domain) -> None:
    question = ValueQuestion(random_network(seed, (3, 9, 8, 1), bias=1.0), np.ones(1), domain)
    points = domain.sample(np.random.default_rng(seed), 3000)
    values = question.values(points)
    cutoff = float(np.quantile(values, 0.8))
    points = points[values > cutoff]
    context = ValueContext.of(question).at(cutoff)
    nodes = narrowed(context, [context.whole()], Clock(), is_root=True)
    assert held(context, nodes, points).all()
    most = 1
    for _ in range(5):
        parts = [side for node in nodes for side in chosen(context, node).sides()]
        assert held(context, parts, points).all()
        nodes = narrowed(context, parts, Clock())
        assert held(context, nodes, points).all()
        most = max(most, len(nodes))
    assert most > 4
