"""A network under a partial pattern, seen by its tangents: the open units and nothing else.

With v the direction at the inputs (d of them) and s_k = (switch of unit k) * u_k for the F open
units, the tangent at every unit is a row in ``w = (v, s)``:

    u_k = U_k . w,      s_k (u_k - s_k) = 0,      J v = N w,

U strictly triangular in s.  A unit with slopes (left, right) passes on
``left * u_k + (right - left) * s_k``; decided units are eliminated.

Rounding: beside U and N the same recursion is run on absolute values; a multiple of these
magnitudes bounds the distance of the computed numbers from the exact ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lipyomo.network import FloatArray, Network
from lipyomo.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.phases import OPEN, RIGHT, Phases

IntArray: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ReducedForm:
    """Tangents of the open units and of the outputs as rows in ``w = (v, s)``.

    Attributes
    ----------
    rows : ndarray, shape (F, d + F)
        U; row k has no entries in s_k, s_{k+1}, ...
    objective : ndarray, shape (k, d + F)
        N, one row a functional.
    row_size, objective_size : ndarray
        Magnitudes, same shapes; ``|computed - exact| <= rounding * magnitude``.
    units : ndarray of int, shape (F, 2)
        (layer, unit) of each open unit.
    inputs : int
        d.
    rounding : float
        Relative rounding bound that goes with the magnitudes.
    """

    rows: FloatArray
    objective: FloatArray
    row_size: FloatArray
    objective_size: FloatArray
    units: IntArray
    inputs: int
    rounding: float

    @property
    def count(self) -> int:
        """Number of open units F."""
        return len(self.rows)

    def fix(self, unit: int, on: bool) -> ReducedForm:
        """Decide the open unit with row number `unit`.

        Off deletes its row and column; on substitutes ``s_k = u_k`` first.
        """
        column = self.inputs + unit
        rows, objective = self.rows, self.objective
        row_size, objective_size = self.row_size, self.objective_size
        if on:
            rows = rows + np.outer(rows[:, column], rows[unit])
            objective = objective + np.outer(objective[:, column], self.rows[unit])
            row_size = row_size + np.outer(row_size[:, column], row_size[unit])
            objective_size = objective_size + np.outer(
                objective_size[:, column], self.row_size[unit]
            )
        keep_rows = np.delete(np.arange(self.count), unit)
        keep = np.delete(np.arange(rows.shape[1]), column)
        return ReducedForm(
            rows[np.ix_(keep_rows, keep)],
            objective[:, keep],
            row_size[np.ix_(keep_rows, keep)],
            objective_size[:, keep],
            self.units[keep_rows],
            self.inputs,
            self.rounding + 4 * UNIT_ROUNDOFF,
        )

    def relevant(self) -> ReducedForm:
        """The form without open units that see no input or that no objective row sees.

        Their tangents are zero, or do not matter, whatever their switches; left in, their
        multipliers would run off to infinity or zero.  Only exact zeros count.
        """
        d, count = self.inputs, self.count
        seeing = np.asarray(self.row_size[:, :d].any(axis=1))
        seen = np.asarray(self.objective_size[:, d:].any(axis=0))
        if seeing.all() and seen.all():
            return self
        for k in range(count):
            seeing[k] |= bool((self.row_size[k, d : d + k] > 0)[seeing[:k]].any())
        for k in range(count - 1, -1, -1):
            seen[k] |= bool((self.row_size[k + 1 :, d + k] > 0)[seen[k + 1 :]].any())
        keep = np.flatnonzero(seeing & seen)
        if keep.size == count:
            return self
        columns = np.concatenate([np.arange(d), d + keep])
        return replace(
            self,
            rows=self.rows[np.ix_(keep, columns)],
            objective=self.objective[:, columns],
            row_size=self.row_size[np.ix_(keep, columns)],
            objective_size=self.objective_size[:, columns],
            units=self.units[keep],
        )

    def select(self, functionals: IntArray) -> ReducedForm:
        """The form with some of the objective rows only."""
        return ReducedForm(
            self.rows,
            self.objective[functionals],
            self.row_size,
            self.objective_size[functionals],
            self.units,
            self.inputs,
            self.rounding,
        )


def reduce_form(network: Network, phases: Phases, functionals: npt.ArrayLike) -> ReducedForm:
    """Eliminate all units that `phases` decide.

    Parameters
    ----------
    network : Network
    phases : Phases
    functionals : array_like, shape (k, m)
        Rows y of the outputs' dual ball; the identity for the Jacobian itself.

    Returns
    -------
    ReducedForm
    """
    d = network.input_dim
    open_masks = [np.asarray(layer == OPEN) for layer in phases]
    count = sum(int(mask.sum()) for mask in open_masks)
    signal: FloatArray = np.eye(d if not network.hidden else 0, d + count)
    size: FloatArray = signal
    rows, sizes, units = [], [], []
    column, terms = d, 1
    for position, (layer, phase, is_open) in enumerate(
        zip(network.hidden, phases, open_masks, strict=True)
    ):
        if position == 0:  # no product with the identity: inputs may be thousands
            tangent = np.hstack([layer.dense_weight, np.zeros((layer.units, count))])
            magnitude = np.abs(tangent)
        else:
            tangent = np.asarray(layer.weight @ signal)
            magnitude = np.asarray(abs(layer.weight) @ size)
        terms += layer.inputs + 3
        slope = np.where(is_open | (phase != RIGHT), layer.left, layer.right)
        signal, size = slope[:, None] * tangent, np.abs(slope)[:, None] * magnitude
        index = np.flatnonzero(is_open)
        if index.size:
            rows.append(tangent[index])
            sizes.append(magnitude[index])
            units.append(np.stack([np.full(index.size, position), index], axis=1))
            columns = column + np.arange(index.size)
            jump = (layer.right - layer.left)[index]
            signal[index, columns] += jump
            size[index, columns] += np.abs(jump)
            column += index.size
    y = np.atleast_2d(np.asarray(functionals, dtype=np.float64))
    last = np.asarray(y @ network.head.weight)
    objective = np.asarray(last @ signal)
    objective_size = np.asarray(np.abs(y) @ np.asarray(abs(network.head.weight) @ size))
    terms += network.head.inputs + network.output_dim + 3
    empty = np.zeros((0, d + count))
    return ReducedForm(
        np.concatenate(rows) if rows else empty,
        objective,
        np.concatenate(sizes) if sizes else empty,
        objective_size,
        np.concatenate(units) if units else np.zeros((0, 2), dtype=np.int64),
        d,
        2.0 * terms * UNIT_ROUNDOFF,
    )
