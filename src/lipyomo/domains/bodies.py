"""Convex sets X on which the Lipschitz constant is taken: boxes, balls, polytopes, all of R^d.

Every domain knows its bounding box, its further linear rows, an upper bound on linear functions
(`support`), and how to sample itself.  Methods never ask what kind of domain they have, only for
these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from flint import fmpq

from lipyomo.arguments import real_number, real_numbers, whole_number
from lipyomo.errors import DomainError
from lipyomo.network import BoolArray, FloatArray, Matrix
from lipyomo.numerics.exact import Exact, ExactWeights, exact


@dataclass(frozen=True)
class Rows:
    """Linear inequalities ``A x <= b``; A is CSR of shape (r, d)."""

    A: sp.csr_array
    b: FloatArray

    @property
    def count(self) -> int:
        """Number of rows."""
        return int(self.b.size)


@lru_cache(maxsize=64)
def _no_rows(d: int) -> Rows:
    return Rows(sp.csr_array((0, d)), np.zeros(0))


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
        """Inputs that cannot move (lower equals upper), shape (d,)."""
        return np.asarray(self.lower == self.upper)

    @property
    def is_bounded(self) -> bool:
        """Whether the bounding box is finite."""
        return bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    @property
    def rows(self) -> Rows:
        """Linear rows beyond the bounding box."""
        return _no_rows(self.dimension)

    @property
    def is_polyhedral(self) -> bool:
        """Whether bounding box and rows are the whole domain."""
        return True

    @abstractmethod
    def support(self, directions: Matrix) -> FloatArray:
        """Upper bounds of ``c . x`` over the domain for each row c of `directions` (k, d).

        Exact for boxes, unclipped balls and polytopes; infinite where unbounded.
        """

    @abstractmethod
    def sample(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Random points of the interior, shape (count, d)."""

    @abstractmethod
    def restrict(self, keep: BoolArray) -> Domain:
        """The domain in the inputs `keep`, with the (frozen) others at their values."""

    @abstractmethod
    def describe(self) -> str:
        """One line for summaries."""

    @property
    def center(self) -> FloatArray:
        """A point of the domain, interior when there is an interior, shape (d,)."""
        low = np.where(np.isfinite(self.lower), self.lower, np.minimum(self.upper - 1.0, 0.0))
        return np.asarray(low + 0.5 * (np.where(np.isfinite(self.upper), self.upper, low) - low))

    def contains(self, points: npt.ArrayLike, tolerance: float = 0.0) -> BoolArray:
        """Whether `points` (..., d) lie in the domain, up to `tolerance` in each row."""
        x = np.asarray(points, dtype=np.float64)
        inside = ((x >= self.lower - tolerance) & (x <= self.upper + tolerance)).all(axis=-1)
        rows = self.rows
        if rows.count:
            inside &= (x @ rows.A.T <= rows.b + tolerance).all(axis=-1)
        return np.asarray(inside)

    def holds_inside(self, x: FloatArray) -> bool:
        """Whether `x` (d,) lies strictly inside, without rounding; frozen inputs at their values.

        Rows in frozen inputs only need to hold.
        """
        moving = ~self.frozen
        if not ((x > self.lower) & (x < self.upper))[moving].all():
            return False
        if not (x == self.upper)[~moving].all():
            return False
        rows = self.rows
        if not rows.count:
            return True
        values = ExactWeights(rows.A, -rows.b).after(Exact.of(np.append(x, 1.0))).matrix.entries()
        matters = np.zeros(rows.count, dtype=bool)
        entries = rows.A.tocoo()
        used = moving[entries.coords[1]] & (entries.data != 0)
        matters[entries.coords[0][used]] = True
        return all(
            value < 0 or (value == 0 and not strict)
            for value, strict in zip(values, matters.tolist(), strict=False)
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.describe()})"


def _vector(values: npt.ArrayLike, d: int | None, what: str) -> FloatArray:
    """Read a vector of length `d` (scalars are repeated); infinities allowed, NaN not."""
    vector = real_numbers(values, what, DomainError)
    if vector.ndim == 0 and d is not None:
        vector = np.full(d, float(vector))
    vector = vector.reshape(-1)
    if d is not None and vector.size != d:
        raise DomainError(f"{what} has {vector.size} entries, expected {d} (one an input)")
    if np.isnan(vector).any():
        raise DomainError(f"{what} holds NaN")
    return vector


def _rounded_out(point: FloatArray, step: float) -> FloatArray:
    """``point + step``, rounded in the direction of the step."""
    end = point + step
    part = end - point
    error = (point - (end - part)) + (step - part)  # Knuth's two-sum: what rounding took away
    outwards = np.nextafter(end, np.copysign(np.inf, step))
    return np.where(error * step > 0, outwards, end)


