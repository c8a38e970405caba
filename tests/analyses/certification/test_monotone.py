"""Monotone inputs against brute force over all activation regions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lipyomo
from lipyomo.analyses.certification import Trend
from lipyomo.analyses.certification.monotone import (
    SLOPE,
    MonotoneRow,
    MonotoneSettings,
    least_slope,
)
from lipyomo.base.errors import LipyomoError
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Box
from networks import mixed_network, random_network
from oracle import regions


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("make", [random_network, mixed_network])
def test_verdicts_are_those_of_all_regions(seed: int, make: object) -> None:
    network = make(seed, (3, 5, 4, 2))
    rng = np.random.default_rng(seed)
    x, c = rng.uniform(-1, 1, 3), rng.standard_normal(2)
    slopes = np.array([c @ network.jacobian(p) for p, _ in regions(network, Box(x - 0.3, x + 0.3))])
    report = lipyomo.check_monotone(
        network, [x], 0.3, increasing=[0, 2], decreasing=[1], functional=c, workers=1
    )
    for row, i, sign in zip(report.rows, (0, 2, 1), (1, 1, -1), strict=True):
        truth = float((sign * slopes[:, i]).min())
        assert row.input == i
        assert row.slope_lower <= truth + 1e-12
        expected = truth >= -SLOPE * np.abs(slopes).max()
        assert row.verdict is (Trend.MONOTONE if expected else Trend.NOT_MONOTONE)
        if row.slope_upper is not None:
            assert row.slope_upper >= truth - 1e-12
        if not expected:
            ends = np.array([row.point, row.other])
            assert np.flatnonzero(ends[0] != ends[1]).tolist() == [i]
            assert ends[1, i] > ends[0, i]
            assert (np.abs(ends - x) <= 0.3 + 1e-15).all()
            rise = sign * float(c @ (network.forward(ends[1]) - network.forward(ends[0])))
            assert rise == pytest.approx(-row.wrong_by)
            assert row.wrong_by > 0


@pytest.mark.parametrize("method", ["bnb", "mip", "crown", "sdp", "interval"])
def test_every_method_bounds_the_least_slope(method: str) -> None:
    network = random_network(4, (3, 5, 4, 1))
    box = Box(np.full(3, -0.2), np.full(3, 0.4))
    truth = min(network.jacobian(p)[0, 1] for p, _ in regions(network, box))
    found = least_slope(network, box, np.ones(1), 1, MonotoneSettings(method=method))
    assert found.lower <= truth + 1e-12
    assert found.upper >= truth - 1e-12


def test_weights_that_are_not_negative_make_everything_monotone() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.uniform(0, 1, shape) for shape in ((8, 3), (8, 8), (1, 8))]
    biases = [rng.standard_normal(8), rng.standard_normal(8), np.zeros(1)]
    network = Network.from_arrays(weights, biases)
    points = rng.uniform(-1, 1, (5, 3))
    report = lipyomo.check_monotone(network, points, 2.0, increasing=range(3), workers=1)
    assert report.count(Trend.MONOTONE) == 15
    assert report.summary()["inputs"]["2"] == {"monotone": 5}
    report = lipyomo.check_monotone(network, points, 2.0, decreasing=[0], workers=1)
    assert report.count(Trend.NOT_MONOTONE) == 5


def test_onnxruntime_sees_the_counterexample(tmp_path: Path) -> None:
    network = Network.from_arrays([[[1.0], [-1.0]], [[1.0, 1.0]]])  # |x|
    lipyomo.to_onnx(network, tmp_path / "net.onnx")
    report = lipyomo.check_monotone(
        network, [[0.5], [5.0]], 1.0, increasing=[0], workers=1, onnx=tmp_path / "net.onnx"
    )
    assert [row.verdict for row in report.rows] == [Trend.NOT_MONOTONE, Trend.MONOTONE]
    assert [row.confirmed for row in report.rows] == [True, None]


def test_bad_rows_spoil_nothing() -> None:
    network = random_network(0, (3, 4, 1))
    points = [[0.0, 0.0, 0.0], [np.nan, 0.0, 0.0], [3.0, 0.0, 0.0]]
    report = lipyomo.check_monotone(
        network, points, [0.1, 0.0, 0.1], increasing=[0, 1], clip=(-1, 1), workers=1
    )
    errors = [row.error or "" for row in report.rows]
    assert errors[0] == ""
    assert "cannot move" in errors[1]
    assert "NaN" in errors[2]
    assert "clip" in errors[4]
    assert report.summary()["unusable"] == 5


def test_wrong_arguments_are_one_sentence() -> None:
    network = random_network(0, (3, 4, 2))
    for keywords in (
        {},
        {"increasing": [3]},
        {"increasing": [0], "decreasing": [0]},
        {"increasing": [0]},
        {"increasing": [0], "functional": [1.0]},
        {"increasing": [0], "functional": [1.0, np.nan]},
        {"increasing": [0], "functional": [1.0, 0.0], "radius": -1.0},
        {"increasing": [0], "functional": [1.0, 0.0], "radius": [0.1, 0.2]},
        {"increasing": [0], "functional": [1.0, 0.0], "tolerance": -1.0},
        {"increasing": [0], "functional": [1.0, 0.0], "method": "nope"},
        {"increasing": [0], "functional": [1.0, 0.0], "method": "clever"},
        {"increasing": [0], "functional": [1.0, 0.0], "time_limit": 0.0},
    ):
        with pytest.raises(LipyomoError):
            lipyomo.check_monotone(network, np.zeros((2, 3)), **{"radius": 0.1, **keywords})


def test_a_fall_in_the_last_digit_of_the_box_has_no_pair() -> None:
    # |2 x - 1| + relu(x) falls left of 1/2, the end of the ball: only its outward rounding is there
    network = Network.from_arrays(
        [[[2.0], [-2.0], [1.0]], [[1.0, 1.0, 1.0]]], [[-1.0, 1.0, 0.0], [0]]
    )
    report = lipyomo.check_monotone(network, [[1.0], [0.9]], 0.5, increasing=[0], workers=1)
    end, inside = report.rows
    assert end.slope_upper == pytest.approx(-1.0)
    assert end.point is end.other is end.wrong_by is None
    assert 0 < inside.wrong_by <= 0.1


def test_rows_are_read_again_or_refused_by_the_entry() -> None:
    network = Network.from_arrays([[[1.0], [-1.0]], [[1.0, 1.0]]])  # |x|
    (row,) = lipyomo.check_monotone(network, [[0.5]], 1.0, increasing=[0], workers=1).rows
    assert row.verdict is Trend.NOT_MONOTONE
    assert MonotoneRow.from_dict(row.to_dict()) == row
    wrong = {"verdict": "often", "slope_lower": "low", "point": ["a"], "confirmed": 1, "row": 0.5}
    for name, value in wrong.items():
        with pytest.raises(LipyomoError, match=f"'{name}' of the row"):
            MonotoneRow.from_dict(row.to_dict() | {name: value})
    with pytest.raises(LipyomoError, match="no entry 'wanted'"):
        MonotoneRow.from_dict({"index": 0, "row": 0, "input": 0})
