"""The set of a program's inputs (a box, rows, and a ball), and bounds that multipliers prove on it.

For row multipliers y >= 0 and any *pull* q, every (x, y') in box and rows, with x in the ball, has

    c . w  <=  y . b + max over the box of (c - A^T y - q) . w  +  q . p + r |q|_dual,

independent of the solver: rows and box are bounded by weak duality, and the part q of the inputs'
costs by the ball.  In a weighted ball, |(x - p) / w| <= r, the norm is that of w q.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, lengths
from lipyomo.base.numerics.lp import weak_duality
from lipyomo.base.numerics.rounding import gamma
from lipyomo.problems.domains import Domain


class Reach(NamedTuple):
    """A set of inputs.

    Attributes
    ----------
    low, high : ndarray, shape (d,)
        A box.
    A, b : ndarray, shapes (k, d) and (k,)
        Rows ``A x <= b``.
    norm : {'l1', 'l2'} or None
        Norm of the ball ``|(x - point) / weights| <= radius``, if there is one.
    point : ndarray, shape (d,)
    radius : float
    weights : ndarray, shape (d,), or None
        Positive; all one if None.
    """

    low: FloatArray
    high: FloatArray
    A: FloatArray
    b: FloatArray
    norm: str | None = None
    point: FloatArray | None = None
    radius: float = 0.0
    weights: FloatArray | None = None

    @classmethod
    def of(cls, domain: Domain) -> Reach:
        """Return a domain as a set of inputs."""
        rows, ball = np.asarray(domain.rows.A.toarray()), domain.ball
        found = domain.lower, domain.upper, rows, domain.rows.b
        return cls(*found) if ball is None else cls(*found, ball.norm, ball.point, ball.radius)

    @property
    def sizes(self) -> FloatArray:
        """The weights, shape (d,)."""
        return np.ones_like(self.low) if self.weights is None else self.weights

    def pulled(self, pull: FloatArray) -> float:
        """Return the largest product of a pull (d,) with a point of the ball, rounded up."""
        if self.point is None or not pull.any():
            return 0.0
        weighted = self.sizes * pull
        size = float(lengths(weighted) if self.norm == "l2" else np.abs(weighted).max())
        found = float(pull @ self.point) + self.radius * size
        rounding = float(np.abs(pull) @ np.abs(self.point)) + self.radius * size
        return found + gamma(pull.size + 5) * rounding


class ReachRows(NamedTuple):
    """A node's rows ``A w <= b`` in w = (x, y), its costs, and the box of y.

    Attributes
    ----------
    A, b : ndarray, shapes (r, d + F) and (r,)
    cost : ndarray, shape (d + F,)
    least, most : ndarray, shape (F,)
        Range of y.
    """

    A: FloatArray
    b: FloatArray
    cost: FloatArray
    least: FloatArray
    most: FloatArray

    def box(self, reach: Reach) -> tuple[FloatArray, FloatArray]:
        """Return the box of w."""
        return np.append(reach.low, self.least), np.append(reach.high, self.most)

    def within(self, reach: Reach) -> tuple[FloatArray, FloatArray]:
        """Return all rows, including those of the inputs' set."""
        beside = np.zeros((len(reach.A), self.cost.size))
        beside[:, : reach.low.size] = reach.A
        return np.concatenate([self.A, beside]), np.concatenate([self.b, reach.b])

    def proved(self, reach: Reach, proof: Proof) -> float:
        """Prove an upper bound of the costs on a set of inputs, from arbitrary multipliers."""
        A, b = self.within(reach)
        rest, d = self.cost.copy(), reach.low.size
        rest[:d] -= proof.pull
        end, loose, _ = weak_duality(rest, A, b, *self.box(reach), proof.duals)
        if loose > 0:
            return np.inf
        sizes = np.maximum(np.abs(reach.low), np.abs(reach.high))
        return end + reach.pulled(proof.pull) + gamma(4) * float(np.abs(proof.pull) @ sizes)


class Proof(NamedTuple):
    """Multipliers that prove a bound.

    Attributes
    ----------
    duals : ndarray, shape (r + k,)
        Nonnegative multipliers of the rows of a node, and of those of the inputs' set.
    pull : ndarray, shape (d,)
        The part of the inputs' costs that is bounded by the ball.
    """

    duals: FloatArray
    pull: FloatArray
