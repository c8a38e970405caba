"""All entries of a Jacobian in batches of boxes, against all regions."""

from __future__ import annotations

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem
from lipyomo.analyses.maps.pieces import Excess
from lipyomo.analyses.maps.relu import bound_entries, divided
from lipyomo.base.clock import Clock
from networks import mixed_network, random_network
from oracle import regions


@pytest.mark.parametrize("effort", [1, 6, 400])
@pytest.mark.parametrize("seed", range(6))
def test_no_entry_exceeds_what_is_known_by_more(seed: int, effort: int) -> None:
    """However few boxes a cell may take, and however little is attained at first."""
    make = random_network if seed % 2 else mixed_network
    network, box = make(seed, (2, 5, 4, 2)), Box(-1, 1, 2)
    problem = LipschitzProblem(network, box).reduced.problem
    truth = np.array([network.jacobian(pattern) for pattern, _ in regions(network, box)])
    attained = np.array([-truth[0], truth[0]])
    tolerance = np.full(truth[0].shape, 1e-6)

    def look(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        for jacobian in (network.jacobian_at(x) for x in points):
            np.maximum(attained, [-jacobian, jacobian], out=attained)
        return attained.copy(), tolerance

    measure = Excess(problem, np.eye(2), *look(np.zeros((0, 2))), 0.4)
    ends = divided(box.lower, box.upper, 4)
    excess, boxes = bound_entries(measure, *ends, Clock(), look, effort)
    assert boxes >= len(ends[0])
    assert (truth.max(axis=0) <= attained[1] + excess * tolerance + 1e-12).all()
    assert (-truth.min(axis=0) <= attained[0] + excess * tolerance + 1e-12).all()
    if effort == 400:
        assert excess <= 0.4
        np.testing.assert_allclose(attained[1], truth.max(axis=0), rtol=1e-9, atol=1e-12)


def test_cells_make_up_the_box() -> None:
    low, high = divided(np.array([-1.0, 0.0, 2.0]), np.array([1.0, 0.5, 6.0]), 16)
    assert len(low) == 16
    assert (high - low).prod(axis=1).sum() == 2.0 * 0.5 * 4.0
    assert low.min(axis=0).tolist() == [-1.0, 0.0, 2.0]
    assert high.max(axis=0).tolist() == [1.0, 0.5, 6.0]


def test_a_table_of_more_inputs_is_searched() -> None:
    """Five inputs: too many for batches of boxes."""
    network = random_network(3, (5, 4, 3, 1))
    box = Box(-1, 1, 5)
    truth = np.array([network.jacobian(pattern) for pattern, _ in regions(network, box)])
    found = lipyomo.jacobian_ranges(LipschitzProblem(network, box))
    assert found.status == "exact"
    high = np.array([[entry.high[0] for entry in row] for row in found.entries])
    low = np.array([[entry.low[1] for entry in row] for row in found.entries])
    np.testing.assert_allclose(high, truth.max(axis=0), rtol=3e-6, atol=1e-9)
    np.testing.assert_allclose(low, truth.min(axis=0), rtol=3e-6, atol=1e-9)
