"""Newton's equations in single precision."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.relaxations.semidefinite import wide
from lipyomo.relaxations.semidefinite.descent import minimise
from lipyomo.relaxations.semidefinite.params import PARAMS
from lipyomo.relaxations.semidefinite.wide import WideKernel, fits_single, solved_in_single


def kernel_of(seed: int) -> WideKernel:
    """Two layers of five and four units behind twelve inputs."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((9, 21)) / 3.0
    rows[:5, 12:] = 0.0
    rows[5:, :12] = 0.0
    rows[5:, 17:] = 0.0
    objective = np.zeros(21)
    objective[17:] = rng.standard_normal(4)
    return WideKernel(rows, objective, 12)


@pytest.mark.parametrize("share", [0.1, 1e-3])
def test_steps_are_those_of_double_precision(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of(0)
    y = kernel.start()
    assert y is not None
    factor = kernel.factor(y)
    assert factor is not None
    x, tau, quarter = kernel.terms(factor, y)
    mu = share * (tau + quarter) / kernel.order
    steps = []
    for order in (kernel.order + 1, kernel.order):
        monkeypatch.setattr(wide, "PARAMS", PARAMS._replace(single=order))
        system = kernel.system(factor, y, x, mu)
        assert system is not None
        steps.append(system.step(mu))
    (double, decrement), (single, other) = steps
    assert not np.array_equal(single, double)
    assert np.linalg.norm(single - double) <= 0.02 * np.linalg.norm(double)
    assert other == pytest.approx(decrement, rel=0.02)


@pytest.mark.parametrize("seed", [1, 2])
def test_bounds_end_at_the_same_value(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    double = minimise(kernel_of(seed), tolerance=1e-6)
    monkeypatch.setattr(wide, "PARAMS", PARAMS._replace(single=1))
    single = minimise(kernel_of(seed), tolerance=1e-6)
    assert single is not None
    assert double is not None
    assert single.value == pytest.approx(double.value, rel=1e-5)


def test_extreme_multipliers_are_left_to_double_precision() -> None:
    assert fits_single(np.array([1e-11, 1e11]))
    assert not fits_single(np.array([1e-13, 1.0]))
    assert not fits_single(np.array([1.0, np.inf]))


def test_double_precision_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of(3)
    y = kernel.start()
    assert y is not None
    factor = kernel.factor(y)
    assert factor is not None
    x, *_ = kernel.terms(factor, y)
    double = kernel.system(factor, y, x, 0.01)
    monkeypatch.setattr(wide, "PARAMS", PARAMS._replace(single=1))
    monkeypatch.setattr(wide, "solved_in_single", lambda *equations: None)
    found = kernel.system(factor, y, x, 0.01)
    assert double is not None
    assert found is not None
    assert np.array_equal(found.step(0.01)[0], double.step(0.01)[0])


@pytest.mark.parametrize("worst", [-1.0, 0.0, np.inf, np.nan])
def test_hessians_that_are_too_much_for_it_are_refused(worst: float) -> None:
    hessian = np.eye(3, dtype=np.float32)
    hessian[1, 1] = worst
    assert solved_in_single(np.ones(3), np.ones(3), hessian) is None


def test_indefinite_hessians_are_refused() -> None:
    hessian = np.array([[1.0, 2.0], [0.0, 1.0]], dtype=np.float32)
    assert solved_in_single(np.ones(2), np.ones(2), hessian) is None
