"""Which products of a layer have a factor in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.kind import Bools
from lipyomo_check.smooth.levels import Indices, Level

FEWEST = 3
"""Members of a group."""


class Common(NamedTuple):
    """Groups of products.

    Attributes
    ----------
    rows : ndarray, shape (G,)
        The row that each group has in common.
    products, group, others : ndarray, shape (p,)
        Its members, group by group, the number of the group, and the row of the other factor.
    second : ndarray of bool, shape (p,)
        Whether the row in common is the right factor.
    scale : ndarray, shape (p,)
        Powers of two: what the row of the group is multiplied by in each member.
    """

    rows: Indices
    products: Indices
    group: Indices
    others: Indices
    second: Bools
    scale: Array

    @property
    def first(self) -> Indices:
        """The first member of each group."""
        return np.searchsorted(self.group, np.arange(self.rows.size))

    def branches(self, count: int) -> tuple[Indices, Indices]:
        """Return the branches of the other rows and of the common rows of this many products."""
        return (
            self.products + count * ~self.second,
            self.products + count * self.second,
        )

    def sums(self, members: Array) -> Array:
        """Return sums (N, G, ...) over the members (N, p, ...) of each group."""
        found: Array = np.add.reduceat(members, self.first, axis=1)
        return found


def common_of(level: Level) -> Common | None:
    """Return the groups of a layer's products, each of which is in the larger one of its two.

    A row that is a multiple of another one by a power of two, of either sign, is the same factor.
    """
    if level.products is None:
        return None
    same, multiple = _multiples(level)
    pairs = list(zip(level.products.left.tolist(), level.products.right.tolist(), strict=True))
    count: dict[int, int] = {}
    for i, j in pairs:
        for factor in {same[i], same[j]}:
            count[factor] = count.get(factor, 0) + 1
    groups: dict[int, list[tuple[int, int, int, bool]]] = {}
    for n, (i, j) in enumerate(pairs):
        second = count[same[j]] > count[same[i]]
        row, other = (j, i) if second else (i, j)
        if same[i] != same[j]:
            groups.setdefault(same[row], []).append((n, row, other, second))
    kept = [own for _, own in sorted(groups.items()) if len(own) >= FEWEST]
    if not kept:
        return None
    members = [(n, g, other) for g, own in enumerate(kept) for n, _, other, _ in own]
    firsts = [own[0][1] for own in kept]
    rows, which, group, others = (
        np.array(part, dtype=np.int64)
        for part in (firsts, *([one[k] for one in members] for k in range(3)))
    )
    scale = [multiple[row] / multiple[own[0][1]] for own in kept for _, row, _, _ in own]
    right = np.array([second for own in kept for *_, second in own])
    return Common(rows, which, group, others, right, np.array(scale))


def _multiples(level: Level) -> tuple[list[int], list[float]]:
    """Return for each row the first one that it is a multiple of, by a power of two, and that."""
    parts = [level.weight, level.bias[:, None], level.tangents]
    if level.rest is not None:
        parts += [level.rest.weight, level.rest.bias[:, None], level.rest.tangents]
    known: dict[bytes, int] = {}
    same, multiple = [], []
    for k, row in enumerate(np.concatenate(parts, axis=1)):
        filled = row[row != 0.0]
        power = np.copysign(2.0 ** np.frexp(filled[0])[1], filled[0]) if filled.size else 1.0
        with np.errstate(all="ignore"):
            unit = row / power + 0.0
            whole = np.isfinite(unit).all() and (unit * power == row).all()
        same.append(known.setdefault(unit.tobytes() if whole else b"%d" % k, k))
        multiple.append(float(power) if whole else 1.0)
    return same, multiple
