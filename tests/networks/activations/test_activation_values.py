"""Values, slopes and all that branches compute, against ball arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from definitions import (
    DEFINITIONS,
    POINTS,
    Definition,
    derivatives,
    hard_points,
    name,
    sharp,
)
from flint import arb

DERIVATIVES = 3

FAR = 1e4
"""Farther out ball arithmetic takes long for nothing: tails are compared with their limits."""


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_a_point_belongs_to_the_branch_on_its_right(definition: Definition) -> None:
    z = hard_points(definition, 300, seed=1)
    made = definition.made
    found = made.value(z), made.slope(z), made.curvature(z)
    for k, at in enumerate(z):
        branch = [branch for branch in made.branches if branch.low <= at][-1]
        with np.errstate(all="ignore"):
            jet = branch.jet(z[[k]], 2)
        np.testing.assert_array_equal([part[k] for part in found], np.concatenate(jet))


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_errors_are_small(definition: Definition) -> None:
    z = np.linspace(-30, 30, 1001)
    steepest = max(map(abs, definition.made.limits))
    for branch in definition.made.branches:
        inside = z[(z >= branch.low) & (z <= branch.high)]
        value, slope = (
            off.of(jet) for off, jet in zip(branch.errors[:2], branch.jet(inside, 1), strict=True)
        )
        assert np.all(value <= 1e-13 * (1 / definition.scale + np.abs(inside)) * steepest)
        derived = "'" in definition.made.name  # whose slopes are second derivatives and higher
        assert np.all(slope <= (4e-14 if derived else 2e-14) * steepest)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_branches_are_within_their_errors(definition: Definition) -> None:
    z = hard_points(definition, POINTS // 4, seed=2)
    z = z[np.abs(z) <= FAR]
    for branch, formula in zip(definition.made.branches, definition.formulas, strict=True):
        inside = z[(z >= branch.low) & (z <= branch.high)]
        jets = branch.jet(inside, DERIVATIVES)
        errors = [off.of(jet) for off, jet in zip(branch.errors, jets, strict=True)]
        for k, at in enumerate(inside.tolist()):
            truth = sharp(formula, at, DERIVATIVES)
            for order, true in enumerate(truth):
                assert abs(true - jets[order][k]) <= arb(errors[order][k]), (at, order)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_lower_orders_are_the_same_numbers(definition: Definition) -> None:
    z = hard_points(definition, 500, seed=3)
    for branch in definition.made.branches:
        inside = z[(z >= branch.low) & (z <= branch.high)]
        with np.errstate(all="ignore"):
            whole = branch.jet(inside, DERIVATIVES)
            for order in range(DERIVATIVES + 1):
                part = branch.jet(inside, order)
                assert len(part) == order + 1
                for one, other in zip(part, whole, strict=False):
                    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_far_out_values_are_their_limits(definition: Definition) -> None:
    made = definition.made
    if made.name in ("sin", "cos"):
        return
    for sign, branch in ((-1, made.branches[0]), (1, made.branches[-1])):
        z = sign * np.array([1e9, 1e120, 1e300])
        value, slope = made.value(z), made.slope(z)
        side = 0 if sign < 0 else 1
        assert np.all(np.isfinite(value))
        np.testing.assert_allclose(slope, branch.tails[1][side], atol=1e-15)
        limit = branch.tails[0][side]
        wanted = np.full(3, limit) if np.isfinite(limit) else z * branch.tails[1][side]
        np.testing.assert_allclose(value, wanted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_exact_encloses_points_and_balls(definition: Definition) -> None:
    z = hard_points(definition, 300, seed=4)
    for at in z[np.abs(z) <= FAR].tolist():
        formulas = definition.formulas_at(at)
        value, slope = definition.made.exact(arb(at))
        for formula in formulas:
            true = derivatives(formula, at, 1)
            assert value.overlaps(true[0])
            assert slope.overlaps(true[1])
        if len(formulas) == 1 and abs(at) < 30:
            assert slope.rad() <= 1e-10
        wide_value, wide_slope = definition.made.exact(arb(at, 0.25))
        for near in (at - 0.25, at, at + 0.25):
            for formula in definition.formulas_at(near):
                true = derivatives(formula, near, 1)
                assert wide_value.overlaps(true[0])
                assert wide_slope.overlaps(true[1])


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_breaks_and_jumps(definition: Definition) -> None:
    made = definition.made
    assert made.breaks == definition.breaks
    assert made.jumps == definition.jumps
    for at, jump in zip(made.breaks, made.jumps, strict=True):
        left, right = (derivatives(formula, at, 1) for formula in definition.formulas_at(at))
        assert left[0].overlaps(right[0])
        assert left[1].overlaps(right[1]) != jump
        slope = made.exact(arb(at))[1]
        assert slope.overlaps(left[1])
        assert slope.overlaps(right[1])
        np.testing.assert_allclose(made.slope(np.array(at)), float(right[1]), rtol=1e-15)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=name)
def test_curvatures_are_rates_of_slopes(definition: Definition) -> None:
    """Away from breaks, to what a difference quotient says."""
    made = definition.made
    z = np.linspace(-4.0, 4.0, 162)
    z = z[np.all([abs(z - place) > 1e-3 for place in (*made.breaks, np.inf)], axis=0)]
    quotient = (made.slope(z + 1e-6) - made.slope(z - 1e-6)) / 2e-6
    np.testing.assert_allclose(made.curvature(z), quotient, rtol=1e-4, atol=1e-6)
