"""A batched interior-point method for many small linear programs over boxes.

    max a . x   subject to   G x <= h,   low <= x <= high.

Mehrotra's predictor-corrector method is applied to a stack of them with array operations; callers
remove programs from the stack as soon as their points or dual weights suffice.  No result relies on
convergence: callers check the points, and any nonnegative weights yield upper bounds by weak
duality.

Margins of small polyhedra are such programs: the largest t of ``A y + t <= b`` in a box
``low <= y <= high`` is one in (y, t).

S. Mehrotra, On the implementation of a primal-dual interior point method (1992).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.numerics.params import PARAMS


class Stacked(NamedTuple):
    """K programs in n variables, and their current iterates.

    Attributes
    ----------
    a : ndarray, shape (K, n)
    G : ndarray, shape (K, R, n)
    h : ndarray, shape (K, R + 2 n)
        Right-hand sides of the rows, then the upper ends of the box, and minus the lower ends.
    at : ndarray, shape (K, n)
    slack, weights : ndarray, shape (K, R + 2 n)
        Positive.
    """

    a: FloatArray
    G: FloatArray
    h: FloatArray
    at: FloatArray
    slack: FloatArray
    weights: FloatArray

    @property
    def of_rows(self) -> FloatArray:
        """Dual weights of the rows, shape (K, R)."""
        return self.weights[:, : self.G.shape[1]]

    def take(self, which: BoolArray) -> Self:
        """Return the selected programs."""
        return self._replace(**{name: part[which] for name, part in self._asdict().items()})

    def stepped(self) -> Self:
        """Return the programs after one predictor-corrector step each.

        Numpy's warnings must be off: numbers may overflow, and divisions by zero are ignored.

        Raises
        ------
        LinAlgError
            If a system is singular.
        """
        (a, G, h, x, s, z), weight = self, self.weights / self.slack
        solve = _solver(G, weight)
        off = h - s - forwards(G, x)

        def step(push: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            # G dx + ds = off,  z ds + s dz = s (push - z),  G^T (z + dz) = a
            dx = solve(a - _backwards(G, push - weight * off))
            ds = off - forwards(G, dx)
            return dx, ds, push - z - weight * ds

        _, ds, dz = step(np.zeros_like(s))
        mean = (s * z).mean(axis=1)
        then = ((s + _to_edge(s, ds) * ds) * (z + _to_edge(z, dz) * dz)).mean(axis=1)
        center = mean * (then / mean) ** 3
        dx, ds, dz = step((center[:, None] - ds * dz) / s)
        ahead, along = _to_edge(s, ds), _to_edge(z, dz)
        return self._replace(at=x + ahead * dx, slack=s + ahead * ds, weights=z + along * dz)


def forwards(G: FloatArray, x: FloatArray) -> FloatArray:
    """Return left-hand sides at points x (K, n): of the rows (K, R, n) and both box sides."""
    return np.concatenate([(G @ x[:, :, None])[:, :, 0], x, -x], axis=1)


def combined(G: FloatArray, y: FloatArray) -> FloatArray:
    """Return the sums (K, n) of the rows (K, R, n) with weights y (K, R)."""
    return np.asarray((y[:, None] @ G)[:, 0])


def _backwards(G: FloatArray, z: FloatArray) -> FloatArray:
    """Return the sums of all rows and box sides with weights z (K, R + 2 n)."""
    _, rows, n = G.shape
    return combined(G, z[:, :rows]) + z[:, rows : rows + n] - z[:, rows + n :]


def _solver(G: FloatArray, weight: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return a solver of ``G^T W G + D``, D from the box, of order ``min(R, n)`` (Woodbury)."""
    _, rows, n = G.shape
    box = weight[:, rows : rows + n] + weight[:, rows + n :]
    if rows >= n:
        matrix = G.swapaxes(1, 2) @ (weight[:, :rows, None] * G)
        k = np.arange(n)
        matrix[:, k, k] += box + 1e-12 * (1.0 + matrix[:, k, k])
        inverse = np.linalg.inv(matrix)
        return lambda right: np.asarray((inverse @ right[:, :, None])[:, :, 0])
    scaled = np.sqrt(weight[:, :rows, None]) * G
    over = scaled * (1.0 / box[:, None, :])
    inverse = np.linalg.inv(over @ scaled.swapaxes(1, 2) + np.eye(rows))

    def solve(right: FloatArray) -> FloatArray:
        seen = (inverse @ (over @ right[:, :, None]))[:, :, 0]
        return np.asarray(right / box - combined(over, seen))

    return solve


def _to_edge(values: FloatArray, change: FloatArray) -> FloatArray:
    """Return the largest steps, at most one, that keep the values positive, shape (K, 1)."""
    ends = np.where(change < 0, -values / change, np.inf).min(axis=1, keepdims=True)
    return np.asarray(np.minimum(1.0, PARAMS.to_wall * ends))


class MarginPrograms(Stacked):
    """Programs that maximise their last variable, the margin t."""

    __slots__ = ()

    @classmethod
    def begun(
        cls,
        A: FloatArray,
        b: FloatArray,
        low: FloatArray,
        high: FloatArray,
        near: FloatArray,
        margins: FloatArray,
        share: float = 1.0,
    ) -> MarginPrograms:
        """Return the programs at their starting points.

        Parameters
        ----------
        A, b : ndarray, shapes (K, R, d) and (K, R)
        low, high : ndarray, shape (d,)
        near : ndarray, shape (K, d)
            Points of the box.
        margins : ndarray, shape (K,)
            Margins of these points; t is restricted to [margin - 1, 1].
        share : float, optional
            The method starts at ``share * near``.
        """
        G = np.concatenate([A, np.ones((*b.shape, 1))], axis=2)
        sides = [np.broadcast_to(end, near.shape) for end in (high, -low)]
        ends = [np.ones((len(b), 1)), 1.0 - margins[:, None]]
        h = np.concatenate([b, sides[0], ends[0], sides[1], ends[1]], axis=1)
        at = np.concatenate([share * near, margins[:, None] - 0.1], axis=1)
        goal = np.zeros_like(at)
        goal[:, -1] = 1.0
        slack = np.maximum(h - forwards(G, at), 1e-3)  # where the point is deeper than one
        return cls(goal, G, h, at, slack, np.full(slack.shape, 1.0 / slack.shape[1]))

    @property
    def points(self) -> FloatArray:
        """y, shape (K, d)."""
        return self.at[:, :-1]

    def gaps(self) -> tuple[FloatArray, BoolArray]:
        """Return ``b - A y``, shape (K, R), and which y are strictly inside the box, shape (K,)."""
        y, rows = self.at.copy(), self.G.shape[1]
        y[:, -1] = 0.0
        gaps = self.h - forwards(self.G, y)
        return gaps[:, :rows], np.asarray((gaps[:, rows:] > 0).all(axis=1))

    def most(self, low: FloatArray, high: FloatArray, room: FloatArray | float = 0.0) -> FloatArray:
        """Return dual upper bounds (K,) of the margins, for b increased by `room` (K, R)."""
        weights, rows, d = self.of_rows, self.G.shape[1], low.size
        along = -combined(self.G, weights)
        most = (weights * (self.h[:, :rows] + room)).sum(axis=1)
        most += np.maximum(along[:, :d] * high, along[:, :d] * low).sum(axis=1)
        return np.asarray(most / weights.sum(axis=1))
