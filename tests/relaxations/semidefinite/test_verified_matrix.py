"""Bounds from multipliers hold for the exact matrix, which may be any within the stated errors."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.exact import exact
from lipyomo.relaxations.semidefinite.verify import (
    SizedForm,
    VerifiedMatrix,
    bound_from,
    bounds_from,
)

INPUTS, UNITS = 3, 5


def form_of(seed: int, rounding: float = 0.0) -> SizedForm:
    """Tangents of units, each of earlier ones, and two functionals; their sizes are their own."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((UNITS, INPUTS + UNITS))
    rows[:, INPUTS:] = 0.3 * np.tril(rows[:, INPUTS:], -1)
    objective = rng.standard_normal((2, INPUTS + UNITS))
    return SizedForm(rows, objective, np.abs(rows), np.abs(objective), INPUTS, rounding)


def quadratic_form(rows: FloatArray, zeta: FloatArray, lam: FloatArray) -> FloatArray:
    """C, to rounding."""
    C = np.diag(np.concatenate([zeta, np.zeros(UNITS)]))
    for k, (row, weight) in enumerate(zip(rows, lam, strict=True)):
        e = np.eye(INPUTS + UNITS)[INPUTS + k]
        C -= 0.5 * weight * (np.outer(e, row - e) + np.outer(row - e, e))
    return C


def nearly_singular(form: SizedForm, room: float) -> tuple[FloatArray, FloatArray]:
    """Multipliers whose matrix is definite by little."""
    lam, low, high = np.linspace(0.5, 1.5, UNITS), 0.0, 1e6
    for _ in range(200):
        middle = 0.5 * (low + high)
        C = quadratic_form(form.rows, np.full(INPUTS, middle), lam)
        fits = np.linalg.eigvalsh(C)[0] > room
        low, high = (low, middle) if fits else (middle, high)
    return np.full(INPUTS, high), lam


def square_of(
    rows: FloatArray, c: FloatArray, zeta: FloatArray, lam: FloatArray, grouped: bool
) -> Fraction:
    """``tau c^T C^-1 c`` in rational numbers."""
    n = INPUTS + UNITS
    C = [[fmpq(0)] * n for _ in range(n)]
    for j, value in enumerate(zeta.tolist()):
        C[j][j] = exact(value)
    for k, weight in enumerate(lam.tolist()):
        for j, value in enumerate(rows[k].tolist()):
            entry = exact(value) - (1 if j == INPUTS + k else 0)
            for a, b in ((INPUTS + k, j), (j, INPUTS + k)):
                C[a][b] -= exact(weight) * entry / 2
    column = fmpq_mat([[exact(value)] for value in c.tolist()])
    found = (column.transpose() * fmpq_mat(C).solve(column)).entries()[0]
    ends = [exact(value) for value in zeta.tolist()]
    found *= ends[0] if grouped else sum(ends, fmpq(0))
    return Fraction(int(found.p), int(found.q))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("room", [1e-2, 1e-6, 1e-9])
@pytest.mark.parametrize("seed", range(6))
def test_bounds_are_not_below_exact_ones(seed: int, room: float, grouped: bool) -> None:
    form = form_of(seed)
    zeta, lam = nearly_singular(form, room)
    matrix = VerifiedMatrix(form, zeta, lam)
    if not matrix.accepted:
        assert room < 1e-8
        return
    both = bounds_from(matrix, np.arange(2), zeta, grouped).tolist()
    ball = Fraction(bound_from(matrix, np.arange(2), zeta, grouped)) ** 2
    for c, bound in zip(form.objective, both, strict=True):
        truth = square_of(form.rows, c, zeta, lam, grouped)
        assert Fraction(bound) ** 2 >= truth
        assert bound**2 <= float(truth) * (1 + 1e-3)
        assert ball >= truth


@pytest.mark.parametrize("rounding", [1e-12, 1e-8, 1e-6])
@pytest.mark.parametrize("seed", range(6))
def test_bounds_hold_for_all_that_coefficients_may_be(seed: int, rounding: float) -> None:
    form = form_of(seed, rounding)
    zeta, lam = nearly_singular(form, 1e-3)
    matrix = VerifiedMatrix(form, zeta, lam)
    assert matrix.accepted
    both = bounds_from(matrix, np.arange(2), zeta, False).tolist()
    rng = np.random.default_rng(seed)
    for _ in range(4):
        away, moved = (rng.choice([-1.0, 1.0], s.shape) for s in (form.rows, form.objective))
        rows = form.rows + 0.999 * rounding * form.row_size * away
        objective = form.objective + 0.999 * rounding * form.objective_size * moved
        for c, bound in zip(objective, both, strict=True):
            assert Fraction(bound) ** 2 >= square_of(rows, c, zeta, lam, False)


@pytest.mark.parametrize("rounding", [1e-9, 1e-6])
@pytest.mark.parametrize("seed", range(4))
def test_what_objectives_are_off_by_counts_in_its_worst_direction(
    seed: int, rounding: float
) -> None:
    form = form_of(seed, rounding)
    form = replace(form, row_size=np.zeros_like(form.row_size))
    zeta, lam = nearly_singular(form, 1e-3)
    matrix = VerifiedMatrix(form, zeta, lam)
    both = bounds_from(matrix, np.arange(2), zeta, False).tolist()
    ball = Fraction(bound_from(matrix, np.arange(2), zeta, False)) ** 2
    worst = np.sign(np.linalg.solve(quadratic_form(form.rows, zeta, lam), form.objective.T)).T
    objective = form.objective + 0.999 * rounding * form.objective_size * worst
    for c, bound in zip(objective, both, strict=True):
        truth = square_of(form.rows, c, zeta, lam, False)
        assert Fraction(bound) ** 2 >= truth
        assert ball >= truth


def test_multipliers_that_are_not_positive_prove_nothing() -> None:
    form = form_of(0)
    zeta, lam = nearly_singular(form, 1e-2)
    for wrong in (0.0, -1.0, np.nan, np.inf):
        for position in range(INPUTS + UNITS):
            y = np.concatenate([zeta, lam])
            y[position] = wrong
            matrix = VerifiedMatrix(form, y[:INPUTS], y[INPUTS:])
            assert not matrix.accepted
            assert bounds_from(matrix, np.arange(2), zeta, False).tolist() == [np.inf, np.inf]
    assert not VerifiedMatrix(form, 0.5 * zeta, lam).accepted
