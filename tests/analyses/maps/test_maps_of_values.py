"""Maps of values, of residuals say, against samples and searches of single cells."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Network, map_cells, networks, refine_cells
from lipyomo.analyses.maps import grid
from lipyomo.analyses.maps.store import CellFile
from lipyomo.base.errors import LipyomoError, MethodError
from lipyomo.search.objectives.ends import (
    boxes_over,
    ranges_of_values,
    relaxed_forwards,
    values_at,
)
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion


def made(sizes: tuple[int, ...], kind: str, seed: int) -> Network:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(sizes))
    weights = [rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairs]
    biases = [0.3 * rng.normal(size=b) for _, b in pairs]
    return Network.from_arrays(weights, biases, activation=kind)


def left_over(kind: str, seed: int) -> Network:
    return networks.residual(
        made((2, 4, 3, 1), kind, seed), lambda u, x: u.d(0) + u * u.d(1) - 0.1 * u.d(1, 1)
    )


def inside(found: lipyomo.analyses.maps.CellMap, k: int, count: int = 40) -> np.ndarray:
    """Points of a cell, its corners among them."""
    rng = np.random.default_rng(k)
    share = rng.choice([0.0, 0.3, 0.5, 1.0], size=(count, found.cells.dimension))
    return found.lower[k] + share * (found.upper[k] - found.lower[k])


def check(found: lipyomo.analyses.maps.CellMap, network: Network) -> None:
    for k in range(len(found)):
        sizes = np.abs(network.forward(inside(found, k))).max(axis=1)
        assert sizes.max() <= found.constant_upper[k] * (1 + 1e-9)
        there = np.abs(network.forward(found.witness[k])).max()
        assert there >= found.constant_lower[k] * (1 - 1e-9)
        assert (found.lower[k] <= found.witness[k]).all()
        assert (found.witness[k] <= found.upper[k]).all()


@pytest.mark.parametrize("kind", ["tanh", "softplus"])
def test_the_sizes_of_a_residual(kind: str) -> None:
    network, domain = left_over(kind, 0), Box(-1, 1, 2)
    problem = LipschitzProblem(network, domain, output_norm="linf")
    found = map_cells(problem, (3, 2), of="values")
    assert found.done
    check(found, network)
    whole = lipyomo.largest_value(problem, time_limit=20)
    assert found.largest == pytest.approx((whole.lower, whole.upper), rel=2e-6)
    assert "size of the value" in found.what
    assert found.to_dict()["of"] == "values"


def test_gaps_are_those_of_the_largest_value_of_all() -> None:
    network = left_over("tanh", 1)
    problem = LipschitzProblem(network, Box(-1, 1, 2), output_norm="linf")
    found = map_cells(problem, (6, 6), of="values", gap=0.1)
    check(found, network)
    assert found.done
    assert found.scale == np.abs(network.forward(found.cells.middle)).max()
    room = 0.1 * np.maximum(found.constant_upper, found.scale)
    assert (found.constant_upper - found.constant_lower <= room * (1 + 1e-9)).all()
    assert found.gaps.max() <= 0.1 * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["sin", "relu"])
def test_several_outputs_and_networks_with_kinks(kind: str) -> None:
    network = made((2, 3, 3), kind, 2)
    problem = LipschitzProblem(network, Box(-1, 1, 2), output_norm="linf")
    found = map_cells(problem, (3, 2), of="values")
    assert found.done
    check(found, network)
    for k in (0, 5):
        own = problem.over(Box(found.lower[k], found.upper[k]))
        alone = lipyomo.largest_value(own)
        assert found.constant_upper[k] == pytest.approx(alone.upper, rel=2e-6)


def test_inputs_that_are_fixed_stay_so() -> None:
    network = made((3, 4, 1), "tanh", 3)
    cells = grid([-1, -1, 0.2], [1, 1, 0.2], (4, 4), axes=(0, 1))
    problem = LipschitzProblem(network, Box(-1, 1, 3), output_norm="linf")
    found = map_cells(problem, cells, of="values")
    assert found.done
    check(found, network)
    assert (found.witness[:, 2] == 0.2).all()


def test_a_time_that_is_over_leaves_bounds() -> None:
    network = left_over("tanh", 4)
    problem = LipschitzProblem(network, Box(-1, 1, 2), output_norm="linf")
    found = map_cells(problem, (4, 4), of="values", time_limit=1e-6)
    check(found, network)
    assert not found.done


def test_refined_cells_and_files(tmp_path: Path) -> None:
    network, domain = left_over("tanh", 5), Box(-1, 1, 2)
    problem = LipschitzProblem(network, domain, output_norm="linf")
    found = refine_cells(problem, (2, 2), 0.05, of="values")
    check(found, network)
    assert len(found) > 4
    assert found.done
    path = tmp_path / "map.npz"
    first = map_cells(problem, (3, 3), of="values", out=path)
    again = map_cells(problem, (3, 3), of="values", out=path)
    np.testing.assert_array_equal(first.constant_upper, again.constant_upper)
    with pytest.raises(LipyomoError, match="another map"):
        map_cells(problem, (3, 3), out=path)


def test_cells_that_are_close_beside_the_largest_value_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gaps of values are relative to a sampled size of all: also what an interrupt leaves."""
    monkeypatch.setattr(CellFile, "finish", lambda self, found: None)
    problem = LipschitzProblem(made((2, 3, 1), "tanh", 8), Box(-1, 1, 2), output_norm="linf")
    path = tmp_path / "map.csv"
    found = map_cells(problem, (12, 12), of="values", gap=0.1, out=path)
    assert found.done
    own = found.constant_upper - found.constant_lower > 0.1 * found.constant_upper
    assert own.any()
    with path.open() as stream:
        kept = {
            int(row["index"]) for row in csv.DictReader(line for line in stream if line[0] != "#")
        }
    assert kept == set(range(len(found)))


