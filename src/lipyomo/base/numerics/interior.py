"""Many small linear programs in boxes at once: steps of an interior-point method on stacks.

    max a . x   subject to   G x <= h,   low <= x <= high.

Mehrotra's predictor-corrector method solves a stack of them in passes over arrays; whoever asks
takes programs off the stack as soon as their points or their weights say enough.  Nothing rests on
the steps: points are looked at, and any weights bound all maxima.

The deepest points of small polyhedra are such programs: the largest t of ``A y + t <= b`` in a box
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
    """K programs in n variables, and where each of them is.

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
        """The weights of the rows, shape (K, R)."""
        return self.weights[:, : self.G.shape[1]]

    def take(self, which: BoolArray) -> Self:
        """Some of the programs."""
        return self._replace(**{name: part[which] for name, part in self._asdict().items()})

    def stepped(self) -> Self:
        """After a step of each: a predictor, and where its end leaves it the corrector aims.

        Numpy's warnings are to be off: numbers may overflow, and quotients by zero are left out.

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
    """Left-hand sides at points x (K, n): of the rows (K, R, n), and of both sides of the box."""
    return np.concatenate([(G @ x[:, :, None])[:, :, 0], x, -x], axis=1)


def combined(G: FloatArray, y: FloatArray) -> FloatArray:
    """Sums (K, n) of the rows (K, R, n) with weights y (K, R)."""
    return np.asarray((y[:, None] @ G)[:, 0])


def _backwards(G: FloatArray, z: FloatArray) -> FloatArray:
    """Sums of all left-hand sides with weights z (K, R + 2 n)."""
    _, rows, n = G.shape
    return combined(G, z[:, :rows]) + z[:, rows : rows + n] - z[:, rows + n :]


def _solver(G: FloatArray, weight: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Solves with ``G^T W G + D``, D from the box; by the smaller of rows and variables."""
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
    """Largest step, at most one, that keeps values positive, shape (K, 1)."""
    ends = np.where(change < 0, -values / change, np.inf).min(axis=1, keepdims=True)
    return np.asarray(np.minimum(1.0, PARAMS.to_wall * ends))


class MarginPrograms(Stacked):
    """Programs whose objective is the last variable, the margin."""

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
        """Programs before their first step.

        Parameters
        ----------
        A, b : ndarray, shapes (K, R, d) and (K, R)
        low, high : ndarray, shape (d,)
        near : ndarray, shape (K, d)
            Points of the box.
        margins : ndarray, shape (K,)
            Theirs; margins between one less than that, and one, are of interest.
        share : float, optional
            Of the way from the origin to them at which the method begins.
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
        """``b - A y``, shape (K, R), and which y are strictly inside the box, shape (K,)."""
        y, rows = self.at.copy(), self.G.shape[1]
        y[:, -1] = 0.0
        gaps = self.h - forwards(self.G, y)
        return gaps[:, :rows], np.asarray((gaps[:, rows:] > 0).all(axis=1))

    def most(self, low: FloatArray, high: FloatArray, room: FloatArray | float = 0.0) -> FloatArray:
        """Upper bounds (K,) of the margins, from the weights; b is larger by `room` (K, R)."""
        weights, rows, d = self.of_rows, self.G.shape[1], low.size
        along = -combined(self.G, weights)
        most = (weights * (self.h[:, :rows] + room)).sum(axis=1)
        most += np.maximum(along[:, :d] * high, along[:, :d] * low).sum(axis=1)
        return np.asarray(most / weights.sum(axis=1))
