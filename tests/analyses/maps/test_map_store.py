"""Files of maps: what is in them, going on, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import networks
from lipyomo import Box, LipschitzProblem, map_cells
from lipyomo.analyses.maps import CellMap
from lipyomo.base.errors import LipyomoError

ENDINGS = ["npz", "csv", "jsonl"]


@pytest.fixture
def problem() -> LipschitzProblem:
    """A small one."""
    return LipschitzProblem(networks.random_network(2, (2, 6, 5, 1)), Box(-1, 1, 2))


def numbers_in(path: Path) -> list[tuple[float, float, str]]:
    """Ends and status of each cell of a file, in order."""
    if path.suffix == ".npz":
        with np.load(path) as held:
            names = ("constant_lower", "constant_upper", "status")
            return list(zip(*(held[name].tolist() for name in names), strict=True))
    lines = path.read_text().splitlines()
    rows = csv.DictReader(lines) if path.suffix == ".csv" else map(json.loads, lines[1:])
    ordered = sorted(rows, key=lambda row: int(row["index"]))
    return [(float(row["lower"]), float(row["upper"]), row["status"]) for row in ordered]


def as_rows(found: CellMap) -> list[tuple[float, float, str]]:
    """The same of a map."""
    ends = found.constant_lower, found.constant_upper, found.status
    return list(zip(*(end.tolist() for end in ends), strict=True))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_holds_the_map_and_is_taken_again(
    ending: str, problem: LipschitzProblem, tmp_path: Path
) -> None:
    path = tmp_path / f"map.{ending}"
    found = map_cells(problem, (6, 6), out=path)
    assert numbers_in(path) == as_rows(found)
    again = map_cells(problem, (6, 6), out=path, should_stop=lambda: True)  # nothing is left to do
    assert as_rows(again) == as_rows(found)
    assert (again.witness == found.witness).all()


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_was_stopped_goes_on(ending: str, problem: LipschitzProblem, tmp_path: Path) -> None:
    path = tmp_path / f"map.{ending}"
    stopped = map_cells(problem, (6, 6), out=path, should_stop=lambda: True)
    assert not stopped.done
    found = map_cells(problem, (6, 6), out=path)
    assert found.done
    assert numbers_in(path) == as_rows(found)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_of_another_map_is_left_alone(
    ending: str, problem: LipschitzProblem, tmp_path: Path
) -> None:
    path = tmp_path / f"map.{ending}"
    map_cells(problem, (3, 3), out=path)
    before = path.read_bytes()
    for other in ({"cells": (2, 2)}, {"cells": (3, 3), "gap": 0.5}):
        with pytest.raises(LipyomoError, match="another"):
            map_cells(problem, out=path, **other)
    path.write_bytes(b"something else")
    with pytest.raises(LipyomoError, match="not"):
        map_cells(problem, (3, 3), out=path)
    assert path.read_bytes() == b"something else"
    assert before


def test_archives_of_others_are_left_alone(problem: LipschitzProblem, tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, precious=np.arange(3))
    whole = path.read_bytes()
    for before in (whole, whole[: len(whole) // 2], b"PK\x03\x04 and so on"):
        path.write_bytes(before)
        with pytest.raises(LipyomoError, match="no map"):
            map_cells(problem, (3, 3), out=path)
        assert path.read_bytes() == before


def test_unknown_endings_are_refused(problem: LipschitzProblem, tmp_path: Path) -> None:
    with pytest.raises(LipyomoError, match="should end in"):
        map_cells(problem, (2, 2), out=tmp_path / "map.txt")
