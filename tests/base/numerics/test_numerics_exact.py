"""Exact arithmetic agrees with fractions, and roots are rounded the way they say."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from flint import fmpq, fmpq_mat
from hypothesis import given
from hypothesis import strategies as st

from lipyomo.base.numerics.exact import (
    Exact,
    ExactWeights,
    approximate,
    exact,
    fraction,
    product_is_exact,
    root_below,
    row_reduced,
    whole_numbers,
)

floats = st.floats(-1e12, 1e12, allow_nan=False)
lists = st.lists(floats, min_size=6, max_size=6)


def fractions(matrix: Exact) -> list[list[Fraction]]:
    return [[fraction(entry) for entry in row] for row in matrix.rationals()]


def table(values: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(float(entry)) for entry in row] for row in values]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=8))
def test_every_float_is_an_integer_times_a_power_of_two(values: list[float]) -> None:
    digits, exponent = whole_numbers(np.array(values))
    assert [Fraction(d) * Fraction(2) ** exponent for d in digits] == list(map(Fraction, values))


@given(lists, lists)
def test_matrices_are_exact(a: list[float], b: list[float]) -> None:
    first, second = np.array(a).reshape(2, 3), np.array(b).reshape(2, 3)
    x, y, fx, fy = Exact.of(first), Exact.of(second), table(first), table(second)
    assert fractions(x) == fx
    pairs = [list(zip(p, q, strict=True)) for p, q in zip(fx, fy, strict=True)]
    assert fractions(x + y) == [[p + q for p, q in row] for row in pairs]
    assert fractions(x - y) == [[p - q for p, q in row] for row in pairs]
    dots = [[sum((p * q for p, q in zip(r, s, strict=True)), Fraction(0)) for s in fy] for r in fx]
    assert fractions(x @ y.transposed()) == dots
    scaled = [[p * Fraction(float(f)) for p in row] for row, f in zip(fx, b, strict=False)]
    assert fractions(x.rows_scaled(np.array(b[:2]))) == scaled


@pytest.mark.parametrize("as_sparse", [False, True])
def test_weights_act_from_both_sides(as_sparse: bool) -> None:
    rng = np.random.default_rng(0)
    weight = np.where(rng.random((4, 3)) < 0.5, rng.standard_normal((4, 3)), 0.0)
    bias, x, y = rng.standard_normal(4), rng.standard_normal(3), rng.standard_normal((2, 4))
    own = ExactWeights(sp.csr_array(weight) if as_sparse else weight, bias)
    after = fractions(own.after(Exact.of(np.append(x, 1.0))))
    exact_rows = table(weight)
    for k in range(4):
        terms = [w * Fraction(float(v)) for w, v in zip(exact_rows[k], x, strict=True)]
        assert after[k][0] == sum(terms, Fraction(float(bias[k])))
    before = fractions(own.before(Exact.of(np.hstack([y, np.zeros((2, 1))]))))
    for i in range(2):
        for j in range(3):
            column = [Fraction(float(v)) * row[j] for v, row in zip(y[i], exact_rows, strict=True)]
            assert before[i][j] == sum(column, Fraction(0))


def test_products_that_are_claimed_exact_are_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small arrays and of sparse ones alike, with rows and columns of no entry, or of one."""
    rng = np.random.default_rng(0)
    claimed = []
    for _ in range(80):
        n, k, m = rng.integers(0, 5, 3)
        bits = 2.0 ** rng.integers(0, 40)
        first, second = (
            np.round(bits * rng.standard_normal(shape)) / bits * (rng.random(shape) < 0.6)
            for shape in ((n, k), (k, m))
        )
        found = product_is_exact(first, second)
        with monkeypatch.context() as patch:
            patch.setattr("lipyomo.base.numerics.exact.LITTLE", -1)
            assert product_is_exact(first, sp.csr_array(second)) == found
        if found:
            assert fractions(Exact.of(first) @ Exact.of(second)) == table(first @ second)
        claimed.append(found)
    assert 10 < sum(claimed) < 75


def test_products_of_which_nothing_is_left_are_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = np.array([[1e-155, 6e-296]]), np.array([[4e-312], [-9e-153]])
    assert not product_is_exact(first, second)
    monkeypatch.setattr("lipyomo.base.numerics.exact.LITTLE", -1)
    assert not product_is_exact(first, sp.csr_array(second))


@given(st.fractions(min_value=0, max_value=10**30))
def test_roots_are_rounded_down(square: Fraction) -> None:
    low = root_below(fmpq(square.numerator, square.denominator))
    assert Fraction(low) ** 2 <= square < Fraction(float(np.nextafter(low, np.inf))) ** 2
    assert fraction(exact(low)) == Fraction(low)


def test_approximation_is_finite() -> None:
    largest = np.finfo(float).max
    assert approximate(fmpq(10**400)) == largest
    assert approximate(fmpq(-(10**700), 3)) == -largest
    assert approximate(fmpq(1, 10**400)) == 0.0
    assert approximate(fmpq(1, 3)) == 1 / 3


@given(st.lists(st.lists(st.integers(-2, 2), min_size=5, max_size=5), min_size=1, max_size=6))
def test_reduced_rows_span_the_same(rows: list[list[int]]) -> None:
    """Each is alone at its pivot, and the rows are sums of them."""
    table, pivots = row_reduced(fmpq_mat([[fmpq(v) for v in row] for row in rows]))
    assert len(table) == len(pivots) == np.linalg.matrix_rank(np.array(rows, dtype=float))
    assert pivots == sorted(set(pivots))
    for i, row in enumerate(table):
        assert [row[pivot] for pivot in pivots] == [int(i == k) for k in range(len(pivots))]
    for row in rows:
        made = [
            sum((row[p] * own[j] for p, own in zip(pivots, table, strict=True)), fmpq(0))
            for j in range(5)
        ]
        assert made == row
