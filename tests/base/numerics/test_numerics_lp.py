"""The linear program's upper bounds are safe, also when the solver is wrong or warm."""

from __future__ import annotations

import highspy
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from lipyomo.base.numerics.lp import LinearProgram


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), r=st.integers(0, 8))
def test_bounds_are_safe_and_tight(seed: int, n: int, r: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.integers(-2, 3, (r, n)).astype(float)
    b = rng.integers(0, 4, r).astype(float)
    lower, upper = -rng.integers(0, 3, n).astype(float), rng.integers(1, 4, n).astype(float)
    program = LinearProgram(lower, upper, sp.csr_array(A), b)
    for _ in range(3):
        c = rng.standard_normal(n)
        found = program.maximise(c)
        true = linprog(
            -c, A if r else None, b if r else None, bounds=list(zip(lower, upper, strict=True))
        )
        assert found.point is not None
        assert found.bound >= -true.fun - 1e-12
        assert found.bound == pytest.approx(-true.fun, abs=1e-6)
        assert found.value == pytest.approx(-true.fun, abs=1e-6)
        assert (A @ found.point <= b + 1e-6).all()


def test_other_runs_of_highs_in_the_same_thread_do_no_harm() -> None:
    highspy.Highs.resetGlobalScheduler(True)
    other = highspy.Highs()
    other.setOptionValue("output_flag", False)
    other.setOptionValue("threads", 2)  # as a user's own model may have it
    other.addVar(0.0, 1.0)
    assert other.run() == highspy.HighsStatus.kOk
    try:
        ends = np.array([-1.0, -1.0]), np.array([1.0, 1.0])
        program = LinearProgram(*ends, np.array([[1.0, 1.0]]), np.array([0.2]))
        assert program.maximise(np.array([1.0, 1.0])).bound == pytest.approx(0.2)
        assert program.bound(np.array([1.0, 1.0])) == pytest.approx(0.2)
    finally:
        highspy.Highs.resetGlobalScheduler(True)


def test_infeasible_and_unbounded() -> None:
    rows = sp.csr_array(np.array([[1.0], [-1.0]]))
    empty = LinearProgram(np.array([-np.inf]), np.array([np.inf]), rows, np.array([0.0, -1.0]))
    assert empty.maximise(np.array([0.0])).point is None
    assert empty.maximise(np.array([1.0])).bound == np.inf  # the solver's word proves nothing
    free = LinearProgram(
        np.array([-np.inf]), np.array([np.inf]), sp.csr_array(np.array([[-1.0]])), np.array([0.0])
    )
    assert free.maximise(np.array([1.0])).bound == np.inf
    assert free.maximise(np.array([-1.0])).bound == pytest.approx(0.0, abs=1e-6)


def test_bounds_may_change() -> None:
    program = LinearProgram(
        np.zeros(2), np.ones(2), sp.csr_array(np.array([[1.0, 1.0]])), np.array([1.5])
    )
    c = np.array([1.0, 2.0])
    assert program.maximise(c).bound == pytest.approx(2.5)
    program.set_bounds(1, 0.0, 0.25)
    assert program.maximise(c).bound == pytest.approx(1.5)
    program.set_bounds(1, 0.0, 1.0)
    assert program.maximise(c).bound == pytest.approx(2.5)


def test_a_time_limit_is_that_of_one_run() -> None:
    rng = np.random.default_rng(0)
    A, costs = rng.normal(size=(60, 60)), rng.normal(size=(2, 60))
    program = LinearProgram(-np.ones(60), np.ones(60), A, np.full(60, 0.5), 1e-9)
    assert program.optimum(costs[0], 0.0) is None
    first = program.optimum(costs[0])
    assert first is not None
    for cost in costs:
        found = program.optimum(cost, 60.0)
        assert found is not None
        assert found[0] <= program.bound(cost)
