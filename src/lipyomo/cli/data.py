"""Data sets from files: inputs, a row a point, and labels where there are some."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lipyomo.cli.arrays import load_numpy, numbers
from lipyomo.cli.words import UsageError
from lipyomo.network import FloatArray
from lipyomo.system.outputs import shown

INPUT_NAMES = ("inputs", "images", "x", "X", "data", "points")
LABEL_NAMES = ("labels", "label", "y", "Y", "targets", "classes")


@dataclass(frozen=True)
class DataSet:
    """Points and classes.

    Attributes
    ----------
    inputs : ndarray, shape (n, d)
        Entries that are no numbers are NaN.
    labels : ndarray, shape (n,), or None
        NaN where a row has none.
    """

    inputs: FloatArray
    labels: FloatArray | None

    def first(self, count: int | None) -> DataSet:
        """The first rows."""
        if count is None:
            return self
        return DataSet(self.inputs[:count], None if self.labels is None else self.labels[:count])


def read_data(path: Path, width: int) -> DataSet:
    """Read ``.npz``, ``.npy`` or ``.csv``.

    An ``.npz`` holds the inputs as ``inputs``, ``images``, ``x``, ``data`` or ``points``, and maybe
    classes as ``labels``, ``y`` or ``targets``.  A ``.csv`` (also with semicolons, or tabs) has one
    row a point, with or without a head; a column called like labels, or one column more than the
    network has inputs, is the class (the last one, without a head).

    Parameters
    ----------
    path : Path
    width : int
        Number of the network's inputs.

    Raises
    ------
    UsageError
        If the file cannot be read or holds no rows.
    """
    data = _read_csv(path, width) if path.suffix == ".csv" else _read_numpy(path)
    if not len(data.inputs):
        raise UsageError(f"DATA: '{path}' holds no rows")
    if data.labels is not None and len(data.labels) != len(data.inputs):
        raise UsageError(
            f"DATA: '{path}' holds {len(data.inputs)} inputs, but {len(data.labels)} labels"
        )
    return data


def _read_numpy(path: Path) -> DataSet:
    loaded = load_numpy(path, "DATA")
    if isinstance(loaded, np.ndarray):
        loaded = {INPUT_NAMES[0]: loaded}
    inputs, labels = (
        next((numbers(loaded[name], path, "DATA") for name in known if name in loaded), None)
        for known in (INPUT_NAMES, LABEL_NAMES)
    )
    if inputs is None:
        raise UsageError(
            f"DATA: '{path}' holds no inputs.  "
            f"Remedy: call the array {', '.join(INPUT_NAMES[:3])} or so"
        )
    return DataSet(_rows(inputs), None if labels is None else labels.reshape(-1))


def _rows(array: FloatArray) -> FloatArray:
    if not array.size:
        return np.zeros((0, 0))
    if array.ndim < 2:
        return array.reshape(1, -1)
    return array.reshape(len(array), -1)


def _read_csv(path: Path, width: int) -> DataSet:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = stream.read().splitlines()
        between = max(",;\t", key="".join(lines[:2]).count)
        _refuse_decimal_commas(lines, path)
        rows = [row for row in csv.reader(lines, delimiter=between) if any(map(str.strip, row))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file of rows"
        raise UsageError(f"DATA: cannot read {shown(path)}: {reason}") from None
    label = None
    if rows and any(np.isnan(_number(cell)) and cell.strip() for cell in rows[0]):
        head = [cell.strip() for cell in rows.pop(0)]
        label = next((head.index(name) for name in LABEL_NAMES if name in head), None)
    longest = max((len(row) for row in rows), default=0)
    if label is None and longest == width + 1:
        label = longest - 1
    table = np.full((len(rows), longest), np.nan)
    for place, row in zip(table, rows, strict=True):
        place[: len(row)] = [_number(cell) for cell in row]
    if label is None:
        return DataSet(table, None)
    return DataSet(np.delete(table, label, axis=1), table[:, label])


_COMMA = re.compile(r'\s*"?[-+]?\d*,\d+([eE][-+]?\d+)?"?\s*')
"""A number with a decimal comma, alone in its cell."""


def _refuse_decimal_commas(lines: list[str], path: Path) -> None:
    """Refuse a file most of whose rows have numbers such as 0,5; a single row is a bad row.

    They stand between semicolons, tabs or quotes.
    """
    found = []
    for row, line in enumerate(lines, 1):
        cells = re.split('[;\t]|(?<="),(?=")', line)
        commas = [cell.strip() for cell in cells if _COMMA.fullmatch(cell)]
        if commas and (len(cells) > 1 or '"' in line):
            found.append((row, commas[0]))
    if 2 * len(found) > sum(any(map(str.isdigit, line)) for line in lines):
        row, cell = found[0]
        raise UsageError(
            f"DATA: {shown(path)}: row {row} has a decimal comma: {cell}.  Remedy: write numbers "
            "with a point, as in 0.5"
        )


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return float("nan")
