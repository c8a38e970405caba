"""The largest of several constants, and what each of them is."""

from __future__ import annotations

import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem
from lipyomo.analyses.questions.several import solve_largest
from lipyomo.base.errors import ProblemError
from lipyomo.problems.result import Progress, Result, Status
from networks import random_network

NETWORK = random_network(0, (2, 6, 4, 2))
PARTS = [LipschitzProblem(NETWORK, Box([-1 + k, -1], [k, 1]), output_norm="linf") for k in range(3)]


def test_parts_of_a_box_are_the_box() -> None:
    found = solve_largest(PARTS)
    whole = lipyomo.solve(LipschitzProblem(NETWORK, Box([-1, -1], [2, 1]), output_norm="linf"))
    assert found.is_exact
    assert found.lower == pytest.approx(whole.lower, rel=2e-6)
    alone = [lipyomo.solve(problem) for problem in PARTS]
    assert [part["lower"] for part in found.details["parts"]] == [one.lower for one in alone]
    best = found.details["part"]
    assert found.lower == max(one.lower for one in alone) == alone[best].lower
    assert found.witness is not None
    assert PARTS[best].domain.holds_inside(found.witness.x)
    assert Result.from_dict(found.to_dict()) == found


def test_one_part_is_a_problem() -> None:
    assert solve_largest(PARTS[:1]).lower == lipyomo.solve(PARTS[0]).lower


def test_progress_tells_what_holds_for_all() -> None:
    told: list[Progress] = []
    found = solve_largest(PARTS, progress=told.append)
    assert told
    for now in told:
        assert now.lower <= found.upper * (1 + 1e-9)
        assert now.upper >= found.lower * (1 - 1e-9)
        assert "of 3" in now.message
    assert [row[0] for row in found.history] == sorted(row[0] for row in found.history)


def test_limits_bind_all_together() -> None:
    hard = random_network(1, (10, 40, 40, 2))
    parts = [LipschitzProblem(hard, Box(-1, 1 + k, 10), output_norm="linf") for k in range(4)]
    found = solve_largest(parts, time_limit=0.4)
    assert found.seconds < 6.0
    assert found.status is Status.TIME_LIMIT
    assert found.upper >= max(part["lower"] for part in found.details["parts"])
    stopped = solve_largest(parts, should_stop=lambda: True)
    assert stopped.status is Status.INTERRUPTED
    assert stopped.lower <= stopped.upper


def test_bounds_stay_bounds() -> None:
    found = solve_largest(PARTS, "naive")
    assert found.status is Status.BOUNDS
    assert found.upper == max(lipyomo.solve(one, "naive", attain=False).upper for one in PARTS)


def test_what_makes_no_sense() -> None:
    with pytest.raises(ProblemError, match="no problem"):
        solve_largest([])
