"""Units on one hyperplane become one unit.

All two-slope functions with their kink on one hyperplane z = 0 span two dimensions: z and relu(z).
So of several units with proportional pre-activations one needs a kink, and at most one more, an
identity unit, is kept.  This finds back the LeakyReLU in ``relu(x) - a relu(-x)``, sees that
``relu(x) - relu(-x)`` is just x, and shares the comparisons of overlapping pooling windows.
Units are merged only where float64 numbers hold all that comes out: nothing is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from lipyomo.arrays import BoolArray, FloatArray
from lipyomo.numerics.exactness import entries_are_exact, product_is_exact, sum_is_exact
from lipyomo.onnx.affine import IntArray, matrix_sum_is_exact
from lipyomo.onnx.budget import budget
from lipyomo.onnx.cover import digest
from lipyomo.onnx.system import System

SMALL = 1e-200
"""Ratios of coefficients below this, or above its inverse, are not compared: they lose digits."""


@dataclass
class _Changes:
    """What the readers of some units read instead.

    Attributes
    ----------
    dropped : list of int
        Columns that nobody reads any more, unless they are added again.
    constants : list of (int, float)
        Columns that are constant, and their values.
    slopes : list of (int, float, float)
        New slopes of units.
    readers, columns, values : list of ndarray
        Entries to add: reader, column, coefficient.
    outer : list of (ndarray, ndarray, csr_array)
        Readers, their coefficients, and the row that they read.
    """

    dropped: list[int] = field(default_factory=list)
    constants: list[tuple[int, float]] = field(default_factory=list)
    slopes: list[tuple[int, float, float]] = field(default_factory=list)
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


def _classes(rows: sp.csr_array, lead: FloatArray, kinked: BoolArray) -> list[IntArray]:
    """Positions of proportional rows, for every hyperplane that has several; kinked ones first."""
    scaled = rows.copy()
    counts = np.diff(rows.indptr)
    scaled.data = rows.data / np.repeat(np.where(lead == 0.0, 1.0, lead), counts)
    size = np.abs(scaled.data)
    odd = np.zeros(rows.shape[0], dtype=bool)
    odd[np.repeat(np.arange(rows.shape[0]), counts)[(size < SMALL) | (size > 1.0 / SMALL)]] = True
    found: dict[bytes, list[int]] = {}
    for position in np.flatnonzero((lead != 0.0) & ~odd):
        found.setdefault(digest(scaled, int(position)), []).append(int(position))
    several = (
        np.array(sorted(positions, key=lambda i: not kinked[i]))
        for positions in found.values()
        if len(positions) > 1
    )
    exact = (positions[_multiples(rows, lead, positions)] for positions in several)
    return [positions for positions in exact if len(positions) > 1]


def _multiples(rows: sp.csr_array, lead: FloatArray, positions: IntArray) -> BoolArray:
    """Which of some rows are, number for number, multiples of the first."""
    data = np.stack([rows.data[rows.indptr[i] : rows.indptr[i + 1]] for i in positions])
    ratio = (lead[positions] / lead[positions[0]])[:, None]
    exact = entries_are_exact(np.broadcast_to(ratio, data.shape), np.tile(data[0], (len(data), 1)))
    return np.asarray((exact & (ratio * data[0] == data)).all(axis=1))


def _sides(
    readers: sp.csc_array, columns: IntArray, slopes: FloatArray
) -> tuple[IntArray, FloatArray] | None:
    """Who reads any of some units, and with which slopes altogether; None if that rounds.

    Parameters
    ----------
    readers : csc_array
    columns : ndarray of int, shape (k,)
    slopes : ndarray, shape (k, 2)
        Of each unit, below and above the kink.

    Returns
    -------
    (ndarray of int, ndarray) or None, shapes (readers,) and (readers, 2)
    """
    read = readers[:, columns].tocoo()
    order = np.argsort(read.row, kind="stable")
    who, starts, counts = np.unique(read.row[order], return_index=True, return_counts=True)
    factor, other = np.broadcast_arrays(read.data[order, None], slopes[read.col[order]])
    if not entries_are_exact(factor, other).all():
        return None
    terms = factor * other
    total = np.zeros((who.size, 2))
    for k in range(int(counts.max(initial=0))):
        more = np.flatnonzero(counts > k)
        term = terms[starts[more] + k]
        if not sum_is_exact(total[more], term):
            return None
        total[more] += term
    return who, total


def _join(
    system: System,
    readers: sp.csc_array,
    units: IntArray,
    ratio: FloatArray,
    changes: _Changes,
    inline: bool,
) -> None:
    """Replace units on one hyperplane by one, or by one and an identity unit, if nothing rounds.

    Parameters
    ----------
    system : System
    readers : csc_array, shape (n + m, width)
        Rows of all units and outputs.
    units : ndarray of int
        A kinked one first, if there is one.
    ratio : ndarray
        Pre-activation of each unit over that of the first.
    changes : _Changes
        Is extended.
    inline : bool
        Whether readers may read the hyperplane's row itself, where the kinks cancel.
    """
    columns = system.column(units)
    low, high = system.left[units], system.right[units]
    own = np.where(ratio[:, None] > 0, np.column_stack([low, high]), np.column_stack([high, low]))
    if not entries_are_exact(own, np.broadcast_to(ratio[:, None], own.shape)).all():
        return
    slopes = ratio[:, None] * own  # of each unit, below and above the kink of the first
    found = _sides(readers, columns, slopes)
    if found is None:
        return
    who, sides = found
    base = slopes[0]
    flat = sides[:, 0] == sides[:, 1]
    row = sp.csr_array(system.rows[[int(units[0])]])
    if not sides.any():
        changes.dropped.extend(columns.tolist())
    elif (one := _share(sides, base)) is not None:
        changes.dropped.extend(columns.tolist())
        changes.add(who, int(columns[0]), one)
    elif inline and flat.all() and product_is_exact(sides[:, :1], row):
        changes.dropped.extend(columns.tolist())
        changes.outer.append((who, sides[:, 1], row))
    elif not flat.all() and (turned := _one_unit(sides)) is not None:
        own, one = turned
        changes.dropped.extend(columns.tolist())
        changes.slopes.append((int(units[0]), float(own[0]), float(own[1])))
        changes.add(who, int(columns[0]), one)
    elif base[0] != base[1]:
        with np.errstate(all="ignore"):
            kink = (sides[:, 1] - sides[:, 0]) / (base[1] - base[0])
            straight = (sides[:, 0] - kink * base[0]) / ratio[1]
        both = np.array([base, [ratio[1], ratio[1]]])
        if _agrees(np.column_stack([kink, straight]), both, sides):
            changes.dropped.extend(columns.tolist())
            changes.slopes.append((int(units[1]), 1.0, 1.0))
            changes.add(who, int(columns[0]), kink)
            changes.add(who, int(columns[1]), straight)


def _one_unit(sides: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Slopes of which all pairs in `sides` are multiples, and the multiples."""
    steep = sides[np.argmax(np.abs(sides).max(axis=1))]
    # a slope of one where float64 numbers allow it
    for own in (steep / (steep[1] if steep[1] != 0.0 else np.abs(steep).max()), steep):
        multiples = _share(sides, own)
        if multiples is not None:
            return own, multiples
    return None


