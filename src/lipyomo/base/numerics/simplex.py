"""Strict linear inequalities decided by the simplex method in rational arithmetic.

The largest margin t of ``A x + t <= b, t <= 1`` is by duality

    min  b . y + y_0    over    A^T y = 0,  sum(y) + y_0 = 1,  y >= 0,  y_0 >= 0.

The simplex method solves this dual, which has one equation more than x has entries; its multipliers
are x.  A positive optimum yields a point x with ``A x < b``, any other yields weights y that prove
that there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from flint import fmpq

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.params import PARAMS


class Decision(NamedTuple):
    """The result of the simplex method.

    Attributes
    ----------
    point : list of fmpq or None
        Satisfies all rows strictly.
    weights : list of fmpq or None
        Prove that no point does.
    """

    point: list[fmpq] | None = None
    weights: list[fmpq] | None = None


def decide_strictly(rows: Sequence[Sequence[fmpq]], guess: FloatArray) -> Decision:
    """Decide whether some x satisfies ``a . x < b`` for all rows ``(a, b)``.

    Parameters
    ----------
    rows : sequence of sequences of fmpq
    guess : ndarray, shape (r,)
        Approximate weights; rows with large ones are tried first.

    Returns
    -------
    Decision
        Neither a point nor weights if the table is too large or takes too long.
    """
    d, count = len(rows[0]) - 1, len(rows)
    if (d + 1) * count > PARAMS.entries:
        return Decision()
    order = np.argsort(-guess, kind="stable").tolist()
    table = _Table([rows[k] for k in order], d)
    if not table.solve():
        return Decision()
    if table.value > 0:
        return Decision(point=table.multipliers())
    weights = [fmpq(0)] * count
    for k, value in table.solution().items():
        if k < count:
            weights[order[k]] = value
    return Decision(weights=weights)


class _Table:
    """The simplex tableau: equations, right-hand sides and reduced costs.

    Columns 0 to r - 1 belong to y, column r to y_0; the last d + 1 record the multipliers.
    """

    def __init__(self, rows: Sequence[Sequence[fmpq]], d: int) -> None:
        zero, one = fmpq(0), fmpq(1)
        self._count, self._d = len(rows), d
        self._equations: list[list[fmpq]] = []
        for i in range(d + 1):
            own = [row[i] for row in rows] if i < d else [one] * self._count
            trace = [one if j == i else zero for j in range(d + 1)]
            self._equations.append([*own, one if i == d else zero, *trace])
        self._right = [zero] * d + [one]
        self._costs = [*(row[-1] for row in rows), one, *[zero] * (d + 1)]
        self.value = zero
        self._basis: list[int | None] = [None] * (d + 1)
        self._pivot(d, self._count)
        for i in range(d):  # degenerate: the right sides are zero
            column = next((j for j in range(self._count) if self._equations[i][j] != 0), None)
            if column is not None:
                self._pivot(i, column)

    def solve(self) -> bool:
        """Pivot until the tableau is optimal or its value negative; False if it takes too long."""
        stuck = False
        for _ in range(PARAMS.iterations):
            costs = self._costs[: self._count + 1]
            falling = [j for j, cost in enumerate(costs) if cost < 0]
            if not falling or self.value < 0:
                return True
            # the least index cannot cycle where pivots do not move the value (Bland, 1977)
            column = falling[0] if stuck else min(falling, key=costs.__getitem__)
            best: tuple[fmpq, int] | None = None
            leave = -1
            for i, row in enumerate(self._equations):
                basic = self._basis[i]
                if basic is None or row[column] <= 0:
                    continue
                ratio = (self._right[i] / row[column], basic)
                if best is None or ratio < best:
                    best, leave = ratio, i
            if leave < 0:  # cannot happen: the margin is bounded from below
                return False
            before = self.value
            self._pivot(leave, column)
            stuck = self.value == before
        return False

    def _pivot(self, i: int, column: int) -> None:
        lead = self._equations[i][column]
        pivot = [entry / lead for entry in self._equations[i]]
        right = self._right[i] / lead
        self._equations[i], self._right[i] = pivot, right
        used = [j for j, entry in enumerate(pivot) if entry != 0]
        for k, row in enumerate(self._equations):
            factor = row[column]
            if k != i and factor != 0:
                for j in used:
                    row[j] -= factor * pivot[j]
                self._right[k] -= factor * right
        factor = self._costs[column]
        if factor != 0:
            for j in used:
                self._costs[j] -= factor * pivot[j]
            self.value += factor * right
        self._basis[i] = column

    def multipliers(self) -> list[fmpq]:
        """Return x, the negative reduced costs of the recording columns."""
        first = self._count + 1
        return [-cost for cost in self._costs[first : first + self._d]]

    def solution(self) -> dict[int, fmpq]:
        """Return the values of the basic columns."""
        pairs = zip(self._basis, self._right, strict=True)
        return {column: value for column, value in pairs if column is not None}
