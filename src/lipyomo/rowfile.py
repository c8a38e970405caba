"""Rows that are written as they finish, and found again by the next run.

A row file is CSV or JSON lines, by its ending.  Every row is flushed to the disk before the next
begins; a last line torn by a crash is cut off when the file is opened again.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from lipyomo.errors import LipyomoError

Row = dict[str, Any]


class RowFile:
    """A file of rows with the same columns, opened for adding more.

    Parameters
    ----------
    path : Path
        ``.csv``, or ``.jsonl`` (JSON lines).
    columns : sequence of str
        Written in this order; ``index`` must be among them.
    head : dict
        What the rows depend on (network, radius, ...); a file of another run is refused.

    Attributes
    ----------
    rows : dict of int to dict
        The rows that were there already, by index.

    Raises
    ------
    LipyomoError
        If the ending is another, the file cannot be written, or it is of another run.
    """

    def __init__(self, path: Path, columns: Sequence[str], head: Row) -> None:
        self._path, self._columns, self._head = path, list(columns), head
        if path.suffix not in (".csv", ".jsonl"):
            raise LipyomoError(f"'{path}' ends neither in .csv nor in .jsonl (JSON lines)")
        try:
            old = path.read_text(encoding="utf-8") if path.exists() else ""
            whole = old[: old.rfind("\n") + 1]
            self.rows = self._read(whole)
            self._stream: TextIO = path.open("a", encoding="utf-8", newline="")
            if len(whole) < len(old):
                self._stream.truncate(len(whole.encode("utf-8")))
            if not whole and self._is_csv:
                self._write(f"# {json.dumps(head)}\n" + _csv_line(self._columns))
            elif not whole:
                self._write(json.dumps({"run": head}) + "\n")
        except (OSError, UnicodeDecodeError) as error:
            raise LipyomoError(f"cannot write rows to '{path}': {error}") from None

    def add(self, row: Row) -> None:
        """Write one row, for good."""
        if self._is_csv:
            self._write(_csv_line([row.get(name) for name in self._columns]))
        else:
            self._write(json.dumps(row, allow_nan=False) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def __enter__(self) -> RowFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _is_csv(self) -> bool:
        return self._path.suffix == ".csv"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def _read(self, text: str) -> dict[int, Row]:
        if not text:
            return {}
        try:
            first, _, rest = text.partition("\n")
            if self._is_csv:
                head = json.loads(first.removeprefix("#"))
                rows: list[Row] = [
                    {name: _value(text) for name, text in row.items()}
                    for row in csv.DictReader(io.StringIO(rest))
                ]
            else:
                head = json.loads(first)["run"]
                rows = [json.loads(line) for line in rest.splitlines()]
            found = {int(row["index"]): row for row in rows}
        except (ValueError, KeyError, TypeError):
            raise LipyomoError(
                f"'{self._path}' is not a file of such rows.  Remedy: give another name"
            ) from None
        if head != json.loads(json.dumps(self._head)):
            changed = [name for name in self._head if head.get(name) != self._head[name]]
            raise LipyomoError(
                f"'{self._path}' holds rows of another run (other {', '.join(changed)}).  "
                "Remedy: give another name, or delete it"
            )
        return found


def _value(text: str) -> object:
    """The entry that was written as `text`: none, a truth value, a number, or text."""
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _csv_line(entries: Sequence[object]) -> str:
    stream = io.StringIO()
    one_line = [" ".join(e.split("\n")) if isinstance(e, str) else e for e in entries]
    csv.writer(stream, lineterminator="\n").writerow(one_line)
    return stream.getvalue()
