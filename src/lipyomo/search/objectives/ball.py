"""Maximum over rows, a box and a Euclidean ball, by a primal-dual interior-point method.

In coordinates u of the unit ball, outputs y of unstable units in their ranges, and the violation e
of elastic rows,

    maximise  c . w  over  w = (u, y, e)  with  A w <= b,  |u|^2 <= 1,  low <= w <= high,

by Mehrotra's steps (SIAM J. Optim. 2, 1992).  Ball and box only add to the diagonal of the Newton
matrix in u, so that u is eliminated and y, e and one number per row are left.  Soundness does not
depend on the solution: bounds are recomputed from its multipliers (`reach.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.params import PARAMS
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.search.objectives.params import Params
from lipyomo.search.objectives.reach import Proof, Reach, ReachRows


def largest_in_ball(
    rows: ReachRows, reach: Reach, elastic: bool, params: Params
) -> tuple[FloatArray | None, Proof]:
    """Maximise the costs of a node; return the maximiser and multipliers.

    The point is None if the computation overflows.

    Parameters
    ----------
    rows : ReachRows
    reach : Reach
        A reach with a Euclidean ball.
    elastic : bool
        Whether the node's rows may be violated, at `Params.price`.
    params : Params
    """
    assert reach.point is not None
    d, count = reach.low.size, len(rows.b)
    A, b = rows.within(reach)
    low, high = rows.box(reach)
    start = np.append(reach.point, rows.least)
    unit = np.append(reach.radius * reach.sizes, rows.most - rows.least)
    moving = (high > low) & (unit > 0.0)
    fixed = np.where(moving, start, low)
    nothing = Proof(np.zeros(len(b)), np.zeros(d))
    with np.errstate(over="ignore", invalid="ignore"):
        matrix, right = (A * unit)[:, moving], b - A @ fixed
        sizes = np.abs(matrix).max(axis=1, initial=0.0)
        sizes, cost = np.where(sizes > 0.0, sizes, 1.0), (rows.cost * unit)[moving]
        top = float(np.abs(cost).max(initial=0.0)) or 1.0
        sides = np.stack([(end - start)[moving] / unit[moving] for end in (low, high)])
        used = right < np.maximum(matrix * sides[0], matrix * sides[1]).sum(axis=1)
        matrix, right = matrix[used] / sizes[used, None], right[used] / sizes[used]
        cost = cost / top
    if not all(np.isfinite(part).all() for part in (matrix, right, cost, sides)):
        return None, nothing
    inside, price = int(np.count_nonzero(moving[:d])), params.price * float(np.abs(cost).sum())
    nearest = np.clip(0.0, *sides[:, :inside])
    if nearest @ nearest >= 1.0:  # box and ball are disjoint: a pull that separates them proves it
        pull = np.zeros(d)
        pull[moving[:d]] = price * nearest * top / unit[:d][moving[:d]]
        return fixed, Proof(np.zeros(len(b)), pull)
    if elastic:
        away = np.abs(matrix) @ np.abs(sides).max(axis=0) + np.abs(right)
        column = np.where(np.flatnonzero(used) < count, -1.0, 0.0)
        matrix = np.hstack([matrix, column[:, None]])
        sides = np.hstack([sides, [[0.0], [1.0 + float(away.max(initial=0.0))]]])
        cost = np.append(cost, -price)
    program = _Program(cost, matrix, right, sides, inside)
    point, pull, multipliers = fixed.copy(), np.zeros(d), np.zeros(len(b))
    with np.errstate(all="ignore"):  # overflows are detected below
        w, duals = program.solved(EQUAL)
        w = w[: int(np.count_nonzero(moving))]
        point[moving] = np.clip(start[moving] + unit[moving] * w, low[moving], high[moving])
        multipliers[used] = np.maximum(duals[:-1], 0.0) * top / sizes[used]
        pull[moving[:d]] = duals[-1] * w[:inside] * top / unit[:d][moving[:d]]
        size = float(point @ point + multipliers @ multipliers + pull @ pull)
    return (point, Proof(multipliers, pull)) if np.isfinite(size) else (None, nothing)


class _State(NamedTuple):
    """An iterate, or a step of one.

    Attributes
    ----------
    w : ndarray, shape (n,)
    slack, duals : ndarray, shape (m + 1,)
        Slacks and multipliers of the rows and the ball.
    sides, prices : ndarray, shape (2, n)
        Slacks and multipliers of the lower and the upper ends of the box.
    """

    w: FloatArray
    slack: FloatArray
    duals: FloatArray
    sides: FloatArray
    prices: FloatArray

    def after(self, step: _State, share: float) -> _State:
        """Take a share of a step."""
        return _State(*(x + share * dx for x, dx in zip(self, step, strict=True)))

    @property
    def products(self) -> tuple[FloatArray, FloatArray]:
        """Complementarity products of rows and ball, and of the box."""
        return self.slack * self.duals, self.sides * self.prices

    @property
    def complementarity(self) -> float:
        """The sum of all products."""
        curved, flat = self.products
        return float(curved.sum() + flat.sum())

    def way(self, step: _State) -> float:
        """Return the largest share of a step, at most 1, with nonnegative slacks and multipliers.

        Primal and dual variables share it, because the ball makes the dual conditions bilinear.
        """
        pairs = zip(step[1:], self[1:], strict=True)
        return 1.0 / max(1.0, *(float((-dx / x).max(initial=0.0)) for dx, x in pairs))


class _Program:
    """A program scaled to numbers of size one; the first `inside` variables are in the ball."""

    def __init__(
        self, cost: FloatArray, A: FloatArray, b: FloatArray, box: FloatArray, inside: int
    ) -> None:
        self._cost, self._A, self._b, self._box, self._inside = cost, A, b, box, inside

    def solved(self, tolerance: float) -> tuple[FloatArray, FloatArray]:
        """Return the variables, and the multipliers of the rows and the ball.

        The iterate of least error is returned, as later steps may be dominated by rounding.
        """
        at = best = self._start()
        least = np.inf
        for _ in range(PARAMS.interior_steps):
            dual, primal = self._residuals(at)
            error = float(np.abs(dual).max() + np.abs(primal).max()) + at.complementarity
            if error < least:
                best, least = at, error
            after = None if error <= tolerance else self._stepped(at, dual, primal)
            if after is None or not np.isfinite(after.complementarity):
                break
            at = after
        return best.w, best.duals

    def _start(self) -> _State:
        """Return an initial point inside box and ball, with multipliers of one."""
        low, high = self._box
        share = np.full(low.size, 0.25)
        share[: self._inside] /= max(self._inside, 1) ** 0.5
        room = share * (high - low)
        w = np.clip(0.0, low + room, high - room)
        slack, sides = np.maximum(self._left(w), 1.0), np.stack([w - low, high - w])
        prices = 1.0 + np.maximum([-self._cost, self._cost], 0.0)  # cover the costs
        return _State(w, slack, np.ones(slack.size), sides, prices)

    def _left(self, w: FloatArray) -> FloatArray:
        """Return the slacks of rows and ball."""
        curve = 0.5 * (1.0 - float(np.square(w[: self._inside]).sum()))
        return np.append(self._b - self._A @ w, curve)

    def _residuals(self, at: _State) -> tuple[FloatArray, FloatArray]:
        """Return the residuals of the dual conditions and of the slacks."""
        dual = self._cost - self._A.T @ at.duals[:-1] + at.prices[0] - at.prices[1]
        dual[: self._inside] -= at.duals[-1] * at.w[: self._inside]
        return dual, self._left(at.w) - at.slack

    def _stepped(self, at: _State, dual: FloatArray, primal: FloatArray) -> _State | None:
        """Take a predictor and a corrector step; None if the Newton matrix is singular."""
        k, normal = self._inside, np.zeros(at.w.size)
        normal[:k] = at.w[:k]
        B, ratios = np.vstack([self._A, normal]), at.prices / at.sides
        diagonal = ratios.sum(axis=0)
        diagonal[:k] += at.duals[-1]
        scaled, rest, size = B[:, :k] / diagonal[:k], at.w.size - k, len(B)
        system = np.zeros((rest + size, rest + size))
        system[:rest, :rest] = np.diag(diagonal[k:])
        system[rest:, :rest], system[:rest, rest:] = B[:, k:], B[:, k:].T
        system[rest:, rest:] = -scaled @ B[:, :k].T - np.diag(at.slack / at.duals)
        factors, pivots, singular = lapack.dgetrf(system)
        if singular:
            return None

        def towards(curved: FloatArray, flat: FloatArray, primal: FloatArray) -> _State:
            """Return the step with these first-order changes of products and slacks."""
            g = dual + flat[0] / at.sides[0] - flat[1] / at.sides[1]
            right = primal - curved / at.duals
            right = np.concatenate([g[k:], right - scaled @ g[:k]])
            found = lapack.dgetrs(factors, pivots, right)[0]
            eta = found[rest:]
            dw = np.append((g[:k] - B[:, :k].T @ eta) / diagonal[:k], found[:rest])
            moved = np.stack([dw, -dw])
            return _State(
                dw,
                (curved - at.slack * eta) / at.duals,
                eta,
                moved,
                (flat - at.prices * moved) / at.sides,
            )

        curved, flat = at.products
        first = towards(-curved, -flat, primal)
        total = at.complementarity
        way = at.way(first)
        left = at.after(first, way).complementarity / total
        centre = left**3 * total / (curved.size + flat.size)
        bent = first.products
        step = towards(centre - curved - way * bent[0], centre - flat - way * bent[1], primal)
        return at.after(step, PARAMS.to_wall * at.way(step))
