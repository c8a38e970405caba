"""Reading a CBC program: bounds are rounded outward, whatever the version prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipyomo.solvers import cbc_log
from lipyomo.solvers.status import SolveStatus

VALUES = st.floats(-1e9, 1e9, allow_nan=False).filter(lambda v: v == 0.0 or abs(v) > 1e-6)


def report(bound: str) -> str:
    return (
        "Result - Stopped on time limit\n"
        "Objective value:                0\n"
        f"Lower bound:                    {bound}\n"
        "Gap:                            inf\n"
        "Enumerated nodes:               67200\n"
    )


@given(VALUES)
def test_bounds_printed_with_six_digits_are_never_above_the_bound(bound: float) -> None:
    text = f"{bound:.6g}"
    found = cbc_log.printed_bound(report(text))
    assert found is not None
    assert found <= bound
    # Three decimals may be all that an older version prints.
    loss = 1e-3 if len(text.partition(".")[2]) == 3 else 0.0
    assert found >= bound - loss - 2e-5 * max(abs(bound), 1e-6)


@given(VALUES)
def test_bounds_printed_with_three_decimals_are_never_above_the_bound(bound: float) -> None:
    found = cbc_log.printed_bound(report(f"{bound:.3f}"))
    assert found is not None
    assert found <= bound


def test_no_bound_is_no_bound() -> None:
    assert cbc_log.printed_bound("nothing") is None
    assert cbc_log.printed_bound(report("-1e+50")) is None


@pytest.mark.parametrize(
    ("said", "header", "status"),
    [
        ("Optimal solution found", "Optimal - objective value 1", SolveStatus.OPTIMAL),
        ("Optimal solution found (within gap tolerance)", "Optimal (within", SolveStatus.OPTIMAL),
        ("Stopped on time limit", "Stopped on time - objective value 1", SolveStatus.TIME_LIMIT),
        ("Stopped on node limit", "Stopped on iterations - objective", SolveStatus.LIMIT),
        ("User ctrl-cuser ctrl-c", "Stopped on iterations - objective", SolveStatus.INTERRUPTED),
        ("Problem proven infeasible", "Infeasible - objective value 0", SolveStatus.INFEASIBLE),
        ("Linear relaxation unbounded", "Unbounded - objective value", SolveStatus.UNBOUNDED),
        ("", "Integer infeasible - objective value 1.5", SolveStatus.INFEASIBLE),
        ("", "", SolveStatus.ERROR),
    ],
)
def test_endings(said: str, header: str, status: SolveStatus) -> None:
    log = f"Result - {said}\n" if said else ""
    assert cbc_log.said_ending(log, header, is_mip=True) is status


def test_the_optimum_of_the_relaxation_is_not_that_of_the_search() -> None:
    header = "Optimal - objective value -12117.1"
    assert cbc_log.said_ending("LP Optimal", header, is_mip=True) is SolveStatus.TIME_LIMIT
    assert not cbc_log.has_incumbent("LP Optimal", header, is_mip=True)
    assert cbc_log.said_ending("Optimal", header, is_mip=False) is SolveStatus.OPTIMAL
    assert cbc_log.has_incumbent("Optimal", header, is_mip=False)


def test_the_point_of_the_relaxation_is_no_incumbent() -> None:
    log = "Result - Stopped on time limit\n"
    header = "Stopped on time (no integer solution - continuous used) - objective value 1"
    assert not cbc_log.has_incumbent(log, header, is_mip=True)
    assert not cbc_log.has_incumbent(log, "Infeasible - objective value 0", is_mip=True)
    assert cbc_log.has_incumbent(log, "Stopped on time - objective value 1", is_mip=True)


def test_progress_of_old_and_new_versions() -> None:
    old = (
        "Cbc0010I After 1000 nodes, 52 on tree, -404.5 best solution, "
        "best possible -407.25 (0.24 seconds)\n"
        "Cbc0010I After 0 nodes, 1 on tree, 1e+50 best solution, "
        "best possible -410.5 (0.01 seconds)\n"
    )
    new = (
        "     Nodes   OnTree  Depth         BestSol Method                 BestBound     Gap%\n"
        " ★ 3374  571  22  -404.5 strong branching  -407.25    0.60%     0.240\n"
        "   3375  571  22                           -407.25    0.60%     0.250\n"
    )
    for text, nodes in ((old, [1000, 0]), (new, [3374, 3375])):
        rows = [row for line in text.splitlines() if (row := cbc_log.progress_row(line))]
        assert [row[2] for row in rows] == nodes
        assert [row[0] for row in rows] == [-404.5, None]
        assert all(row[1] <= -407.25 for row in rows)


def test_versions() -> None:
    assert cbc_log.version("Version: 2.10.11 \nBuild Date: Oct 26 2023") == (2, 10, 11)
    assert cbc_log.version("Cbc version devel (git:146ce89)") == (0,)
