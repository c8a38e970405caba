"""Base class of convex domains X of the Lipschitz constant.

Every domain has a bounding box, further linear rows, upper bounds on linear functions (`support`),
random samples, and an exact membership test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sized
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from flint import fmpq

from lipyomo.base.arguments import brief, real_numbers
from lipyomo.base.arrays import BoolArray, FloatArray, Matrix, dense
from lipyomo.base.digest import array_digest
from lipyomo.base.errors import DomainError
from lipyomo.base.numerics.exact import Exact, ExactWeights, affine_value, exact


@dataclass(frozen=True, eq=False)
class LinearRows:
    """Linear inequalities ``A x <= b``; A is CSR of shape (r, d)."""

    A: sp.csr_array
    b: FloatArray

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self.b.size)

    @cached_property
    def dense(self) -> FloatArray:
        """A as a dense array: its products with a few points are ten times as fast."""
        return np.asarray(self.A.toarray())

    def exactly(self, moving: BoolArray, held: FloatArray) -> list[list[fmpq]]:
        """Return ``(a, b)`` of each row over the `moving` inputs, others fixed at `held` (d,)."""
        found = []
        for normal, limit in zip(self.A.toarray(), self.b.tolist(), strict=True):
            right = affine_value(-normal[~moving], held[~moving], limit)
            found.append([*map(exact, normal[moving].tolist()), right])
        return found


def box_sides(lower: FloatArray, upper: FloatArray) -> list[list[fmpq]]:
    """Return the finite sides of a box as rows ``(a, b)`` with ``a . x <= b``."""
    found = []
    for sign, ends in ((1, upper), (-1, lower)):
        for j in np.flatnonzero(np.isfinite(ends)).tolist():
            row = [fmpq(0)] * ends.size
            row[j] = fmpq(sign)
            found.append([*row, sign * exact(float(ends[j]))])
    return found


INWARDS = 2.0 ** -np.arange(52.0, 0.0, -4.0)
"""Shares of the way to the centre by which a point is moved if rounding left it outside."""


@lru_cache(maxsize=64)
def _no_rows(d: int) -> LinearRows:
    return LinearRows(sp.csr_array((0, d)), np.zeros(0))


class RoundPart(Protocol):
    """A ball ``|x - point|_p <= radius``, p = 1 or 2, intersected with a box.

    Attributes
    ----------
    point : ndarray, shape (d,)
    radius : float
    norm : {'l1', 'l2'}
    """

    point: FloatArray
    radius: float
    norm: str

    @property
    def dimension(self) -> int:
        """Number of inputs d."""

    @property
    def clip(self) -> tuple[FloatArray, FloatArray]:
        """The box that the ball is intersected with (infinite without one)."""

    def sizes(self, directions: Matrix) -> FloatArray:
        """Return the dual norms of rows (..., d)."""

    def slack(self, points: FloatArray) -> FloatArray:
        """Return ``radius - |x - point|_p`` for `points` (..., d)."""


class Domain(ABC):
    """A closed convex set in R^d.

    Attributes
    ----------
    lower, upper : ndarray, shape (d,)
        The bounding box; entries may be infinite.
    """

    lower: FloatArray
    upper: FloatArray

    @property
    def dimension(self) -> int:
        """Number of inputs d."""
        return int(self.lower.size)

    @property
    def frozen(self) -> BoolArray:
        """Which inputs are fixed (lower equals upper), shape (d,)."""
        return np.asarray(self.lower == self.upper)

    @property
    def is_bounded(self) -> bool:
        """Whether the bounding box is finite."""
        return bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    @property
    def rows(self) -> LinearRows:
        """Linear rows in addition to the bounding box."""
        return _no_rows(self.dimension)

    @property
    def ball(self) -> RoundPart | None:
        """The round part: the domain is the intersection of box, rows and this ball."""
        return None

    @property
    def is_polyhedral(self) -> bool:
        """Whether bounding box and rows describe the whole domain."""
        return self.ball is None

    def polyhedron(self) -> Domain | None:
        """Return the domain as box and rows only, rounded outwards by less than 1e-15; or None."""
        return self

    @property
    def is_box(self) -> bool:
        """Whether the bounding box is the whole domain."""
        return self.is_polyhedral and self.rows.count == 0

    def support(self, directions: Matrix) -> FloatArray:
        """Return upper bounds of ``c . x`` over the domain for each row c of `directions` (k, d).

        Exact for boxes, unclipped balls and polytopes; infinite where unbounded.  This method
        maximises over the bounding box; zero entries ignore infinite bounds.
        """
        if self.is_bounded:
            middle, radius = 0.5 * (self.lower + self.upper), 0.5 * (self.upper - self.lower)
            return np.asarray(directions @ middle + abs(directions) @ radius)
        rows = dense(directions)
        with np.errstate(invalid="ignore"):
            terms = np.where(rows < 0, rows * self.lower, 0.0)
            terms = np.where(rows > 0, rows * self.upper, terms)
        return np.asarray(terms.sum(axis=1))

    def sample(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Draw random points of the interior, up to rounding, shape (count, d).

        They are uniform in the bounding box, Gaussian around `center` in unbounded inputs, and then
        moved into the domain.
        """
        if self.is_bounded:
            return self.drawn_in(rng.uniform(self.lower, self.upper, (count, self.dimension)))
        scale = 10.0 ** rng.uniform(-1.0, 2.0, (count, 1))
        draw = self.center + scale * rng.standard_normal((count, self.dimension))
        both = np.isfinite(self.lower) & np.isfinite(self.upper)
        draw[:, both] = rng.uniform(self.lower[both], self.upper[both], (count, int(both.sum())))
        draw = np.where(draw < self.lower, 2 * self.lower - draw, draw)
        return self.drawn_in(np.where(draw > self.upper, 2 * self.upper - draw, draw))

    @abstractmethod
    def restrict(self, keep: BoolArray) -> Domain:
        """Return the domain in the inputs `keep`, with the (frozen) others at their values."""

    @abstractmethod
    def clipped(self, lower: FloatArray, upper: FloatArray) -> Domain:
        """Return the intersection with a box.

        Raises
        ------
        DomainError
            If it is empty, flat, or does not contain a ball's centre.
        """

    @abstractmethod
    def describe(self) -> str:
        """Describe the domain in one line for summaries."""

    @property
    def center(self) -> FloatArray:
        """A point of the domain, interior if there is an interior, shape (d,)."""
        below, above = np.isfinite(self.lower), np.isfinite(self.upper)
        low, high = np.where(below, self.lower, 0.0), np.where(above, self.upper, 0.0)
        room = np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))
        low = np.where(above & ~below, np.minimum(high - room, 0.0), low)
        high = np.where(below & ~above, np.maximum(low + room, 0.0), high)
        return np.asarray(low + 0.5 * (high - low))

    def margin(self, x: FloatArray) -> float:
        """Return half the width of the largest cube around `x` (d,), in inputs not frozen."""
        moving = ~self.frozen
        gaps = np.minimum(self.upper - x, x - self.lower)[moving]
        found = float(gaps.min(initial=np.inf))
        rows = self.rows
        if rows.count:
            length = self.row_lengths
            gaps = rows.b - rows.A @ x
            used = length > 0
            found = min(found, float((gaps[used] / length[used]).min(initial=np.inf)))
        return found

    @property
    def row_lengths(self) -> FloatArray:
        """l1 norms of the rows over the inputs that are not frozen."""
        free = abs(self.rows.A[:, np.flatnonzero(~self.frozen)])
        return np.asarray(free.sum(axis=1)).reshape(-1)

    def contains(self, points: npt.ArrayLike, tolerance: float = 0.0) -> BoolArray:
        """Return whether `points` (..., d) lie in the domain, up to `tolerance` in each row."""
        x = real_numbers(points, "the points", DomainError, copy=False)
        if x.shape[-1:] != self.lower.shape:
            raise DomainError(
                f"points have shape {x.shape}, the domain has {self.dimension} inputs"
            )
        inside = ((x >= self.lower - tolerance) & (x <= self.upper + tolerance)).all(axis=-1)
        rows = self.rows
        if rows.count:
            inside &= (x @ rows.dense.T <= rows.b + tolerance).all(axis=-1)
        return np.asarray(inside)

    def drawn_in(self, points: FloatArray) -> FloatArray:
        """Move points (n, d) towards the centre until they are in the domain.

        Rounding may leave some on the boundary, or just beyond it.
        """
        inside = np.clip(points, self.lower, self.upper)
        if self.is_box:
            return inside
        center = self.center
        away = inside - center
        share = np.ones(len(points))
        rows = self.rows
        if rows.count:
            room, rise = rows.b - rows.A @ center, away @ rows.A.T
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.minimum(share, np.where(rise > room, room / rise, 1.0).min(axis=1))
        if self.ball is not None:
            for _ in range(40):  # shrink until the ball contains the point
                out = self.ball.slack(center + share[:, None] * away) < 0
                if not out.any():
                    break
                share[out] *= 0.98
            else:  # far outside: slacks are concave along the segments to the centre
                room, here = self.ball.slack(center), self.ball.slack(inside[out])
                share[out] = np.minimum(share[out], room / (room - here))
        return np.asarray(np.clip(center + share[:, None] * away, self.lower, self.upper))

    def pulled_in(self, x: FloatArray) -> list[FloatArray]:
        """Return the point (d,), and points ever nearer to the centre in case it is outside."""
        first = np.clip(x, self.lower, self.upper)
        last = self.drawn_in(x[None])[0]
        center = self.center
        starts = [first, *(first + share * (center - first) for share in INWARDS[:8]), last]
        return [*starts, *(last + share * (center - last) for share in INWARDS[7:]), center]

    def holds_inside(self, x: FloatArray) -> bool:
        """Return whether `x` is strictly inside, exactly; frozen inputs must have their values.

        Rows in frozen inputs only need not hold strictly.

        Parameters
        ----------
        x : ndarray, shape (d,), or (2, d) for the exact sum of two rows
        """
        return self.holds(x, strictly=True)

    def holds(self, x: FloatArray, strictly: bool = False) -> bool:
        """Return whether `x` is in the domain, exactly; `strictly` as in `holds_inside`."""
        moving, parts = ~self.frozen, np.atleast_2d(x)
        below, above = _signs_of(parts, self.lower), _signs_of(parts, self.upper)
        if not ((below >= 0) & (above <= 0)).all():
            return False
        if strictly and ((below == 0) | (above == 0))[moving].any():
            return False
        rows = self.rows
        if not rows.count:
            return True
        column = Exact.of(np.append(parts[0], 1.0))
        for rest in parts[1:]:
            column = column + Exact.of(np.append(rest, 0.0))
        values = ExactWeights(rows.A, -rows.b).after(column).matrix.entries()
        matters = np.zeros(rows.count, dtype=bool)
        entries = rows.A.tocoo()
        used = moving[entries.coords[1]] & (entries.data != 0)
        matters[entries.coords[0][used]] = strictly
        return all(
            value < 0 or (value == 0 and not strict)
            for value, strict in zip(values, matters.tolist(), strict=False)
        )

    def separating(self, x: FloatArray) -> tuple[FloatArray, float] | None:
        """Return ``(a, b)`` with ``a . y <= b`` on the domain and not at `x`; None if x is inside.

        x must satisfy box and rows.
        """
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.describe()})"


