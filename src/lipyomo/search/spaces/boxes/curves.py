"""The first layer's units as parabolas: sums of them are quadratic functions of the inputs.

Its pre-activations are ``z = f + P . e`` for e in [-1, 1]^d, from the middle of a box in radii, and
where one direction is held its u are numbers.  With p = z - f

    sigma(z) = c + s p + k p**2 +- r,    u sigma'(z) = u c' + u s' p + u k' p**2 +- |u| r',

so that rows of later layers, which have been taken back to this one, are ``l . e + e' Q e`` with Q
the sum of ``k P P'``: what units of a layer bend cancels out before anything is bounded, where
lines around each unit add up.

Such a function is largest at a corner, but for the negative entries of the diagonal of Q.  There

    -q e**2 <= -q (2 t e - t**2)    for any t,

which is affine in e: t is where the entry would be best alone, or beside the best corner.

Rounding.  z is off from f + P . e by at most ``2 unit reach``; all terms of a unit are paid for by
multiples of `unit` times their sizes, which are added to r, and so are all sums of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.affine import centred
from lipyomo.search.spaces.boxes.context import Context
from lipyomo.search.spaces.boxes.inputs import Inputs, times
from lipyomo.search.spaces.boxes.relaxation import Relaxed
from lipyomo.search.spaces.boxes.stage import Stage


class Parabolas(NamedTuple):
    """Outputs ``constant + slope p + bend p**2 +- error`` of units, shapes (N, n)."""

    constant: FloatArray
    slope: FloatArray
    bend: FloatArray
    error: FloatArray


@dataclass(frozen=True, eq=False)
class Curves:
    """What the first layer's units are on boxes, with one direction each.

    Attributes
    ----------
    stage : Stage
    layer : Relaxed
    middle : ndarray, shape (N, n)
        f: z at the middle.
    reach : ndarray, shape (N, n)
        Not below |p|.
    radius : ndarray, shape (N, d)
        Of the box.
    unit : float
    """

    stage: Stage
    layer: Relaxed
    middle: FloatArray
    reach: FloatArray
    radius: FloatArray
    unit: float

    @cached_property
    def values(self) -> Parabolas:
        """Of sigma."""
        return self._curve(np.ones_like(self.middle), np.zeros_like(self.middle))

    @cached_property
    def tangents(self) -> Parabolas:
        """Of ``u sigma'``."""
        layer, one = self.layer, np.ones_like(self.middle)
        constant, slope, bend, error = self._curve(np.zeros_like(one), one)
        u, size = layer.tangent, np.abs(layer.tangent)
        steep = np.abs(layer.rate) + layer.rate_radius
        error = size * error + (1.0 + 4.0 * self.unit) * layer.tangent_radius * steep
        return Parabolas(u * constant, u * slope, u * bend, error)

    def _curve(self, A: FloatArray, c: FloatArray) -> Parabolas:
        """Of ``A sigma + c sigma'``."""
        low = np.minimum(self.layer.low, self.layer.high)
        s, k, under, over = self.stage.each("parabolas", A, c, low, self.layer.high, self.middle)
        middle, error = centred(under, over, self.unit)
        return self._paid(Parabolas(middle, s, k, error))

    def _paid(self, found: Parabolas) -> Parabolas:
        """From offsets, slopes in z, and second derivatives; with what all sums are off by."""
        offset, s, k, error = found
        lost = np.abs(offset) + (np.abs(s) + np.abs(k) * self.reach) * self.layer.reach
        error = error + 16.0 * self.unit * (lost + np.abs(error))
        return Parabolas(offset + s * self.middle, s, 0.5 * k, error)

    @np.errstate(over="ignore", invalid="ignore")  # what overflows says nothing
    def ends(
        self, X: FloatArray | None, Y: FloatArray | None, constant: FloatArray, radius: FloatArray
    ) -> Ends:
        """Ranges of ``X . h + Y . t + constant +- radius``, shapes (N, k).

        Parameters
        ----------
        X, Y : ndarray, shape (N, k, n) or (1, k, n), optional
        constant, radius : ndarray, shape (N, k) or (k,)
        """
        size = np.abs(constant) + radius
        slopes: FloatArray | float = 0.0
        bends: FloatArray | float = 0.0
        for rows, name in ((X, "values"), (Y, "tangents")):
            if rows is None:
                continue
            curve: Parabolas = getattr(self, name)
            constant = constant + times(rows, curve.constant)
            radius = radius + times(np.abs(rows), curve.error)
            slopes = slopes + rows * curve.slope[:, None]
            bends = bends + rows * curve.bend[:, None]
        linear, square, pairs = self._form(np.asarray(slopes), np.asarray(bends))
        radius = radius + 8.0 * self.unit * (size + np.abs(constant) + radius)
        below = constant - highest_by_corners(-linear, -square, -pairs) - radius
        above = constant + highest_by_corners(linear, square, pairs) + radius
        return np.asarray(below), np.asarray(above)

    @np.errstate(over="ignore", invalid="ignore")
    def above(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Upper bounds (N,) of ``a . h + b . t``, for a and b of shape (N, n)."""
        layer, unit = self.layer, self.unit
        low = np.minimum(layer.low, layer.high)
        c = b * layer.tangent
        s, k, _, over = self.stage.each("parabolas", a, c, low, layer.high, self.middle)
        curve = self._paid(Parabolas(over, s, k, np.zeros_like(over)))
        steep = np.abs(layer.rate) + layer.rate_radius
        error = curve.error + np.abs(b) * steep * (
            layer.tangent_radius + unit * np.abs(layer.tangent)
        )
        form = self._form(curve.slope[:, None], curve.bend[:, None])
        found = curve.constant.sum(axis=1) + highest_by_corners(*form, again=True)[:, 0]
        return np.asarray(found + (1.0 + 4.0 * unit) * error.sum(axis=1))

    def _form(
        self, slopes: FloatArray, bends: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """``l``, the diagonal of Q, and twice what is above it; (N, k, ...)."""
        weight, radius = self.stage.weight, self.radius[:, None]
        first, second = np.triu_indices(weight.shape[1], 1)
        linear = (slopes @ weight) * radius
        square = (bends @ (weight * weight)) * (radius * radius)
        pairs = 2.0 * (bends @ (weight[:, first] * weight[:, second]))
        return linear, square, pairs * (radius[..., first] * radius[..., second])


def curves_of(context: Context, layer: Relaxed, inputs: Inputs) -> Curves | None:
    """Of the first layer; None for directions with a range, and where it would not pay."""
    x, v, _ = inputs
    fewest, most = context.params.curved
    if context.multiplies or not fewest <= context.inputs <= most:
        return None
    if len(x.middle) != len(v.middle) or v.radius.any():
        return None
    stage, unit = context.stages[0], context.unit
    middle = layer.pre.constant + times(layer.pre.x, x.middle)
    reach = x.radius @ stage.sizes.T + 4.0 * unit * layer.reach
    return Curves(stage, layer, middle, reach, x.radius, unit)


def highest_by_corners(
    linear: FloatArray, square: FloatArray, pairs: FloatArray, again: bool = False
) -> FloatArray:
    """Bounds of ``l . e + q . e**2 + p . (e_i e_j)_{i < j}`` over [-1, 1]^d.

    Parameters
    ----------
    linear, square : ndarray, shape (..., d)
    pairs : ndarray, shape (..., d (d - 1) / 2)
    again : bool, optional
        Whether tangents are also taken beside the best corner.
    """
    corners, products = _corners(linear.shape[-1])
    less = np.minimum(square, 0.0)
    base, joint = np.maximum(square, 0.0).sum(axis=-1), pairs @ products.T
    t = _best(linear, less)
    values = (linear + 2.0 * less * t) @ corners.T + joint
    found = base + values.max(axis=-1) - (less * t * t).sum(axis=-1)
    if not again:
        return np.asarray(found)
    first, second = np.triu_indices(linear.shape[-1], 1)
    for _ in range(2):
        place = corners[values.argmax(axis=-1)]
        slope = linear.copy()
        for n, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            slope[..., i] += pairs[..., n] * place[..., j]
            slope[..., j] += pairs[..., n] * place[..., i]
        t = _best(slope, less)
        values = (linear + 2.0 * less * t) @ corners.T + joint
        found = np.minimum(found, base + values.max(axis=-1) - (less * t * t).sum(axis=-1))
    return np.asarray(found)


def _best(linear: FloatArray, less: FloatArray) -> FloatArray:
    """Where ``l e + q e**2`` is largest in [-1, 1], for q <= 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.clip(linear / (-2.0 * less), -1.0, 1.0)
    return np.where(np.isnan(found), 0.0, found)


@cache
def _corners(count: int) -> tuple[FloatArray, FloatArray]:
    """The corners of a cube, and the products of two of their coordinates."""
    bits = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    corners: FloatArray = 1.0 - 2.0 * bits.astype(np.float64)
    first, second = np.triu_indices(count, 1)
    return corners, np.asarray(corners[:, first] * corners[:, second])
