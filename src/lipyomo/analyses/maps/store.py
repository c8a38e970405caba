"""Files to which finished cells are written, and from which a later run resumes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from lipyomo.analyses.maps.cells import Cells
from lipyomo.analyses.maps.ends import Ends
from lipyomo.analyses.maps.result import CellMap, StatusArray, cell_columns, cell_rows
from lipyomo.analyses.maps.stages import Constants, Quantity
from lipyomo.base.arrays import IntArray, dense
from lipyomo.base.clock import PAUSE_SHARE
from lipyomo.base.digest import array_digest
from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.archives import read_arrays
from lipyomo.base.system.outputs import (
    ROWS,
    OutputError,
    check_output,
    shown,
    starting,
    stat_or_none,
    written,
)
from lipyomo.base.system.processes import PAUSE
from lipyomo.base.system.rowfile import Row, RowFile
from lipyomo.networks.digest import network_digest
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Status

ENDINGS = ".npz", ".csv", ".jsonl"
ARCHIVE = starting("a map (.npz)", b"PK")


class Store:
    """A place where finished cells are stored; this one stores nothing.

    Cells that cannot be written are tried again with the next ones and at the end, so that no map
    is lost because a disk is full.

    Attributes
    ----------
    known : (ndarray of int, shape (k,), Ends)
        The cells that are stored already, with their ends.
    """

    def __init__(self, cells: Cells) -> None:
        empty = np.zeros(0)
        points = np.zeros((0, cells.dimension))
        self.known = np.zeros(0, dtype=np.intp), Ends.at(empty, empty, points)

    def add(self, which: IntArray, ends: Ends, status: StatusArray) -> None:
        """Store cells (k,) with their final ends."""

    def finish(self, found: CellMap) -> None:
        """Store the whole map.

        Raises
        ------
        OutputError
            If it cannot be written.
        """


class Archive(Store):
    """An ``.npz`` file of arrays that have the size of the whole map from the beginning.

    Parameters
    ----------
    path : Path
    head : dict
        Identifies the map.
    cells : Cells

    Raises
    ------
    LipyomoError
        If the file exists and contains another map, or cannot be written.
    """

    def __init__(self, path: Path, head: Row, cells: Cells) -> None:
        self._path, self._cells, self._head = path, cells, json.dumps(head, sort_keys=True)
        check_output(path, ARCHIVE)
        count = len(cells)
        self._arrays: dict[str, Any] = {
            "constant_lower": np.zeros(count),
            "constant_upper": np.full(count, np.inf),
            "status": np.full(count, Status.INTERRUPTED.value, dtype=f"<U{max(map(len, Status))}"),
            "witness": cells.middle,
            "witness_rest": np.zeros(cells.middle.shape),
        }
        there = stat_or_none(path)
        if there is not None and there.st_size:
            self._arrays = self._read()
        which = np.flatnonzero(np.isin(self._arrays["status"], FINAL))
        names = ("constant_lower", "constant_upper", "witness", "witness_rest")
        self.known = which, Ends(*(self._arrays[name][which] for name in names))
        self._began = self._saved = time.monotonic()

    def _read(self) -> dict[str, Any]:
        try:
            held: Any = read_arrays(self._path)
            head, found = str(held["head"]), {name: held[name] for name in self._arrays}
            same = all(found[name].shape == array.shape for name, array in self._arrays.items())
        except (OSError, ValueError, LookupError):
            raise LipyomoError(
                f"{shown(self._path)} is there and is no map.  Remedy: give another name"
            ) from None
        if head != self._head or not same:
            raise LipyomoError(
                f"{shown(self._path)} holds another map.  Remedy: give another name, or delete it"
            )
        return found

    def add(self, which: IntArray, ends: Ends, status: StatusArray) -> None:
        """Store cells in memory, and save the file periodically."""
        arrays = self._arrays
        arrays["constant_lower"][which] = ends.lower
        arrays["constant_upper"][which] = ends.upper
        arrays["witness"][which] = ends.points
        arrays["witness_rest"][which] = ends.rests
        arrays["status"][which] = status
        now = time.monotonic()
        if now - self._saved > max(PAUSE, PAUSE_SHARE * (now - self._began)):
            with suppress(OutputError):
                self._save()
            self._saved = time.monotonic()

    def finish(self, found: CellMap) -> None:
        """Save the map."""
        self._arrays = {name: getattr(found, name) for name in self._arrays}
        self._save()

    def _save(self) -> None:
        cells = {"lower": self._cells.lower, "upper": self._cells.upper}
        with written(self._path, ARCHIVE) as stream:
            arrays: dict[str, Any] = {"head": np.array(self._head), **cells, **self._arrays}
            np.savez(stream, **arrays)


class CellFile(Store):
    """A file of rows, CSV or JSON lines.

    Parameters
    ----------
    path : Path
    head : dict
        Identifies the map.
    cells : Cells
    limit : float
        Time limit of this run, in seconds.
    """

    def __init__(self, path: Path, head: Row, cells: Cells, limit: float) -> None:
        self._cells = cells
        columns = cell_columns(cells.dimension)
        self._file = RowFile(path, columns, head, limit, _is_final)
        rows = [row for row in self._file.rows.values() if _is_final(row)]
        names = columns[-cells.dimension - 1 : -1]
        points = [[row[name] for name in names] for row in rows]
        rests = [str(row["rest"] or "").split() or ["0"] * cells.dimension for row in rows]
        lower, upper = (np.array([row[n] for row in rows], float) for n in ("lower", "upper"))
        which = np.array([row["index"] for row in rows], dtype=np.intp)
        shape = len(rows), cells.dimension
        places, more = (np.array(part, float).reshape(shape) for part in (points, rests))
        self.known = which, Ends(lower, upper, places, more)
        self._written = set(which.tolist())

    def add(self, which: IntArray, ends: Ends, status: StatusArray) -> None:
        """Write finished cells."""
        good = np.flatnonzero(np.isin(status, FINAL))
        self._written |= set(which[good].tolist())
        with suppress(OutputError):
            self._file.extend(cell_rows(self._cells, which[good], ends.take(good), status[good]))

    def finish(self, found: CellMap) -> None:
        """Write the remaining cells, and close the file."""
        try:
            self._file.extend(row for row in found.rows() if row["index"] not in self._written)
        finally:
            self._file.close()


FINAL = (Status.EXACT.value, Status.GAP.value)


def _is_final(row: Row) -> bool:
    return row["status"] in FINAL


def finished_map(store: Store, found: CellMap) -> CellMap:
    """Store the map; if that fails, return it with the reason in `unwritten`."""
    try:
        store.finish(found)
    except OutputError as error:
        return replace(found, unwritten=str(error))
    return found


def check_new_map(path: str | PathLike[str]) -> None:
    """Refuse a file that cannot be written at the end, or exists already.

    Raises
    ------
    LipyomoError
    """
    where = _named(path)
    check_output(where, ARCHIVE if where.suffix == ".npz" else ROWS)
    there = stat_or_none(where)
    if there is not None and there.st_size:
        raise LipyomoError(
            f"{shown(where)} is there, and which cells there will be is not known yet.  Remedy: "
            "give another name, or delete it"
        )


def _named(path: str | PathLike[str]) -> Path:
    where = Path(path)
    if where.suffix not in ENDINGS:
        raise LipyomoError(f"{shown(path)} should end in {', '.join(ENDINGS)}")
    return where


@contextmanager
def store_of(
    path: str | PathLike[str] | None,
    problem: LipschitzProblem,
    cells: Cells,
    gap: float,
    limit: float,
    kind: type[Quantity],
) -> Iterator[Store]:
    """Open the file in which a map is stored; its type follows from its ending.

    Parameters
    ----------
    path : path or None
    problem : LipschitzProblem
        The problem over a box that contains all cells.
    cells : Cells
    gap : float
    limit : float
        Time limit of the map, in seconds.
    kind : type
        The quantity of the map.

    Raises
    ------
    LipyomoError
        If the ending is unknown, the file contains another map, or it cannot be written.
    """
    if path is None:
        yield Store(cells)
        return
    where = _named(path)
    along = () if problem.directions is None else dense(problem.directions)
    vertices = problem.dual_vertices
    head = {
        "network": network_digest(problem.network),
        "cells": array_digest([cells.lower, cells.upper]),
        "norms": problem.describe_norms(),
        "dual_ball": array_digest([] if vertices is None else [vertices]),
        "directions": array_digest([along]),
        "gap": gap,
        "witnesses": "x + rest",
    } | ({} if kind is Constants else {"of": kind.name})
    yield (
        Archive(where, head, cells)
        if where.suffix == ".npz"
        else CellFile(where, head, cells, limit)
    )
