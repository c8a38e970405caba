"""Exact proofs that strict linear inequalities contradict each other on a convex body.

If weights ``y >= 0``, not all zero, satisfy

    sum_i y_i (b_i - a_i . w) <= 0    for all w of the body,

then no w of the body satisfies ``a_i . w < b_i`` for all i.  The weights come from a floating-point
linear program; they are made to cancel by elimination in rational numbers, and the inequality is
evaluated without rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lipyomo.domains import NormBall
from lipyomo.network import FloatArray
from lipyomo.numerics.dyadic import ObjectArray

SUPPORT = 1e-9
"""Smallest weight, relative to the largest, that takes part in a proof."""

CANCELS = Fraction(1, 10**9)
"""Share of its terms below which a coefficient of the combination is meant to cancel."""

MOST_ENTRIES = 20_000
"""Larger systems of equations (rows times columns) are not solved exactly."""

MOST_LEFT_OUT = 6
"""Rows of a proof up to which it is tried without each of them."""

Row = Sequence[Fraction]


@dataclass(frozen=True)
class Body:
    """The set on which rows contradict each other: a box, and a ball in the first variables.

    Attributes
    ----------
    lower, upper : ndarray, shape (n,)
        May be infinite.
    ball : NormBall, optional
        Of the first ``ball.dimension`` variables.
    """

    lower: FloatArray
    upper: FloatArray
    ball: NormBall | None = None

    def side(self, j: int, downwards: bool) -> Fraction | None:
        """Lower or upper bound of a variable; None if infinite."""
        value = float(self.lower[j] if downwards else self.upper[j])
        return Fraction(value) if np.isfinite(value) else None

    def least(self, row: Row) -> Fraction | None:
        """A lower bound of ``row . w`` over the body; None where only the ball bounds it."""
        total = Fraction(0)
        for j, value in enumerate(row):
            side = self.side(j, value > 0)
            if value != 0:
                if side is None:
                    return None
                total += value * side
        return total

    def exceeds(self, row: Row, right: Fraction) -> bool:
        """Whether ``row . w >= right`` on the whole body is certain."""
        box = self.least(row)
        if box is not None and box >= right:
            return True
        if self.ball is None:
            return False
        d = self.ball.dimension
        rest = self.least([Fraction(0)] * d + list(row[d:]))
        if rest is None:
            return False
        at = sum((r * Fraction(float(p)) for r, p in zip(row, self.ball.point, strict=False)), rest)
        room, radius = at - right, Fraction(self.ball.radius)
        if self.ball.norm == "l1":
            return radius * max(abs(value) for value in row[:d]) <= room
        square = sum((value * value for value in row[:d]), Fraction(0))
        return room >= 0 and radius * radius * square <= room * room


def scaled_rows(digits: ObjectArray) -> list[list[Fraction]]:
    """Integer rows ``(a, b)``, shape (r, n + 1), divided by powers of two: |a| is about one."""
    rows = []
    for row in digits:
        bits = max((abs(int(value)).bit_length() for value in row[:-1]), default=0)
        rows.append([Fraction(int(value), 1 << bits) for value in row])
    return rows


def contradicts(rows: Sequence[Row], body: Body, guess: FloatArray) -> bool:
    """Whether weights near `guess` prove that no point of `body` satisfies all `rows` strictly.

    Parameters
    ----------
    rows : sequence of sequences of Fraction
        ``(a_i, b_i)`` of ``a_i . w < b_i``.
    body : Body
    guess : ndarray, shape (r,)
        Weights; negative ones count as zero.
    """
    top = float(guess.max(initial=0.0))
    if not np.isfinite(guess).all() or top <= 0:
        return False
    pick = np.flatnonzero(guess > SUPPORT * top).tolist()
    chosen = [rows[k] for k in pick]
    y = [Fraction(float(guess[k])) for k in pick]
    if _repaired(chosen, y, body):
        return True
    # Where several rows touch the body in one point, a solver may weigh one that is not needed.
    several = 1 < len(y) <= MOST_LEFT_OUT
    return several and any(
        _repaired(chosen[:k] + chosen[k + 1 :], y[:k] + y[k + 1 :], body) for k in range(len(y))
    )


def _repaired(chosen: Sequence[Row], y: Row, body: Body) -> bool:
    """Whether the weights y, or weights near them that cancel exactly, are a proof."""
    if _proves(chosen, y, body):
        return True
    cancel, slack = _split(chosen, y, body)
    if len(y) * (len(cancel) + 1) > MOST_ENTRIES:
        return False
    equations = [[row[j] for row in chosen] for j in cancel]
    for system in (equations, [*equations, slack]):
        solved = _annihilated(system, y)
        if solved is not None and _proves(chosen, solved, body):
            return True
    return False


def _combined(rows: Sequence[Row], y: Row) -> list[Fraction]:
    """``sum_i y_i (a_i, b_i)``."""
    return [
        sum((v * row[j] for v, row in zip(y, rows, strict=True) if row[j]), Fraction(0))
        for j in range(len(rows[0]))
    ]


def _proves(rows: Sequence[Row], y: Row, body: Body) -> bool:
    """Whether ``y >= 0``, y is not zero, and the combination is nowhere positive on the body."""
    if min(y) < 0 or max(y) <= 0:
        return False
    total = _combined(rows, y)
    return body.exceeds(total[:-1], total[-1])


def _split(rows: Sequence[Row], y: Row, body: Body) -> tuple[list[int], list[Fraction]]:
    """Variables that have to cancel, and each row's slack at the faces the others are pushed to."""
    cancel = []
    slack = [row[-1] for row in rows]
    for j, value in enumerate(_combined(rows, y)[:-1]):
        size = sum((v * abs(row[j]) for v, row in zip(y, rows, strict=True)), Fraction(0))
        side = body.side(j, value > 0)
        if side is None or abs(value) <= CANCELS * size:
            if size:
                cancel.append(j)
        else:
            slack = [left - row[j] * side for left, row in zip(slack, rows, strict=True)]
    return cancel, slack


def _annihilated(equations: Sequence[Row], y: Row) -> list[Fraction] | None:
    """Weights with ``equations . y = 0``: small entries are kept, large ones are solved for."""
    left = [list(row) for row in equations if any(row)]
    pivots: dict[int, list[Fraction]] = {}
    for column in sorted(range(len(y)), key=lambda k: -y[k]):
        found = next((row for row in left if row[column] != 0), None)
        if found is None:
            continue
        if len(pivots) + 1 == len(y):
            return None
        left.remove(found)
        lead = found[column]
        pivot = [value / lead for value in found]
        for row in [*left, *pivots.values()]:
            factor = row[column]
            if factor != 0:
                row[:] = [a - factor * c for a, c in zip(row, pivot, strict=True)]
        left = [row for row in left if any(row)]
        pivots[column] = pivot
    solved = list(y)
    for column, row in pivots.items():
        kept = (row[k] * y[k] for k in range(len(y)) if k not in pivots)
        solved[column] = -sum(kept, Fraction(0))
    return solved
