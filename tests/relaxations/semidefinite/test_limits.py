"""Time limits and stops bind in every semidefinite method, and leave a valid bound."""

from __future__ import annotations

import time

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network, solve
from lipyomo.problems.result import Status
from lipyomo.problems.settings import Settings
from lipyomo.relaxations.semidefinite.dense import solved_system

METHODS = ("sdp", "eclipse", "lipsdp", "hr1", "hr2", "lipopt")


def large(method: str) -> LipschitzProblem:
    rng = np.random.default_rng(0)
    sizes = (9, 12, 12, 3) if method == "lipopt" else (60, 120, 120, 5)  # it refuses larger ones
    weights = [
        rng.normal(0, np.sqrt(2 / k), (n, k)) for n, k in zip(sizes[1:], sizes[:-1], strict=True)
    ]
    biases = [rng.uniform(-1, 1, n) / np.sqrt(n) for n in sizes[1:]]
    return LipschitzProblem(Network.from_arrays(weights, biases), Box(-1, 1, sizes[0]))


@pytest.mark.parametrize("method", METHODS)
def test_stopped_at_once_there_is_a_bound(method: str) -> None:
    problem = large(method)
    result = solve(problem, method, Settings(should_stop=lambda: True))
    attained = solve(problem, "random_lb", time_limit=0.1).lower
    assert np.isfinite(result.upper)
    assert result.upper >= attained
    assert result.status is Status.INTERRUPTED


@pytest.mark.parametrize("method", METHODS)
def test_limits_bind(method: str) -> None:
    problem = large(method)
    solve(problem, method, time_limit=0.01)  # imports
    began, cpu = time.monotonic(), time.process_time()
    result = solve(problem, method, time_limit=0.5)
    seconds = time.monotonic() - began
    assert np.isfinite(result.upper)
    busy = (time.process_time() - cpu) / seconds  # others may use the machine as well
    assert seconds * min(busy, 1.0) <= 0.5 + 1.5


@pytest.mark.parametrize("method", ["bnb", "sdp", "eclipse", "lipsdp", "hr1", "lipopt"])
def test_requests_are_heard_without_a_limit(method: str) -> None:
    problem = large(method)
    began, start = time.process_time(), time.monotonic()

    def enough() -> bool:  # by the clock: solvers may run in a process of their own
        return time.monotonic() - start > 0.3

    result = solve(problem, method, Settings(should_stop=enough))
    assert time.process_time() - began <= 0.3 + 1.5
    assert np.isfinite(result.upper)


def test_what_overflows_has_no_step() -> None:
    """Slopes that nearly vanish make curvatures beyond float64."""
    hessian = np.array([[np.inf, 0.0], [0.0, 1.0]])
    assert solved_system(np.ones(2), np.ones(2), hessian) is None
