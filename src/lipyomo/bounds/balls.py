"""Where directions and functionals live: what a chain of affine maps starts from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lipyomo.bounds.parts import pull_back
from lipyomo.errors import NetworkError
from lipyomo.network import FloatArray, Matrix
from lipyomo.norms import DUAL, InputNorm, OutputNorm, vector_norm
from lipyomo.numerics.rounding import gamma


class Ball(ABC):
    """A set of vectors known by its support function, or one set for each of a batch of chains."""

    @property
    def batch(self) -> int:
        """Number of sets B; 1 if all chains share one."""
        return 1

    @abstractmethod
    def support(self, rows: FloatArray) -> FloatArray:
        """Safe upper bounds of functionals (B, r, n) over the set, shape (B, r)."""

    @abstractmethod
    def reach(self, rows: Matrix) -> FloatArray:
        """Upper bounds of the sum of the absolute terms of these rows (r, n), shape (B, r)."""


@dataclass(frozen=True)
class InputBall(Ball):
    """Directions v with ``|v|_alpha <= 1``."""

    norm: InputNorm

    def support(self, rows: FloatArray) -> FloatArray:
        """Dual norms of the rows."""
        return np.asarray(vector_norm(rows, DUAL[self.norm]) * (1.0 + gamma(rows.shape[-1])))

    def reach(self, rows: Matrix) -> FloatArray:
        """The same: the ball does not care for signs."""
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


@dataclass(frozen=True)
class DualBall(Ball):
    """Functionals y in the dual ball of an output norm."""

    norm: OutputNorm

    def support(self, rows: FloatArray) -> FloatArray:
        """Output norms of the rows."""
        sizes = np.abs(rows) @ self.norm.value(np.eye(rows.shape[-1]))
        return np.asarray(self.norm.value(rows) + gamma(rows.shape[-1]) * sizes)

    def reach(self, rows: Matrix) -> FloatArray:
        """Products with the largest value of each entry of y, which is the norm of e_j."""
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
class Points(Ball):
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


def functional_set(functionals: FloatArray | OutputNorm, m: int) -> Ball:
    """The set of functionals y that is meant: the hull of rows (k, m), or a dual ball."""
    if isinstance(functionals, OutputNorm):
        return DualBall(functionals)
    points = np.atleast_2d(np.asarray(functionals, dtype=np.float64))
    if points.shape[1] != m:
        raise NetworkError(
            f"the functional has {points.shape[1]} entries, the network has {m} outputs"
        )
    return Hull(points)
