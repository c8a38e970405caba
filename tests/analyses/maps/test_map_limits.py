"""Time limits of maps: cells that are not reached have the bound of all cells together."""

from __future__ import annotations

import numpy as np
import pytest

import networks
from lipyomo import Box, LipschitzProblem, map_cells
from lipyomo.analyses.maps import pieces, relu, smooth, values
from lipyomo.analyses.maps.cells import grid
from lipyomo.analyses.maps.ends import Slices
from lipyomo.analyses.maps.refine import refine_cells
from lipyomo.analyses.maps.relu import PatternCells
from lipyomo.analyses.maps.smooth import SmoothCells
from lipyomo.analyses.maps.stages import EFFORT, Constants, Job
from lipyomo.analyses.maps.values import Values
from lipyomo.base.clock import Clock
from lipyomo.networks.network import Network
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.relaxing.gradient import enclosed
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed


def problem_of(sizes: tuple[int, ...], activation: str = "relu") -> LipschitzProblem:
    network = networks.random_network(5, sizes)
    if activation != "relu":
        weights = [layer.weight for layer in network.layers]
        biases = [layer.bias for layer in network.layers]
        network = Network.from_arrays(weights, biases, activation=activation)
    return LipschitzProblem(network, Box(-1.0, 1.0, sizes[0]), output_norm="linf")


def test_a_limit_is_noticed_between_cells_of_a_large_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first cell takes all of the time, so no other cell is bounded."""
    now, seen = [0.0], []
    plain = pieces.PatternNorms.relaxed

    def slow(self, phases, terms):  # type: ignore[no-untyped-def]
        now[0] += 2.0
        seen.append(len(phases))
        return plain(self, phases, terms)

    monkeypatch.setattr(pieces.PatternNorms, "relaxed", slow)
    problem = problem_of((700, 800, 2))
    cells = grid(problem.domain.lower, problem.domain.upper, (3, 2))
    bounding = PatternCells(problem, 0.0, EFFORT)
    ends = bounding.bounded(cells.lower, cells.upper, Clock(1.0, now=lambda: now[0]))
    assert seen == [1]
    assert np.isfinite(ends.upper).tolist() == [True] + 5 * [False]


@pytest.mark.parametrize("kind", ["relu", "tanh", "values"])
def test_no_cell_is_bounded_once_the_time_is_over(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a bound is computed after the limit")

    for module, name in (
        (relu, "_examined"),
        (smooth, "relaxed"),
        (smooth, "bounded"),
        (values, "relaxed_forwards"),
    ):
        monkeypatch.setattr(module, name, never)
    problem = problem_of((3, 6, 2), "relu" if kind == "relu" else "tanh")
    made = Values if kind == "values" else Constants
    cells = grid(problem.domain.lower, problem.domain.upper, (3, 2, 1))
    ends = made(problem, 0.0).bound(Job(cells.lower, cells.upper, 0.0))
    assert np.isinf(ends.upper).all()
    assert (ends.lower == 0.0).all()


@pytest.mark.parametrize("of", ["constants", "values"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_cells_that_are_not_reached_are_told(activation: str, of: str) -> None:
    problem = problem_of((2, 8, 8, 2), activation)
    found, truth = map_cells(problem, (3, 3), of=of, time_limit=1e-9), map_cells(problem, 3, of=of)
    assert found.unreached.tolist() == list(range(9))
    assert found.whole >= truth.largest[0]
    assert np.isfinite(found.whole)
    assert "not reached         9 cells" in found.summary()
    assert not truth.unreached.size
    assert "not reached" not in truth.summary()


def test_a_cell_that_attains_the_bound_of_all_was_reached() -> None:
    """Its gap is that of its own bound, which is as large."""
    weights = [np.array([[1.0, 0.3], [0.1, 0.7]]), np.array([[1.0, 0.1]])]
    network = Network.from_arrays(weights, [np.array([-0.2, -0.1]), np.zeros(1)])
    found = map_cells(LipschitzProblem(network, Box(0, 1, 2)), (2, 2), of="values", time_limit=60.0)
    assert found.done
    assert found.whole in found.constant_upper
    assert not found.unreached.size
    assert "not reached" not in found.summary()


def test_cells_whose_values_vanish_are_exact() -> None:
    """Without a limit, none of them may say that it ended."""
    weights = [np.array([[1.0, 0.3], [0.1, 0.7]]), np.array([[1.0, 0.1]])]
    network = Network.from_arrays(weights, [np.array([-0.7, -0.6]), np.zeros(1)])
    found = map_cells(LipschitzProblem(network, Box(0, 1, 2)), (2, 2), of="values")
    assert found.constant_lower[0] == 0.0
    assert found.constant_upper[0] < 1e-9
    assert found.done


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_refining_ends_with_the_bounds_of_larger_cells(
    activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells that are not reached after a bisection keep the bound of the whole they came from."""
    problem = problem_of((2, 8, 8, 2), activation)
    kind = SmoothCells if activation == "tanh" else PatternCells
    plain, calls = kind.bounded, [0]

    def once(self, low, high, clock):  # type: ignore[no-untyped-def]
        calls[0] += 1
        return plain(self, low, high, clock if calls[0] == 1 else Clock(0.0))

    monkeypatch.setattr(kind, "bounded", once)
    monkeypatch.setattr("lipyomo.analyses.maps.refine.GLANCE", 1)
    found = refine_cells(problem, (2, 2), 1e-3, most=8)
    assert calls[0] > 1
    assert np.isfinite(found.constant_upper).all()
    monkeypatch.undo()
    truth = map_cells(problem, found.cells)
    assert (found.constant_upper >= truth.constant_lower).all()


def test_the_jacobian_at_points_has_no_slopes() -> None:
    """Only inputs that move have columns: at points of many inputs these took all of the time."""
    problem = problem_of((4, 6, 3), "tanh")
    context, rng = BoxContext.of(BoxQuestion(problem)), np.random.default_rng(0)
    low = rng.uniform(-1.0, 0.5, (5, 4))
    for moving in ([], [1, 3]):
        high = low.copy()
        high[:, moving] += 1e-3
        boxes = Boxes.over(context, low, high)
        boxes = boxes.take(slice(0, None, len(boxes) // 5))
        known = relaxed(context, boxes, (0.0 * low, 0.0 * low))
        found = enclosed(known, np.broadcast_to(context.head, (5, *context.head.shape)), None)
        assert found.slopes.shape == (5, 3, len(moving), 4)
        points = low + rng.uniform(0.0, 1.0, (50, 5, 4)) * (high - low)
        for n in range(5):
            for k, row in enumerate(np.eye(3)):
                exact = problem.network.gradients(points[:, n], row)
                assert (np.abs(exact - found.middle[n, k]) <= found.radius[n, k] + 1e-12).all()


@pytest.mark.parametrize("seconds", [0.0, 1.0, 40.0])
def test_slices_grow_as_far_as_the_time_allows(seconds: float) -> None:
    """The first has one box; none is expected to take more than a share of the time left."""
    now = [0.0]
    slices, sizes = Slices(64, Clock(1e3, now=lambda: now[0])), []
    for part in slices.of(500):
        sizes.append(len(range(500)[part]))
        now[0] += seconds * sizes[-1]
    assert sum(sizes) == 500
    assert sizes[:2] == ([1, 1] if seconds == 40.0 else [1, 2])
    assert max(sizes) == 64 if seconds == 0.0 else 1 <= max(sizes) * seconds <= 0.05 * 1e3
    assert [part.stop for part in Slices(64, Clock()).of(130)] == [64, 128, 192]
