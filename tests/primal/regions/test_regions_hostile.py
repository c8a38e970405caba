"""Networks on which rounding once decided: cancelling, fused, frozen, thin."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, Layer, LipschitzProblem, Network, Polytope, Result
from lipyomo.primal.regions import examine
from lipyomo.primal.regions.replay import strict_pattern
from lipyomo.problems.domains import Domain
from lipyomo.proofs import replay
from networks import random_network


def solved(network: Network, domain: Domain, **norms: object) -> Result:
    problem = LipschitzProblem(network, domain, **norms)  # type: ignore[arg-type]
    result = lipyomo.solve(problem, "bnb", time_limit=30)
    assert result.status == "exact"
    assert result.witness is not None
    exact = replay(problem, result.witness)
    assert exact.holds
    assert exact.below >= result.lower
    return result


def test_frozen_inputs_do_not_round() -> None:
    # on (0, 3e-17) the second unit is on: a sliver that rounding 3 * 0.1 would lose
    network = Network(
        [
            Layer(
                [[3.0, 1.0], [-3.0, -1.0]], [-0.30000000000000004, 0.30000000000000004], 0.0, 1.0
            ),
            Layer([[1.0, 5.0]], [0.0]),
        ]
    )
    result = solved(network, Box([0.1, 0.0], [0.1, 1.0]))
    assert result.lower == 5.0
    assert result.upper >= 5.0


def test_affine_layers_do_not_round() -> None:
    network = Network([Layer([[0.1], [0.7]], [0, 0]), Layer([[7e16, -1e16]], [0])])
    truth = abs(Fraction(7e16) * Fraction(0.1) - Fraction(1e16) * Fraction(0.7))
    result = solved(network, Box(-1, 2, 1))
    assert Fraction(result.lower) <= truth <= Fraction(result.upper)
    assert result.lower == pytest.approx(float(truth), rel=1e-15)


def test_exact_products_are_fused_and_others_are_not() -> None:
    def layers(weight: float) -> Network:
        return Network([Layer([[weight]], [1.0]), Layer([[3.0]], [0.0], 0.0, 1.0)])

    assert len(layers(0.5).fused().hidden) == 1
    assert len(layers(0.1).fused().hidden) == 2
    assert len(layers(0.1).fused(rounding=True).hidden) == 1
    sloped = Network(
        [Layer([[0.1], [1.0]], [0.0, 0.0], [0.7, 0.0], [0.7, 1.0]), Layer([[1, 1]], 0)]
    )
    x = np.linspace(-1, 1, 7)[:, None]
    np.testing.assert_allclose(sloped.fused().forward(x), sloped.forward(x))
    assert all(
        (layer.left == 1.0).all() for layer in sloped.fused().hidden if not layer.kinked.any()
    )


def test_functionals_do_not_round() -> None:
    network = Network([Layer([[0.1], [0.7]], [0, 0])])
    scalar = network.with_functional([7e16, -1e16])
    truth = abs(Fraction(7e16) * Fraction(0.1) - Fraction(1e16) * Fraction(0.7))
    result = solved(scalar, Box(-1, 2, 1))
    assert result.lower == pytest.approx(float(truth), rel=1e-15)
    result = solved(network, Box(-1, 2, 1), functional=[7e16, -1e16])
    assert Fraction(result.lower) <= truth <= Fraction(result.upper)
    assert result.lower == pytest.approx(float(truth), rel=1e-15)


def test_gradients_that_cancel_are_zero() -> None:
    network = Network(
        [
            Layer([[0.1], [0.1], [0.1]], [0, 0, 0], 0.0, 1.0),
            Layer([[3e16, -1e16, -2e16]], [0]),
        ]
    )
    result = solved(network, Box(-1, 1, 1))
    assert result.lower == result.upper == 0.0


@pytest.mark.parametrize(("at", "width"), [(0.0, 1e-9), (1e6, 1e-3), (1e6, 5e-4), (-3.0, 1e-12)])
def test_a_thin_polytope_is_the_box_that_it_equals(at: float, width: float) -> None:
    end = at + width
    network = Network(
        [
            Layer([[2.0, 1.0], [-4.0, 1.0]], [-at - end, 2 * (at + end)], 0.0, 1.0),
            Layer([[1.0, 1.0]], [0]),
        ]
    )
    rows = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    box = solved(network, Box([at, 0.0], [end, 1.0]))
    thin = solved(network, Polytope(rows, [end, -at, 1.0, 0.0]))
    assert thin.lower == box.lower == 5.0


def test_frozen_means_frozen_exactly() -> None:
    rows = [[2.0, 0.0], [-4.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    held = Polytope(rows, [1.0, -2.0, 1.0, 0.0])  # x1 <= 1/2 and x1 >= 1/2
    assert held.frozen.tolist() == [True, False]
    assert held.lower[0] == 0.5
    free = Polytope(rows, [1.0, -2.0 + 2.0**-40, 1.0, 0.0])
    assert not free.frozen.any()


@pytest.mark.parametrize("weights", [[4.0, 4.0, -1.0], [1.0, 2.0, 6.0]])
def test_duplicate_and_opposite_units_are_decided(weights: list[float]) -> None:
    network = Network([Layer([[1.0], [1.0], [-1.0]], [0, 0, 0], 0.0, 1.0), Layer([weights], [0])])
    result = solved(network, Box(-1, 1, 1))
    assert result.lower == max(weights[0] + weights[1], abs(weights[2]))


@pytest.mark.parametrize("depth", [4, 7])
def test_deep_absolute_values_do_not_multiply(depth: int) -> None:
    turn = Layer([[1.0, 1.0], [1.0, -1.0]], [0, 0], -1.0, 1.0)
    zero = Network([*[turn] * depth, Layer([[0.0, 0.0]], [0.0])])
    result = solved(zero, Box(-1, 1, 2))
    assert result.lower == result.upper == 0.0
    assert result.witness is not None
    steps = Network([*[turn] * depth, Layer([[1.0, -1.0]], [0.0])])
    assert solved(steps, Box(-1, 1, 2)).lower == {4: 8.0, 7: 16.0}[depth]


@pytest.mark.parametrize("method", ["mip", "lp"])
@pytest.mark.parametrize(
    "domain",
    [
        lipyomo.ball([0.0, 0.1], 1.0, "l1"),
        lipyomo.ball([0.0, 0.1], 1.0, "l1", clip=(-0.5, 1.0)),
        lipyomo.ball([0.1], 0.7, "l2"),
    ],
    ids=repr,
)
def test_polyhedral_balls_become_linear_programs(method: str, domain: Domain) -> None:
    network = random_network(5, (domain.dimension, 4, 1))
    problem = LipschitzProblem(network, domain)
    exact = lipyomo.solve(problem, "bnb", time_limit=30)
    other = lipyomo.solve(problem, method, time_limit=30)
    assert exact.status == "exact"
    assert other.upper >= exact.lower * (1 - 1e-9)
    if method == "mip":
        assert other.lower == pytest.approx(exact.lower, rel=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_signs_that_float64_gets_wrong_are_exact(seed: int) -> None:
    """A unit that sees a sum of multiples of x + 2 whose factors cancel but for their last bits."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal(9)
    factors[-1] = -factors[:-1].sum()
    exact = sum(map(Fraction, factors.tolist()), Fraction(0))
    network = Network.from_arrays(
        [np.ones((9, 1)), factors[None], [[1.0]]], [np.full(9, 2.0), np.zeros(1), np.zeros(1)]
    )
    moving, first = np.ones(1, dtype=bool), np.ones(9, dtype=bool)
    for on in (False, True):
        found = examine(network, Box(-1, 1, 1), (first, np.array([on])))
        if exact != 0 and on != (exact > 0):
            assert found.point is None
        elif exact != 0:
            assert not found.empty
    for x in (-0.9, 0.1, 0.7):
        pattern = strict_pattern(network, np.array([x]), moving)
        if exact != 0:
            assert pattern is not None
            assert bool(pattern[1][0]) == (exact > 0)
