"""Data sets in memory: inputs and labels from arrays, or from frames by the names of columns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.certification.columns import Columns, TableError, read_columns
from lipyomo.analyses.certification.data import data_points
from lipyomo.base.arguments import brief
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import LipyomoError
from lipyomo.networks.naming import Names
from lipyomo.networks.network import Network, with_input_names

TRUTH = {"true": 1.0, "false": 0.0}
"""Texts of truth values."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """Points, and labels if there are any.

    Attributes
    ----------
    inputs : ndarray, shape (n, d)
        Entries that are not numbers are NaN.
    labels : ndarray, shape (n,) or (n, classes), or None
        NaN for rows without a label.
    columns : Columns or None
        How the columns of a table were interpreted.
    """

    inputs: FloatArray
    labels: npt.NDArray[Any] | None
    columns: Columns | None = None

    def first(self, count: int | None) -> DataSet:
        """Return the first rows."""
        if count is None:
            return self
        labels = None if self.labels is None else self.labels[:count]
        return DataSet(self.inputs[:count], labels, self.columns)


def entry(cell: Any) -> float:
    """Return a cell of a table as a number: truth values are 0 and 1, other texts are NaN."""
    try:
        return TRUTH[cell.strip().lower()] if isinstance(cell, str) else float(cell)
    except (KeyError, TypeError, ValueError):
        pass
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan


def is_text(cell: Any) -> bool:
    """Return whether a cell contains a text that is neither a number nor a missing value."""
    missing = ("", "nan", "na", "n/a", "null", "none", "<na>")
    return isinstance(cell, str) and math.isnan(entry(cell)) and cell.strip().lower() not in missing


def table_entries(table: npt.NDArray[Any], columns: Columns) -> DataSet:
    """Return the inputs and labels of a table of cells, shape (n, columns).

    Raises
    ------
    TableError
        If a column of inputs or labels contains texts and no numbers at all.
    """
    numbers = np.full(table.shape, np.nan)
    for k in (*columns.inputs, *columns.labels):
        cells = table[:, k]
        if cells.dtype.kind in "fiub":
            numbers[:, k] = cells
            continue
        numbers[:, k] = [entry(cell) for cell in cells]
        if np.isnan(numbers[:, k]).all() and any(map(is_text, cells)):
            name = k if columns.names is None else f"'{columns.names[k]}'"
            kind = (
                "labels are numbers of classes, from 0 on"
                if k in columns.labels
                else ("inputs are numbers")
            )
            text = next(cell for cell in cells if is_text(cell))
            raise TableError(
                f"the column {name} holds texts such as {brief(text)}: {kind}.  Remedy: write "
                "numbers, or name other columns by --inputs and --label-column"
            )
    chosen = numbers[:, columns.labels]
    labels = chosen[:, 0] if len(columns.labels) == 1 else chosen
    return DataSet(numbers[:, columns.inputs], labels if columns.labels else None, columns)


def read_inputs(
    inputs: Any,
    labels: Any,
    names: Names | None,
    size: int,
) -> DataSet:
    """Read points from arrays, or from a frame whose columns are matched by name.

    Parameters
    ----------
    inputs : array_like, shape (n, d) or (n, ...), or a frame with ``columns``
    labels : array_like, shape (n,) or (n, classes), or names of columns of the frame, or None
    names : tuple of str, or None
        The names of the network's inputs.
    size : int
        The number of inputs.

    Raises
    ------
    LipyomoError
        If rows are not points, or columns are ambiguous.
    """
    if not hasattr(inputs, "columns") or not hasattr(inputs, "to_numpy"):
        if isinstance(labels, str):
            raise LipyomoError(
                f"labels name the column {brief(labels)}, and the inputs are no frame with columns"
            )
        return DataSet(data_points(inputs), _array(labels))
    several = labels if isinstance(labels, list | tuple) else [labels]  # maybe names of columns
    label = labels if several and all(isinstance(name, str) for name in several) else None
    labelled = labels is not None and label is None
    heads = list(inputs.columns)
    numbered = heads == list(range(len(heads)))
    header = None if numbered else [str(name) for name in heads]
    columns = read_columns(header, len(heads), names, size, None, label, labelled)
    found = table_entries(np.asarray(inputs.to_numpy()), columns)
    return DataSet(found.inputs, _array(labels), columns) if labelled else found


def with_names(network: Network, data: DataSet) -> Network:
    """Return the network with input names: its own, or those of the columns of a table."""
    return with_input_names(network, None if data.columns is None else data.columns.input_names)


def _array(labels: Any) -> npt.NDArray[Any] | None:
    return None if labels is None else np.asarray(labels)


def class_labels(labels: Any, count: int, classes: int) -> FloatArray | None:
    """Return labels as indices of classes, shape (n,); NaN for rows without a label.

    Parameters
    ----------
    labels : array_like, shape (n,), (n, 1), or (n, classes) for one-hot rows; or None
    count : int
        n.
    classes : int

    Raises
    ------
    LipyomoError
        If there are not as many labels as rows, or they are neither numbers nor one-hot rows.
    """
    if labels is None:
        return None
    given = np.asarray(labels)
    if given.dtype.kind == "O":
        cells = given.reshape(-1)
        if any(map(is_text, cells)):
            raise LipyomoError("labels are the numbers of classes: whole numbers from 0 on")
        given = np.array([entry(cell) for cell in cells]).reshape(given.shape)
    if given.dtype.kind not in "iufb":
        raise LipyomoError("labels are the numbers of classes: whole numbers from 0 on")
    rows = np.asarray(given, dtype=np.float64)
    if rows.ndim == 2 and rows.shape == (count, classes) and classes > 1:
        return _from_one_hot(rows)
    if rows.size != count:
        shape = "" if rows.ndim < 2 else f" of shape {rows.shape}"
        raise LipyomoError(
            f"{count} inputs, but {rows.size} labels{shape}.  Remedy: one a row, or one-hot "
            f"rows of {classes} entries"
        )
    found = rows.reshape(-1)
    known = found[np.isfinite(found)]
    if classes > 2 and known.size > 1 and known.min() == 1 and known.max() == classes:
        raise LipyomoError(
            f"labels run from 1 to {classes}, and classes from 0 to {classes - 1}.  Remedy: "
            "subtract one"
        )
    return found


def _from_one_hot(rows: FloatArray) -> FloatArray:
    known = np.isfinite(rows).all(axis=1)
    good = ((rows == 0) | (rows == 1)).all(axis=1) & (rows.sum(axis=1) == 1)
    wrong = np.flatnonzero(known & ~good)
    if wrong.size:
        raise LipyomoError(
            f"labels of shape {rows.shape} are one-hot rows, and row {wrong[0]} is none: one entry "
            "is 1, the others are 0"
        )
    return np.where(known, rows.argmax(axis=1), np.nan)


def named_labels(labels: Any, known: Iterable[Any]) -> Any:
    """Return labels of an estimator as indices of its classes.

    Parameters
    ----------
    labels : array_like, shape (n,), or None
    known : iterable
        The classes in their order.

    Raises
    ------
    LipyomoError
        If a label is not one of them.
    """
    if labels is None or np.ndim(labels) != 1:
        return labels
    numbers = {name: k for k, name in enumerate(np.asarray(known).tolist())}
    found = []
    for label in np.asarray(labels).tolist():
        if label not in numbers:
            classes = ", ".join(map(repr, numbers))
            raise LipyomoError(f"the label {brief(label)} is none of the classes {classes}")
        found.append(numbers[label])
    return np.array(found, dtype=np.float64)
