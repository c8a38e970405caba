"""Writer of free MPS files in full precision, for solvers that read files.

Columns are named C0, C1, ... and rows R0, R1, ..., since names of the model may be invalid in MPS
files.  The objective's constant becomes a fixed column, since readers disagree on its sign.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.solvers.matrices import LinearModel

CONSTANT = "CONSTANT"
"""Name of the column that is fixed at one and has the objective's constant as its cost."""


def write_mps(model: LinearModel, path: Path, with_sets: bool = False) -> None:
    """Write a model.

    Parameters
    ----------
    model : LinearModel
        A maximisation is written as such (section OBJSENSE), which not every reader supports.
        Quadratic terms are left out.
    path : Path
    with_sets : bool, optional
        Whether to write special ordered sets, which not every reader supports.
    """
    with path.open("w", encoding="ascii") as file:
        file.writelines(_lines(model, with_sets))


def write_start(model: LinearModel, values: FloatArray, path: Path) -> None:
    """Write the known values of discrete columns in the format of CBC's solution files."""
    known = np.flatnonzero(model.integer & ~np.isnan(values))
    with path.open("w", encoding="ascii") as file:
        file.write("Stopped on iterations - objective value 0\n")
        for column in known.tolist():
            file.write(f"{column} C{column} {round(values[column])} 0\n")


def _lines(model: LinearModel, with_sets: bool) -> Iterator[str]:
    yield "NAME lipyomo\n"
    if model.maximise:
        yield "OBJSENSE\n    MAX\n"
    yield "ROWS\n N OBJ\n"
    letters, sides = model.sides
    yield from (f" {letter} R{row}\n" for row, letter in enumerate(letters))
    yield "COLUMNS\n"
    yield from _columns(model)
    yield "RHS\n"
    yield from (f" RHS R{row} {side!r}\n" for row, side in enumerate(sides) if side != 0.0)
    yield "BOUNDS\n"
    yield from _bounds(model)
    if model.sets and with_sets:
        yield "SOS\n"
        for position, entry in enumerate(model.sets):
            yield f" S{entry.kind} SET{position} 0\n"
            pairs = zip(entry.columns, entry.weights, strict=True)
            yield from (f"    C{column} {weight!r}\n" for column, weight in pairs)
    yield "ENDATA\n"


def _columns(model: LinearModel) -> Iterator[str]:
    """Yield the matrix by columns; markers enclose blocks of integer columns."""
    starts = model.matrix.indptr.tolist()
    rows = model.matrix.indices.tolist()
    values = model.matrix.data.tolist()
    costs = model.cost.tolist()
    inside = False
    for column, discrete in enumerate(model.integer.tolist()):
        if discrete != inside:
            yield f" M{column} 'MARKER' '{'INTORG' if discrete else 'INTEND'}'\n"
            inside = discrete
        yield f" C{column} OBJ {costs[column]!r}\n"
        for entry in range(starts[column], starts[column + 1]):
            yield f" C{column} R{rows[entry]} {values[entry]!r}\n"
    if inside:
        yield " MEND 'MARKER' 'INTEND'\n"
    if model.offset != 0.0:
        yield f" {CONSTANT} OBJ {model.offset!r}\n"


def _bounds(model: LinearModel) -> Iterator[str]:
    """Yield both bounds of every column, so that readers' defaults do not matter."""
    for column, (low, high) in enumerate(
        zip(model.lower.tolist(), model.upper.tolist(), strict=True)
    ):
        if low == high:
            yield f" FX BND C{column} {low!r}\n"
        elif math.isinf(low) and math.isinf(high):
            yield f" FR BND C{column}\n"
        else:
            yield f" MI BND C{column}\n" if math.isinf(low) else f" LO BND C{column} {low!r}\n"
            yield f" PL BND C{column}\n" if math.isinf(high) else f" UP BND C{column} {high!r}\n"
    if model.offset != 0.0:
        yield f" FX BND {CONSTANT} 1\n"
