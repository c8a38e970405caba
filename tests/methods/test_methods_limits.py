"""Every method ends soon after its time is over, or after a request, with ends that hold.

Time is the processor's here, so that a busy machine changes nothing, and solvers have one thread:
the time of all of them counts, that of threads that wait for others as well.
"""

from __future__ import annotations

import time

import highspy  # noqa: F401 - these limits are the methods' own: imports come first
import numpy as np
import pyomo.environ  # noqa: F401
import pytest

from lipyomo import Box, LipschitzProblem, Network, Settings, Status
from lipyomo.base.clock import Clock
from lipyomo.methods.registry import finished, methods
from lipyomo.primal.heuristics.evaluate import point_norms
from lipyomo.problems.run import Run
from networks import random_network

LIMIT, GRACE = 0.2, 1.0
"""Processor seconds."""
PATIENCE = 1.5
"""Seconds on the clock: a method that waits for another process takes none of the processor's."""


@pytest.fixture(scope="module")
def problems() -> list[LipschitzProblem]:
    """Problems that keep every method busy, for methods of one layer and of one output too."""
    rng = np.random.default_rng(0)
    deep = random_network(3, (30, 80, 80, 3))
    wide = Network.from_arrays(
        [rng.standard_normal((150, 40)), rng.standard_normal((1, 150))],
        [rng.standard_normal(150), np.zeros(1)],
    )
    return [
        LipschitzProblem(deep, Box(-1, 1, 30)),
        LipschitzProblem(deep, Box(-1, 1, 30), output_norm="cross"),
        LipschitzProblem(deep, Box(-1, 1, 30), "l2", "l2"),
        LipschitzProblem(wide, Box(-1, 1, 40)),
        LipschitzProblem(wide, Box(-1, 1, 40), "l2"),
    ]


def problem_for(name: str, problems: list[LipschitzProblem]) -> LipschitzProblem:
    if name == "lipopt":  # its programs grow with a power of the number of unstable units
        return LipschitzProblem(random_network(3, (8, 20, 1)), Box(-1, 1, 8))
    return next(each for each in problems if methods()[name].refusal(each) is None)


@pytest.mark.slow
@pytest.mark.parametrize("name", methods())
def test_limits_bind(name, problems):
    problem = problem_for(name, problems)
    settings = Settings(time_limit=LIMIT, workers=1)
    guarantee = methods()[name].guarantee
    run = Run(problem, settings, name, guarantee, Clock(LIMIT, now=time.process_time))
    began = time.process_time()
    result = finished(methods()[name], run)
    assert time.process_time() - began <= LIMIT + GRACE
    assert 0 <= result.lower <= result.upper
    points = problem.domain.sample(np.random.default_rng(1), 50)
    assert point_norms(problem, points)[0].max() <= result.upper


@pytest.mark.slow
@pytest.mark.parametrize("name", methods())
def test_requests_to_stop_are_heard(name, problems):
    problem = problem_for(name, problems)
    began, started = time.process_time(), time.monotonic()

    def enough() -> bool:
        waited = time.monotonic() - started > PATIENCE
        return waited or time.process_time() - began > LIMIT

    settings = Settings(should_stop=enough, workers=1)
    result = finished(methods()[name], Run(problem, settings, name, methods()[name].guarantee))
    assert time.process_time() - began <= LIMIT + GRACE
    assert result.lower <= result.upper
    assert result.status in (Status.INTERRUPTED, Status.BOUNDS, Status.EXACT, Status.GAP)
