"""The units of the first layer as parabolas: sums of them are quadratic functions of the inputs.

Its pre-activations are ``z = f + P . e`` for e in [-1, 1]^d, measured from the middle of a box in
units of its radii.  If a single direction is given, its u are numbers.  With p = z - f

    sigma(z) = c + s p + k p**2 +- r,    u sigma'(z) = u c' + u s' p + u k' p**2 +- |u| r',

so that rows of later layers, taken back to this one, are ``l . e + e' Q e`` with Q the sum of
``k P P'``.  The curvature of different units cancels before anything is bounded, whereas errors of
lines around each unit add up.

Rounding.  The error of f + P . e is at most ``2 unit reach``; the rounding of all terms of a unit
is covered by multiples of `unit` times their sizes, which are added to r, and so are all sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.quadratics.on_cubes import QuadraticOnCube
from lipyomo.search.spaces.boxes.relaxing.inputs import Inputs, centred, times
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxed
from lipyomo.search.spaces.boxes.structure.stage import Stage


class Parabolas(NamedTuple):
    """Outputs ``constant + slope p + bend p**2 +- error`` of units, shapes (N, n)."""

    constant: FloatArray
    slope: FloatArray
    bend: FloatArray
    error: FloatArray


class UnitShares(NamedTuple):
    """Contributions of units to the coefficients of a `QuadraticOnCube`.

    Attributes
    ----------
    terms : ndarray, shape (c, N, n)
    error : ndarray, shape (N, n)
    """

    terms: FloatArray
    error: FloatArray


@dataclass(frozen=True, eq=False)
class Curves:
    """The units of the first layer on boxes, with one direction for each box.

    Attributes
    ----------
    stage : Stage
    layer : Relaxed
    middle : ndarray, shape (N, n)
        f, the pre-activations at the middle.
    reach : ndarray, shape (N, n)
        Upper bounds of |p|.
    radius : ndarray, shape (N, d)
        The radii of the boxes.
    unit : float
    """

    stage: Stage
    layer: Relaxed
    middle: FloatArray
    reach: FloatArray
    radius: FloatArray
    unit: float

    @cached_property
    def values(self) -> UnitShares:
        """The contributions of sigma."""
        return self._parts(self._curve(np.ones_like(self.middle), np.zeros_like(self.middle)))

    @cached_property
    def tangents(self) -> UnitShares:
        """The contributions of ``u sigma'``."""
        layer, one = self.layer, np.ones_like(self.middle)
        constant, slope, bend, error = self._curve(np.zeros_like(one), one)
        u, size = layer.tangent, np.abs(layer.tangent)
        steep = np.abs(layer.rate) + layer.rate_radius
        error = size * error + (1.0 + 4.0 * self.unit) * layer.tangent_radius * steep
        return self._parts(Parabolas(u * constant, u * slope, u * bend, error))

    def _curve(self, A: FloatArray, c: FloatArray) -> Parabolas:
        """Return parabolas near ``A sigma + c sigma'``."""
        low = np.minimum(self.layer.low, self.layer.high)
        s, k, under, over = self.stage.each("parabolas", A, c, low, self.layer.high, self.middle)
        middle, error = centred(under, over, self.unit)
        return self._paid(Parabolas(middle, s, k, error))

    def _paid(self, found: Parabolas) -> Parabolas:
        """Convert offsets, slopes in z and second derivatives, adding the errors of all sums."""
        offset, s, k, error = found
        lost = np.abs(offset) + (np.abs(s) + np.abs(k) * self.reach) * self.layer.reach
        error = error + 16.0 * self.unit * (lost + np.abs(error))
        return Parabolas(offset + s * self.middle, s, 0.5 * k, error)

    @np.errstate(over="ignore", invalid="ignore")  # an overflow gives no bound
    def ends(
        self, X: FloatArray | None, Y: FloatArray | None, constant: FloatArray, radius: FloatArray
    ) -> Ends:
        """Return ranges of ``X . h + Y . t + constant +- radius``, shapes (N, k).

        Parameters
        ----------
        X, Y : ndarray, shape (N, k, n) or (1, k, n), optional
        constant, radius : ndarray, shape (N, k) or (k,)
        """
        size = np.abs(constant) + radius
        terms: FloatArray | float = 0.0
        for rows, name in ((X, "values"), (Y, "tangents")):
            if rows is not None:
                parts: UnitShares = getattr(self, name)
                terms = terms + _sums(rows, parts.terms)
                radius = radius + times(np.abs(rows), parts.error)
        form = self._form(np.asarray(terms))
        radius = radius + 8.0 * self.unit * (size + np.abs(form.constant) + radius)
        low, high = form.corner_ends()
        return low + constant - radius, high + constant + radius

    @np.errstate(over="ignore", invalid="ignore")
    def above(self, a: FloatArray, b: FloatArray) -> QuadraticOnCube:
        """Return upper bounds of ``a . h + b . t`` as functions, for a and b of shape (N, n)."""
        layer, unit = self.layer, self.unit
        low = np.minimum(layer.low, layer.high)
        c = b * layer.tangent
        s, k, _, over = self.stage.each("parabolas", a, c, low, layer.high, self.middle)
        curve = self._paid(Parabolas(over, s, k, np.zeros_like(over)))
        steep = np.abs(layer.rate) + layer.rate_radius
        error = curve.error + np.abs(b) * steep * (
            layer.tangent_radius + unit * np.abs(layer.tangent)
        )
        form = self._form(self._parts(curve).terms.sum(axis=2))
        return form.raised((1.0 + 4.0 * unit) * error.sum(axis=1))

    @cached_property
    def _scaled(self) -> FloatArray:
        """P, shape (d, N, n)."""
        return np.asarray(self.stage.weight.T[:, None] * self.radius.T[:, :, None])

    def _parts(self, curve: Parabolas) -> UnitShares:
        """Return what each unit adds to each coefficient."""
        scaled, bent = self._scaled, curve.bend * self._scaled
        first, second = np.triu_indices(len(scaled), 1)
        pairs = 2.0 * bent[first] * scaled[second]
        parts = curve.constant[None], curve.slope * scaled, bent * scaled, pairs
        return UnitShares(np.concatenate(parts), curve.error)

    def _form(self, terms: FloatArray) -> QuadraticOnCube:
        first = 1 + self.radius.shape[1]
        return QuadraticOnCube(terms[0], terms[1:first], terms[first:])


def curves_of(context: BoxContext, layer: Relaxed, inputs: Inputs) -> Curves | None:
    """Return the curves of the first layer, or None for directions with a range."""
    x, v, _ = inputs
    if len(x.middle) != len(v.middle) or v.radius.any():
        return None
    stage, unit = context.stages[0], context.unit
    middle = layer.pre.constant + times(layer.pre.x, x.middle)
    reach = x.radius @ stage.sizes.T + 4.0 * unit * layer.reach
    return Curves(stage, layer, middle, reach, x.radius, unit)


def _sums(rows: FloatArray, terms: FloatArray) -> FloatArray:
    """Multiply rows (N, k, n), or (1, k, n), by terms (c, N, n): shape (c, N, k)."""
    if len(rows) == 1:
        return np.asarray(terms @ rows[0].T)
    found = np.empty((*terms.shape[:2], rows.shape[1]))
    np.matmul(terms.swapaxes(0, 1), rows.swapaxes(1, 2), out=found.swapaxes(0, 1))
    return found
