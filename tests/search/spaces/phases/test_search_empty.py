"""What the step that decides emptiness claims: never more than a program or exact numbers say."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem
from lipyomo.base.clock import Clock
from lipyomo.networks.network import Network
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.primal.regions import examine
from lipyomo.primal.regions.margin import UNKNOWN
from lipyomo.primal.regions.partial import RegionProgram
from lipyomo.primal.regions.replay import exact_gradients
from lipyomo.search.spaces.phases.context import PhaseContext, PhaseQuestion
from lipyomo.search.spaces.phases.examine import Workspace as Steps
from lipyomo.search.spaces.phases.examine import finished_part, with_interior
from lipyomo.search.spaces.phases.node import Child, PhaseNode, Watch
from lipyomo.search.spaces.phases.points import Points
from lipyomo.search.spaces.phases.statistics import Statistics
from networks import random_network


class Workspace:
    """A problem, and what the step needs."""

    def __init__(self, seed: int, cancels: bool = False) -> None:
        network = _cancelling(seed) if cancels else random_network(seed, (3, 6, 5, 1), bias=1.0)
        self.problem = LipschitzProblem(network, Box(-1, 1, 3))
        self.context = PhaseContext.of(PhaseQuestion(self.problem))
        self.points = Points(self.context, np.random.default_rng(seed))
        self.statistics = Statistics.nothing(self.context.system.count)

    def part(self, phases: np.ndarray) -> Child:
        """The part of the whole with some phases, of which nothing is known."""
        system, domain = self.context.system, self.problem.domain
        ends, unknown = np.full(system.count, np.inf), np.array([np.inf])
        node = PhaseNode(
            phases=phases.astype(np.int8),
            lower=-ends,
            upper=ends,
            low=domain.lower,
            high=domain.upper,
            targets=np.array([0]),
            target_bounds=unknown,
            proved=unknown,
        )
        return Child(node, node, system.form(node.phases))

    def pattern(self, point: np.ndarray) -> np.ndarray:
        """The phases of all units at a point."""
        return np.where(np.concatenate(self.problem.network.pattern(point)), RIGHT, LEFT)


def _cancelling(seed: int) -> Network:
    """All units are on, and what they pass on cancels but for a ten-thousandth."""
    rng = np.random.default_rng(seed)
    first, wanted = rng.standard_normal((8, 3)), rng.standard_normal((3, 1))
    null = np.linalg.svd(first.T)[2][3:].sum(axis=0)
    last = 1e4 * null + np.linalg.lstsq(first.T, wanted, rcond=None)[0].ravel()
    return Network.from_arrays([first, last[None]], [np.full(8, 100.0), np.zeros(1)])


class _Unsure:
    """A program that fails."""

    solved = 0

    def examine(self, *_: Any) -> Any:
        return UNKNOWN


def test_parts_of_which_nothing_is_known_stay_open() -> None:
    workspace = Workspace(0)
    part = workspace.part(np.full(workspace.context.system.count, OPEN))
    region: Any = _Unsure()
    steps = Steps(workspace.context, workspace.points, region, Watch(Clock(), lambda: None))
    (after,), _ = with_interior(steps, [part], [True], workspace.statistics)
    assert after.is_open
    assert not after.fathomed


@pytest.mark.parametrize("cancels", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_full_pattern_that_points_have_is_worth_its_gradient(seed: int, cancels: bool) -> None:
    """In rational numbers, and it is attained."""
    workspace = Workspace(seed, cancels)
    problem, points = workspace.problem, workspace.points
    region = RegionProgram(workspace.context.system, problem.domain)
    for x in problem.domain.sample(np.random.default_rng(seed), 8):
        part = workspace.part(workspace.pattern(x))
        pattern = workspace.context.pattern(part.node.phases)
        (row,) = exact_gradients(problem.network, pattern, np.ones((1, 1)), np.ones(3, dtype=bool))
        value = sum(abs(Fraction(int(entry.p), int(entry.q))) for entry in row)
        steps = Steps(workspace.context, points, region, Watch(Clock(), lambda: None))
        (same,), _ = with_interior(steps, [part], [True], workspace.statistics)
        assert same.is_open
        after, _ = finished_part(workspace.context, part, workspace.statistics, points)
        assert not after.is_open
        assert Fraction(after.closed) >= value
        assert points.best.value >= float(value) * (1 - 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_a_full_pattern_without_interior_is_worth_nothing(seed: int) -> None:
    workspace, found = Workspace(seed), 0
    problem, rng = workspace.problem, np.random.default_rng(seed)
    for x in problem.domain.sample(rng, 20):
        phases = workspace.pattern(x)
        phases[rng.integers(phases.size)] ^= LEFT ^ RIGHT
        part = workspace.part(phases)
        if examine(problem.network, problem.domain, workspace.context.pattern(phases)).empty:
            after, _ = finished_part(
                workspace.context, part, workspace.statistics, workspace.points
            )
            assert after.closed <= 0.0
            assert not after.is_open
            found += 1
    assert found > 3
    assert workspace.points.best.value == 0.0
