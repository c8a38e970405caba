"""Errors of planes as approximations of products of two signals, on boxes.

For p in p_0 +- r and q in q_0 +- s

    p q = q_0 p + p_0 q - p_0 q_0 + (p - p_0)(q - q_0),

where the last product is within +- r s.  Where both are affine functions of (x, v) with errors,
``4 a b = (a + b)**2 - (a - b)**2`` gives more: with a = t (p - p_0), b = (q - q_0) / t and upper
bounds R+ and R- of |a + b| and |a - b| on the box, it lies in [-R-**2 / 4, R+**2 / 4].  No t is
best in all cases; with t**2 = s / r, a and b have the same size.  Half-spaces of boxes make little
difference here and are ignored.

A product's derivative is the sum of two such: u_i z_j + z_i u_j.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.relaxing.inputs import Affine, Inputs, times


class Form(NamedTuple):
    """Signals ``x . X + v . V + c +- e`` within ``middle +- radius``, k of them on N boxes.

    V is None if they do not depend on v; shapes are (N or 1, k, d) and (N, k).
    """

    x: FloatArray
    v: FloatArray | None
    constant: FloatArray
    error: FloatArray
    middle: FloatArray
    radius: FloatArray

    @classmethod
    def of(cls, affine: Affine, middle: FloatArray, radius: FloatArray) -> Form:
        """Combine affine functions and ranges of the same signals."""
        return cls(affine.x, affine.v, affine.constant, affine.radius, middle, radius)


class Errors(NamedTuple):
    """Ranges [low, high] of products minus their planes, shapes (N, P)."""

    low: FloatArray
    high: FloatArray

    @property
    def middle(self) -> FloatArray:
        """The middle."""
        return 0.5 * (self.low + self.high)

    @property
    def radius(self) -> FloatArray:
        """The larger distance from the middle to an end; the caller rounds it up."""
        return np.maximum(self.high - self.middle, self.middle - self.low)


class Planes(NamedTuple):
    """Errors of the planes of z_i z_j, of u_i z_j, and of z_i u_j.

    Attributes
    ----------
    values, left, right : Errors
    whole : tuple, optional
        Ranges of all products z_i z_j and of their tangents, if they are known directly.
    """

    values: Errors
    left: Errors
    right: Errors
    whole: tuple[Ends, Ends] | None


@np.errstate(divide="ignore", over="ignore", invalid="ignore")  # an overflow gives no bound
def errors_of(one: Form, other: Form, inputs: Inputs, unit: float) -> Errors:
    """Bound the errors of the planes of products of two signals."""
    most = one.radius * other.radius * (1.0 + 2.0 * unit)
    t = np.sqrt(other.radius / one.radius)
    t = np.where(np.isfinite(t) & (t > 0), t, 1.0)
    first, second = _scaled(one, t, inputs, unit), _scaled(other, 1.0 / t, inputs, unit)
    alone = first.error + second.error + _sizes(first.v) + _sizes(second.v)
    ends = []
    for sign in (-1.0, 1.0):
        offset = first.offset + sign * second.offset
        size = times(np.abs(first.x + sign * second.x), inputs.x.radius) + np.abs(offset) + alone
        ends.append(np.fmin(most, 0.25 * size * size * (1.0 + 4.0 * unit)))
    return Errors(-ends[0], ends[1])


class _Scaled(NamedTuple):
    """A multiple of a signal minus its middle, ``X . (x - middle) + V . delta + offset +- error``.

    Here delta is in [-1, 1]^k.
    """

    x: FloatArray
    v: FloatArray | None
    offset: FloatArray
    error: FloatArray


def _scaled(form: Form, t: FloatArray, inputs: Inputs, unit: float) -> _Scaled:
    """Scale a signal; the error covers the rounding of all sums of this module."""
    v = None
    value, size = times(form.x, inputs.x.middle), times(np.abs(form.x), inputs.x.radius)
    if form.v is not None:
        v = form.v * inputs.v.radius[:, None]
        value, size = value + times(form.v, inputs.v.middle), size + _sizes(v)
    offset = value + form.constant - form.middle
    away = form.error + unit * (np.abs(offset) + np.abs(form.middle) + form.error + size)
    v = None if v is None else v * t[:, :, None]
    return _Scaled(form.x * t[:, :, None], v, offset * t, away * t * (1.0 + unit))


def _sizes(coefficients: FloatArray | None) -> FloatArray:
    """Return sums of absolute values, shape (N, k)."""
    if coefficients is None:
        return np.zeros(1)
    return np.asarray(np.abs(coefficients).sum(axis=2))
