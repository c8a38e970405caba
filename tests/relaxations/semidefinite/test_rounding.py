"""Upper ends of semidefinite and polynomial methods hold where gradients cancel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network, solve
from lipyomo.problems.affine.system import UnitSystem
from lipyomo.problems.targets import targets_of
from lipyomo.relaxations.semidefinite.prove import Prover
from networks import random_network

METHODS = ("sdp", "lipsdp", "eclipse", "hr1", "hr2", "lipopt")


def cancelling(scale: float, deep: bool) -> tuple[Network, float]:
    """A network whose gradient is one small number after large ones have cancelled."""
    first = np.array([[1.0], [1.0], [1.0]])
    big = np.array([[scale, -scale, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    if not deep:
        head = np.array([[scale, -scale, 1.0]])
        return Network.from_arrays([first, head], [np.full(3, 2.0), np.zeros(1)]), 1.0
    shift = np.array([0.0, 2.0, 0.5])
    head = np.array([[1.0, 1.0, 1.0]])
    return Network.from_arrays([first, big, head], [np.full(3, 2.0), shift, np.zeros(1)]), 1.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1.0, 3e7, 0.1 * 2.0**60])
@pytest.mark.parametrize("deep", [False, True])
def test_upper_ends_hold_where_gradients_cancel(method: str, scale: float, deep: bool) -> None:
    network, truth = cancelling(scale, deep)
    problem = LipschitzProblem(network, Box(-1, 1, 1))
    result = solve(problem, method, time_limit=20, attain=False)
    assert result.upper >= truth


@pytest.mark.parametrize("method", ["sdp", "lipsdp", "hr2", "lipopt"])
def test_upper_ends_hold_for_sums_that_float64_gets_wrong(method: str) -> None:
    """0.1 + 0.2 - 0.3 and the like: the exact sum of the weights as stored counts."""
    from fractions import Fraction

    weights = [[0.1], [0.1], [0.1]]
    outer = [[3e16, -1e16, -2e16]]
    network = Network.from_arrays([weights, outer], [np.full(3, 1.0), np.zeros(1)])
    exact = sum(Fraction(w) * Fraction(0.1) for w in outer[0])
    problem = LipschitzProblem(network, Box(-1, 1, 1))
    result = solve(problem, method, time_limit=20, attain=False)
    assert Fraction(result.upper) >= abs(exact)


@pytest.mark.parametrize("roughness", [1e-9, 1e-3])
@pytest.mark.parametrize("seed", range(3))
def test_errors_of_gradients_count_weights_that_are_off(seed: int, roughness: float) -> None:
    """Each weight by a share of its size, as those of a presolved network may be."""
    rng = np.random.default_rng(seed)
    network, box = random_network(seed, (3, 6, 5, 2)), Box(-1, 1, 3)

    def moved(share: float) -> UnitSystem:
        layers = [
            replace(v, weight=v.weight * (1.0 + share * rng.choice([-1.0, 1.0], v.weight.shape)))
            for v in network.layers
        ]
        return UnitSystem(Network(layers), np.eye(2), box, network, roughness)

    problem = LipschitzProblem(network, box)
    errors = Prover(moved(0.0), targets_of(problem)).gradient_errors
    given, other = moved(0.0), moved(0.99 * roughness)
    largest = 0.0
    for _ in range(100):
        phases = rng.integers(0, 2, given.count).astype(np.int8)
        away = np.abs(given.form(phases).jacobian - other.form(phases).jacobian)
        assert (away <= errors).all()
        largest = max(largest, float((away / errors).max()))
    assert largest > 1e-3