def _share(sides: FloatArray, slopes: FloatArray) -> FloatArray | None:
    """Multiples of one unit's slopes that give all pairs in `sides`; None if there are none."""
    side = int(np.argmax(np.abs(slopes)))
    if slopes[side] == 0.0:
        return None
    multiples = sides[:, side] / slopes[side]
    return multiples if _agrees(multiples[:, None], slopes[None, :], sides) else None


def _agrees(coefficients: FloatArray, slopes: FloatArray, sides: FloatArray) -> bool:
    """Whether ``coefficients @ slopes == sides``, without rounding."""
    found = _product(coefficients, slopes) if np.isfinite(coefficients).all() else None
    return found is not None and bool((found == sides).all())


def _product(coefficients: FloatArray, slopes: FloatArray) -> FloatArray | None:
    """``coefficients @ slopes`` of few units; None if that rounds."""
    total = np.zeros((len(coefficients), 2))
    for column, pair in zip(coefficients.T, slopes, strict=True):
        factor, other = np.broadcast_arrays(column[:, None], pair)
        term = factor * other
        if not (entries_are_exact(factor, other).all() and sum_is_exact(total, term)):
            return None
        total = total + term
    return total


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
    for level in range(1, int(depth.max()) + 1):
        budget().poll()
        members = np.flatnonzero(depth == level)
        rows = sp.csr_array(system.rows[members])
        rows.sort_indices()
        lead = _leads(rows)
        kinked = system.left[members] != system.right[members]
        classes, fixed = _classes(rows, lead, kinked), np.flatnonzero(lead == 0.0)
        if not classes and not fixed.size:
            continue
        readers = sp.csc_array(sp.vstack([system.rows, system.output]))
        for inline in (True, False):  # where sums round, more is left as it is
            changes = _Changes()
            for position in fixed if inline else ():
                unit = int(members[position])
                z = float(rows[[position], [rows.shape[1] - 1]][0])
                slope = system.left[unit] if z < 0 else system.right[unit]
                if entries_are_exact(np.array([slope]), np.array([z])).all():
                    changes.constants.append((system.inputs + unit, float(slope * z)))
            for positions in classes:
                ratio = lead[positions] / lead[positions[0]]
                _join(system, readers, members[positions], ratio, changes, inline)
            if _apply(system, readers, changes):
                break
    return system.pruned()


def _apply(system: System, readers: sp.csc_array, changes: _Changes) -> bool:
    """Rewrite all rows of `system` by the changes of one level, unless that rounds."""
    count, width = readers.shape
    last = width - 1
    old = np.array([column for column, _ in changes.constants], dtype=np.intp)
    values = np.array([value for _, value in changes.constants])
    offsets = readers[:, np.append(old, last)]
    if not product_is_exact(offsets, np.append(values, 1.0)[:, None]):
        return False
    kept = np.ones(width)
    kept[changes.dropped] = 0.0
    kept[old] = 0.0
    rest = sp.csr_array((values, (old, np.full(old.size, last))), shape=(width, width))
    rows = sp.csr_array(readers @ (sp.diags_array(kept) + rest))
    if changes.readers:
        where = (np.concatenate(changes.readers), np.concatenate(changes.columns))
        added = sp.csr_array((np.concatenate(changes.values), where), shape=(count, width))
        rows = sp.csr_array(rows + added)
    for who, factors, row in changes.outer:
        column = sp.csr_array((factors, (who, np.zeros(who.size, dtype=np.intp))), (count, 1))
        inlined = sp.csr_array(column @ row)
        total = sp.csr_array(rows + inlined)
        if not matrix_sum_is_exact(rows, inlined, total):
            return False
        rows = total
    rows.eliminate_zeros()
    rows.sort_indices()
    system.rows = sp.csr_array(rows[: system.units])
    system.output = sp.csr_array(rows[system.units :])
    for unit, left, right in changes.slopes:
        system.left[unit], system.right[unit] = left, right
    return True
