"""Ctrl-C where an answer takes many searches: no further one begins, and what is known is told."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

import lipyomo
from interrupts import pressed
from lipyomo import Box, LipschitzProblem, Status
from networks import random_network

HARD = random_network(1, (10, 40, 40, 2))
PARTS = [LipschitzProblem(HARD, Box(-1, 2 + k, 10), output_norm="linf") for k in range(3)]
LIMIT = 120.0
"""Seconds, of which each search takes its share if nothing ends it."""


def constants() -> tuple[Status, bool]:
    found = lipyomo.solve_largest(PARTS, time_limit=LIMIT)
    return found.status, found.lower <= found.upper


def values() -> tuple[Status, bool]:
    found = lipyomo.largest_value(PARTS, time_limit=LIMIT)
    return found.status, found.lower <= found.upper


def derivatives() -> tuple[Status, bool]:
    found = lipyomo.jacobian_ranges(PARTS[0], time_limit=LIMIT)
    ends = (pair for row in found.entries for entry in row for pair in (entry.low, entry.high))
    return found.status, all(low <= high for low, high in ends)


@pytest.mark.parametrize("ask", [constants, values, derivatives])
def test_ctrl_c_ends_all_searches(ask: Callable[[], tuple[Status, bool]]) -> None:
    began = time.monotonic()
    with pressed(1.0):
        status, ordered = ask()
    assert status is Status.INTERRUPTED
    assert ordered
    assert time.monotonic() - began < 0.7 * LIMIT
