"""Deepest points of many small polyhedra at once: interior-point steps on stacks of programs.

The largest margin t of ``A y + t <= b`` in a box ``low <= y <= high`` is a linear program.
Mehrotra's predictor-corrector method solves a stack of them in passes over arrays; whoever asks
takes programs off the stack as soon as their points or their weights say enough.  Nothing rests on
the steps: points are looked at, and any weights bound all margins.

S. Mehrotra (1992), On the implementation of a primal-dual interior point method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lipyomo.arrays import BoolArray, FloatArray
from lipyomo.numerics.params import PARAMS


class MarginPrograms(NamedTuple):
    """K programs, and where each of them is.

    Attributes
    ----------
    G : ndarray, shape (K, R, d + 1)
        Rows in (y, t).
    h : ndarray, shape (K, R + 2 d + 2)
        Their right-hand sides, then those of the upper and of the lower ends of the box.
    at : ndarray, shape (K, d + 1)
        (y, t).
    slack, weights : ndarray, shape (K, R + 2 d + 2)
        Positive.
    """

    G: FloatArray
    h: FloatArray
    at: FloatArray
    slack: FloatArray
    weights: FloatArray

    @classmethod
    def begun(
        cls,
        A: FloatArray,
        b: FloatArray,
        low: FloatArray,
        high: FloatArray,
        near: FloatArray,
        share: float = 1.0,
    ) -> MarginPrograms:
        """Programs before their first step.

        Parameters
        ----------
        A, b : ndarray, shapes (K, R, d) and (K, R)
        low, high : ndarray, shape (d,)
        near : ndarray, shape (K, d)
            Points of the box; margins between one less than theirs, and one, are of interest.
        share : float, optional
            Of the way from the origin to them at which the method begins.
        """
        margins = (b - (A @ near[:, :, None])[:, :, 0]).min(axis=1)
        G = np.concatenate([A, np.ones((*b.shape, 1))], axis=2)
        sides = [np.broadcast_to(end, near.shape) for end in (high, -low)]
        ends = [np.ones((len(b), 1)), 1.0 - margins[:, None]]
        h = np.concatenate([b, sides[0], ends[0], sides[1], ends[1]], axis=1)
        at = np.concatenate([share * near, margins[:, None] - 0.1], axis=1)
        slack = np.maximum(h - _forwards(G, at), 1e-3)  # where the point is deeper than one
        return cls(G, h, at, slack, np.full(slack.shape, 1.0 / slack.shape[1]))

    def take(self, which: BoolArray) -> MarginPrograms:
        """Some of the programs."""
        return MarginPrograms(*(part[which] for part in self))

    @property
    def points(self) -> FloatArray:
        """y, shape (K, d)."""
        return self.at[:, :-1]

    def gaps(self) -> tuple[FloatArray, BoolArray]:
        """``b - A y``, shape (K, R), and which y are strictly inside the box, shape (K,)."""
        y, rows = self.at.copy(), self.G.shape[1]
        y[:, -1] = 0.0
        gaps = self.h - _forwards(self.G, y)
        return gaps[:, :rows], np.asarray((gaps[:, rows:] > 0).all(axis=1))

    def most(self, low: FloatArray, high: FloatArray, room: FloatArray | float = 0.0) -> FloatArray:
        """Upper bounds (K,) of the margins, from the weights; b is larger by `room` (K, R)."""
        rows, d = self.G.shape[1], low.size
        weights = self.weights[:, :rows]
        along = -(weights[:, None, :] @ self.G)[:, 0]
        most = (weights * (self.h[:, :rows] + room)).sum(axis=1)
        most += np.maximum(along[:, :d] * high, along[:, :d] * low).sum(axis=1)
        return np.asarray(most / weights.sum(axis=1))

    def stepped(self) -> MarginPrograms:
        """After a step of each.

        Raises
        ------
        LinAlgError
            If a system is singular.
        """
        G, h, y, s, z = self
        solve, weight = _solver(G, z / s), z / s
        goal = np.eye(y.shape[1])[-1]
        off = h - s - _forwards(G, y)

        def step(push: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            # G dy + ds = off,  z ds + s dz = s (push - z),  G^T (z + dz) = goal
            dy = solve(goal - _backwards(G, push - weight * off))
            ds = off - _forwards(G, dy)
            return dy, ds, push - z - weight * ds

        _, ds, dz = step(np.zeros_like(s))
        mean = (s * z).sum(axis=1) / s.shape[1]
        then = ((s + _to_edge(s, ds) * ds) * (z + _to_edge(z, dz) * dz)).sum(axis=1) / s.shape[1]
        center = mean * (then / mean) ** 3
        dy, ds, dz = step((center[:, None] - ds * dz) / s)
        ahead, along = _to_edge(s, ds), _to_edge(z, dz)
        return MarginPrograms(G, h, y + ahead * dy, s + ahead * ds, z + along * dz)


def _forwards(G: FloatArray, y: FloatArray) -> FloatArray:
    """Left-hand sides at points y (K, n): of the rows (K, R, n), and of both sides of the box."""
    return np.concatenate([(G @ y[:, :, None])[:, :, 0], y, -y], axis=1)


def _backwards(G: FloatArray, z: FloatArray) -> FloatArray:
    """Sums of all left-hand sides with weights z (K, R + 2 n)."""
    _, rows, n = G.shape
    return np.asarray((z[:, None, :rows] @ G)[:, 0] + z[:, rows : rows + n] - z[:, rows + n :])


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
        return np.asarray(right / box - (seen[:, None, :] @ over)[:, 0])

    return solve


def _to_edge(values: FloatArray, change: FloatArray) -> FloatArray:
    """Largest step, at most one, that keeps values positive, shape (K, 1)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where(change < 0, -values / change, np.inf).min(axis=1, keepdims=True)
    return np.asarray(np.minimum(1.0, PARAMS.to_wall * ends))
