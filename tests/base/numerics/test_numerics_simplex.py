"""The exact simplex method: points satisfy their rows, weights prove, linear programs agree."""

from __future__ import annotations

import numpy as np
import pytest
from flint import fmpq
from scipy.optimize import linprog

from lipyomo.base.numerics.exact import exact
from lipyomo.base.numerics.simplex import decide_strictly
from lipyomo.primal.regions.combination import slacks


def written(A: np.ndarray, b: np.ndarray) -> list[list[fmpq]]:
    return [[exact(float(v)) for v in (*row, right)] for row, right in zip(A, b, strict=True)]


def check(A: np.ndarray, b: np.ndarray) -> bool:
    """Whether there is a strict point, with what shows it checked."""
    rows = written(A, b)
    found = decide_strictly(rows, np.zeros(len(rows)))
    if found.point is not None:
        assert min(slacks(rows, found.point)) > 0
        return True
    y = found.weights
    assert y is not None
    assert min(y) >= 0
    assert max(y) > 0
    totals = [
        sum((v * row[j] for v, row in zip(y, rows, strict=True)), fmpq(0))
        for j in range(len(rows[0]))
    ]
    assert all(total == 0 for total in totals[:-1])
    assert totals[-1] <= 0
    return False


@pytest.mark.parametrize(("n", "count"), [(1, 3), (2, 6), (3, 9), (5, 12)])
def test_random_rows_are_decided(n: int, count: int) -> None:
    rng = np.random.default_rng(n)
    answers = set()
    for turn in range(20):
        A = (
            rng.integers(-2, 3, (count, n)).astype(float)
            if turn % 2
            else rng.standard_normal((count, n))
        )
        b = A @ rng.standard_normal(n) + 0.5 * rng.standard_normal(count) + 0.3
        bounds = [(None, None)] * n + [(None, 1)]
        program = linprog(
            np.append(np.zeros(n), -1), np.hstack([A, np.ones((count, 1))]), b, bounds=bounds
        )
        answer = check(A, b)
        answers.add(answer)
        if abs(program.fun) > 1e-7:
            assert answer == (program.fun < 0)
    assert answers == {True, False}


def test_rows_that_touch_have_no_strict_point() -> None:
    assert not check(np.array([[1.0], [-1.0]]), np.array([0.1, -0.1]))
    assert check(np.array([[1.0], [-1.0]]), np.array([np.nextafter(0.1, 1), -0.1]))
    nearly = 1.0 + 2.0**-50  # lines that meet far away
    assert check(np.array([[1.0, nearly], [-1.0, -1.0]]), np.array([-1.0, 0.0]))
    assert not check(np.array([[1.0, 1.0], [-1.0, -1.0]]), np.array([-1.0, 0.0]))
