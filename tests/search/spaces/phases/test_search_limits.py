"""A search stops where it is told to, with an interval that holds, and repeats itself."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import lipyomo
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Progress, Result, Status
from networks import random_network

HARD = LipschitzProblem(random_network(1, (8, 10, 10, 2)), Box(0, 1, 8), "linf", "cross")
"""More than a hundred nodes."""


@cache
def answer() -> Result:
    """What the search says of it, undisturbed."""
    return lipyomo.solve(HARD, "bnb")


def test_equal_seeds_give_equal_searches() -> None:
    first, second = (lipyomo.solve(HARD, "bnb", seed=3) for _ in range(2))
    assert (first.lower, first.upper, first.nodes) == (second.lower, second.upper, second.nodes)
    assert first.nodes is not None
    assert first.nodes > 20


def test_a_time_limit_leaves_a_valid_interval() -> None:
    exact = answer().lower
    result = lipyomo.solve(HARD, "bnb", time_limit=0.01)
    assert result.status is Status.TIME_LIMIT
    assert result.lower <= exact * (1 + 1e-9)
    assert result.upper >= exact * (1 - 1e-9)


def test_a_gap_ends_early_and_holds() -> None:
    exact = answer()
    result = lipyomo.solve(HARD, "bnb", gap=0.1)
    assert result.nodes is not None
    assert exact.nodes is not None
    assert result.nodes < exact.nodes
    assert result.gap <= 0.1 + 1e-6
    assert result.lower <= exact.lower * (1 + 1e-9) <= result.upper * (1 + 2e-9)


@pytest.mark.parametrize("after", [0, 1, 7])
def test_an_interrupt_keeps_the_interval(after: int) -> None:
    exact = answer().lower
    calls = iter(range(10**9))

    def stop() -> bool:
        if next(calls) >= after:
            raise KeyboardInterrupt
        return False

    result = lipyomo.solve(HARD, "bnb", should_stop=stop)
    assert result.status is Status.INTERRUPTED
    assert result.lower <= exact * (1 + 1e-9)
    assert result.upper >= exact * (1 - 1e-9)


def test_should_stop_is_asked() -> None:
    result = lipyomo.solve(HARD, "bnb", should_stop=lambda: True)
    assert result.status is Status.INTERRUPTED
    assert np.isfinite(result.upper)


def test_history_closes_in_on_the_answer() -> None:
    seen: list[Progress] = []
    result = lipyomo.solve(HARD, "bnb", progress=seen.append)
    lowers = [lower for _, lower, _ in result.history]
    times = [seconds for seconds, _, _ in result.history]
    assert seen
    assert lowers == sorted(lowers)
    assert times == sorted(times)
    assert all(upper >= result.lower * (1 - 1e-9) for _, _, upper in result.history)
