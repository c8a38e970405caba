"""Numbers at the ends of float64: refused where products leave its range, else sound."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from lipyomo import (
    Box,
    Layer,
    LinearOutput,
    LipschitzProblem,
    Network,
    Polytope,
    Status,
    ball,
    solve,
)
from lipyomo.base.arrays import lengths
from lipyomo.base.errors import ProblemError

UNIT = Box(-1, 1, 1)


def chain(*weights: float) -> Network:
    return Network.from_arrays([[[w]] for w in weights])


@pytest.mark.parametrize(
    ("network", "domain", "functional", "told"),
    [
        (chain(1.0, 1e101), UNIT, None, "above 1e[+]?100"),
        (chain(1e80, 1e80), UNIT, None, "overflow"),
        (chain(1.0, 1.0), Box(0.0, 1e-70, 1), None, "thinner than 1e-60"),
        (chain(1.0, 1.0), ball([0.0], 1e-200, "l2"), None, "thinner than 1e-60"),
        (chain(1.0, 1.0), UNIT, [1e101], "functional"),
    ],
)
def test_numbers_out_of_range_are_refused(
    network: Network, domain: Box, functional: list[float] | None, told: str
) -> None:
    with pytest.raises(ProblemError, match=told):
        LipschitzProblem(network, domain, functional=functional)


def test_a_dual_ball_is_looked_at_as_a_functional_is() -> None:
    with pytest.raises(ProblemError, match="dual ball"):
        LipschitzProblem(chain(1.0, 1.0), UNIT, output_norm=LinearOutput([[1.0], [1e101]]))
    # the true constant is 5e-300: products of such numbers are lost in squares
    network = Network.from_arrays([[[2.0, 1.0], [-1.0, 3.0]], [[1.0, 1.0]]])
    faint = LinearOutput([[1e-300]])
    for norm in ("linf", "l2"):
        result = solve(LipschitzProblem(network, Box(-1, 1, 2), norm, faint))
        assert result.lower <= 5e-300 <= result.upper
        assert result.status is not Status.CONTRADICTION


def test_a_product_that_underflows_bounds_nothing_by_zero() -> None:
    # the constant is 1e-350: no float64 number but zero is as small
    result = solve(LipschitzProblem(chain(*[1e-50] * 7), UNIT))
    assert result.upper > 0
    assert not result.is_exact


@pytest.mark.parametrize("tiny", [1e-39, 1e-200, 5e-324])
def test_weights_that_training_has_let_fade_are_as_good_as_zero(tiny: float) -> None:
    # Adam with weight decay leaves such weights on inputs that are constant in the data
    rng = np.random.default_rng(3)
    weights = [rng.standard_normal(shape) for shape in ((6, 4), (5, 6), (2, 5))]
    biases = [0.3 * rng.standard_normal(w.shape[0]) for w in weights]
    results = []
    for value in (tiny, 0.0):
        first = weights[0].copy()
        first[:, 2] = value
        first[1] = value  # a unit that is as good as dead
        network = Network.from_arrays([first, *weights[1:]], biases)
        results.append(solve(LipschitzProblem(network, Box(-1, 1, 4))))
    faded, without = results
    assert faded.is_exact
    assert faded.lower == pytest.approx(without.lower, rel=1e-9)
    assert faded.upper == pytest.approx(without.upper, rel=1e-6)


def test_zero_is_exact_where_nothing_underflows() -> None:
    result = solve(LipschitzProblem(chain(1e-20, 0.0, 1e-20), UNIT))
    assert result.is_exact
    assert result.upper == 0.0


@pytest.mark.parametrize("width", [1e-10, 1e-15, 5e-17])
def test_a_slab_thinner_than_float64_numbers_is_no_flat_one(width: float) -> None:
    slab = Polytope([[1 / 3, 0.7], [-1 / 3, -0.7]], [0.3 + width, -0.3], [-1, -1], [1, 1])
    network = Network([Layer([[1, 2], [-1, 1]], [0.1, 0], 0.0, 1.0), Layer([[1.0, 2.0]], [0.0])])
    result = solve(LipschitzProblem(network, slab))
    assert result.is_exact
    assert result.lower == 5.0  # both units are on where x_2 > x_1: (1, 2) + 2 (-1, 1)


def test_a_box_of_one_unit_in_the_last_place_has_an_interior() -> None:
    low = np.array([1.0, 0.3])
    network = Network([Layer([[1, 2], [-1, 1]], [0.1, 0], 0.0, 1.0), Layer([[1.0, 2.0]], [0.0])])
    problem = LipschitzProblem(network, Box(low, np.nextafter(low, 2.0)))
    result = solve(problem, rational=True)
    assert result.is_exact
    assert result.lower == 3.0
    assert result.witness is not None
    assert result.witness.rest is not None
    assert result.details["rational"]["holds"]
    again = type(result).from_dict(result.to_dict())
    assert again.witness is not None
    assert np.array_equal(again.witness.point, result.witness.point)


def test_a_slab_without_interior_is_refused() -> None:
    with pytest.raises(ProblemError.__bases__[0], match="no interior"):
        Polytope([[1 / 3, 0.7], [-1 / 3, -0.7]], [0.3, -0.3], [-1, -1], [1, 1])


@pytest.mark.parametrize("method", ["auto", "interval", "crown", "eclipse", "sdp", "naive"])
def test_squares_of_faint_rows_are_not_lost(method: str) -> None:
    # rows of 1e-170, whose squares underflow, in front of gains of 1e140: |f'| is 1.58e-29
    weights = [
        [[1e-170, 2e-170], [3e-170, -1e-170]],
        [[1e90, 2e90], [1e90, -3e90]],
        [[1e50, -1e50]],
    ]
    result = solve(LipschitzProblem(Network.from_arrays(weights), Box(-1, 1, 2), "l2"), method)
    assert result.lower == pytest.approx(np.hypot(1.5, 0.5) * 1e-29, rel=1e-9)
    assert result.lower <= result.upper <= 1.1 * result.lower


def test_lengths_of_faint_rows_agree_for_both_kinds_of_matrices() -> None:
    rows = np.array([[3e-200, 4e-200], [0.0, 0.0], [3.0, 4.0], [3e-310, 4e-310]])
    expected = [5e-200, 0.0, 5.0, 5e-310]
    np.testing.assert_allclose(lengths(rows), expected, rtol=1e-12)
    np.testing.assert_allclose(lengths(sp.csr_array(rows)), expected, rtol=1e-12)
    np.testing.assert_allclose(lengths(rows.T, axis=0), expected, rtol=1e-12)
