"""Row files: nothing that was written is lost, nothing torn is believed."""

from __future__ import annotations

import csv
import json
import math
import sys
from contextlib import closing
from pathlib import Path

import pytest

from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.outputs import OutputError
from lipyomo.base.system.rowfile import RowFile

COLUMNS = ("index", "value", "note")
HEAD = {"radius": 0.1, "network": "abc"}


def opened(path: Path, limit: float = 10.0, **changes: object) -> RowFile:
    return RowFile(path, COLUMNS, HEAD | changes, limit, lambda row: row["value"] is not None)


def rows(count: int) -> list[dict[str, object]]:
    return [{"index": k, "value": k / 3, "note": None if k % 2 else "a, b\n"} for k in range(count)]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_rows_come_back(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows{ending}"
    with closing(opened(path)) as file:
        for row in rows(3):
            file.add(row)
    with closing(opened(path)) as again:
        assert sorted(again.rows) == [0, 1, 2]
        assert float(again.rows[2]["value"]) == 2 / 3
        again.add(rows(4)[3])
    assert sorted(opened(path).rows) == [0, 1, 2, 3]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_torn_last_row_is_done_again(tmp_path: Path, ending: str, cut: int) -> None:
    path = tmp_path / f"rows{ending}"
    with closing(opened(path)) as file:
        for row in rows(4):
            file.add(row)
    path.write_bytes(path.read_bytes()[:-cut])
    with closing(opened(path)) as again:
        assert sorted(again.rows) == [0, 1, 2]
        assert again.torn
        again.add(rows(4)[3])
    last = opened(path)
    assert sorted(last.rows) == [0, 1, 2, 3]
    assert not last.torn


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_head_torn_anywhere_is_written_again(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows{ending}"
    with closing(opened(path)):
        pass
    head = path.read_bytes()
    for cut in range(len(head)):
        path.write_bytes(head[:cut])
        with closing(opened(path)) as again:
            assert again.rows == {}
            again.add(rows(1)[0])
        assert path.read_bytes().startswith(head)
        assert sorted(opened(path).rows) == [0]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_open_rows_are_done_again_with_more_time(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"rows{ending}"
    decided, unsolved = {"index": 0, "value": 1.5}, {"index": 1, "value": None}
    broken = {"index": 2, "value": None, "error": "a solver without a licence"}
    with closing(RowFile(path, (*COLUMNS, "error"), HEAD, 10.0, lambda row: False)) as file:
        for row in (decided, unsolved, broken):
            file.add(row)

    def again(limit: float) -> RowFile:
        return RowFile(path, (*COLUMNS, "error"), HEAD, limit, lambda row: row["value"] is not None)

    for limit, done in ((5.0, {0, 1}), (10.0, {0, 1}), (10.5, {0}), (math.inf, {0})):
        with closing(again(limit)) as file:
            assert file.done == done
            assert sorted(file.rows) == [0, 1, 2]
    with closing(again(math.inf)) as file:
        file.add({"index": 1, "value": None})
    lines = len(path.read_text().splitlines())
    with closing(again(math.inf)) as file:
        assert file.done == {0, 1}
        file.add({"index": 2, "value": 2.5})
    with closing(again(1e9)) as file:
        assert file.done == {0, 1, 2}
    assert len(path.read_text().splitlines()) == lines


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize(
    "content",
    ["1,2,3", "a line\nand another", '{"a": 1}', "# a remark\n1", "index,value,note\n1,2,a\n"],
)
def test_what_is_no_file_of_rows_stays(tmp_path: Path, ending: str, content: str) -> None:
    path = tmp_path / f"data{ending}"
    path.write_text(content)
    with pytest.raises(LipyomoError):
        opened(path)
    assert path.read_text() == content


@pytest.mark.skipif(sys.platform == "win32", reason="a limit of POSIX")
@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_rows_wait_while_the_disk_is_full(tmp_path: Path, ending: str) -> None:
    import resource

    path = tmp_path / f"rows{ending}"
    file = opened(path)
    file.add(rows(1)[0])
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 3, limits[1]))
    try:
        for row in rows(3)[1:]:
            with pytest.raises(OutputError, match="too large"):
                file.add(row)
        assert path.read_bytes() == before
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    file.add(rows(4)[3])
    file.close()
    assert sorted(opened(path).rows) == [0, 1, 2, 3]


def test_a_csv_file_is_a_plain_table(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with closing(opened(path)) as file:
        for row in rows(3):
            file.add(row)
    with path.open(newline="") as stream:
        found = list(csv.DictReader(stream))
    assert [row["index"] for row in found] == ["0", "1", "2"]
    assert [float(row["value"]) for row in found] == [0.0, 1 / 3, 2 / 3]
    beside = tmp_path / "rows.csv.json"
    assert json.loads(beside.read_text())["run"]["radius"] == 0.1
    beside.unlink()
    with pytest.raises(LipyomoError, match="not a file of such rows"):
        opened(path)


def test_nothing_is_left_where_the_file_beside_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "rows.csv.json").write_text("[1, 2]")
    with pytest.raises(OutputError, match=r"rows\.csv\.json"):
        opened(tmp_path / "rows.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv.json"]


def test_rows_of_0_3_0_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('# {"radius": 0.1, "network": "abc", "limit": 10.0}\nindex,value,note,limit\n')
    with pytest.raises(LipyomoError, match="not rows of such a run"):
        opened(path)


def test_rows_of_another_run_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    opened(path).close()
    with pytest.raises(LipyomoError, match="radius"):
        opened(path, radius=0.2)
    path.write_text("x,y\n1,2\n")
    with pytest.raises(LipyomoError, match="not rows of such a run"):
        opened(path)
    with pytest.raises(LipyomoError, match="ends neither"):
        opened(tmp_path / "rows.xlsx")
