"""Several processes find the same answer, repeat themselves, and may die."""

from __future__ import annotations

import numpy as np
import pytest

import lipyomo
from lipyomo.bnb import driver
from lipyomo.bnb.driver import Search
from lipyomo.bnb.parallel import Workers, can_fork
from lipyomo.domains import Box
from lipyomo.phases import OPEN, RIGHT
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Status
from lipyomo.settings import Settings
from networks import random_network

pytestmark = pytest.mark.skipif(not can_fork(), reason="this platform cannot fork")

PROBLEM = LipschitzProblem(random_network(1, (8, 10, 10, 2)), Box(0, 1, 8), "linf", "cross")


@pytest.fixture(autouse=True)
def _early_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "PARALLEL_AFTER", 10)


def test_two_processes_find_the_same_constant_twice_in_the_same_way() -> None:
    alone = lipyomo.solve(PROBLEM, "bnb")
    first, second = (lipyomo.solve(PROBLEM, "bnb", threads=2) for _ in range(2))
    assert first.status is Status.EXACT
    assert first.lower == pytest.approx(alone.lower, rel=1e-9)
    assert first.upper >= alone.lower * (1 - 1e-9)
    assert (first.lower, first.upper, first.nodes) == (second.lower, second.upper, second.nodes)


def test_leaves_of_all_processes_cover_the_domain() -> None:
    search = Search(PROBLEM, Settings(threads=2), record=True)
    outcome = search.run()
    assert outcome.status is Status.EXACT
    leaves = search.tree.leaves
    assert leaves
    phases = np.stack([node.phases for node, _ in leaves])
    bounds = np.array([bound for _, bound in leaves])
    points = PROBLEM.domain.sample(np.random.default_rng(5), 300)
    patterns = np.hstack(PROBLEM.network.pattern(points))
    for x, on in zip(points, patterns, strict=True):
        holds = ((phases == OPEN) | ((phases == RIGHT) == on)).all(axis=1)
        assert holds.any()
        assert bounds[holds].max() >= PROBLEM.value_at(x).value * (1 - 1e-9)


def test_a_dead_worker_does_not_cost_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Workers.round

    def deadly(self: Workers, *arguments: object) -> object:
        self._processes[0].kill()
        self._processes[0].join()
        return original(self, *arguments)

    monkeypatch.setattr(Workers, "round", deadly)
    result = lipyomo.solve(PROBLEM, "bnb", threads=2)
    assert result.status is Status.EXACT
    assert result.lower == pytest.approx(lipyomo.solve(PROBLEM, "bnb").lower, rel=1e-9)


def test_an_interrupt_in_a_round_keeps_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Workers, *arguments: object) -> None:
        raise KeyboardInterrupt

    exact = lipyomo.solve(PROBLEM, "bnb").lower
    monkeypatch.setattr(Workers, "round", interrupted)
    result = lipyomo.solve(PROBLEM, "bnb", threads=2)
    assert result.status is Status.INTERRUPTED
    assert result.lower <= exact * (1 + 1e-9)
    assert result.upper >= exact * (1 - 1e-9)
