"""Norms of what the first layer sees: which inputs each root sees, and rows behind it.

Where tokens are normalised one by one, ``s_k / sqrt(v)`` depends on one token alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.networks.normalised import Roots
from lipyomo.search.spaces.boxes.stacked import ENTRIES
from lipyomo.search.spaces.boxes.stage import Stage
from lipyomo.search.spaces.boxes.tails import RowsOfSignals, passes, weights_of_signals


class RootEntries(NamedTuple):
    """Columns that the squares of each root see, shape (n, m), and which of these there are."""

    columns: IntArray
    filled: BoolArray

    @classmethod
    def of(cls, weight: FloatArray, roots: Roots) -> RootEntries:
        """Those of rows (n, d) that are squared."""
        groups = (roots.whole.T @ (weight != 0.0)) > 0.0
        most = int(groups.sum(axis=1).max())
        columns = np.argsort(~groups, axis=1, kind="stable")[:, :most]
        filled = np.take_along_axis(groups, columns, axis=1)
        return cls(columns[roots.group], filled[roots.group])

    def take(self, linear: FloatArray) -> FloatArray:
        """Of coefficients (N, n, d) these."""
        return np.asarray(np.take_along_axis(linear, self.columns[None], axis=2) * self.filled)


class Behind(NamedTuple):
    """Rows of quotients by one root each.

    Attributes
    ----------
    place : int
        Their layer.
    which : ndarray of int, shape (b,)
        Those of the layer.
    rows : RowsOfSignals
        Of all s over their root.
    group : ndarray of int, shape (b,)
        The root of each.
    """

    place: int
    which: IntArray
    rows: RowsOfSignals
    group: IntArray


class LocalRoots(NamedTuple):
    """Roots of sums of squares of the first layer.

    Attributes
    ----------
    roots : Roots
    x, v : RootEntries
        What of inputs and directions each square's root sees.
    behind : Behind, optional
        Rows of the layer after that of the quotients, or of the next one.
    """

    roots: Roots
    x: RootEntries
    v: RootEntries
    behind: Behind | None


def local_roots_of(stages: Sequence[Stage]) -> LocalRoots | None:
    """Those of a network, if it begins with them, and each sees few inputs."""
    if len(stages) < 3 or stages[1].roots is None:
        return None
    first, roots = stages[0], stages[1].roots
    x, v = (RootEntries.of(rows[roots.squares], roots) for rows in (first.weight, first.along))
    if x.columns.shape[1] > ENTRIES:
        return None
    return LocalRoots(roots, x, v, _behind(stages, roots) if len(stages) > 3 else None)


def _behind(stages: Sequence[Stage], roots: Roots) -> Behind | None:
    """Rows that are sums of several quotients by one root, maybe behind a layer that passes all."""
    quotients, products = stages[2].quotients, stages[2].products
    if quotients is None or products is None:
        return None
    first = stages[3]
    outputs = products.units + quotients.products
    weight = weights_of_signals(quotients, first.weight[:, outputs], roots)
    if weight is None:
        return None
    mixed = np.ones(first.weight.shape[1], dtype=bool)
    mixed[outputs] = False
    for place in range(3, min(5, len(stages))):
        mixed = (stages[place].weight[:, mixed] != 0.0).sum(axis=1) > 0
        rows = RowsOfSignals.of(stages[3 : place + 1], weight)
        own = rows.sizes > 0.0
        one = ((own @ roots.whole) > 0.0).sum(axis=1) == 1
        which = np.flatnonzero(one & (own.sum(axis=1) > 1) & ~mixed)
        if which.size:
            return Behind(place, which, rows.take(which), roots.group[own[which].argmax(axis=1)])
        if not passes(stages[place]):
            break
    return None
