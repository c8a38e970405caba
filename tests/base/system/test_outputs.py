"""Files are replaced by what is on the disk already."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from lipyomo.base.system.outputs import Kind, written
from lipyomo.base.system.rowfile import RowFile

TEXT = Kind("a text", lambda first: True)


def test_what_takes_the_place_of_a_file_is_on_the_disk_by_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "text", []
    path.write_text("before")
    monkeypatch.setattr(
        "os.fsync", lambda number: seen.append((os.fstat(number).st_size, path.read_text()))
    )
    with written(path, TEXT) as stream:
        stream.write(b"afterwards")
    assert seen == [(10, "before")]
    assert path.read_text() == "afterwards"


def test_each_row_is_on_the_disk_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "rows.csv", []
    with closing(RowFile(path, ("index",), {}, 10.0, lambda row: True)) as file:
        monkeypatch.setattr("os.fsync", lambda number: seen.append(path.read_text()))
        for index in (7, 8):
            file.add({"index": index})
            assert seen[-1].endswith(f"\n{index},10.0\n")
