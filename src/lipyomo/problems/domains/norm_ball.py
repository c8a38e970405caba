"""Balls of the l1 and the l2 norm, optionally clipped to a box; linf balls are boxes."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
from flint import fmpq

from lipyomo.base.arguments import real_number
from lipyomo.base.arrays import BoolArray, FloatArray, Matrix, lengths
from lipyomo.base.errors import DomainError
from lipyomo.base.numerics.exact import exact, lost_in_sum
from lipyomo.base.quantities import norm_name
from lipyomo.problems.domains.base import Domain, read_clip, read_vector
from lipyomo.problems.domains.box import Box
from lipyomo.problems.domains.polytope import Polytope
from lipyomo.problems.norms import ONE_BY_ONE


def rounded_out(point: FloatArray, step: float | FloatArray) -> FloatArray:
    """Return ``point + step``, rounded in the direction of the step."""
    end = point + step
    outwards = np.nextafter(end, np.copysign(np.inf, step))
    return np.where(np.sign(lost_in_sum(point, step, end)) == np.sign(step), outwards, end)


def _read_ball(center: npt.ArrayLike, radius: float) -> tuple[FloatArray, float]:
    """Check the center (d,) and the radius of a ball."""
    point = read_vector(center, None, "the center of the ball")
    radius = real_number(radius, "the radius of the ball", DomainError)
    if not np.isfinite(point).all() or not (np.isfinite(radius) and radius > 0):
        raise DomainError(f"a ball needs a finite center and a positive radius, not {radius}")
    return point, radius


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
        self.point, self.radius = _read_ball(center, radius)
        norm = norm_name(norm)
        if norm not in ("l1", "l2"):
            raise DomainError(f"unknown ball norm '{norm}'.  Remedy: use l1, l2 or linf")
        self.norm = norm
        clip_box = Box(*read_clip(clip), self.point.size)
        if (self.point < clip_box.lower).any() or (self.point > clip_box.upper).any():
            raise DomainError("the center of the ball lies outside the clip box")
        self._clip = clip_box
        self.lower = np.maximum(rounded_out(self.point, -self.radius), clip_box.lower)
        self.upper = np.minimum(rounded_out(self.point, self.radius), clip_box.upper)

    @property
    def clip(self) -> tuple[FloatArray, FloatArray]:
        """The box that the ball is intersected with (infinite without one)."""
        return self._clip.lower, self._clip.upper

    @property
    def ball(self) -> NormBall:
        """The ball itself: its round (or 2^d-faced) part is not in `rows`."""
        return self

    def polyhedron(self) -> Domain | None:
        """Return a `Box` in one dimension, a `Polytope` for an l1 ball of few faces, else None."""
        if self.dimension == 1:
            return Box(self.lower, self.upper)
        if self.norm != "l1" or 2**self.dimension > ONE_BY_ONE:
            return None
        signs = np.array(list(product((-1.0, 1.0), repeat=self.dimension)))
        size = self.radius + float(np.abs(self.point).sum())
        room = 2.0**-52 * (self.dimension + 2) * size
        limits = signs @ self.point + self.radius + room
        return Polytope(signs, limits, self.lower, self.upper)

    def clipped(self, lower: FloatArray, upper: FloatArray) -> NormBall:
        """Return the ball in a box, which must contain its centre."""
        low, high = self.clip
        box = np.maximum(low, lower), np.minimum(high, upper)
        return NormBall(self.point, self.radius, self.norm, box)

    def margin(self, x: FloatArray) -> float:
        """Return half the width of the largest cube around `x` in ball and box."""
        away, d = np.abs(x - self.point), int((~self.frozen).sum())
        total = float(away.sum())
        if self.norm == "l1":
            own = (self.radius - total) / d
        else:  # |away + t|_2 = radius: d t^2 + 2 |away|_1 t + |away|_2^2 - radius^2 = 0
            size = float(lengths(away))
            gap = (self.radius - size) * (self.radius + size)
            root = np.sqrt(max(total * total + d * gap, 0.0))
            own = float(gap / (total + root) if total + root > 0 else self.radius / np.sqrt(d))
        return min(own, super().margin(x))

    def curve(self, directions: Matrix) -> FloatArray:
        """Return the maxima of rows (..., d) over the ball without the box."""
        return np.asarray(directions @ self.point) + self.radius * self.sizes(directions)

    def sizes(self, directions: Matrix) -> FloatArray:
        """Return the dual norms of rows (..., d)."""
        if self.norm == "l2":
            return lengths(directions)
        entries = abs(directions)
        if not isinstance(entries, np.ndarray):
            return np.asarray(entries.max(axis=1).todense()).reshape(-1)
        return np.asarray(entries.max(axis=-1, initial=0.0))

    @property
    def center(self) -> FloatArray:
        """An interior point (the ball's centre, moved off the faces of the clip box)."""
        middle = 0.5 * (self.lower + self.upper)
        step = middle - self.point
        size = float(np.abs(step).sum() if self.norm == "l1" else np.linalg.norm(step))
        shrink = 1.0 if size == 0 else min(1.0, 0.5 * self.radius / size)
        return np.asarray(self.point + shrink * step)

    def support(self, directions: Matrix) -> FloatArray:
        """Return the smaller of the ball's and the box's maximum (exact without clip)."""
        return np.asarray(np.minimum(self.curve(directions), super().support(directions)))

    def slack(self, points: FloatArray) -> FloatArray:
        """Return ``radius - |x - center|_p`` for `points` (..., d)."""
        gap = points - self.point
        sizes = np.abs(gap).sum(-1) if self.norm == "l1" else lengths(gap)
        return np.asarray(self.radius - sizes)

    def holds(self, x: FloatArray, strictly: bool = False) -> bool:
        """Return whether `x` lies in ball and clip box, decided exactly."""
        if not super().holds(x, strictly):
            return False
        away = [-exact(c) for c in self.point.tolist()]
        for part in np.atleast_2d(x).tolist():
            away = [a + exact(b) for a, b in zip(away, part, strict=True)]
        radius = exact(self.radius)
        if self.norm == "l1":
            room = radius - sum((abs(a) for a in away), fmpq(0))
        else:
            room = radius * radius - sum((a * a for a in away), fmpq(0))
        return bool(room > 0 if strictly else room >= 0)

    def contains(self, points: npt.ArrayLike, tolerance: float = 0.0) -> BoolArray:
        """Return whether `points` lie in ball and clip box."""
        inside = super().contains(points, tolerance)
        return inside & (self.slack(np.asarray(points, dtype=np.float64)) >= -tolerance)

    def separating(self, x: FloatArray) -> tuple[FloatArray, float] | None:
        """Return a supporting hyperplane of the ball that separates `x`, if x lies outside."""
        if self.slack(x) > 0:
            return None
        gap = x - self.point
        if self.norm == "l2":
            normal = gap / np.linalg.norm(gap)
        else:
            normal = np.where(gap >= 0, 1.0, -1.0)
        return normal, float(normal @ self.point) + self.radius

    def sample(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Draw points uniformly in the ball, clip them to the box, and move them off its faces."""
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
        """Return the ball in the kept inputs; frozen ones are at the centre: the radius stays."""
        clip = (self._clip.lower[keep], self._clip.upper[keep])
        return NormBall(self.point[keep], self.radius, self.norm, clip)

    def describe(self) -> str:
        """Return one line for summaries."""
        clipped = "" if not np.isfinite(self._clip.lower).any() else ", clipped"
        return f"{self.norm} ball of radius {self.radius:g} in R^{self.dimension}{clipped}"


def ball(
    center: npt.ArrayLike,
    radius: float,
    norm: str = "linf",
    clip: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
) -> Box | NormBall:
    """Return a ball around `center`, intersected with the box `clip` if given.

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
    norm = norm_name(norm)
    if norm != "linf":
        return NormBall(center, radius, norm, clip)
    point, radius = _read_ball(center, radius)
    low, high = (read_vector(side, point.size, "the clip box") for side in read_clip(clip))
    lower = np.maximum(rounded_out(point, -radius), low)
    upper = np.minimum(rounded_out(point, radius), high)
    if (lower > upper).any():
        raise DomainError("the ball does not meet the clip box")
    return Box(lower, upper)
