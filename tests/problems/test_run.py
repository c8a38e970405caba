"""The state of a run: what it promises about clock, interval, status and history."""

from __future__ import annotations

import math
import subprocess
import sys
import time

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network, Settings, Status, Witness, solve
from lipyomo.base.clock import Clock
from lipyomo.methods.registry import Method, finished
from lipyomo.primal.regions import make_witness
from lipyomo.problems.result import Guarantee, Progress, Result
from lipyomo.problems.run import PROVED, Run


class Hand:
    """A clock that somebody moves by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def problem() -> LipschitzProblem:
    """|f'| is 2 right of the origin, 1 left of it."""
    network = Network.from_arrays([[[2.0], [-1.0]], [[1.0, 1.0]]])
    return LipschitzProblem(network, Box(-1, 1, 1))


def witness(problem: LipschitzProblem, x: float) -> Witness:
    found = make_witness(problem, np.array([x]))
    assert found is not None
    return found


def test_a_clock_ends_at_its_limit() -> None:
    hand = Hand()
    clock = Clock(5.0, now=hand)
    hand.now += 4.0
    assert not clock.expired
    assert clock.left == pytest.approx(1.0)
    hand.now += 1.0
    assert clock.expired
    assert clock.left == 0.0


def test_a_clock_may_have_begun_before() -> None:
    hand = Hand()
    clock = Clock(5.0, began=hand.now - 4.0, now=hand)
    assert clock.left == pytest.approx(1.0)


def test_a_stop_is_remembered() -> None:
    answers = iter([False, True, False])
    clock = Clock(should_stop=lambda: next(answers))
    assert [clock.interrupted for _ in range(4)] == [False, True, True, True]


def test_a_part_ends_with_the_whole() -> None:
    hand = Hand()
    whole = Clock(5.0, now=hand)
    short, long = whole.within(1.0), whole.within(60.0)
    hand.now += 2.0
    assert short.expired
    assert not long.expired
    hand.now += 3.0
    assert long.expired
    assert not long.interrupted


def test_stopping_the_whole_stops_its_parts() -> None:
    whole = Clock()
    part = whole.within(10.0)
    whole.stop()
    assert part.interrupted


def test_what_does_not_fit_is_remembered() -> None:
    hand = Hand()
    whole = Clock(5.0, now=hand)
    assert whole.fits(1e-6)
    assert whole.within(1.0).fits(1e-6)
    assert not whole.curtailed
    inner = whole.within(4.0).within(1e-3)
    assert not inner.fits(1.0)
    assert inner.curtailed
    assert whole.curtailed
    assert inner.fits(1.0, grace=1e3)
    assert Clock().fits(1e9)


def test_work_ends_with_the_clock_and_not_by_waiting() -> None:
    """What methods are compared by does not grow while others have the processor."""
    hand = Hand()
    clock = Clock(1e6, now=hand)
    work = clock.working()
    part = work.within(1e7)
    hand.now += 9e5
    assert not part.expired
    assert work.seconds < 9e5
    hand.now += 2e5
    assert part.expired
    assert not part.left


def test_a_method_that_left_something_out_was_ended_by_the_limit(problem: LipschitzProblem) -> None:
    hand = Hand()
    run = Run(problem, guarantee=Guarantee.UPPER, clock=Clock(5.0, now=hand))
    run.drop_upper(5.0)
    assert run.result().status is Status.BOUNDS
    assert not run.clock.fits(1e6)
    assert run.result().status is Status.TIME_LIMIT
    assert run.result(done=True).status is Status.BOUNDS
    run.clock.stop()
    assert run.result().status is Status.INTERRUPTED
    run.raise_lower(witness(problem, 0.5))
    run.drop_upper(2.0)
    assert run.result().status is Status.EXACT


def test_only_better_ends_are_taken(problem: LipschitzProblem) -> None:
    run = Run(problem)
    assert run.raise_lower(witness(problem, -0.5))
    assert run.raise_lower(witness(problem, 0.5))
    assert not run.raise_lower(witness(problem, -0.5))
    assert not run.raise_lower(None)
    assert run.drop_upper(5.0)
    assert not run.drop_upper(6.0)
    assert not run.drop_upper(math.nan)
    assert (run.lower, run.upper) == (2.0, 5.0)


def test_a_closed_interval_is_exact(problem: LipschitzProblem) -> None:
    run = Run(problem)
    run.raise_lower(witness(problem, 0.5))
    run.drop_upper(2.0 * (1 + 1e-12))
    result = run.result()
    assert result.status is Status.EXACT
    assert result.basis == PROVED


def test_nothing_attained_is_not_exact(problem: LipschitzProblem) -> None:
    run = Run(problem)
    run.drop_upper(1e-300)
    assert run.result().status is Status.PRECISION


def test_crossing_ends_are_called_a_defect(problem: LipschitzProblem) -> None:
    run = Run(problem)
    run.raise_lower(witness(problem, 0.5))
    run.drop_upper(1.9)
    result = run.result()
    assert result.status is Status.CONTRADICTION
    assert (result.lower, result.upper) == (2.0, 1.9)
    assert any("defect" in note for note in result.warnings)


