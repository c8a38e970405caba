"""How a run of the method mip is stopped, what it reports, and what it does not believe."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Status
from lipyomo.mip import cells
from networks import random_network


@pytest.fixture(scope="module")
def hard():
    """A problem that takes minutes."""
    return LipschitzProblem(random_network(2, (12, 24, 24, 1)), Box(-1, 1, 12))


@pytest.fixture(scope="module")
def easy():
    return LipschitzProblem(random_network(7, (4, 6, 5, 1)), Box(-1, 1, 4))


def run(problem, **changes):
    return lipyomo.solve(problem, "mip", solver="highs", workers=1, **changes)


def test_time_limit_leaves_an_interval(hard):
    result = run(hard, time_limit=2.0)
    assert result.status is Status.TIME_LIMIT
    assert 0 < result.lower < result.upper < math.inf
    assert result.seconds < 6.0
    assert result.witness.value == result.lower


def test_tiny_time_limit_still_bounds(hard):
    result = run(hard, time_limit=1e-3)
    assert result.status is Status.TIME_LIMIT
    assert 0 <= result.lower <= result.upper < math.inf


def test_gap_is_kept(easy):
    exact = run(easy)
    loose = run(easy, gap=0.5)
    assert loose.gap <= 0.5
    assert loose.lower <= exact.upper * (1 + 1e-9)
    assert loose.upper >= exact.lower * (1 - 1e-9)


def test_stop_request_ends_the_run(hard):
    calls = []

    def stop():
        calls.append(None)
        return len(calls) > 60

    result = run(hard, should_stop=stop)
    assert result.status is Status.INTERRUPTED
    assert 0 <= result.lower < result.upper


def test_interrupt_gives_the_best_interval(hard):
    def progress(report):
        if report.lower > 0:
            raise KeyboardInterrupt

    result = run(hard, progress=progress)
    assert result.status is Status.INTERRUPTED
    assert 0 < result.lower < result.upper < math.inf


def test_progress_and_history_narrow(easy):
    reports = []
    result = run(easy, progress=reports.append)
    assert result.status is Status.EXACT
    for rows in ([(p.lower, p.upper) for p in reports], [row[1:] for row in result.history]):
        lowers, uppers = zip(*rows, strict=True)
        assert list(lowers) == sorted(lowers)
        assert list(uppers) == sorted(uppers, reverse=True)
    assert result.history[-1][1:] == (result.lower, result.upper)


def test_result_says_how(easy):
    result = run(easy, formulation="tangent", bounds="linear")
    assert (result.method, result.formulation, result.solver) == ("mip", "tangent", "highs")
    assert result.bounds == "linear"
    assert 0 < result.unstable <= 11
    assert result.details["models"] >= 1
    assert result.details["interval_bound"] >= result.upper


def test_frozen_inputs_are_named(easy):
    network = random_network(7, (3, 6, 4, 1))
    low, high = np.array([-1.0, 0.25, -1.0]), np.array([1.0, 0.25, 1.0])
    result = run(LipschitzProblem(network, Box(low, high)))
    assert result.status is Status.EXACT
    assert result.witness.x[1] == 0.25
    assert result.witness.direction[1] == 0.0
    assert any("eliminated" in warning for warning in result.warnings)


def test_vertices_are_bounded_together():
    """As many cells as vertices, with the bounds that each has by itself."""
    small = LipschitzProblem(random_network(1, (3, 6, 6, 4)), Box(-1, 1, 3), output_norm="cross")
    root = cells.whole_cell(small, "linear", None)
    alone = []
    for y in root.vertices:
        one = dataclasses.replace(root, vertices=y[None, :])
        alone.append(cells.measured(small, one, 0.0).upper)
    parts = cells.by_functional(small, root)
    assert len(parts) == len(root.vertices)
    np.testing.assert_allclose([part.upper for part in parts], np.minimum(alone, root.upper))
    assert max(alone) > min(alone)


def test_no_half_is_bounded_once_time_is_over():
    small = LipschitzProblem(random_network(1, (2, 12, 12, 1)), Box(-1, 1, 2))
    root = cells.whole_cell(small, "linear", None)

    def parts(most):
        polls = iter(range(10**9))
        return cells.partition(small, root, 0.0, "auto", lambda: next(polls) >= most)

    counts = [len(parts(most)) for most in (0, 1, 4, 10, 20, 10**9)]
    assert counts[0] == 1
    assert counts == sorted(counts)
    assert counts[-1] > counts[1]
