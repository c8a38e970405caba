"""Methods in their own processes: what one of them does harms no other."""

from __future__ import annotations

import sys
import time

import pytest

from lipyomo import Box, LipschitzProblem, Settings, solve
from lipyomo.analyses.compare import compare, default_methods, run, with_errors
from lipyomo.base.errors import MethodError
from networks import random_network


def problem_of(*sizes: int, norm: str = "linf") -> LipschitzProblem:
    return LipschitzProblem(random_network(1, sizes), Box(-1, 1, sizes[0]), norm)


def test_rows_come_with_their_guarantees_and_agree() -> None:
    problem = problem_of(2, 6, 5, 1)
    names = ["random_lb", "fastlip", "bnb", "shor"]
    given = {"random_lb": {"samples": 1}}
    settings = Settings(seed=3)
    found = compare(problem, names, time_limit=30, jobs=2, options=given, settings=settings)
    rows = {row.method: row for row in found}
    assert set(rows) == set(names)
    assert rows["bnb"].status == "exact"
    assert rows["shor"].status == "refused"
    assert "hr1" in rows["shor"].message
    assert rows["shor"].value is None
    assert rows["random_lb"].lower <= rows["bnb"].upper * (1 + 1e-9)
    alone = solve(problem, "random_lb", options=given["random_lb"], seed=3)
    assert rows["random_lb"].lower == alone.lower  # options and seed reach the method
    assert rows["bnb"].lower <= rows["fastlip"].upper * (1 + 1e-9)
    errors = {row.method: row.error for row in with_errors(list(rows.values()))}
    assert errors["bnb"] == 0.0
    assert errors["fastlip"] is not None
    assert errors["fastlip"] >= 0.0


def test_wrong_words_are_errors_at_once() -> None:
    problem = problem_of(2, 3, 1)
    with pytest.raises(MethodError, match="unknown method"):
        compare(problem, ["guess"])
    with pytest.raises(MethodError, match="not compared"):
        compare(problem, ["naive"], options={"clever": {"batches": 3}})


def test_a_method_that_does_not_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "GRACE", -0.2)  # patience ends before any method's own limit
    problem = problem_of(20, 120, 120, 1)
    options = {"clever": {"batch_size": 150_000}}
    began = time.monotonic()
    (row,) = compare(problem, ["clever"], time_limit=0.3, options=options)
    assert row.status == "killed"
    assert "0.3 s" in row.message
    assert 0.1 <= row.seconds < 3.0
    assert time.monotonic() - began < 60.0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs RLIMIT_AS")
def test_a_method_that_eats_memory_fails_alone() -> None:
    problem = problem_of(20, 100, 100, 1)
    rows = {
        row.method: row
        for row in compare(
            problem,
            ["clever", "naive"],
            time_limit=30,
            options={"clever": {"batch_size": 40_000_000, "batches": 3}},
            memory_limit=4 << 30,
        )
    }
    assert rows["clever"].status == "failed"
    assert "memory" in rows["clever"].message
    assert rows["naive"].status == "bounds"


def test_leaving_early_kills_what_runs() -> None:
    problem = problem_of(20, 100, 100, 1)
    options = {"clever": {"batch_size": 100_000, "batches": 100}}
    stream = compare(problem, ["naive", "clever"], time_limit=60, options=options, jobs=2)
    first = next(iter(stream))
    began = time.monotonic()
    stream.close()  # type: ignore[attr-defined]
    assert first.method == "naive"
    assert time.monotonic() - began < 10.0


def test_the_default_methods_can_treat_the_problem() -> None:
    names = default_methods(problem_of(2, 3, 1, norm="l2"))
    assert "bnb" in names
    assert "lipsdp" in names
    assert "mip" not in names
