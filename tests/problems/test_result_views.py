"""A result as people see it, and back from what was saved."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network, Result, Status, solve
from lipyomo.base.errors import LipyomoError, ResultError
from lipyomo.base.system.outputs import OutputError
from lipyomo.problems.result import Guarantee, Point


@pytest.fixture(scope="module")
def found() -> Result:
    network = Network.from_arrays([[[2.0, 1.0], [-1.0, 0.5]], [[1.0, 1.0]]])
    return solve(LipschitzProblem(network, Box(-1, 1, 2)))


def test_repr_has_three_lines(found):
    text = repr(found)
    assert len(text.splitlines()) == 3
    assert "exact" in text
    assert "bnb" in text
    assert f"{found.lower:g}" in text


def test_repr_of_nothing_known():
    text = repr(Result(0.0, math.inf, Status.TIME_LIMIT, "mip"))
    assert "unknown" in text
    assert "time_limit" in text


def test_shown_ends_hold_the_interval():
    third = Result(1 / 3, 2 / 3, Status.GAP, "mip")
    low, high = repr(third).splitlines()[0].split("[")[1].rstrip("]").split(", ")
    assert float(low) <= 1 / 3
    assert float(high) >= 2 / 3


def test_html_escapes(found):
    odd = Result(0.0, 1.0, Status.BOUNDS, "above", Guarantee.UPPER, warnings=["a < b & c"])
    assert "a &lt; b &amp; c" in odd._repr_html_()
    assert found._repr_html_().startswith("<table>")


def test_what_was_saved_comes_back(found):
    back = Result.from_dict(json.loads(found.to_json()))
    assert back == found
    assert back != Result(0.0, math.inf, Status.TIME_LIMIT, "mip")
    assert back.to_dict() == found.to_dict()
    assert np.array_equal(back.witness.x, found.witness.x)
    both = zip(back.witness.pattern, found.witness.pattern, strict=True)
    assert all(np.array_equal(a, b) for a, b in both)
    assert back.is_exact


def test_unknown_ends_come_back():
    open_ = Result(0.0, math.inf, Status.BOUNDS, "clever", Guarantee.HEURISTIC, estimate=2.0)
    back = Result.from_dict(json.loads(open_.to_json()))
    assert back.upper == math.inf
    assert back.value == 2.0


def test_infinite_constants_come_back():
    far = Result(math.inf, math.inf, Status.EXACT, "bnb", history=[(0.5, math.inf, math.inf)])
    assert Result.from_dict(json.loads(far.to_json())) == far


WRONG = (
    *("lower", "upper", "status", "method", "guarantee", "estimate", "formulation", "solver"),
    *("seconds", "nodes", "unstable", "bounds", "basis", "witness", "warnings", "history"),
    "details",
)


@pytest.mark.parametrize("name", WRONG)
def test_an_entry_of_another_type_is_refused_by_its_name(found, name):
    strange = True if name in ("method", "formulation", "solver", "bounds", "basis") else "1.5"
    with pytest.raises(ResultError, match=name):
        Result.from_dict(found.to_dict() | {name: strange})


@pytest.mark.parametrize(
    ("name", "strange"),
    [
        ("lower", math.nan),
        ("lower", True),
        ("nodes", 2.5),
        ("nodes", -1),
        ("status", "excellent"),
        ("status", ["exact"]),
        ("warnings", ["one", 2]),
        ("history", [[0.0, 1.0]]),
        ("history", [[0.0, 1.0, "2"]]),
        ("details", [1]),
    ],
)
def test_so_is_one_of_another_form(found, name, strange):
    with pytest.raises(ResultError, match=name):
        Result.from_dict(found.to_dict() | {name: strange})


@pytest.mark.parametrize(
    "name", ["x", "direction", "functional", "pattern", "margin", "value", "rest"]
)
def test_so_are_those_of_a_witness(found, name):
    witness = found.to_dict()["witness"]
    with pytest.raises(ResultError, match=f"{name}.* of the witness"):
        Result.from_dict(found.to_dict() | {"witness": witness | {name: ["2", [1.0]]}})
    if name != "rest":
        del witness[name]
        with pytest.raises(ResultError, match=f"the witness has no entry '{name}'"):
            Result.from_dict(found.to_dict() | {"witness": witness})


def test_history_as_a_frame(found):
    pytest.importorskip("pandas")
    frame = found.to_frame()
    assert list(frame.columns) == ["seconds", "lower", "upper"]
    assert len(frame) == len(found.history)


def test_results_are_saved_and_loaded(found, tmp_path):
    path = tmp_path / "result.json"
    found.save(path)
    assert Result.load(path) == found
    Result(0.0, math.inf, Status.TIME_LIMIT, "mip").save(path)  # a result may be replaced
    assert Result.load(path).upper == math.inf
    other = tmp_path / "notes.json"
    other.write_text("{}")
    with pytest.raises(OutputError, match="not a result"):
        found.save(other)
    for wrong in (other, tmp_path / "nothing.json", tmp_path):
        with pytest.raises(ResultError, match="Remedy"):
            Result.load(wrong)


def test_results_are_drawn(found, tmp_path):
    pytest.importorskip("matplotlib")
    figure = found.plot(title="two units")
    (axes,) = figure.axes
    assert "two units" in axes.get_title(loc="left")
    assert axes.get_ylim()[1] > found.upper
    found.plot(tmp_path / "result.png")
    assert (tmp_path / "result.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(LipyomoError, match="format"):
        found.plot(tmp_path / "result.nope")


def test_points_are_arrays_for_numpy() -> None:
    """Witnesses of ranges were arrays once, and what takes these goes on."""
    plain = Point(np.array([1.0, 2.0]))
    assert np.asarray(plain).tolist() == list(plain) == [1.0, 2.0]
    assert np.shape(Point(plain.x, rest=np.array([1e-20, 0.0]))) == (2, 2)
