"""Roots of sums of squares in the first layer: which inputs each depends on, and rows behind them.

If tokens are normalised one by one, ``s_k / sqrt(v)`` depends on a single token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.networks.normalised import Roots
from lipyomo.search.spaces.boxes.quadratics.stacked import ENTRIES
from lipyomo.search.spaces.boxes.structure.closed_forms import passed_outputs
from lipyomo.search.spaces.boxes.structure.stage import Stage
from lipyomo.search.spaces.boxes.structure.tails import RowsOfSignals, weights_of_signals


class RootEntries(NamedTuple):
    """The columns that the squares of each root depend on, (n, m), and which are not padding."""

    columns: IntArray
    filled: BoolArray

    @classmethod
    def of(cls, weight: FloatArray, roots: Roots) -> RootEntries:
        """Return the columns for rows (n, d) that are squared."""
        groups = (roots.whole.T @ (weight != 0.0)) > 0.0
        most = int(groups.sum(axis=1).max())
        columns = np.argsort(~groups, axis=1, kind="stable")[:, :most]
        filled = np.take_along_axis(groups, columns, axis=1)
        return cls(columns[roots.group], filled[roots.group])

    def take(self, linear: FloatArray) -> FloatArray:
        """Select these columns of coefficients (N, n, d)."""
        return np.asarray(np.take_along_axis(linear, self.columns[None], axis=2) * self.filled)


@dataclass(frozen=True, eq=False)
class Behind:
    """Rows of a layer that are sums of quotients only, in parts: one for each root in a row.

    Attributes
    ----------
    place : int
        The index of their layer.
    which : ndarray of int, shape (b,)
        The indices of the rows in the layer.
    bias, reach : ndarray, shape (b,)
        The biases, and the sums of the absolute values of their terms.
    starts : ndarray of int, shape (b,)
        The first part of each row.
    group : ndarray of int, shape (P,)
        The root of each part.
    weight, sizes : ndarray, shape (P, n)
        The weights of all s over their root, and the sums of the absolute values of their terms.
    """

    place: int
    which: IntArray
    bias: FloatArray
    reach: FloatArray
    starts: IntArray
    group: IntArray
    weight: FloatArray
    sizes: FloatArray

    @classmethod
    def of(cls, place: int, which: IntArray, rows: RowsOfSignals, roots: Roots) -> Behind:
        """Split some rows of a layer into parts."""
        rows = rows.take(which)
        row, group = np.nonzero(rows.sizes @ roots.whole > 0.0)
        own = roots.whole.T[group]
        starts = np.searchsorted(row, np.arange(which.size))
        parts = rows.whole[row] * own, rows.sizes[row] * own
        return cls(place, which, rows.bias, rows.reach, starts, group, *parts)

    @cached_property
    def row(self) -> IntArray:
        """The row of each part."""
        counts = np.diff(np.append(self.starts, self.group.size))
        return np.repeat(np.arange(self.starts.size), counts)

    @cached_property
    def alone(self) -> BoolArray:
        """Which parts are the only one of their row."""
        return np.asarray(np.bincount(self.row)[self.row] == 1)


class LocalRoots(NamedTuple):
    """The roots of sums of squares in the first layer.

    Attributes
    ----------
    roots : Roots
    x, v : RootEntries
        The inputs, and entries of directions, that the root of each square depends on.
    behind : tuple of Behind
        Rows of later layers.
    """

    roots: Roots
    x: RootEntries
    v: RootEntries
    behind: tuple[Behind, ...]


def local_roots_of(stages: Sequence[Stage]) -> LocalRoots | None:
    """Return the roots of a network if it begins with them and each depends on few inputs."""
    if len(stages) < 3 or stages[1].roots is None:
        return None
    first, roots = stages[0], stages[1].roots
    x, v = (RootEntries.of(rows[roots.squares], roots) for rows in (first.weight, first.along))
    if x.columns.shape[1] > ENTRIES:
        return None
    return LocalRoots(roots, x, v, _behind(stages, roots) if len(stages) > 3 else ())


def _behind(stages: Sequence[Stage], roots: Roots) -> tuple[Behind, ...]:
    """Find rows that are sums of several quotients, perhaps behind layers that pass these on."""
    quotients, products = stages[2].quotients, stages[2].products
    if quotients is None or products is None:
        return ()
    seen = np.zeros(stages[3].weight.shape[1], dtype=bool)  # outputs that are sums of quotients
    outputs = products.units + quotients.products
    seen[outputs] = True
    weight = weights_of_signals(quotients, stages[3].weight[:, outputs], roots)
    if weight is None:
        return ()
    found: list[Behind] = []
    through: list[Stage] = []
    for place in range(3, len(stages)):
        stage = stages[place]
        passed = np.zeros((len(stage.weight), stages[place - 1].bias.size))  # rows, not outputs
        if place > 3:
            passed[:, np.flatnonzero(seen)] = stage.weight[:, seen]
        through.append(stage.with_inputs(passed, stage.bias, stage.off))
        others = (stage.weight[:, ~seen] != 0.0).any(axis=1) | (stage.off > 0.0)
        rows = RowsOfSignals.of(through, weight)
        several = (stage.weight != 0.0).sum(axis=1) > 1
        which = np.flatnonzero(~others & several & ((rows.sizes > 0.0).sum(axis=1) > 1))
        if which.size:
            found.append(Behind.of(place, which, rows, roots))
        seen = passed_outputs(stage)
        seen[seen] = ~others[np.flatnonzero(seen)]  # these have the indices of their rows
        if not seen.any():
            break
    return tuple(found)