def test_no_crossing_of_proved_ends_is_too_small_to_be_told(problem: LipschitzProblem) -> None:
    run = Run(problem)
    run.raise_lower(witness(problem, 0.5))
    run.drop_upper(np.nextafter(2.0, 0.0))
    result = run.result()
    assert result.status is Status.CONTRADICTION
    assert result.lower == 2.0


def test_a_solver_may_be_off_by_its_tolerances(problem: LipschitzProblem) -> None:
    run = Run(problem)
    run.raise_lower(witness(problem, 0.5))
    run.drop_upper(2.5)
    run.drop_upper(2.0 * (1 - 1e-12), "a solver")
    result = run.result()
    assert (result.lower, result.upper) == (2.0, 2.0)
    assert (result.status, result.basis) == (Status.EXACT, "a solver")


def test_a_shown_bound_is_not_relied_upon(problem: LipschitzProblem) -> None:
    told: list[Progress] = []
    run = Run(problem, Settings(progress=told.append))
    run.drop_upper(5.0)
    run.raise_lower(witness(problem, -0.5))
    run.show(3.0, nodes=7)
    result = run.result()
    assert result.upper == 5.0
    assert result.nodes == 7
    assert all(upper >= 5.0 for _, _, upper in result.history)
    assert told[-1].lower == 1.0


@pytest.mark.parametrize(
    ("limit", "stop", "done", "status"),
    [
        (1.0, False, False, Status.TIME_LIMIT),
        (1.0, False, True, Status.PRECISION),
        (9.0, True, False, Status.INTERRUPTED),
        (9.0, False, False, Status.BOUNDS),
    ],
)
def test_the_status_says_what_ended_the_run(
    problem: LipschitzProblem, limit: float, stop: bool, done: bool, status: Status
) -> None:
    hand = Hand()
    run = Run(problem, clock=Clock(limit, lambda: stop, now=hand))
    hand.now += 2.0
    run.raise_lower(witness(problem, 0.5))
    run.drop_upper(5.0)
    assert run.result(done).status is status


def test_ctrl_c_returns_what_was_found(problem: LipschitzProblem) -> None:
    def recipe(run: Run) -> Result:
        run.drop_upper(5.0)
        run.raise_lower(witness(problem, 0.5))
        raise KeyboardInterrupt

    method = Method("patient", "", Guarantee.EXACT, "", recipe)
    result = finished(method, Run(problem, method="patient"))
    assert (result.lower, result.upper) == (2.0, 5.0)
    assert result.status is Status.INTERRUPTED


def test_time_before_the_run_counts(problem: LipschitzProblem) -> None:
    result = solve(problem, started=time.monotonic() - 100.0, time_limit=3600.0)
    assert result.seconds > 100.0
    assert result.is_exact


def test_what_is_done_before_the_run_counts() -> None:
    """Such as imports, which take most of the first call: the limit counts from the call."""
    code = (
        "import time, lipyomo; from lipyomo import Box, LipschitzProblem, Network, solve\n"
        "problem = LipschitzProblem(Network.from_arrays([[[1.0]], [[1.0]]]), Box(-1, 1, 1))\n"
        "began = time.monotonic(); result = solve(problem, time_limit=60.0)\n"
        "print(result.seconds, time.monotonic() - began)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said, whole = map(float, done.stdout.split())
    assert 0.8 * whole < said <= whole


def test_steps_that_would_be_too_late_are_not_begun() -> None:
    hand = Hand()
    clock = Clock(10.0, now=hand)
    late = clock.within(10.0).steps()
    for seconds, expected in ((1.0, False), (4.0, False), (0.5, False), (1.0, True)):
        hand.now += seconds  # 3.5 are left at last, and one step took four
        assert late() is expected
    assert not clock.expired
    assert clock.curtailed


def test_a_solver_that_is_refuted_is_no_defect(problem: LipschitzProblem) -> None:
    """What was proved before stands, and what the solver said is dropped with its name."""
    run = Run(problem)
    run.drop_upper(5.0)
    run.drop_upper(1.0, "solver (oracle 1.0)")
    run.drop_upper(4.0)
    run.raise_lower(witness(problem, 0.5))
    assert run.lower > 1.0
    result = run.result()
    assert (result.upper, result.basis, result.status) == (4.0, PROVED, Status.BOUNDS)
    assert any("oracle 1.0" in note and "not used" in note for note in result.warnings)
    assert not any("defect" in note for note in result.warnings)


def test_the_status_is_gap_only_where_one_was_asked_for() -> None:
    """Products that underflow leave a gap that no search closes."""
    rng = np.random.default_rng(0)
    first, last = rng.normal(size=(3, 2)) * 1e-90, rng.normal(size=(1, 3)) * 1e-90
    network = Network.from_arrays([first, last], [np.ones(3), np.zeros(1)], activation="tanh")
    assert solve(LipschitzProblem(network, Box(-1, 1, 2))).status is Status.PRECISION
