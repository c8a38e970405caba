"""Multipliers of many small linear programs, and what they make of boxes and half-spaces."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from lipyomo.search.spaces.boxes.bounding.confine import Programs, best_multipliers


def _random(rng: np.random.Generator, count: int, rows: int, inputs: int) -> Programs:
    a, G = rng.normal(size=(count, inputs)), rng.normal(size=(count, rows, inputs))
    a /= np.abs(a).sum(axis=1, keepdims=True)
    G /= np.abs(G).sum(axis=2, keepdims=True)
    return Programs(a, G, rng.uniform(-0.3, 0.7, (count, rows)))


def _bounds(programs: Programs, y: np.ndarray) -> np.ndarray:
    rest = programs.a - np.einsum("nk,nkd->nd", y, programs.G)
    return np.asarray(np.abs(rest).sum(axis=1) + (y * programs.h).sum(axis=1))


def _optima(programs: Programs) -> np.ndarray:
    """By HiGHS; minus infinity where no point fits."""
    found = []
    for a, G, h in zip(*programs, strict=True):
        result = linprog(-a, A_ub=G, b_ub=h, bounds=[(-1.0, 1.0)] * a.size)
        found.append(-np.inf if result.status == 2 else -result.fun)
    return np.array(found)


@pytest.mark.parametrize(("inputs", "rows"), [(1, 1), (2, 3), (4, 6), (3, 20), (12, 5), (30, 2)])
def test_bounds_are_those_of_linear_programs(inputs: int, rows: int) -> None:
    programs = _random(np.random.default_rng(inputs), 40, rows, inputs)
    y, points = best_multipliers(programs, np.full(40, -np.inf))
    assert np.all(y >= 0.0)
    bounds, optima = _bounds(programs, y), _optima(programs)
    feasible = np.isfinite(optima)
    assert np.all(bounds >= optima - 1e-9)
    assert np.quantile(bounds[feasible] - optima[feasible], 0.8) < 1e-4
    assert np.max(bounds[feasible] - optima[feasible]) < 0.1
    assert np.all(np.abs(points) <= 1.0)
    values = (programs.a * points).sum(axis=1)
    assert np.quantile(np.abs(values - optima)[feasible], 0.8) < 1e-3


def test_programs_without_a_point_have_bounds_below_any_value() -> None:
    rng = np.random.default_rng(3)
    programs = _random(rng, 60, 6, 3)
    programs = programs._replace(h=programs.h - 0.3)
    none = ~np.isfinite(_optima(programs))
    assert none.sum() > 10
    y, _ = best_multipliers(programs, np.full(60, -np.inf))
    assert np.mean(_bounds(programs, y)[none] < -1.0) > 0.9


def test_aims_that_are_met_end_the_search_for_one_program_alone() -> None:
    programs = _random(np.random.default_rng(4), 30, 5, 4)
    best = _bounds(programs, best_multipliers(programs, np.full(30, -np.inf))[0])
    aims = np.where(np.arange(30) % 2 == 0, best + 0.05, -np.inf)
    found = _bounds(programs, best_multipliers(programs, aims)[0])
    assert np.all(found[::2] <= aims[::2])
    assert np.allclose(found[1::2], best[1::2])


def test_rows_that_are_none_or_the_same_do_no_harm() -> None:
    programs = _random(np.random.default_rng(5), 20, 4, 3)
    twice = Programs(
        programs.a,
        np.concatenate([programs.G, programs.G, 0.0 * programs.G], axis=1),
        np.concatenate([programs.h, programs.h, np.ones_like(programs.h)], axis=1),
    )
    aims = np.full(20, -1.0)
    ours = _bounds(twice, best_multipliers(twice, aims)[0])
    theirs = _bounds(programs, best_multipliers(programs, aims)[0])
    assert np.allclose(np.maximum(ours, -1.0), np.maximum(theirs, -1.0), atol=0.02)


def test_no_objective_is_bounded_by_nothing() -> None:
    programs = Programs(np.zeros((1, 2)), np.ones((1, 1, 2)) / 2.0, np.full((1, 1), 0.3))
    assert abs(_bounds(programs, best_multipliers(programs, np.full(1, -1.0))[0])[0]) < 1e-6
