"""Products of two signals over boxes: what is left of them beside planes, and planes above them.

For any numbers f and g

    p q = g p + f q - f g + (p - f)(q - g).

With f and g in the middle of the ranges of p and q the last product is within the product of their
radii.  Where p and q are affine functions of (x, v) with errors, ``4 a b = (a + b)^2 - (a - b)^2``
says more: with a = t (p - f), b = (q - g) / t, and R+ and R- not below |a + b| and |a - b| on the
box, it lies in [-R-^2 / 4, R+^2 / 4].  Any t would do; ``t^2`` is the ratio of the radii.

The tangent of z_i z_j is a sum of two such: ``u_i z_j + z_i u_j``.  So what a product's value and
tangent are multiplied by, a and b, leaves three terms,

    a z_i z_j + b u_i z_j + b z_i u_j,

each of which lies below a plane: by what is above, or with f and g at corners of both ranges where
(p - f)(q - g) has the sign that makes it so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo_check.smooth.balls import BOTH, NOTHING
from lipyomo_check.smooth.boxes import Ball, Ends, Rows
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.levels import Indices, Products


class Scope(NamedTuple):
    """Radii of boxes (N, d) and of their directions (N, k), and the share that rounding takes."""

    x: Array
    v: Array
    gamma: float


class Form(NamedTuple):
    """Signals ``middle + offset + turn . delta +- away`` within ``middle +- radius``, (N, P).

    Delta is in [-1, 1]^(d + k), `turn` has the shape (N, P, d + k).  Rounding of sums of these
    adds the scope's share of `size`.
    """

    turn: Array
    offset: Array
    away: Array
    size: Array
    middle: Array
    radius: Array

    @classmethod
    def of(cls, rows: Rows, which: Indices, ball: Ball, scope: Scope) -> Form:
        """Return some rows, which are known to lie in these ranges as well."""
        middle, radius = ball[0][:, which], ball[1][:, which]
        turn = rows.x[:, which] * scope.x[:, None]
        if rows.v is None:
            more = np.zeros((*turn.shape[:2], scope.v.shape[1]))
        else:
            more = rows.v[:, which] * scope.v[:, None]
        turn = np.concatenate([turn, more], axis=2)
        half = rows.high[:, which] / 2.0 - rows.low[:, which] / 2.0
        centre = rows.low[:, which] + half
        span = np.abs(turn).sum(axis=2)
        size = np.abs(centre) + half + span + np.abs(middle)
        return cls(turn, centre - middle, np.maximum(half - span, 0.0), size, middle, radius)

    def about(self, points: Array) -> Form:
        """Return the same with other numbers for middles."""
        low, high = self.ends
        radius = np.maximum(high - points, points - low)
        return self._replace(
            offset=self.offset + (self.middle - points), middle=points, radius=radius
        )

    @property
    def ends(self) -> Ends:
        """The signals' ranges, with room for rounding."""
        low, high = self.middle - self.radius, self.middle + self.radius
        return np.nextafter(low, -np.inf), np.nextafter(high, np.inf)


class Left(NamedTuple):
    """Ends (N, P) of (p - f)(q - g), f and g being the middles, for three products.

    The products are z_i z_j, u_i z_j and z_i u_j; both arrays have the shape (3, N, P).  `forms`
    are those of their factors.
    """

    low: Array
    high: Array
    forms: tuple[tuple[Form, Form], ...]


def left_of(products: Products, z: tuple[Rows, Ball], u: tuple[Rows, Ball], scope: Scope) -> Left:
    """Return the products of a layer less the planes through their middles."""
    z_i, z_j = (Form.of(z[0], rows, z[1], scope) for rows in (products.left, products.right))
    u_i, u_j = (Form.of(u[0], rows, u[1], scope) for rows in (products.left, products.right))
    forms = (z_i, z_j), (u_i, z_j), (z_i, u_j)
    found = [left_between(p, q, scope.gamma) for p, q in forms]
    return Left(np.stack([low for low, _ in found]), np.stack([high for _, high in found]), forms)


@np.errstate(divide="ignore", over="ignore", invalid="ignore")  # what overflows says nothing
def left_between(p: Form, q: Form, gamma: float) -> Ends:
    """Return ends of (p - f)(q - g) for any two signals, f and g being their middles."""
    most = p.radius * q.radius * (1.0 + 4.0 * ULP)
    t = np.sqrt(q.radius / p.radius)
    t = np.where(np.isfinite(t) & (t > 0.0), t, 1.0)
    ends = []
    for sign in (-1.0, 1.0):
        span = np.abs(p.turn * t[:, :, None] + sign * q.turn / t[:, :, None]).sum(axis=2)
        size = span + np.abs(t * p.offset + sign * q.offset / t) + t * p.away + q.away / t
        size = size + gamma * (t * p.size + q.size / t)
        ends.append(np.fmin(most, 0.25 * size * size * (1.0 + 8.0 * ULP)))
    return -ends[0], ends[1]


class Above(NamedTuple):
    """Planes above ``a h + b t`` of a layer's products.

    Attributes
    ----------
    slopes, rates : ndarray, shape (N, 2 P)
        Coefficients of the z and u of both factors.
    most, size : ndarray, shape (N, P)
        What is to be added, and the sum of absolute values of all terms but those of `rates`.
    gaps, tangent_gaps : ndarray, shape (N, 2 P)
        What each factor adds for want of knowledge, in all and by its tangent.
    points : ndarray, shape (N, 3, 2, P)
        f and g of each of the three terms.
    """

    slopes: Array
    rates: Array
    most: Array
    size: Array
    gaps: Array
    tangent_gaps: Array
    points: Array


def plane(
    c: Array,
    middles: tuple[Array, Array],
    ends: tuple[Ends, Ends],
    left: Ends,
    at: tuple[Array, Array] | None,
) -> tuple[Array, Array, Array]:
    """Return f, g and e with ``c p q <= c (g p + f q - f g + e)`` on both ranges."""
    rises = c >= 0.0
    (f, g), e = middles, np.where(rises, left[1], left[0])
    if at is None:
        return f, g, e
    p, q = at
    (p_low, p_high), (q_low, q_high) = ends
    best = c * (g * p + f * q - f * g + e)
    corners = (p_low, np.where(rises, q_high, q_low)), (p_high, np.where(rises, q_low, q_high))
    for one, other in corners:  # there (p - f)(q - g) is not positive, or not negative
        value = c * (other * p + one * q - one * other)
        less = value < best
        best, e = np.where(less, value, best), np.where(less, 0.0, e)
        f, g = np.where(less, one, f), np.where(less, other, g)
    return f, g, e


def given_plane(c: Array, p: Form, q: Form, f: Array, g: Array) -> tuple[Array, Array, Array]:
    """Return f, g and e as `plane` does, for any f and g, in balls."""
    (p_low, p_high), (q_low, q_high) = p.ends, q.ends
    low, high = times((p_low - f, p_high - f), (q_low - g, q_high - g))
    own = left_between(p.about(f), q.about(g), NOTHING)
    low, high = np.fmax(low, own[0]), np.fmin(high, own[1])
    either = (low + high) / 2.0 + (high - low) / 2.0 * BOTH  # of a sign that is not known
    return f, g, np.where(c >= 0.0, high, np.where(c <= 0.0, low, either))


def times(one: Ends, other: Ends) -> Ends:
    """Return the range of a product of ranges, but for rounding."""
    corners = np.stack([a * b for a in one for b in other])
    return corners.min(axis=0), corners.max(axis=0)
