"""Rows, relative errors and their formats."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lipyomo.analyses.compare import (
    Row,
    plot_rows,
    reference_interval,
    to_csv,
    to_json,
    with_errors,
)
from lipyomo.base.errors import ProblemError
from lipyomo.base.system.outputs import OutputError


def row(method: str, guarantee: str, value: float | None, **changes: object) -> Row:
    lower = value if guarantee in ("lower", "exact") and value else 0.0
    upper = value if guarantee in ("upper", "exact") and value else math.inf
    data: dict[str, object] = {
        "network": "net",
        "norms": "linf -> |.|",
        "method": method,
        "title": method.title(),
        "guarantee": guarantee,
        "status": "exact" if guarantee == "exact" else "bounds",
        "value": value,
        "lower": lower,
        "upper": upper,
        "seconds": 0.5,
    }
    return Row(**(data | changes))  # type: ignore[arg-type]


ROWS = [
    row("naive", "upper", 30.0),
    row("fastlip", "upper", 15.0),
    row("random_lb", "lower", 8.0),
    row("clever", "heuristic", 9.0),
    row("lipopt", "upper", None, status="refused", message="too large"),
]


def test_errors_to_an_exact_value() -> None:
    rows = with_errors([*ROWS, row("mip", "exact", 10.0)])
    assert [r.error for r in rows] == pytest.approx([2.0, 0.5, -0.2, -0.1, None, 0.0])


def test_errors_to_the_best_interval() -> None:
    assert reference_interval(ROWS) == (8.0, 15.0)
    rows = with_errors(ROWS)
    assert [r.error for r in rows] == pytest.approx([1.0, 0.0, 0.0, 0.0, None])


def test_a_method_out_of_time_tightens_the_interval() -> None:
    late = row("bnb", "exact", 12.0, status="time_limit", lower=9.0, upper=12.0)
    assert reference_interval([*ROWS, late]) == (9.0, 12.0)


@given(st.lists(st.floats(0.1, 100.0), min_size=1), st.floats(0.1, 100.0))
def test_the_exact_value_has_no_error(values: list[float], truth: float) -> None:
    rows = [row(f"m{i}", "heuristic", value) for i, value in enumerate(values)]
    found = with_errors([*rows, row("mip", "exact", truth)])
    assert found[-1].error == 0.0
    for before, after in zip(values, found, strict=False):
        assert after.error == pytest.approx(before / truth - 1.0, abs=2e-9)


def test_json_and_csv_hold_the_same_numbers() -> None:
    rows = with_errors(ROWS)
    data = json.loads(to_json(rows))
    table = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert [d["method"] for d in data] == [t["method"] for t in table]
    assert data[0]["value"] == float(table[0]["value"]) == 30.0
    assert data[2]["upper"] is None
    assert table[2]["upper"] == ""
    assert table[4]["message"] == "too large"


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_picture_is_written(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra [plot]")
    file = tmp_path / f"rows.{suffix}"
    plot_rows(with_errors([*ROWS, row("mip", "exact", 10.0)]), file)
    assert file.stat().st_size > 1000
    if suffix == "svg":
        assert "exact" in file.read_text()


def test_pictures_that_cannot_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra [plot]")
    with pytest.raises(ProblemError, match="nothing to draw"):
        plot_rows([row("x", "upper", None)], tmp_path / "a.png")
    with pytest.raises(ProblemError, match="cannot draw"):
        plot_rows(ROWS, tmp_path / "a.nonsense")
    with pytest.raises(OutputError, match="there is no folder"):
        plot_rows(ROWS, tmp_path / "missing" / "a.png")