def test_what_is_no_map_is_refused() -> None:
    problem = LipschitzProblem(made((2, 3, 2), "tanh", 6), Box(-1, 1, 2), output_norm="l2")
    with pytest.raises(MethodError, match="no vertices"):
        map_cells(problem, (2, 2), of="values")
    with pytest.raises(MethodError, match="no map of 'sizes'"):
        map_cells(problem, (2, 2), of="sizes")


@pytest.mark.parametrize("kind", ["tanh", "gelu", "sin"])
def test_one_look_and_points_enclose_all_values(kind: str) -> None:
    """On wide, narrow and thin boxes, for functions and their negatives."""
    network, rng = left_over(kind, 7), np.random.default_rng(0)
    context = BoxContext.of(
        BoxQuestion(LipschitzProblem(network, Box(-2, 2, 2), output_norm="linf"))
    )
    low = rng.uniform(-2, 1, (30, 2))
    high = np.minimum(low + rng.choice([1.0, 1e-2, 1e-6, 0.0], size=(30, 2)), 2.0)
    boxes = boxes_over(context, low, high)
    rows = np.arange(30) % 2
    boxes = type(boxes)(**{**boxes.encode(), "rows": rows})
    least, largest = ranges_of_values(relaxed_forwards(context, boxes), boxes.rows)
    points = low + rng.uniform(0, 1, (200, 30, 2)) * (high - low)
    values = network.forward(points)[:, :, 0] * np.where(rows == 0, 1.0, -1.0)
    size = 1e-9 * np.abs(values).max()
    assert (least <= values.min(axis=0) + size).all()
    assert (values.max(axis=0) - size <= largest).all()
    found, off = values_at(context, points[0])
    assert (np.abs(found[:, 0] - network.forward(points[0])[:, 0]) <= off[:, 0] + size).all()
    assert off.max() <= 1e-9 * max(1.0, np.abs(found).max())
