"""Boxes, and all of R^d."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lipyomo.base.arguments import whole_number
from lipyomo.base.arrays import BoolArray, FloatArray, read_only
from lipyomo.base.errors import DomainError
from lipyomo.problems.domains.base import Domain, read_vector


class Box(Domain):
    """``lower <= x <= upper``.

    Parameters
    ----------
    lower, upper : array_like, shape (d,), or float
        Scalars require `dimension`.
    dimension : int, optional

    Raises
    ------
    DomainError
        If a lower bound exceeds its upper bound, or lengths differ.
    """

    def __init__(
        self, lower: npt.ArrayLike, upper: npt.ArrayLike, dimension: int | None = None
    ) -> None:
        size = dimension
        if size is not None:
            size = whole_number(size, "the dimension of the box", DomainError, least=1)
        for bound in (lower, upper):
            if size is None and np.ndim(bound) > 0:
                size = int(np.size(bound))
        self.lower = read_only(read_vector(lower, size, "the lower bound of the box"))
        self.upper = read_only(read_vector(upper, size, "the upper bound of the box"))
        wrong = np.flatnonzero(self.lower > self.upper)
        if wrong.size:
            k = int(wrong[0])
            raise DomainError(
                f"the box is empty: input {k} has lower bound {self.lower[k]:g} above its upper "
                f"bound {self.upper[k]:g}.  Remedy: the lower bound comes first"
            )
        if np.isposinf(self.lower).any() or np.isneginf(self.upper).any():
            raise DomainError("the box is empty: a lower bound is +inf or an upper bound -inf")

    def restrict(self, keep: BoolArray) -> Box:
        """Return the box in the kept inputs."""
        return Box(self.lower[keep], self.upper[keep])

    def clipped(self, lower: FloatArray, upper: FloatArray) -> Box:
        """Return the intersection of the boxes."""
        return Box(np.maximum(self.lower, lower), np.minimum(self.upper, upper))

    def describe(self) -> str:
        """Return one line for summaries."""
        d = self.dimension
        if np.all(self.lower == self.lower[:1]) and np.all(self.upper == self.upper[:1]) and d:
            return f"box [{self.lower[0]:g}, {self.upper[0]:g}]^{d}"
        return f"box in R^{d}, largest width {float((self.upper - self.lower).max(initial=0)):g}"


class AllSpace(Box):
    """All of R^d.

    Parameters
    ----------
    dimension : int
    """

    def __init__(self, dimension: int) -> None:
        super().__init__(-np.inf, np.inf, dimension)

    def restrict(self, keep: BoolArray) -> AllSpace:
        """Return all of R^k."""
        return AllSpace(int(np.count_nonzero(keep)))

    def describe(self) -> str:
        """Return one line for summaries."""
        return f"all of R^{self.dimension}"
