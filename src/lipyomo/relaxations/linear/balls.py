"""Sets of inputs, directions and functionals: the arguments of chains of affine maps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray, FloatArray, Matrix
from lipyomo.base.errors import NetworkError
from lipyomo.base.numerics.rounding import gamma
from lipyomo.base.numerics.split import pull_back
from lipyomo.problems.domains import Domain
from lipyomo.problems.norms import DUAL, InputNorm, OutputNorm, vector_norm


class Ball(ABC):
    """A set of vectors known by its support function, or one set for each of a batch of chains."""

    @property
    def batch(self) -> int:
        """Number of sets B; 1 if all chains share one."""
        return 1

    @abstractmethod
    def support(self, rows: FloatArray) -> FloatArray:
        """Return safe upper bounds of functionals (B, r, n) over the set, shape (B, r)."""

    @abstractmethod
    def reach(self, rows: Matrix) -> FloatArray:
        """Return upper bounds of the sums of absolute terms of rows (r, n), shape (B, r)."""


@dataclass(frozen=True, eq=False)
class InputBall(Ball):
    """Directions v with ``|v|_alpha <= 1``."""

    norm: InputNorm

    def support(self, rows: FloatArray) -> FloatArray:
        """Dual norms of the rows."""
        return np.asarray(vector_norm(rows, DUAL[self.norm]) * (1.0 + gamma(rows.shape[-1])))

    def reach(self, rows: Matrix) -> FloatArray:
        """Dual norms of the rows, as the ball is symmetric in each coordinate."""
        if isinstance(rows, np.ndarray):
            return self.support(rows)[None]
        size = abs(sp.csr_array(rows))
        if self.norm == "linf":
            found = size.sum(axis=1)
        elif self.norm == "l2":
            found = np.sqrt((size * size).sum(axis=1))
        else:
            found = size.max(axis=1).toarray()
        return np.asarray(found).reshape(1, -1) * (1.0 + gamma(rows.shape[-1]))


@dataclass(frozen=True, eq=False)
class DualBall(Ball):
    """Functionals y in the dual ball of an output norm."""

    norm: OutputNorm

    def support(self, rows: FloatArray) -> FloatArray:
        """Output norms of the rows."""
        sizes = np.abs(rows) @ self.norm.value(np.eye(rows.shape[-1]))
        return np.asarray(self.norm.value(rows) + gamma(rows.shape[-1]) * sizes)

    def reach(self, rows: Matrix) -> FloatArray:
        """Products with the largest values of the entries of y, which are the norms of e_j."""
        return np.asarray(abs(rows) @ self.norm.value(np.eye(rows.shape[-1])))[None]


@dataclass(frozen=True, eq=False)
class Hull(Ball):
    """The convex hull of functionals, rows of shape (k, m)."""

    points: FloatArray

    def support(self, rows: FloatArray) -> FloatArray:
        """Largest product with one of the points."""
        error = gamma(rows.shape[-1]) * (np.abs(rows) @ np.abs(self.points).T)
        return np.asarray((rows @ self.points.T + error).max(axis=-1))

    def reach(self, rows: Matrix) -> FloatArray:
        """Largest sum of absolute terms."""
        return np.asarray((abs(rows) @ np.abs(self.points).T).max(axis=-1))[None]


@dataclass(frozen=True, eq=False)
class SingleFunctionals(Ball):
    """One functional for each of B chains, rows of shape (B, m)."""

    points: FloatArray

    @property
    def batch(self) -> int:
        """Number of points B."""
        return len(self.points)

    def support(self, rows: FloatArray) -> FloatArray:
        """The products, chain by chain."""
        column = self.points[:, :, None]
        error = gamma(rows.shape[-1]) * (np.abs(rows) @ np.abs(column))
        return np.asarray((rows @ column + error)[:, :, 0])

    def reach(self, rows: Matrix) -> FloatArray:
        """Sums of absolute terms."""
        return pull_back(np.abs(self.points), abs(rows).T)


@dataclass(frozen=True, eq=False)
class InputBoxes(Ball):
    """Boxes of inputs, with ends of shape (B, d)."""

    lower: FloatArray
    upper: FloatArray

    @cached_property
    def _parts(self) -> tuple[FloatArray, FloatArray]:
        """Midpoints, and radii enlarged for rounding; shapes (B, d, 1)."""
        size = np.maximum(np.abs(self.lower), np.abs(self.upper))
        radius = 0.5 * (self.upper - self.lower) + gamma(self.lower.shape[1]) * size
        return 0.5 * (self.lower + self.upper)[:, :, None], radius[:, :, None]

    @property
    def intervals_suffice(self) -> bool:
        """Whether interval arithmetic finds the exact range of a single affine map."""
        return True

    @property
    def batch(self) -> int:
        """Number of boxes."""
        return len(self.lower)

    def support(self, rows: FloatArray) -> FloatArray:
        """Largest values of functionals (B, r, d), shape (B, r)."""
        middle, radius = self._parts
        return np.asarray((rows @ middle + np.abs(rows) @ radius)[:, :, 0])

    def reach(self, rows: Matrix) -> FloatArray:
        """Sums of absolute terms of rows (r, d) over the bounded inputs, at most, shape (B, r)."""
        size = np.maximum(np.abs(self.lower), np.abs(self.upper))
        size = np.where(np.isfinite(size), size, 0.0)
        return np.asarray((abs(rows) @ size.T).T)


@dataclass(frozen=True, eq=False)
class Inside(InputBoxes):
    """Intersections of boxes with a domain."""

    domain: Domain

    @property
    def intervals_suffice(self) -> bool:
        """It does not: a domain may cut off corners."""
        return False

    def support(self, rows: FloatArray) -> FloatArray:
        """The smaller of the maxima over the domain and over the box."""
        flat = rows.reshape(-1, rows.shape[-1])
        bound = self.domain.support(flat)
        size = np.maximum(np.abs(self.domain.lower), np.abs(self.domain.upper))
        size = np.where(np.isfinite(size), size, 0.0)
        bound = bound + gamma(flat.shape[1]) * (np.abs(flat) @ size + np.abs(bound))
        bound = bound.reshape(rows.shape[:-1])
        return np.minimum(bound, super().support(rows)) if self.domain.is_bounded else bound


def within(
    domain: Domain | None, low: FloatArray, high: FloatArray, programs: bool = False
) -> InputBoxes:
    """Intersect boxes (B, d) with a domain.

    Parameters
    ----------
    domain : Domain or None
        None if it contains the boxes.
    low, high : ndarray, shape (B, d)
    programs : bool, optional
        Whether to use the rows of a polytope, at the price of a linear program per functional.
    """
    if domain is None or (domain.is_polyhedral and not (programs and domain.rows.count)):
        return InputBoxes(low, high)
    return Inside(low, high, domain)


def outside(domain: Domain, low: FloatArray, high: FloatArray, unit: float) -> BoolArray:
    """Return which boxes (N, d) lie outside one of the rows of a domain, or its ball, shape (N,).

    Rounding errors of sums are taken as at most `unit` times the sums of absolute terms.
    """
    ball, rows = domain.ball, domain.rows
    if ball is None:
        if not rows.count:
            return np.zeros(len(low), dtype=bool)
        A, size = rows.A.toarray(), np.maximum(np.abs(low), np.abs(high))
        least = low @ np.maximum(A, 0.0).T + high @ np.minimum(A, 0.0).T
        room = unit * (size @ np.abs(A).T + np.abs(rows.b))
        return np.asarray((least - room > rows.b).any(axis=1))
    away = np.maximum(np.maximum(low - ball.point, ball.point - high), 0.0)
    size = np.abs(away).sum(axis=1) if ball.norm == "l1" else np.sqrt((away * away).sum(axis=1))
    return np.asarray(size * (1.0 - 2.0 * unit) > ball.radius)


def functional_set(functionals: FloatArray | OutputNorm | Ball, m: int) -> Ball:
    """Convert to a set of functionals y: the hull of rows (k, m), a dual ball, or a given set."""
    if isinstance(functionals, Ball):
        return functionals
    if isinstance(functionals, OutputNorm):
        return DualBall(functionals)
    points = np.atleast_2d(np.asarray(functionals, dtype=np.float64))
    if points.shape[1] != m:
        raise NetworkError(
            f"the functional has {points.shape[1]} entries, the network has {m} outputs"
        )
    return Hull(points)
