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
from lipyomo.onnx.system import System

ROUNDING = 1e-14
"""Relative size of differences that come from composing affine maps in float64."""

SMALL = 1e-200
"""Ratios of coefficients below this, or above its inverse, are not compared: they lose digits."""


@dataclass
class _Changes:
    """Columns to drop, and what to add instead: the sum of ``column (x) row``."""

    dropped: list[int] = field(default_factory=list)
    columns: list[FloatArray] = field(default_factory=list)
    rows: list[sp.csr_array] = field(default_factory=list)

    def add(self, column: FloatArray, row: sp.csr_array) -> None:
        """Let the readers in `column` read `row`."""
        self.columns.append(column)
        self.rows.append(row)


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
    found: dict[tuple[bytes, bytes], list[int]] = {}
    for position in np.flatnonzero((lead != 0.0) & ~odd):
        span = slice(scaled.indptr[position], scaled.indptr[position + 1])
        key = (scaled.indices[span].tobytes(), scaled.data[span].tobytes())
        found.setdefault(key, []).append(int(position))
    return [np.asarray(positions) for positions in found.values() if len(positions) > 1]


def _unit_row(column: int, width: int, value: float = 1.0) -> sp.csr_array:
    """A row that reads one column."""
    return sp.csr_array(([value], ([0], [column])), shape=(1, width))


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
    base, width = int(units[0]), system.rows.shape[1]
    z = sp.csr_array(system.rows[[base]])
    column = system.inputs + base
    forward = ratio > 0
    left = ratio * np.where(forward, system.left[units], system.right[units])
    right = ratio * np.where(forward, system.right[units], system.left[units])
    read = readers[:, system.column(units)].toarray()
    sides = read @ np.column_stack([left, right])
    changes.dropped.extend(int(c) for c in system.column(units))

    steep = sides[np.argmax(np.abs(sides).max(axis=1))]
    scale = np.abs(steep).max()
    if scale == 0.0:
        return
    cross = np.abs(sides[:, 0] * steep[1] - sides[:, 1] * steep[0])
    if (cross <= ROUNDING * np.abs(sides).max(axis=1) * scale).all():
        if abs(steep[0] - steep[1]) <= ROUNDING * scale:
            changes.add(sides[:, 1], z)
            return
        own = np.array([system.left[base], system.right[base]])
        if abs(own[0] * steep[1] - own[1] * steep[0]) > ROUNDING * scale * np.abs(own).max():
            own = steep / (steep[1] if steep[1] != 0.0 else scale)
            system.left[base], system.right[base] = own
        pivot = int(np.argmax(np.abs(own)))
        changes.add(sides[:, pivot] / own[pivot], _unit_row(column, width))
        return
    kink = (sides[:, 1] - sides[:, 0]) / (right[0] - left[0])
    changes.add(kink, _unit_row(column, width))
    second = int(units[1])
    system.left[second] = system.right[second] = 1.0
    rest = (sides[:, 0] - kink * left[0]) / ratio[1]
    changes.add(rest, _unit_row(system.inputs + second, width))


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
    width = system.rows.shape[1]
    for level in range(1, int(depth.max()) + 1):
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
            z = float(rows[[position], [width - 1]][0])
            value = (system.left[unit] if z < 0 else system.right[unit]) * z
            changes.dropped.append(system.inputs + unit)
            read = readers[:, [system.inputs + unit]].toarray().reshape(-1)
            changes.add(read, _unit_row(width - 1, width, value))
        for positions in classes:
            ratio = lead[positions] / lead[positions[0]]
            _join(system, readers, members[positions], ratio, changes)
        _apply(system, readers, changes)
    return system.pruned()


def _apply(system: System, readers: sp.csc_array, changes: _Changes) -> None:
    """Rewrite all rows of `system` by the changes of one level."""
    kept = np.ones(readers.shape[1])
    kept[changes.dropped] = 0.0
    rows = sp.csr_array(readers @ sp.diags_array(kept))
    if changes.columns:
        columns = sp.csr_array(np.column_stack(changes.columns))
        rows = sp.csr_array(rows + columns @ sp.vstack(changes.rows, format="csr"))
    rows.eliminate_zeros()
    rows.sort_indices()
    system.rows = sp.csr_array(rows[: system.units])
    system.output = sp.csr_array(rows[system.units :])
