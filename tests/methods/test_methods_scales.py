"""Answers scale with the weights, and cancellation costs no correctness."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.analyses.api import solve
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Status
from oracle import exact_constant


@pytest.mark.parametrize("power", [-60, -20, 20, 60])
def test_weights_scaled_by_a_power_of_two(power: int) -> None:
    rng = np.random.default_rng(3)
    sizes = [(4, 2), (3, 4), (2, 3)]
    weights = [rng.standard_normal(size) for size in sizes]
    biases = [rng.standard_normal(size[0]) for size in sizes]
    plain = LipschitzProblem(Network.from_arrays(weights, biases), Box(-1, 1, 2), "linf", "linf")
    scale = 2.0**power
    scaled = Network.from_arrays(
        [scale * weights[0], *weights[1:]],
        [scale * biases[0], scale * biases[1], scale * biases[2]],
    )
    result = solve(LipschitzProblem(scaled, plain.domain, "linf", "linf"), "bnb")
    assert result.status is Status.EXACT
    assert result.lower == pytest.approx(scale * exact_constant(plain), rel=1e-9)
    assert result.upper >= scale * exact_constant(plain) * (1 - 1e-12)


def test_constant_function_of_cancelling_units() -> None:
    network = Network.from_arrays(
        [[[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]], [[0.1, -0.1, 0.3, -0.3]]]
    )
    result = solve(LipschitzProblem(network, Box(-1, 1, 2)), "bnb")
    assert result.status is Status.EXACT
    assert result.upper == 0.0


def test_gradient_that_cancels_almost() -> None:
    """Slopes 1e16 + 2 and -1e16 on the same side: the difference is 2, and no rounding hides it."""
    network = Network.from_arrays([[[1.0], [1.0]], [[1e16 + 2.0, -1e16]]], [[2.0, 2.0], [0.0]])
    result = solve(LipschitzProblem(network, Box(-1, 1, 1)), "bnb")
    assert result.lower == 2.0
    assert result.upper >= 2.0