def _signs_of(parts: FloatArray, ends: FloatArray) -> FloatArray:
    """Return the exact signs of the sum of the rows of `parts` (k, d) minus `ends`."""
    found = np.sign(parts[0] - ends)
    if len(parts) > 1:
        for j in np.flatnonzero(np.isfinite(ends)).tolist():
            gap = sum((exact(x) for x in parts[:, j].tolist()), -exact(float(ends[j])))
            found[j] = (gap > 0) - (gap < 0)
    return np.asarray(found)


def read_vector(values: npt.ArrayLike, d: int | None, what: str) -> FloatArray:
    """Read a vector of length `d` (scalars are repeated); infinities are allowed, NaN is not."""
    vector = real_numbers(values, what, DomainError)
    if vector.ndim == 0 and d is not None:
        vector = np.full(d, float(vector))
    vector = vector.reshape(-1)
    if d is not None and vector.size != d:
        raise DomainError(f"{what} has {vector.size} entries, expected {d} (one an input)")
    if np.isnan(vector).any():
        raise DomainError(f"{what} holds NaN")
    return vector


def read_clip(clip: object) -> tuple[npt.ArrayLike, npt.ArrayLike]:
    """Read the lower and upper bounds of a clip box, infinite by default."""
    if clip is None:
        return -np.inf, np.inf
    if isinstance(clip, str) or not isinstance(clip, Sized) or len(clip) != 2:
        raise DomainError(f"the clip box is {brief(clip)}.  Remedy: give (lower, upper)")
    low, high = cast("tuple[npt.ArrayLike, npt.ArrayLike]", clip)
    return low, high


def domain_digest(domain: Domain) -> str:
    """Return the kind of a domain and the SHA-256 of its numbers."""
    rows = domain.rows
    facts = [domain.lower, domain.upper, rows.b, rows.A.indptr, rows.A.indices, rows.A.data]
    facts += [getattr(domain, name, None) for name in ("radius", "point")]
    kind = f"{type(domain).__name__} {getattr(domain, 'norm', None)}"
    return f"{kind} {array_digest([] if fact is None else fact for fact in facts)}"
