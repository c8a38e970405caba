"""Row files: nothing that was written is lost, nothing torn is believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from lipyomo.errors import LipyomoError
from lipyomo.rowfile import RowFile

COLUMNS = ("index", "value", "note")
HEAD = {"radius": 0.1, "network": "abc"}


def rows(count: int) -> list[dict[str, object]]:
    return [{"index": k, "value": k / 3, "note": None if k % 2 else "a, b\n"} for k in range(count)]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_rows_come_back(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows{ending}"
    with RowFile(path, COLUMNS, HEAD) as file:
        for row in rows(3):
            file.add(row)
    with RowFile(path, COLUMNS, HEAD) as again:
        assert sorted(again.rows) == [0, 1, 2]
        assert float(again.rows[2]["value"]) == 2 / 3
        again.add(rows(4)[3])
    assert sorted(RowFile(path, COLUMNS, HEAD).rows) == [0, 1, 2, 3]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_torn_last_row_is_done_again(tmp_path: Path, ending: str, cut: int) -> None:
    path = tmp_path / f"rows{ending}"
    with RowFile(path, COLUMNS, HEAD) as file:
        for row in rows(4):
            file.add(row)
    path.write_bytes(path.read_bytes()[:-cut])
    with RowFile(path, COLUMNS, HEAD) as again:
        assert sorted(again.rows) == [0, 1, 2]
        again.add(rows(4)[3])
    assert sorted(RowFile(path, COLUMNS, HEAD).rows) == [0, 1, 2, 3]


def test_rows_of_another_run_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    RowFile(path, COLUMNS, HEAD).close()
    with pytest.raises(LipyomoError, match="radius"):
        RowFile(path, COLUMNS, HEAD | {"radius": 0.2})
    path.write_text("x,y\n1,2\n")
    with pytest.raises(LipyomoError, match="not a file of such rows"):
        RowFile(path, COLUMNS, HEAD)
    with pytest.raises(LipyomoError, match="ends neither"):
        RowFile(tmp_path / "rows.xlsx", COLUMNS, HEAD)
