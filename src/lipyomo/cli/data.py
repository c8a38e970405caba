"""Data sets from files: inputs, one point per row, and possibly labels."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lipyomo.analyses.certification.columns import Column, read_columns
from lipyomo.analyses.certification.tables import DataSet, entry, is_text, table_entries
from lipyomo.base.arrays import FloatArray
from lipyomo.base.system.outputs import shown
from lipyomo.cli.values import check_numbers, load_numpy
from lipyomo.cli.words import UsageError
from lipyomo.networks.network import Network

INPUT_NAMES = ("inputs", "images", "x", "X", "data", "points")
LABEL_NAMES = ("labels", "label", "y", "Y", "targets", "target", "classes", "class")
TABLES = (".csv", ".tsv", ".txt")

Named = tuple[Sequence[Column] | None, Sequence[Column] | None]
"""Columns of inputs and of labels, as far as they are given."""


def read_data(
    path: Path,
    network: Network,
    inputs: Sequence[Column] | None = None,
    label: Sequence[Column] | None = None,
) -> DataSet:
    """Read ``.npz``, ``.npy`` or ``.csv``.

    An ``.npz`` has inputs as ``inputs``, ``images``, ``x``, ``data`` or ``points``, and possibly
    classes as ``labels``, ``y`` or ``targets``.  A ``.csv`` (also with semicolons, or tabs) has one
    point per row, with or without a header; its columns are identified by
    `lipyomo.analyses.certification.columns.read_columns`, as are those of a ``.npy`` file.

    Parameters
    ----------
    path : Path
    network : Network
    inputs, label : optional
        Columns of a table; see `read_columns`.

    Raises
    ------
    LipyomoError
        If the file cannot be read or has no rows, or its columns cannot be identified.
    """
    reads = _read_csv if path.suffix.lower() in TABLES else _read_numpy
    data = reads(path, network, (inputs, label))
    if not len(data.inputs):
        raise UsageError(f"DATA: '{path}' holds no rows")
    if data.labels is not None and len(data.labels) != len(data.inputs):
        raise UsageError(
            f"DATA: '{path}' holds {len(data.inputs)} inputs, but {len(data.labels)} labels"
        )
    return data


def _read_numpy(path: Path, network: Network, named: Named) -> DataSet:
    loaded = load_numpy(path, "DATA")
    asked = any(columns is not None for columns in named)
    if isinstance(loaded, np.ndarray):
        rows, size = _rows(check_numbers(loaded, path, "DATA")), network.input_dim
        if loaded.ndim <= 2 and len(rows) and (asked or rows.shape[1] == size + 1):
            width = rows.shape[1]
            columns = read_columns(None, width, network.input_names, size, *named)
            return table_entries(rows, columns)
        loaded = {INPUT_NAMES[0]: loaded}
    if asked:
        raise UsageError("--inputs and --label-column name columns of a table; there are none")
    points, labels = (
        next((check_numbers(loaded[name], path, "DATA") for name in known if name in loaded), None)
        for known in (INPUT_NAMES, LABEL_NAMES)
    )
    if points is None:
        raise UsageError(
            f"DATA: '{path}' holds no inputs.  "
            f"Remedy: call the array {', '.join(INPUT_NAMES[:3])} or so"
        )
    return DataSet(_rows(points), None if labels is None else np.atleast_1d(labels))


def _rows(array: FloatArray) -> FloatArray:
    if not array.size:
        return np.zeros((0, 0))
    if array.ndim < 2:
        return array.reshape(1, -1)
    return array.reshape(len(array), -1)


def _read_csv(path: Path, network: Network, named: Named) -> DataSet:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = stream.read().splitlines()
        between = max(",;\t", key="".join(lines[:2]).count)
        _refuse_decimal_commas(lines, path)
        reader = csv.reader(lines, delimiter=between)
        rows = [[cell.strip() for cell in row] for row in reader if any(map(str.strip, row))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file of rows"
        raise UsageError(f"DATA: cannot read {shown(path)}: {reason}") from None
    header = _header(rows, path)
    if header is not None:
        rows = rows[1:]
    if not rows:
        return DataSet(np.zeros((0, 0)), None)
    header, rows, width = _aligned(header, rows, path)
    size = network.input_dim
    columns = read_columns(header, width, network.input_names, size, *named)
    table = np.full((len(rows), width), "", dtype=object)
    for place, row in zip(table, rows, strict=True):
        if len(row) == width:  # no cell of a row of another length is used
            place[:] = row
    return table_entries(table, columns)


def _header(rows: list[list[str]], path: Path) -> list[str] | None:
    """Return the first row if it has the names of columns, else None.

    Raises
    ------
    UsageError
        If this is ambiguous.
    """
    if not rows:
        return None
    first = rows[0]
    if first[0].startswith("#"):  # as numpy.savetxt writes it
        rows[0] = first = [first[0].lstrip("#").strip(), *first[1:]]
    number = [not math.isnan(entry(cell)) for cell in first]
    if any(map(is_text, first)):
        plain = all(
            re.fullmatch(r"\d+", c) for c, known in zip(first, number, strict=True) if known
        )
        second = rows[1] if len(rows) > 1 else []
        texts = [k for k, cell in enumerate(first) if is_text(cell)]
        below = any(number) and all(k < len(second) and is_text(second[k]) for k in texts)
        if plain and not below:
            return first
        raise UsageError(
            f"DATA: {shown(path)}: the first row holds names and numbers: {','.join(first[:12])}.  "
            "Remedy: begin with a row of names, and write classes as numbers"
        )
    counted = [str(k) for k in range(len(first))]
    if first[0] == "" and len(first) > 1 and first[1:] == counted[:-1]:
        return first  # a data frame without column names, written with its index
    if len(first) > 1 and first == counted:
        raise UsageError(
            f"DATA: {shown(path)}: the first row, {','.join(first[:12])}, may be numbers of "
            "columns or a point.  Remedy: write names of columns there"
        )
    return None


def _aligned(
    header: list[str] | None, rows: list[list[str]], path: Path
) -> tuple[list[str] | None, list[list[str]], int]:
    """Return header, rows, and the number of columns of most rows.

    Rows may have one cell more than the header: an empty last one, or a row number in front.

    Raises
    ------
    UsageError
        If the lengths of rows and header do not match.
    """
    width = Counter(map(len, rows)).most_common(1)[0][0]
    if header is None or width == len(header):
        return header, rows, width
    if width == len(header) + 1:
        if all(row[-1] == "" for row in rows if len(row) == width):
            return header, [row[:-1] if len(row) == width else [] for row in rows], width - 1
        return ["", *header], rows, width
    raise UsageError(
        f"DATA: {shown(path)}: the header has {len(header)} names ({','.join(header[:12])}), and "
        f"rows have {width} cells.  Remedy: a name for each column"
    )


_COMMA = re.compile(r'\s*"?[-+]?\d*,\d+([eE][-+]?\d+)?"?\s*')
"""A number with a decimal comma, alone in its cell."""


def _refuse_decimal_commas(lines: list[str], path: Path) -> None:
    """Refuse a file if most rows have numbers such as 0,5 between semicolons, tabs or quotes.

    A few such rows only count as bad rows.
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
