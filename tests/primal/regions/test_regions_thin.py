"""Regions count however thin, far or small they are; those without interior never do."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.analyses.api import solve
from lipyomo.networks.network import Network
from lipyomo.primal.regions import examine
from lipyomo.problems.domains import AllSpace, Box, Domain, ball
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Status


def step(width: float) -> Network:
    """``relu(x) - relu(x - width)``: slope one on an interval of that width, else zero."""
    return Network.from_arrays([[[1.0], [1.0]], [[1.0, -1.0]]], [[0.0, -width], [0.0]])


@pytest.mark.parametrize("method", ["bnb", "mip"])
@pytest.mark.parametrize("width", [1e-6, 1e-10, 1e-13])
def test_thin_region_counts(width: float, method: str) -> None:
    result = solve(LipschitzProblem(step(width), Box(-1, 1, 1)), method)
    assert result.upper >= 1.0
    assert result.lower == 1.0


@pytest.mark.parametrize("method", ["bnb", "mip"])
@pytest.mark.parametrize("size", [1e-12, 1e-9, 1e-5, 1e5, 1e9])
def test_boxes_of_any_size(size: float, method: str) -> None:
    network = Network.from_arrays([[[1.0], [1.0]], [[1.0, -3.0]]], [[size / 2, -size / 3], [0.0]])
    result = solve(LipschitzProblem(network, Box(-size, size, 1)), method)
    assert result.status is Status.EXACT
    assert result.lower == pytest.approx(2.0, rel=1e-12)


def test_region_far_away() -> None:
    """Both units are on where x_1 > 0 and x_2 > 1e9 (1 + x_1) only."""
    network = Network.from_arrays([[[1.0, 0.0], [-1.0, 1e-9]], [[1.0, -1.0]]], [[0.0, -1.0], [0.0]])
    result = solve(LipschitzProblem(network, AllSpace(2)), "bnb")
    assert result.upper >= 2.0 + 1e-9 - 1e-15


def test_cap_of_a_ball() -> None:
    network = Network.from_arrays(
        [[[1.0, 0.0], [1.0, 0.0]], [[1.0, 3.0]]], [[-(1 - 1e-9), -0.9], [0.0]]
    )
    result = solve(LipschitzProblem(network, ball([0.0, 0.0], 1.0, "l2")), "bnb")
    assert result.upper >= 4.0 * (1 - 1e-12)


@pytest.mark.parametrize("method", ["bnb", "mip"])
def test_large_offsets_cancel(method: str) -> None:
    """``relu(x + 1e8) - 1e8`` is the identity near zero; its kinks cost no more than rounding."""
    network = Network.from_arrays(
        [[[1.0]], [[1.0], [-1.0]], [[1.0, 1.0]]], [[1e8], [-1e8, 1e8], [0.0]]
    )
    result = solve(LipschitzProblem(network, Box(-1e-9, 1e-9, 1)), method)
    assert result.lower <= 1.0 <= result.upper


@pytest.mark.parametrize(
    ("domain", "weights", "biases", "empty"),
    [
        (Box(-1, 1, 2), [[1.0, 1.0], [-1.0, -1.0]], [0.0, 0.0], True),
        (Box(-1, 1, 2), [[1.0, 1.0], [-1.0, -1.0]], [0.0, 2.0**-52], False),
        (Box(-1, 1, 2), [[1.0, 1.0]], [-2.0], True),
        (Box(-1, 1, 2), [[1.0, 1.0]], [-2.0 + 2.0**-51], False),
        (AllSpace(2), [[1.0, 3.0], [-1.0, -1.0], [0.0, -1.0]], [0.0, 0.0, 0.0], True),
        (AllSpace(2), [[1.0, 3.0], [-1.0, -1.0], [0.0, -1.0]], [0.0, 2.0**-50, 0.0], False),
        (ball([0.0, 0.0], 1.0, "l2"), [[1.0, 0.0]], [-1.0], True),
        (ball([0.0, 0.0], 1.0, "l2"), [[1.0, 0.0]], [-1.0 + 2.0**-53], False),
        (ball([0.0, 0.0], 1.0, "l1"), [[1.0, 1.0]], [-1.0], True),
        (ball([0.0, 0.0], 1.0, "l1"), [[1.0, 1.0]], [-1.0 + 2.0**-53], False),
    ],
)
def test_emptiness_is_decided_exactly(
    domain: Domain, weights: list[list[float]], biases: list[float], empty: bool
) -> None:
    network = Network.from_arrays([weights, np.ones((1, len(weights)))], [biases, [0.0]])
    pattern = (np.ones(len(weights), dtype=bool),)
    assert examine(network, domain, pattern).empty is empty


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_region_beyond_all_floats() -> None:
    """The second unit is on beyond 2e323 only, where no float64 lies: no point, and no proof."""
    network = Network.from_arrays([[[1.0], [5e-324]], [[1.0, 1.0]]], [[0.0, -1.0], [0.0]])
    found = examine(network, AllSpace(1), (np.array([True, True]),))
    assert found.point is None
    assert found.support is None
