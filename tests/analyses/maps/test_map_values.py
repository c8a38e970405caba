"""Cells in batches say what is true of each: brute force, single solves, and what is hostile."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lipyomo
import networks
import oracle
from lipyomo import AllSpace, Box, LipschitzProblem, Network, map_cells
from lipyomo.analyses.maps import CellMap, Cells, MapSettings, cells_of, grid, refine_cells
from lipyomo.analyses.maps.ends import Narrowing
from lipyomo.analyses.maps.pieces import PatternNorms, Pieces, with_sides
from lipyomo.analyses.maps.result import statuses
from lipyomo.analyses.maps.stages import Constants, Job
from lipyomo.base.errors import LipyomoError

NORMS = [
    (given, output)
    for given in ("linf", "l1", "l2")
    for output in ("linf", "l1", "l2", "cross", "cross(0)")
]


def smooth(seed: int, sizes: tuple[int, ...], activation: str = "tanh") -> Network:
    """A random network with one activation."""
    plain = networks.random_network(seed, sizes)
    return Network.from_arrays(
        [layer.weight for layer in plain.layers],
        [layer.bias for layer in plain.layers],
        activation=activation,
    )


def assert_true(found: CellMap, sample: int, rng: np.random.Generator) -> None:
    """Some cells of a map against the single solves of these."""
    for k in rng.choice(len(found), min(sample, len(found)), replace=False).tolist():
        alone = lipyomo.solve(found.problem.over(found.cells.box(k)))
        slack = 2e-6 * max(alone.upper, 1e-300)
        assert (
            abs(found.constant_upper[k] - alone.upper)
            <= slack + found.gap * found.constant_upper[k]
        )
        assert found.constant_lower[k] <= alone.upper * (1 + 1e-9)
        assert found.constant_upper[k] >= alone.lower * (1 - 1e-9)


def assert_witnessed(found: CellMap) -> None:
    """Every lower end is the norm of the Jacobian at a point of its cell."""
    inside = (found.lower <= found.witness) & (found.witness <= found.upper)
    assert inside.all()
    for x, value, low in zip(found.witness, found.constant_lower, found.lower, strict=True):
        if value > 0:
            cell = found.problem.over(Box(low, found.upper[(found.lower == low).all(1)][0]))
            assert cell.value_at(x).value >= value * (1 - 1e-9)


@pytest.mark.parametrize(("input_norm", "output_norm"), NORMS)
def test_every_pair_of_norms(input_norm: str, output_norm: str) -> None:
    network = networks.random_network(3, (2, 6, 5, 3))
    problem = LipschitzProblem(network, Box(-1, 1, 2), input_norm, output_norm)
    found = map_cells(problem, (4, 3))
    assert found.done
    assert (found.status == "exact").all()
    assert_true(found, 2, np.random.default_rng(0))
    assert_witnessed(found)


@pytest.mark.parametrize(("input_norm", "output_norm"), NORMS)
def test_every_pair_of_norms_with_smooth_units(input_norm: str, output_norm: str) -> None:
    problem = LipschitzProblem(smooth(4, (2, 3, 2, 2)), Box(-1, 1, 2), input_norm, output_norm)
    found = map_cells(problem, (2, 2), gap=0.01)
    assert found.done
    assert_true(found, 2, np.random.default_rng(1))
    for x, value in zip(found.witness, found.constant_lower, strict=True):
        assert problem.value_at(x).value >= value * (1 - 1e-9)


@pytest.mark.parametrize("activation", ["sigmoid", "gelu", "elu", "softsign", "sin"])
def test_other_smooth_units(activation: str) -> None:
    problem = LipschitzProblem(smooth(5, (2, 5, 1), activation), Box(-2, 2, 2))
    found = map_cells(problem, (3, 3))
    assert found.done
    assert_true(found, 2, np.random.default_rng(2))


@given(networks.small_networks(max_units=7, inputs=3), st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_small_networks_against_brute_force(network: Network, data: st.DataObject) -> None:
    box = data.draw(networks.boxes(network.input_dim))
    if box.frozen.any():
        return
    found = map_cells(LipschitzProblem(network, box), (2,) * network.input_dim)
    for k in range(len(found)):
        truth = oracle.exact_constant(found.problem.over(found.cells.box(k)))
        assert found.constant_upper[k] >= truth * (1 - 1e-9)
        assert found.constant_lower[k] <= truth * (1 + 1e-9) + 1e-12
        assert found.status[k] == "exact"


@pytest.mark.parametrize("name", sorted(networks.DEGENERATE))
def test_degenerate_networks(name: str) -> None:
    case = networks.DEGENERATE[name]()
    if not (case.domain.is_box and case.domain.is_bounded):
        return
    moving = np.flatnonzero(~case.domain.frozen)[:2]
    cells = grid(case.domain.lower, case.domain.upper, (2,) * moving.size, moving.tolist())
    found = map_cells(LipschitzProblem(case.network, case.domain, output_norm="linf"), cells)
    for k in range(len(found)):
        truth = oracle.exact_constant(found.problem.over(found.cells.box(k)))
        assert found.constant_lower[k] <= truth * (1 + 1e-9)
        assert found.constant_upper[k] == pytest.approx(truth, rel=1e-6, abs=1e-12)
    if case.constant is not None:
        assert found.largest[1] == pytest.approx(case.constant)


@pytest.mark.parametrize("asked", [{"wrt": [0, 2]}, {"wrt": [2]}, {"wrt": [1, 2], "weights": 2}])
def test_directions_along_inputs_that_cells_fix(asked: dict[str, object]) -> None:
    """Of a smooth network they count where `wrt` names them, of the problem and of a cell."""
    network = smooth(3, (3, 5, 2))
    for domain in (Box([0, 0, 0.5], [1, 1, 0.5]), Box(0, 1, 3)):
        problem = LipschitzProblem(network, domain, output_norm="linf", **asked)  # type: ignore[arg-type]
        cells = grid([0, 0, 0.5], [1, 1, 0.5], (2, 2))
        found = map_cells(problem, cells)
        for k in range(len(cells)):
            alone = LipschitzProblem(network, cells.box(k), output_norm="linf", **asked)  # type: ignore[arg-type]
            truth = lipyomo.solve(alone)
            assert found.constant_upper[k] >= truth.lower
            assert found.constant_lower[k] <= truth.upper
            assert found.status[k] == "exact"


def test_a_kink_on_a_face_belongs_to_the_cell_beyond_it() -> None:
    """The unit relu(x - 1/2) is off left of 1/2, and on right of it."""
    network = networks.relu([[[1.0], [1.0]], [[1.0, 5.0]]], [[1.0, -0.5], [0.0]])
    found = map_cells(LipschitzProblem(network, Box(0, 1, 1)), 2)
    assert found.constant_upper.tolist() == pytest.approx([1.0, 6.0])
    oblique = networks.relu([[[1.0, 1.0], [0.1, 0.3]], [[1.0, 5.0]]], [[-1.0, 9.0], [0.0]])
    corner = map_cells(LipschitzProblem(oblique, Box(0, 1, 2)), (2, 2))
    assert corner.constant_upper.tolist() == pytest.approx([2.0, 4.0, 4.0, 4.0])


def test_kinks_that_all_meet_in_one_point() -> None:
    network = networks.random_network(7, (2, 4, 3, 1), bias=0.0)
    found = map_cells(LipschitzProblem(network, Box(-1, 1, 2)), (2, 2))
    assert (found.status == "exact").all()
    assert_true(found, 5, np.random.default_rng(3))


def test_cells_that_share_an_edge_share_its_numbers() -> None:
    cells = grid(-0.1, 0.3, (7, 3))
    assert cells.grid is not None
    assert cells.grid.shape == (7, 3)
    lower, upper = cells.lower.reshape(7, 3, 2), cells.upper.reshape(7, 3, 2)
    assert (upper[:-1, :, 0] == lower[1:, :, 0]).all()
    assert (upper[:, :-1, 1] == lower[:, 1:, 1]).all()
    assert (lower.min(axis=(0, 1)) == -0.1).all()
    assert (upper.max(axis=(0, 1)) == 0.3).all()


def test_other_inputs_are_fixed_or_range() -> None:
    network = networks.random_network(8, (4, 6, 2))
    fixed = grid([0, 0.5, 0.25, 0], [1, 0.5, 0.25, 1], (3, 3), axes=(3, 0))
    ranging = grid(0.0, 1.0, (3, 3), axes=(3, 0), dimension=4)
    problem = LipschitzProblem(network, Box(0, 1, 4), output_norm="l2")
    for cells in (fixed, ranging):
        found = map_cells(problem, cells)
        assert (found.status == "exact").all()
        assert_true(found, 4, np.random.default_rng(4))
        assert ((found.lower <= found.witness) & (found.witness <= found.upper)).all()
    assert (found.constant_upper >= map_cells(problem, fixed).constant_lower - 1e-9).all()


def test_cells_that_fix_different_inputs() -> None:
    network = networks.random_network(9, (2, 6, 1))
    boxes = [Box([0, 0], [1, 0]), Box([0, 0], [0, 1]), Box(0, 1, 2), Box([0, 1], [1, 1])]
    found = map_cells(LipschitzProblem(network, Box(0, 1, 2)), boxes)
    assert_true(found, 4, np.random.default_rng(5))


def test_directions_restrict_every_cell() -> None:
    network = networks.random_network(10, (3, 6, 5, 2))
    problem = LipschitzProblem(network, Box(-1, 1, 3), wrt=[0, 2], output_norm="linf")
    found = map_cells(problem, (2, 2, 2))
    assert (found.status == "exact").all()
    assert_true(found, 4, np.random.default_rng(6))


@pytest.mark.parametrize("asked", [{"wrt": [1]}, {"weights": [1, 3]}, {"directions": [[2], [-1]]}])
def test_directions_count_where_the_network_has_no_units(asked: dict[str, object]) -> None:
    problem = LipschitzProblem(Network.from_arrays([[[3.0, 1.0]]]), Box(-1, 1, 2), **asked)
    found = map_cells(problem, (2, 2), workers=1)
    assert found.constant_lower == pytest.approx(problem.norm_of(np.array([[3.0, 1.0]])).value)
    assert found.constant_upper == pytest.approx(found.constant_lower)


def test_the_largest_cell_is_the_constant_of_the_box() -> None:
    problem = LipschitzProblem(networks.random_network(11, (2, 8, 6, 1)), Box(-1, 1, 2))
    alone, found = lipyomo.solve(problem), map_cells(problem, (5, 5))
    assert found.largest[1] == pytest.approx(alone.upper, rel=1e-6)
    assert problem.value_at(found.place).value == pytest.approx(alone.lower, rel=1e-6)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["relu", "mixed", "tanh"]))
@settings(max_examples=4, deadline=None)
def test_batches_alone_are_never_wrong(seed: int, kind: str) -> None:
    """Whatever is cut short, the interval of a batch holds what is attained anywhere."""
    sizes = (3, 7, 6, 2)
    made = {
        "relu": networks.random_network,
        "mixed": networks.mixed_network,
        "tanh": smooth,
    }
    problem = LipschitzProblem(made[kind](seed, sizes), Box(-1, 1, 3), output_norm="linf")
    rng = np.random.default_rng(seed)
    low = rng.uniform(-1, 0.5, (20, 3))
    high = np.minimum(low + rng.uniform(0.01, 0.5, (20, 1)), 1.0)
    for effort in (1, 3, 30):
        with mock.patch("lipyomo.analyses.maps.pieces.BUNDLE", 7):  # slices of a few boxes
            ends = Constants(problem, 0.0, effort).bound(Job(low, high))
        assert (ends.lower <= ends.upper * (1 + 1e-12)).all()
        for k in range(20):
            for x in rng.uniform(low[k], high[k], (10, 3)):
                assert problem.value_at(x).value <= ends.upper[k] * (1 + 1e-9)
            assert problem.value_at(ends.points[k]).value >= ends.lower[k] * (1 - 1e-9)


def test_no_time_is_an_honest_interval() -> None:
    problem = LipschitzProblem(networks.random_network(12, (2, 8, 8, 1)), Box(-1, 1, 2))
    found = map_cells(problem, (70, 70), time_limit=1e-6)
    truth = map_cells(problem, (70, 70))
    assert not found.done
    assert set(found.status.tolist()) <= {"exact", "time_limit"}
    assert np.isfinite(found.constant_upper).all()
    assert (found.constant_upper >= truth.constant_lower).all()
    assert (found.constant_lower <= truth.constant_upper).all()


def test_an_interrupted_map_says_so() -> None:
    problem = LipschitzProblem(networks.random_network(13, (2, 6, 1)), Box(-1, 1, 2))
    found = map_cells(problem, (3, 3), should_stop=lambda: True)
    assert set(found.status.tolist()) == {"interrupted"}


def test_two_workers_give_the_same_map() -> None:
    problem = LipschitzProblem(networks.random_network(14, (2, 5, 4, 1)), Box(-1, 1, 2))
    one, two = map_cells(problem, (7, 7)), map_cells(problem, (7, 7), workers=2)
    assert np.allclose(one.constant_upper, two.constant_upper, rtol=1e-6)
    assert np.allclose(one.constant_lower, two.constant_lower, rtol=1e-6)


@pytest.mark.parametrize("largest", [False, True])
def test_refined_cells_cover_what_was_given(largest: bool) -> None:
    problem = LipschitzProblem(smooth(6, (2, 6, 1)), Box(-2, 2, 2))
    found = refine_cells(problem, (2, 2), 0.02, largest=largest)
    assert found.done
    volume = np.prod(found.upper - found.lower, axis=1)
    assert volume.sum() == pytest.approx(16.0)
    best = found.largest[0]
    low = np.full(len(found), best) if largest else found.constant_lower
    assert (found.constant_upper - low <= 0.02 * found.constant_upper * (1 + 1e-12)).all()
    assert_true(replace(found, gap=1.0) if largest else found, 4, np.random.default_rng(7))


def test_refining_ends_where_kinks_meet_in_a_point() -> None:
    network = networks.random_network(7, (2, 5, 1), bias=0.0)
    problem = LipschitzProblem(network, Box(-1, 1, 2))
    found = refine_cells(problem, (4, 4), 1e-2)
    left = found.status == "bounds"
    assert np.abs(found.cells.middle[left]).max(initial=0.0) < 1e-5  # only around the origin
    assert (found.constant_lower <= found.constant_upper).all()
    assert np.prod(found.upper - found.lower, axis=1).sum() == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        (np.zeros((0, 2, 2)), "expected both"),
        ([[0.0, 1.0, 2.0]], "cells of shape"),
        ([[[0.0, 0.0], [0.0, 0.0]]], "single point"),
        ([[[1.0, 0.0], [0.0, 1.0]]], "empty"),
        ([[[0.0, 0.0], [np.inf, 1.0]]], "infinite"),
        ([Box(0, 1, 3)], "inputs"),
        ("none.npy", "cannot read"),
        ((10**7, 10**6), "fewer cells"),
    ],
)
def test_what_are_no_cells_is_refused(given_: object, said: str) -> None:
    problem = LipschitzProblem(networks.random_network(1, (2, 3, 1)), Box(0, 1, 2))
    with pytest.raises(LipyomoError, match=said):
        map_cells(problem, given_)  # type: ignore[arg-type]


def test_only_boxes_can_be_divided() -> None:
    problem = LipschitzProblem(networks.random_network(1, (2, 3, 1)), AllSpace(2))
    with pytest.raises(LipyomoError, match="bounded box"):
        map_cells(problem, (2, 2))


def test_cells_from_files(tmp_path) -> None:
    rows = np.array([[[0.0, 0.0], [1.0, 0.5]], [[0.25, 0.5], [1.0, 2.0]]])
    np.save(tmp_path / "boxes.npy", rows)
    np.savetxt(tmp_path / "boxes.csv", rows.reshape(2, 4), delimiter=",")
    for name in ("boxes.npy", "boxes.csv"):
        found = cells_of(tmp_path / name)
        assert isinstance(found, Cells)
        assert found.lower.tolist() == rows[:, 0].tolist()
        assert found.upper.tolist() == rows[:, 1].tolist()


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from(["linf", "l2"]))
@settings(max_examples=25, deadline=None)
def test_norms_of_all_patterns_are_those_of_each(seed: int, k: int, output_norm: str) -> None:
    """However patterns share their products, the norm of each is that of its own Jacobian."""
    network = networks.mixed_network(seed, (3, 5, 4, 4, 2))
    problem = LipschitzProblem(network, Box(-1, 1, 3), "l2", output_norm)
    pieces, rng = Pieces(PatternNorms(problem)), np.random.default_rng(seed)
    sizes = np.eye(3)  # without what cancels
    for layer in network.layers:
        slopes = np.maximum(np.abs(layer.left), np.abs(layer.right))
        sizes = slopes[:, None] * (np.abs(layer.dense_weight) @ sizes)
    size = problem.norm_of(sizes).value
    on = rng.random((7, 13)) < 0.5
    units = np.sort([rng.choice(13, k, replace=False) for _ in range(7)], axis=1)
    values, errors = pieces.all_norms(on, units)
    for number in range(1 << k):
        sides = with_sides(on, units, np.full(7, number))
        for own, value, error in zip(sides, values[:, number], errors[:, number], strict=True):
            pattern = np.split(own, [5, 9])
            truth = problem.norm_of(network.jacobian(tuple(pattern))).value
            assert abs(truth - value) <= 2 * error + 1e-300
            assert error <= 1e-12 * size


def test_kinks_on_faces_are_settled_without_a_search() -> None:
    """Ranges that touch zero but for their rounding are decided in exact arithmetic."""
    weight = [[1.0, 0.0], [0.0, 0.7], [0.3, 0.3], [1.0, 1.0]]
    network = networks.relu([weight, [[1.0, 3.0, -2.0, 5.0]]], [[-0.5, -0.35, -0.3, 7.0], [0.0]])
    cells = grid(0.0, 1.0, (4, 4))
    ends = Constants(LipschitzProblem(network, Box(0, 1, 2)), 0.0).bound(
        Job(cells.lower, cells.upper)
    )
    for k in range(len(cells)):
        truth = oracle.exact_constant(LipschitzProblem(network, cells.box(k)))
        assert ends.upper[k] == pytest.approx(truth, rel=1e-6)
        assert ends.lower[k] == pytest.approx(truth, rel=1e-6)


def test_heads_that_cancel_are_exact_cell_by_cell() -> None:
    """The slopes of 1e15 that a functional mixes leave .0555: that is no rounding."""
    unit = lipyomo.Curve(lipyomo.activation("tanh"), [0])
    size = 1e15
    head = lipyomo.Layer([[size], [-size], [size]], np.zeros(3))
    network = Network([lipyomo.Layer([[1.0]], [0.0], curves=[unit]), head])
    problem = LipschitzProblem(network, Box(-1, 1, 1), functional=[-0.3, 0.4, 0.7])
    found = map_cells(problem, 2)
    truth = 0.05551115123125783  # in rational arithmetic, at 0
    assert (found.constant_upper >= truth).all()
    assert found.constant_lower == pytest.approx(truth, rel=1e-6)
    assert set(found.status.tolist()) == {"exact"}


def test_ends_that_contradict_each_other_are_told() -> None:
    lower, upper = np.array([1.0, 2.0, 0.0]), np.array([1.0, np.nextafter(2.0, 0.0), 1.0])
    status = statuses(lower, upper, 0.5)
    assert status.tolist() == ["exact", "contradiction", "time_limit"]
    cells = grid([0.0], [3.0], 3)
    problem = LipschitzProblem(networks.random_network(0, (1, 3, 1)), Box(0, 3, 1))
    found = CellMap(problem, cells, lower, upper, status, cells.middle)
    assert not found.done
    assert "defect" in found.summary()


def test_what_is_attained_hides_no_bound() -> None:
    low, high = np.zeros((1, 1)), np.ones((1, 1))
    cells = Narrowing(low, high, 1e-7)
    cells.attain(np.array([0]), np.array([2.0]), np.array([[0.5]]))
    cells.close(np.array([0]), np.array([1.0]))
    assert (cells.ends.lower, cells.ends.upper) == (2.0, 1.0)


@pytest.mark.parametrize("activation", ["tanh", "silu"])
def test_batches_close_cells_within_a_gap(activation: str) -> None:
    """Cells that batches bound by their cutoffs are not searched again for the last digit."""
    network = smooth(0, (2, 16, 16, 1), activation)
    told: list[str] = []
    cells = grid(-2.0, 2.0, (8, 8))
    settings = MapSettings(gap=0.05, workers=1, progress=lambda now: told.append(now.message))
    found = map_cells(LipschitzProblem(network, cells.hull), cells, settings)
    assert not [message for message in told if message.startswith("search")]
    assert set(found.status) == {"gap"}
