"""Proofs of contradictions: none where there is a point, one where rows exclude each other."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from flint import fmpq

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.exact import exact
from lipyomo.base.numerics.lp import LinearProgram
from lipyomo.primal.regions.combination import (
    Body,
    RoundedRows,
    contradicts,
    contradicts_beyond_rounding,
)
from lipyomo.problems.domains import NormBall


def rounded(A: FloatArray, b: FloatArray, error: float = 1e-14) -> RoundedRows:
    return RoundedRows(A, b, error * np.abs(A), error * np.abs(b))


def written(A: FloatArray, b: FloatArray) -> list[list[fmpq]]:
    return [[exact(float(v)) for v in (*row, right)] for row, right in zip(A, b, strict=True)]


def random_case(seed: int, feasible: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows with a point on the right side of all, or weights that exclude one; and the weights."""
    rng = np.random.default_rng(seed)
    n = 5
    A = rng.standard_normal((n + 1, n))
    y = rng.uniform(0.1, 1.0, n + 1)
    A[-1] = -(y[:-1] @ A[:-1]) / y[-1]
    b = A @ rng.standard_normal(n) + (1.0 if feasible else -1.0) * rng.uniform(0.1, 1.0, n + 1)
    return A, b, y


@pytest.mark.parametrize("seed", range(20))
def test_weights_near_a_proof_suffice_in_space(seed: int) -> None:
    A, b, y = random_case(seed, False)
    rng = np.random.default_rng(seed)
    near = y * (1.0 + 1e-10 * rng.standard_normal(y.size))
    everywhere = np.full(A.shape[1], np.inf)
    assert contradicts_beyond_rounding(rounded(A, b), -everywhere, everywhere, near) is not None
    assert contradicts(written(A, b), Body(-everywhere, everywhere), near) is not None


@pytest.mark.parametrize("seed", range(20))
def test_rows_with_a_common_point_are_never_excluded(seed: int) -> None:
    A, b, y = random_case(seed, True)
    rng = np.random.default_rng(seed)
    for low in (-np.inf, -5.0):
        lower, upper = np.full(A.shape[1], low), np.full(A.shape[1], np.inf)
        if np.isfinite(low):  # keep a common point
            b = np.maximum(b, A @ np.zeros(A.shape[1]) + 0.1)
        for guess in (y, rng.random(y.size), np.eye(y.size)[0]):
            assert contradicts_beyond_rounding(rounded(A, b), lower, upper, guess) is None
            assert contradicts(written(A, b), Body(lower, upper), guess) is None


def test_rows_that_touch_are_decided_exactly_only() -> None:
    A, b = np.array([[1.0], [-1.0]]), np.array([0.1, -0.1])  # x < 0.1 and x > 0.1
    line = np.array([np.inf])
    assert contradicts_beyond_rounding(rounded(A, b), -line, line, np.ones(2)) is None
    assert contradicts(written(A, b), Body(-line, line), np.ones(2)) is not None
    wider = np.array([np.nextafter(0.1, 1.0), -0.1])
    assert contradicts(written(A, wider), Body(-line, line), np.ones(2)) is None


@pytest.mark.parametrize("seed", range(10))
def test_half_bounded_variables_push_one_way_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((8, 4)), -rng.uniform(0.1, 1.0, 8)
    lower, upper = np.array([-np.inf, -np.inf, 0.0, 0.0]), np.full(4, np.inf)

    columns = np.hstack([A, np.ones((8, 1))])
    program = LinearProgram(
        np.append(lower, -10.0), np.append(upper, 1.0), sp.csr_array(columns), b
    )
    found = program.maximise(np.append(np.zeros(4), 1.0))
    found_rows = contradicts_beyond_rounding(rounded(A, b), lower, upper, program.duals)
    proved = found_rows is not None
    if found.value > 1e-6:
        assert not proved
    elif found.value < -1e-6:
        assert proved


def test_weights_that_would_have_to_be_negative_prove_nothing() -> None:
    """x < 1 and x < -5 have many points; that their multiples cancel needs a negative weight."""
    A, b, line = np.ones((2, 1)), np.array([1.0, -5.0]), np.array([np.inf])
    for guess in ([1.0, 0.5], [0.5, 1.0], [1.0, 1e-6]):
        assert contradicts_beyond_rounding(rounded(A, b), -line, line, np.array(guess)) is None
        assert contradicts(written(A, b), Body(-line, line), np.array(guess)) is None


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_functions_exceed_what_is_at_most_their_least_value_on_a_ball(norm: str) -> None:
    line = np.full(2, np.inf)
    body = Body(-line, line, NormBall([3.0, 0.0], 2.0, norm))
    row = [fmpq(1), fmpq(0)]
    assert body.exceeds(row, fmpq(1))
    assert body.exceeds(row, fmpq(-50))
    assert not body.exceeds(row, fmpq(1) + fmpq(1, 10**30))
    assert not body.exceeds(row, fmpq(50))


@pytest.mark.parametrize("gap", [1e-15, 1e-9])
def test_rows_may_be_off_by_their_errors(gap: float) -> None:
    """x < 0 and x > gap, where both ends may be off by 1e-12."""
    A, b = np.array([[1.0], [-1.0]]), np.array([0.0, -gap])
    errors = np.full(2, 1e-12)
    for A_error, b_error in ((0.0 * A, errors), (np.abs(A) * 1e-12, 0.0 * b)):
        rows = RoundedRows(A, b, A_error, b_error)
        found = contradicts_beyond_rounding(rows, -np.ones(1), np.ones(1), np.ones(2))
        assert (found is None) == (gap < 1e-12)
