"""Files of rows that are written as they finish, and resumed by the next run.

A row file is CSV or JSON lines, by its ending.  The first of the JSON lines has the parameters of
the run; for ``rows.csv``, which is a plain table, they are in ``rows.csv.json``.  Every row is
flushed to the disk before the next one is written, together with its time limit; an incomplete last
line after a crash is removed when the file is opened again.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from lipyomo.base.arguments import number_or_text
from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.outputs import ROWS, GrowingFile, OutputError, shown, written
from lipyomo.base.system.plain import finite

Row = dict[str, Any]

LIMIT = "limit"
"""The column of the time limits."""


class RowFile:
    """A file of rows with fixed columns, opened for appending.

    Parameters
    ----------
    path : Path
        ``.csv``, or ``.jsonl`` (JSON lines).
    columns : sequence of str
        Written in this order; ``index`` must be among them.
    head : dict
        Parameters of the run (network, radius, ...); a file with other parameters is refused.
    limit : float
        Time limit per row of this run, in seconds.
    is_final : callable
        Whether a row is decided, so that more time would not change it.

    Attributes
    ----------
    rows : dict of int to dict
        The rows of previous runs, by index.
    done : set of int
        Rows that this run would not improve: decided, or without error after at least as much time.
    torn : bool
        Whether the last line was incomplete, and was removed.

    Raises
    ------
    LipyomoError
        If the file has another ending, cannot be written, or belongs to another run.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str],
        head: Row,
        limit: float,
        is_final: Callable[[Row], bool],
    ) -> None:
        self._path, self._columns, self._limit = path, [*columns, LIMIT], finite(limit)
        self._head = json.loads(json.dumps({**head, LIMIT: self._limit}))
        if path.suffix not in (".csv", ".jsonl"):
            raise LipyomoError(f"{shown(path)} ends neither in .csv nor in .jsonl (JSON lines)")
        self._file = GrowingFile(path, ROWS)
        before = self._file.before
        whole = before[: before.rfind(b"\n") + 1]
        self._lines: dict[int, Row] = {}
        self._twice = False
        if whole or not self._first.startswith(before):
            self._lines = self._read(whole)
        self.torn = len(whole) < len(before)
        if self.torn:
            self._file.cut(len(whole))
        if not whole:
            self._write_beside()
            self._file.add(self._first)
        self.rows = {
            index: {name: entry for name, entry in row.items() if name != LIMIT}
            for index, row in self._lines.items()
        }
        self.done = {
            index
            for index, row in self.rows.items()
            if is_final(row) or (not row.get("error") and limit <= _seconds(self._lines[index]))
        }

    def add(self, row: Row) -> None:
        """Write one row to the disk.

        Raises
        ------
        OutputError
            If that fails; the row is written together with the next one, or at the end.
        """
        self.extend([row])

    def extend(self, rows: Iterable[Row]) -> None:
        """Write some rows to the disk together.

        Raises
        ------
        OutputError
            As `add`.
        """
        lines = []
        for row in rows:
            self._twice |= row["index"] in self._lines
            self._lines[row["index"]] = limited = {**row, LIMIT: self._limit}
            lines.append(self._line(limited))
        self._file.add(b"".join(lines))

    def close(self) -> None:
        """Close the file, and remove the old versions of rows that were computed again.

        Raises
        ------
        OutputError
            If some rows cannot be written.
        """
        self._file.close()
        if self._twice:
            with written(self._path, ROWS) as stream:
                stream.write(self._first)
                stream.writelines(self._line(self._lines[index]) for index in sorted(self._lines))

    @property
    def _is_csv(self) -> bool:
        return self._path.suffix == ".csv"

    @property
    def _beside(self) -> Path:
        """Path of the file with the parameters of a CSV file's run."""
        return self._path.with_name(f"{self._path.name}.json")

    def _write_beside(self) -> None:
        """Write the file of parameters, before the first row."""
        if not self._is_csv:
            return
        try:
            with written(self._beside, ROWS) as stream:
                stream.write(self._said)
        except OutputError:
            self._file.close()
            raise

    @property
    def _said(self) -> bytes:
        """The run's parameters as a JSON line."""
        return f"{json.dumps({'run': self._head})}\n".encode()

    @property
    def _first(self) -> bytes:
        """The first line of the file."""
        return _csv_line(self._columns) if self._is_csv else self._said

    def _line(self, row: Row) -> bytes:
        if self._is_csv:
            return _csv_line([row.get(name) for name in self._columns])
        return f"{json.dumps(row, allow_nan=False)}\n".encode()

    def _read(self, content: bytes) -> dict[int, Row]:
        try:
            first, _, rest = content.decode().partition("\n")
            if self._is_csv:
                head = json.loads(self._beside.read_text("utf-8"))["run"]
            else:
                head = json.loads(first)["run"]
            rows: list[Row] = list(map(json.loads, [] if self._is_csv else rest.splitlines()))
            if self._is_csv:
                rows = [
                    {name: _value(text) for name, text in row.items()}
                    for row in csv.DictReader(io.StringIO(rest), self._columns)
                ]
                if rest and _csv_line(self._columns).decode() != f"{first}\n":
                    raise ValueError("other columns")
            theirs = {name: head.get(name) for name in self._head}
            found = {int(row["index"]): row for row in rows}
            self._twice = len(found) < len(rows)
            _ = head[LIMIT], [_seconds(row) for row in rows]
        except (ValueError, KeyError, TypeError, AttributeError, OSError, csv.Error):
            raise LipyomoError(
                f"{shown(self._path)} is not a file of such rows.  Remedy: give another name"
            ) from None
        changed = [name for name in theirs if name != LIMIT and theirs[name] != self._head[name]]
        if changed:
            raise LipyomoError(
                f"{shown(self._path)} holds rows of another run (other {', '.join(changed)}).  "
                "Remedy: give another name, or delete it"
            )
        return found


def _seconds(row: Row) -> float:
    """Return the time limit of a row."""
    return math.inf if row[LIMIT] is None else float(row[LIMIT])


def _value(text: str) -> object:
    """Convert the text of a CSV entry to None, a truth value, a number, or text."""
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    return number_or_text(text)


def _csv_line(entries: Sequence[object]) -> bytes:
    stream = io.StringIO()
    one_line = [" ".join(e.split("\n")) if isinstance(e, str) else e for e in entries]
    csv.writer(stream, lineterminator="\n").writerow(one_line)
    return stream.getvalue().encode()
