"""The report of all estimators: what it counts, and the files that it writes."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest

from experiments.report import ESTIMATORS, Measured, problems, summary, write
from lipyomo.methods.registry import methods

pytest.importorskip("matplotlib", reason="pictures need the extra [plot]")


def row(method: str, value: float, family: str = "toys", truth: float = 2.0) -> Measured:
    return Measured(family, "net", method, str(methods()[method].guarantee), truth, value, 0.5)


ROWS = [
    row("naive", 4.0), row("naive", 6.0), row("naive", 20.0), row("naive", 8.0, "others"),
    row("clever", 1.0), row("clever", 2.0), row("clever", 2.4), row("lp", math.nan),
]  # fmt: skip


def test_the_summary_has_medians_the_farthest_and_how_often_below() -> None:
    head, *rows = summary(ROWS)
    assert head[2:4] == ("toys", "others")
    table = {cells[0]: cells[1:] for cells in rows}
    assert table["naive"] == ("upper", "3 (10)", "4 (4)", "0 of 4", "0.5")
    assert table["clever"] == ("heuristic", "1 (0.5)", "", "1 of 3", "0.5")
    assert "lp" not in table  # it refused all problems


def test_all_files_are_written(tmp_path: Path) -> None:
    table = write(ROWS, ["large [1, 2]"], tmp_path)
    assert table.count("\n") == 3
    assert "large [1, 2]" in (tmp_path / "report.md").read_text()
    with (tmp_path / "report.csv").open() as file:
        assert [float(found["value"]) for found in csv.DictReader(file)][:3] == [4.0, 6.0, 20.0]
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "gaps.svg").read_text()


def test_the_estimators_and_problems_exist() -> None:
    assert set(ESTIMATORS) <= set(methods())
    families = [family for family, _, problem in problems() if problem.network.hidden]
    assert len(set(families)) == 5
    assert families.count("MNIST balls") == 9
