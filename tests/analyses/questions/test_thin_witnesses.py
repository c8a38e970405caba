"""Witnesses in pieces that hold no float64 point: x + rest, in every answer, file and print-out."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Network
from lipyomo.analyses.maps import map_cells
from lipyomo.cli.main import main
from lipyomo.problems.result import Point

FIRST, SHIFT = ((1.7, -0.6), (5.1, -1.8)), (-1.6, -4.8)
LAST = (-1.4, 0.46671333)
NETWORK = Network.from_arrays([FIRST, [LAST]], [SHIFT, [0.0]])
"""Its two kinks coincide but for rounding: between them lie pieces without float64 points."""

PROBLEM = LipschitzProblem(NETWORK, Box(-3, 3, 2))


def gradient(x: tuple[Fraction, ...]) -> list[Fraction]:
    """The gradient, without rounding."""
    found = [Fraction(0), Fraction(0)]
    for row, bias, out in zip(FIRST, SHIFT, LAST, strict=True):
        if sum((Fraction(w) * y for w, y in zip(row, x, strict=True)), Fraction(bias)) > 0:
            found = [g + Fraction(out) * Fraction(w) for g, w in zip(found, row, strict=True)]
    return found


def check(found: lipyomo.Range, along: tuple[float, float]) -> None:
    """Both ends are attained at their witnesses."""
    assert found.status is lipyomo.Status.EXACT
    ends = zip(found.witnesses, (found.low[1], found.high[0]), (-1, 1), strict=True)
    for at, end, sign in ends:
        assert at is not None
        slope = sum(Fraction(v) * g for v, g in zip(along, gradient(at.exactly), strict=True))
        assert sign * slope >= sign * Fraction(end)
    assert found.low[1] < -0.8
    assert found.high[0] > 0.8


def test_ranges_of_derivatives() -> None:
    entries = lipyomo.jacobian_ranges(PROBLEM, time_limit=60).entries[0]
    check(entries[0], (1.0, 0.0))
    check(entries[1], (0.0, 1.0))
    check(lipyomo.derivative_range(PROBLEM, [1.0], [1.0, 0.0], time_limit=60), (1.0, 0.0))


def test_lie_derivatives_end() -> None:
    """It is decided exactly which of the thin regions exist: boxes along them have no end."""
    field = ([[0.0, 0.0], [0.0, 0.0]], [1.0, 0.0])
    check(lipyomo.lie_derivative(NETWORK, field, Box(-3, 3, 2), time_limit=60), (1.0, 0.0))


@pytest.mark.parametrize("ending", ["npz", "csv", "jsonl"])
def test_maps_and_their_files(ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"map.{ending}"
    found = map_cells(PROBLEM, [PROBLEM.domain], out=out)
    again = map_cells(PROBLEM, [PROBLEM.domain], out=out, time_limit=1e-9)  # from the file alone
    for one in (found, again):
        assert one.status.tolist() == ["exact"]
        at = one.point(0)
        size = sum(map(abs, gradient(at.exactly)))
        assert size >= Fraction(float(one.constant_lower[0])) * (1 - Fraction(1, 10**12))
        largest = one.to_dict()["largest"]
        assert np.array_equal(largest["x"], at.x)
        assert np.array_equal(largest["rest"], at.rest)
        assert next(iter(one.rows()))["rest"].split() == list(map(repr, at.rest.tolist()))


def test_print_outs_name_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "thin.onnx"
    lipyomo.to_onnx(NETWORK, path)
    assert main([str(path), "--box=-3,3"]) == 0
    assert "rest = " in capsys.readouterr().out
    assert main(["jacobian", str(path), "--box=-3,3", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)["entries"][0][0]
    low = entry["witnesses"][0]
    at = Point(np.array(low["x"]), rest=np.array(low["rest"]))
    assert gradient(at.exactly)[0] <= Fraction(entry["low"][1])


def test_a_point_is_a_sum() -> None:
    at = Point.at(np.array([[1.0, 2.0], [2.0**-60, 0.0]]))
    assert at.exactly == (1 + Fraction(1, 2**60), Fraction(2))
    assert at.to_dict() == {"x": [1.0, 2.0], "rest": [2.0**-60, 0.0]}
    assert Point.at(np.array([[1.0], [0.0]])).rest is None
