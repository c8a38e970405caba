"""Units on one hyperplane become one unit.

All two-slope functions with their kink on one hyperplane z = 0 span two dimensions: z and relu(z).
So of several units with proportional pre-activations one needs a kink, and at most one more, an
identity unit, is kept.  This finds back the LeakyReLU in ``relu(x) - a relu(-x)``, sees that
``relu(x) - relu(-x)`` is just x, and shares the comparisons of overlapping pooling windows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from lipyomo.network import FloatArray
from lipyomo.onnx.affine import IntArray
from lipyomo.onnx.budget import budget
from lipyomo.onnx.cover import digest
from lipyomo.onnx.system import System

ROUNDING = 1e-14
"""Relative size of differences that come from composing affine maps in float64."""

SMALL = 1e-200
"""Ratios of coefficients below this, or above its inverse, are not compared: they lose digits."""


@dataclass
class _Changes:
    """What the readers of some units read instead.

    Attributes
    ----------
    dropped : list of int
        Columns that nobody reads any more.
    moved : list of (int, int, float)
        ``(old, new, factor)``: who reads the old column reads that multiple of the new one.
    readers, columns, values : list of ndarray
        Entries to add: reader, column, coefficient.
    outer : list of (ndarray, ndarray, csr_array)
        Readers, their coefficients, and the row that they read.
    """

    dropped: list[int] = field(default_factory=list)
    moved: list[tuple[int, int, float]] = field(default_factory=list)
    readers: list[IntArray] = field(default_factory=list)
    columns: list[IntArray] = field(default_factory=list)
    values: list[FloatArray] = field(default_factory=list)
    outer: list[tuple[IntArray, FloatArray, sp.csr_array]] = field(default_factory=list)

    def add(self, readers: IntArray, column: int, values: FloatArray) -> None:
        """Let some readers read a column."""
        self.readers.append(readers)
        self.columns.append(np.full(readers.size, column))
        self.values.append(values)


def _leads(rows: sp.csr_array) -> FloatArray:
    """The first coefficient of each row, zero for rows that read no variable."""
    lead = np.zeros(rows.shape[0])
    filled = np.flatnonzero(np.diff(rows.indptr))
    first = rows.indptr[filled]
    variable = rows.indices[first] < rows.shape[1] - 1
    lead[filled[variable]] = rows.data[first[variable]]
    return lead


def _classes(rows: sp.csr_array, lead: FloatArray) -> list[IntArray]:
    """Positions of proportional rows, for every hyperplane that has several."""
    scaled = rows.copy()
    counts = np.diff(rows.indptr)
    scaled.data = rows.data / np.repeat(np.where(lead == 0.0, 1.0, lead), counts)
    size = np.abs(scaled.data)
    odd = np.zeros(rows.shape[0], dtype=bool)
    odd[np.repeat(np.arange(rows.shape[0]), counts)[(size < SMALL) | (size > 1.0 / SMALL)]] = True
    found: dict[bytes, list[int]] = {}
    for position in np.flatnonzero((lead != 0.0) & ~odd):
        found.setdefault(digest(scaled, int(position)), []).append(int(position))
    return [np.asarray(positions) for positions in found.values() if len(positions) > 1]


def _read_by(readers: sp.csc_array, columns: IntArray) -> tuple[IntArray, FloatArray]:
    """Who reads any of some columns, and the coefficients, shape (readers, columns)."""
    spans = [slice(readers.indptr[c], readers.indptr[c + 1]) for c in columns]
    who, place = np.unique(
        np.concatenate([readers.indices[span] for span in spans]), return_inverse=True
    )
    which = np.repeat(np.arange(len(spans)), [span.stop - span.start for span in spans])
    read = np.zeros((who.size, len(spans)))
    read[place, which] = np.concatenate([readers.data[span] for span in spans])
    return who, read


def _join(
    system: System, readers: sp.csc_array, units: IntArray, ratio: FloatArray, changes: _Changes
) -> None:
    """Replace units on one hyperplane by one, or by one and an identity unit.

    Parameters
    ----------
    system : System
        The slopes of the first two units may be changed.
    readers : csc_array, shape (n + m, width)
        Rows of all units and outputs.
    units : ndarray of int
    ratio : ndarray
        Pre-activation of each unit over that of the first.
    changes : _Changes
        Is extended.
    """
    columns = system.column(units)
    column = int(columns[0])
    forward = ratio > 0
    left = ratio * np.where(forward, system.left[units], system.right[units])
    right = ratio * np.where(forward, system.right[units], system.left[units])
    if (left * right[0] == right * left[0]).all():
        pivot = left if left[0] != 0.0 else right
        changes.dropped.extend(columns[1:].tolist())
        changes.moved.extend(
            (int(old), column, float(factor))
            for old, factor in zip(columns[1:], pivot[1:] / pivot[0], strict=True)
        )
        return

    changes.dropped.extend(columns.tolist())
    who, read = _read_by(readers, columns)
    sides = read @ np.column_stack([left, right])
    sizes = np.abs(sides).max(axis=1)
    steep = sides[np.argmax(sizes)]
    scale = np.abs(steep).max()
    if scale == 0.0:
        return
    base, second = int(units[0]), int(units[1])
    cross = np.abs(sides[:, 0] * steep[1] - sides[:, 1] * steep[0])
    if (cross > ROUNDING * sizes * scale).any():
        kink = (sides[:, 1] - sides[:, 0]) / (right[0] - left[0])
        changes.add(who, column, kink)
        system.left[second] = system.right[second] = 1.0
        changes.add(who, int(columns[1]), (sides[:, 0] - kink * left[0]) / ratio[1])
    elif abs(steep[0] - steep[1]) <= ROUNDING * scale:
        changes.outer.append((who, sides[:, 1], sp.csr_array(system.rows[[base]])))
    else:
        own = steep / (steep[1] if steep[1] != 0.0 else scale)
        system.left[base], system.right[base] = own
        side = int(np.argmax(np.abs(own)))
        changes.add(who, column, sides[:, side] / own[side])


def merge_parallel(system: System) -> System:
    """The same outputs with at most one kinked unit a hyperplane.

    Parameters
    ----------
    system : System

    Returns
    -------
    System
    """
    system = system.pruned()
    if not system.units:
        return system
    system = replace(system, left=system.left.copy(), right=system.right.copy())
    depth = system.depths()[system.inputs : -1]
    last = system.rows.shape[1] - 1
    for level in range(1, int(depth.max()) + 1):
        budget().poll()
        members = np.flatnonzero(depth == level)
        rows = sp.csr_array(system.rows[members])
        rows.sort_indices()
        lead = _leads(rows)
        classes, fixed = _classes(rows, lead), np.flatnonzero(lead == 0.0)
        if not classes and not fixed.size:
            continue
        readers = sp.csc_array(sp.vstack([system.rows, system.output]))
        changes = _Changes()
        for position in fixed:
            unit = int(members[position])
            z = float(rows[[position], [last]][0])
            value = (system.left[unit] if z < 0 else system.right[unit]) * z
            changes.dropped.append(system.inputs + unit)
            changes.moved.append((system.inputs + unit, last, float(value)))
        for positions in classes:
            ratio = lead[positions] / lead[positions[0]]
            _join(system, readers, members[positions], ratio, changes)
        _apply(system, readers, changes)
    return system.pruned()


def _apply(system: System, readers: sp.csc_array, changes: _Changes) -> None:
    """Rewrite all rows of `system` by the changes of one level."""
    count, width = readers.shape
    kept = np.ones(width)
    kept[changes.dropped] = 0.0
    old = np.array([move[0] for move in changes.moved], dtype=np.intp)
    new = np.array([move[1] for move in changes.moved], dtype=np.intp)
    factor = np.array([move[2] for move in changes.moved])
    rest = sp.csr_array((factor, (old, new)), shape=(width, width))
    rows = sp.csr_array(readers @ (sp.diags_array(kept) + rest))
    if changes.readers:
        where = (np.concatenate(changes.readers), np.concatenate(changes.columns))
        added = sp.csr_array((np.concatenate(changes.values), where), shape=(count, width))
        rows = sp.csr_array(rows + added)
    for who, values, row in changes.outer:
        column = sp.csr_array((values, (who, np.zeros(who.size, dtype=np.intp))), shape=(count, 1))
        rows = sp.csr_array(rows + column @ row)
    rows.eliminate_zeros()
    rows.sort_indices()
    system.rows = sp.csr_array(rows[: system.units])
    system.output = sp.csr_array(rows[system.units :])
