"""Proofs that strict linear inequalities contradict each other on a convex body.

If weights ``y >= 0``, not all zero, satisfy

    sum_i y_i (b_i - a_i . w) <= 0    for all w of the body,

then no w of the body satisfies ``a_i . w < b_i`` for all i.  The weights come from a floating-point
linear program.  If the body is unbounded in a variable, its coefficients have to cancel exactly.
`contradicts_beyond_rounding` shows in float64 that some weights near the given ones cancel, and
that the inequality holds by more than all rounding errors.  `contradicts` makes them cancel by
elimination in rational numbers and evaluates the inequality without rounding; it also decides cases
in which rows only touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from flint import fmpq, fmpq_mat
from scipy.linalg import qr

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.exact import approximate, exact, row_reduced
from lipyomo.base.numerics.params import PARAMS as NUMERICS
from lipyomo.base.numerics.rounding import gamma
from lipyomo.primal.regions.params import PARAMS
from lipyomo.problems.domains.base import RoundPart

Row = Sequence[fmpq]


class Body(NamedTuple):
    """The body on which rows contradict each other: a box, with a ball in the first variables.

    Attributes
    ----------
    lower, upper : ndarray, shape (n,)
        May be infinite.
    ball : RoundPart, optional
        A ball in the first ``ball.dimension`` variables.
    """

    lower: FloatArray
    upper: FloatArray
    ball: RoundPart | None = None

    def side(self, j: int, downwards: bool) -> fmpq | None:
        """Return the lower or upper bound of a variable, or None if it is infinite."""
        value = float(self.lower[j] if downwards else self.upper[j])
        return exact(value) if np.isfinite(value) else None

    def least(self, row: Row) -> fmpq | None:
        """Return a lower bound of ``row . w`` over the box, or None if it is unbounded there."""
        total = fmpq(0)
        for j, value in enumerate(row):
            if value != 0:
                side = self.side(j, value > 0)
                if side is None:
                    return None
                total += value * side
        return total

    def exceeds(self, row: Row, right: fmpq) -> bool:
        """Return whether ``row . w >= right`` is proved on the whole body."""
        box = self.least(row)
        if box is not None and box >= right:
            return True
        if self.ball is None:
            return False
        d = self.ball.dimension
        rest = self.least([fmpq(0)] * d + list(row[d:]))
        if rest is None:
            return False
        point = [exact(value) for value in self.ball.point.tolist()]
        at = sum((r * p for r, p in zip(row[:d], point, strict=True)), rest)
        room, radius = at - right, exact(self.ball.radius)
        if self.ball.norm == "l1":
            return bool(radius * max(abs(value) for value in row[:d]) <= room)
        square = sum((value * value for value in row[:d]), fmpq(0))
        return bool(room >= 0 and radius * radius * square <= room * room)


def slacks(rows: Sequence[Row], point: Sequence[fmpq]) -> list[fmpq]:
    """Return ``b - a . x`` for each row."""
    return [
        row[-1] - sum((a * x for a, x in zip(row, point, strict=False)), fmpq(0)) for row in rows
    ]


def contradicts(rows: Sequence[Row], body: Body, guess: FloatArray) -> IntArray | None:
    """Prove by weights near `guess` that no point of `body` satisfies some rows strictly.

    Parameters
    ----------
    rows : sequence of sequences of fmpq
        ``(a_i, b_i)`` of ``a_i . w < b_i``.
    body : Body
    guess : ndarray, shape (r,)
        Weights; negative ones count as zero.

    Returns
    -------
    ndarray of int, or None
        The indices of these rows; None if there is no proof.
    """
    pick = _weighty(guess)
    if not pick.size:
        return None
    chosen = [list(rows[k]) for k in pick.tolist()]
    proved = _repaired(chosen, [exact(float(guess[k])) for k in pick.tolist()], body)
    return pick if proved else None


def _repaired(chosen: list[list[fmpq]], y: list[fmpq], body: Body) -> bool:
    """Return whether the weights y, or weights near them that cancel exactly, are a proof."""
    total = _combined(chosen, y)
    if _proves(y, total, body):
        return True
    cancel, slack = _split(chosen, y, total, body)
    if len(y) * (len(cancel) + 1) > NUMERICS.entries:
        return False
    equations = [[row[j] for row in chosen] for j in cancel]
    for system in (equations, [*equations, slack]):
        solved = _annihilated(system, y)
        if solved is not None and _proves(solved, _combined(chosen, solved), body):
            return True
    return False


def _combined(rows: list[list[fmpq]], y: list[fmpq]) -> list[fmpq]:
    """Return ``sum_i y_i (a_i, b_i)``."""
    total: list[fmpq] = (fmpq_mat(1, len(y), y) * fmpq_mat(rows)).entries()
    return total


def _proves(y: list[fmpq], total: list[fmpq], body: Body) -> bool:
    """Return whether ``y >= 0``, y is not zero, and the combination is not positive on the body."""
    if min(y) < 0 or max(y) <= 0:
        return False
    return body.exceeds(total[:-1], total[-1])


def _split(
    rows: list[list[fmpq]], y: list[fmpq], total: list[fmpq], body: Body
) -> tuple[list[int], list[fmpq]]:
    """Return the variables that must cancel, and the slack of each row at bounds of the others."""
    cancel = []
    slack = [row[-1] for row in rows]
    for j, value in enumerate(total[:-1]):
        side = body.side(j, value > 0)
        size = sum(
            approximate(v) * abs(approximate(row[j])) for v, row in zip(y, rows, strict=True)
        )
        if side is None or abs(approximate(value)) <= PARAMS.rounding * size:
            if size:
                cancel.append(j)
        else:
            slack = [left - row[j] * side for left, row in zip(slack, rows, strict=True)]
    return cancel, slack


def _annihilated(equations: list[list[fmpq]], y: list[fmpq]) -> list[fmpq] | None:
    """Return weights with ``equations . y = 0``, keeping small entries and solving for large."""
    order = sorted(range(len(y)), key=lambda k: -y[k])
    if not equations:
        return y
    table, pivots = row_reduced(fmpq_mat([[row[k] for k in order] for row in equations]))
    if len(pivots) >= len(y):
        return None
    solved = list(y)
    for row, pivot in zip(table, pivots, strict=True):
        kept = (row[j] * y[order[j]] for j in range(len(y)) if j not in pivots)
        solved[order[pivot]] = -sum(kept, fmpq(0))
    return solved


class RoundedRows(NamedTuple):
    """Rows ``a . w < b`` in float64, and error bounds of their numbers.

    Attributes
    ----------
    A, A_error : ndarray, shape (r, n)
    b, b_error : ndarray, shape (r,)
    """

    A: FloatArray
    b: FloatArray
    A_error: FloatArray
    b_error: FloatArray


def contradicts_beyond_rounding(
    rows: RoundedRows, lower: FloatArray, upper: FloatArray, guess: FloatArray
) -> IntArray | None:
    """Prove in float64, by weights near `guess`, that no point of a box satisfies some rows.

    Parameters
    ----------
    rows : RoundedRows
    lower, upper : ndarray, shape (n,)
        May be infinite.
    guess : ndarray, shape (r,)

    Returns
    -------
    ndarray of int, or None
        The indices of these rows; None if there is no proof.

    Notes
    -----
    Let B y = 0 be the equations of the variables that must cancel, P as many weights as equations,
    R an approximate inverse of B_P, and ``alpha >= |I - R B_P|_inf``.  If alpha < 1, the weights
    ``y_P - B_P^{-1} B y`` cancel exactly, and ``|B_P^{-1} r| <= |R r| + alpha / (1 - alpha)
    |R r|_inf``.  It remains to show that they are not negative, and that the inequality holds.
    """
    pick = _weighty(guess)
    if not pick.size:
        return None
    y = guess[pick] / float(guess.max())
    own = RoundedRows(*(part[pick] for part in (rows.A, rows.b, rows.A_error, rows.b_error)))
    if not (np.isfinite(own.A_error).all() and np.isfinite(own.b_error).all()):
        return None
    cancel = _to_cancel(own, lower, upper, y)
    change = np.zeros(y.size)
    if cancel.any():
        found = _cancelling(own.A[:, cancel].T, own.A_error[:, cancel].T, y)
        if found is None:
            return None
        y, change = found
    if (y - change < 0).any():
        return None
    left = np.flatnonzero(~cancel)
    own = RoundedRows(own.A[:, left], own.b, own.A_error[:, left], own.b_error)
    return pick if _is_negative(own, lower[left], upper[left], y, change) else None


def _weighty(guess: FloatArray) -> IntArray:
    """Return the rows with weights above rounding; none if some weights are not finite."""
    top = float(guess.max(initial=0.0))
    if not np.isfinite(guess).all() or top <= 0:
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero(guess > PARAMS.rounding * top)


def _to_cancel(rows: RoundedRows, lower: FloatArray, upper: FloatArray, y: FloatArray) -> BoolArray:
    """Return which variables (n,) must cancel in the sum of the rows with weights y (r,).

    These have no bound on the relevant side, or rounding does not determine this side.
    """
    total, size = y @ rows.A, y @ np.abs(rows.A)
    noise = gamma(y.size) * size + y @ rows.A_error
    bounded = np.isfinite(lower) & np.isfinite(upper)
    side = np.where(total > 0, lower, upper)
    known = np.isfinite(side) & (np.abs(total) > 2.0 * noise)
    unused = (size == 0) & (noise == 0)
    return np.asarray(~(bounded | unused | (known & (size != 0))))


def _is_negative(
    rows: RoundedRows, lower: FloatArray, upper: FloatArray, y: FloatArray, change: FloatArray
) -> bool:
    """Return whether ``y . (b - A w)`` is proved to be negative on a box, with all rounding.

    Parameters
    ----------
    rows : RoundedRows
    lower, upper : ndarray, shape (n,)
    y, change : ndarray, shape (r,)
        Weights, and bounds of their distances to the true ones.
    """
    k, n = rows.A.shape
    sizes = np.abs(rows.A)
    total, size = y @ rows.A, y @ sizes
    error = gamma(k) * size + y @ rows.A_error + change @ (sizes + rows.A_error)
    idle = (total == 0) & (error == 0)
    side = np.where(idle, 0.0, np.where(total > 0, lower, upper))
    if not np.isfinite(side).all():
        return False
    both = np.isfinite(lower) & np.isfinite(upper)
    if (~both & ~idle & (np.abs(total) <= error)).any():
        return False
    reach = np.where(both, np.maximum(np.abs(lower), np.abs(upper)), np.abs(side))
    reach = np.where(idle, 0.0, reach)
    value = float(y @ rows.b - total @ side)
    value_size = float(y @ np.abs(rows.b) + size @ reach)
    slack = float(y @ rows.b_error + change @ (np.abs(rows.b) + rows.b_error) + error @ reach)
    return value + (1.0 + 1e-6) * slack + gamma(k + n) * value_size < 0


def _cancelling(
    B: FloatArray, B_error: FloatArray, y: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Return weights near y, and how far away some cancel exactly; None if this is not proved."""
    count, k = B.shape
    if count >= k:
        return None
    _, order = qr(B * y, mode="r", pivoting=True)
    chosen, rest = order[:count], order[count:]
    square = B[:, chosen]
    try:
        inverse = np.linalg.inv(square)
    except np.linalg.LinAlgError:
        return None
    off = np.abs(np.eye(count) - inverse @ square)
    off += np.abs(inverse) @ (gamma(count) * np.abs(square) + B_error[:, chosen])
    alpha = float(off.sum(axis=1).max()) * (1.0 + gamma(count))
    if not alpha < 0.5:
        return None
    y = y.copy()
    y[chosen] = -inverse @ (B[:, rest] @ y[rest])
    y[chosen] -= inverse @ (B @ y)
    sizes = np.abs(y)
    residual = np.abs(B @ y) + gamma(k) * (np.abs(B) @ sizes) + B_error @ sizes
    moved = np.abs(inverse) @ residual
    change = np.zeros(k)
    change[chosen] = (moved + alpha / (1.0 - alpha) * moved.max()) * (1.0 + gamma(count))
    return y, change
