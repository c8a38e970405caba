"""Deepest points of many small polyhedra at once.

The largest t of ``A y + t <= b`` in a box ``low <= y <= high`` is a linear program in (y, t).
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.numerics.interior import Stacked, combined, forwards


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