def _box_support(lower: FloatArray, upper: FloatArray, directions: Matrix) -> FloatArray:
    """Exact maxima of the rows of `directions` over a box; zero entries ignore infinities."""
    if np.isfinite(lower).all() and np.isfinite(upper).all():
        middle, radius = 0.5 * (lower + upper), 0.5 * (upper - lower)
        return np.asarray(directions @ middle + abs(directions) @ radius)
    dense = directions if isinstance(directions, np.ndarray) else directions.toarray()
    with np.errstate(invalid="ignore"):
        terms = np.where(dense > 0, dense * upper, np.where(dense < 0, dense * lower, 0.0))
    return np.asarray(terms.sum(axis=1))


class Box(Domain):
    """``lower <= x <= upper``.

    Parameters
    ----------
    lower, upper : array_like, shape (d,), or float
        Scalars need the `dimension`.
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
        self.lower = _vector(lower, size, "the lower bound of the box")
        self.upper = _vector(upper, size, "the upper bound of the box")
        wrong = np.flatnonzero(self.lower > self.upper)
        if wrong.size:
            k = int(wrong[0])
            raise DomainError(
                f"the box is empty: input {k} has lower bound {self.lower[k]:g} above its upper "
                f"bound {self.upper[k]:g}.  Remedy: give the bounds as LO,HI"
            )
        if np.isposinf(self.lower).any() or np.isneginf(self.upper).any():
            raise DomainError("the box is empty: a lower bound is +inf or an upper bound -inf")

    def support(self, directions: Matrix) -> FloatArray:
        """Exact maxima, shape (k,)."""
        return _box_support(self.lower, self.upper, directions)

    def sample(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Uniform points; on unbounded sides Gaussian around the nearest finite point."""
        if self.is_bounded:
            return rng.uniform(self.lower, self.upper, (count, self.dimension))
        scale = 10.0 ** rng.uniform(-1.0, 2.0, (count, 1))
        draw = self.center + scale * rng.standard_normal((count, self.dimension))
        both = np.isfinite(self.lower) & np.isfinite(self.upper)
        draw[:, both] = rng.uniform(self.lower[both], self.upper[both], (count, int(both.sum())))
        mirrored = np.where(draw < self.lower, 2 * self.lower - draw, draw)
        return np.where(mirrored > self.upper, 2 * self.upper - mirrored, mirrored)

    def restrict(self, keep: BoolArray) -> Box:
        """The box in the kept inputs."""
        return Box(self.lower[keep], self.upper[keep])

    def describe(self) -> str:
        """One line for summaries."""
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
        """All of R^k."""
        return AllSpace(int(np.count_nonzero(keep)))

    def describe(self) -> str:
        """One line for summaries."""
        return f"all of R^{self.dimension}"


