"""Upper ends of semidefinite and polynomial methods hold where gradients cancel."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network, solve

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
    result = solve(LipschitzProblem(network, Box(-1, 1, 1)), method, time_limit=20)
    assert result.upper >= truth


@pytest.mark.parametrize("method", ["sdp", "lipsdp", "hr2", "lipopt"])
def test_upper_ends_hold_for_sums_that_float64_gets_wrong(method: str) -> None:
    """0.1 + 0.2 - 0.3 and the like: the exact sum of the weights as stored counts."""
    from fractions import Fraction

    weights = [[0.1], [0.1], [0.1]]
    outer = [[3e16, -1e16, -2e16]]
    network = Network.from_arrays([weights, outer], [np.full(3, 1.0), np.zeros(1)])
    exact = sum(Fraction(w) * Fraction(0.1) for w in outer[0])
    result = solve(LipschitzProblem(network, Box(-1, 1, 1)), method, time_limit=20)
    assert Fraction(result.upper) >= abs(exact)