class NormBall(Domain):
    """``|x - center|_p <= radius`` for p = 1 or 2, optionally clipped to a box.

    Use `ball` to build one: in the linf norm a ball is a `Box`.

    Parameters
    ----------
    center : array_like, shape (d,)
    radius : float
        Positive.
    norm : {'l1', 'l2'}
    clip : (lower, upper), optional
        Box that the ball is intersected with.
    """

    def __init__(
        self,
        center: npt.ArrayLike,
        radius: float,
        norm: str,
        clip: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    ) -> None:
        self.point = _vector(center, None, "the center of the ball")
        radius = real_number(radius, "the radius of the ball", DomainError)
        if not np.isfinite(self.point).all() or not (np.isfinite(radius) and radius > 0):
            raise DomainError(f"a ball needs a finite center and a positive radius, not {radius}")
        if norm not in ("l1", "l2"):
            raise DomainError(f"unknown ball norm '{norm}'.  Remedy: use l1, l2 or linf")
        self.radius, self.norm = float(radius), norm
        d = self.point.size
        low, high = (-np.inf, np.inf) if clip is None else clip
        clip_box = Box(low, high, d)
        if (self.point < clip_box.lower).any() or (self.point > clip_box.upper).any():
            raise DomainError("the center of the ball lies outside the clip box")
        self._clip = clip_box
        self.lower = np.maximum(_rounded_out(self.point, -self.radius), clip_box.lower)
        self.upper = np.minimum(_rounded_out(self.point, self.radius), clip_box.upper)

    @property
    def clip(self) -> tuple[FloatArray, FloatArray]:
        """The box that the ball is intersected with (infinite without one)."""
        return self._clip.lower, self._clip.upper

    @property
    def is_polyhedral(self) -> bool:
        """False: the curved (or 2^d-faced) part is not in `rows`."""
        return False

    @property
    def center(self) -> FloatArray:
        """An interior point (the ball's centre, moved off the faces of the clip box)."""
        middle = 0.5 * (self.lower + self.upper)
        step = middle - self.point
        size = float(np.abs(step).sum() if self.norm == "l1" else np.linalg.norm(step))
        shrink = 1.0 if size == 0 else min(1.0, 0.5 * self.radius / size)
        return np.asarray(self.point + shrink * step)

    def support(self, directions: Matrix) -> FloatArray:
        """Upper bounds (exact without clip): the smaller of the ball's and the box's maximum."""
        entries = abs(directions)
        if self.norm == "l2":
            sizes = np.sqrt(np.asarray((entries * entries).sum(axis=1)).reshape(-1))
        elif isinstance(entries, np.ndarray):
            sizes = entries.max(axis=1, initial=0.0)
        else:
            sizes = np.asarray(entries.max(axis=1).todense()).reshape(-1)
        ball_side = np.asarray(directions @ self.point) + self.radius * sizes
        return np.asarray(np.minimum(ball_side, _box_support(self.lower, self.upper, directions)))

    def slack(self, points: FloatArray) -> FloatArray:
        """``radius - |x - center|_p`` for `points` (..., d)."""
        gap = points - self.point
        sizes = np.abs(gap).sum(-1) if self.norm == "l1" else np.sqrt(np.square(gap).sum(-1))
        return np.asarray(self.radius - sizes)

    def holds_inside(self, x: FloatArray) -> bool:
        """Whether `x` lies strictly inside ball and clip box, without rounding."""
        if not super().holds_inside(x):
            return False
        away = [exact(a) - exact(b) for a, b in zip(x.tolist(), self.point.tolist(), strict=True)]
        radius = exact(self.radius)
        if self.norm == "l1":
            return bool(sum((abs(a) for a in away), fmpq(0)) < radius)
        return bool(sum((a * a for a in away), fmpq(0)) < radius * radius)

    def contains(self, points: npt.ArrayLike, tolerance: float = 0.0) -> BoolArray:
        """Whether `points` lie in ball and clip box."""
        x = np.asarray(points, dtype=np.float64)
        return super().contains(x, tolerance) & (self.slack(x) >= -tolerance)

    def sample(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Uniform in the ball, pulled towards the centre until inside the clip box."""
        d = self.dimension
        if self.norm == "l2":
            draw = rng.standard_normal((count, d))
            draw /= np.linalg.norm(draw, axis=1, keepdims=True)
        else:
            draw = rng.exponential(size=(count, d)) * rng.choice([-1.0, 1.0], (count, d))
            draw /= np.abs(draw).sum(axis=1, keepdims=True)
        draw *= self.radius * rng.random((count, 1)) ** (1.0 / d)
        clipped = np.clip(self.point + draw, self._clip.lower, self._clip.upper)
        # Clipping puts points on the faces of the box, which are not interior.
        return np.asarray(clipped + 1e-3 * (self.center - clipped))

    def restrict(self, keep: BoolArray) -> NormBall:
        """The ball in the kept inputs (frozen ones sit at the centre, so the radius stays)."""
        clip = (self._clip.lower[keep], self._clip.upper[keep])
        return NormBall(self.point[keep], self.radius, self.norm, clip)

    def describe(self) -> str:
        """One line for summaries."""
        clipped = "" if not np.isfinite(self._clip.lower).any() else ", clipped"
        return f"{self.norm} ball of radius {self.radius:g} in R^{self.dimension}{clipped}"


def ball(
    center: npt.ArrayLike,
    radius: float,
    norm: str = "linf",
    clip: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
) -> Box | NormBall:
    """A ball around `center`, intersected with the box `clip` if given.

    Parameters
    ----------
    center : array_like, shape (d,)
    radius : float
    norm : {'linf', 'l1', 'l2'}
    clip : (lower, upper), optional

    Returns
    -------
    Box or NormBall
        A box for the linf norm.
    """
    if norm != "linf":
        return NormBall(center, radius, norm, clip)
    point = _vector(center, None, "the center of the ball")
    radius = real_number(radius, "the radius of the ball", DomainError)
    if not np.isfinite(point).all() or not (np.isfinite(radius) and radius > 0):
        raise DomainError(f"a ball needs a finite center and a positive radius, not {radius}")
    lower, upper = point - radius, point + radius
    if clip is not None:
        low, high = (_vector(side, point.size, "the clip box") for side in clip)
        lower, upper = np.maximum(lower, low), np.minimum(upper, high)
        if (lower > upper).any():
            raise DomainError("the ball does not meet the clip box")
    return Box(lower, upper)
