"""Products in the collapsed objective: planes above sums of bilinear terms.

What a product's output and tangent are multiplied by, a and b, leaves three terms of one kind,

    a z_i z_j + b u_i z_j + b z_i u_j,

each of which lies below a plane: through the middles with the error that is known of it
(`errors.py`), or one of McCormick's two through corners (Computability of global solutions to
factorable nonconvex programs, 1976).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.search.spaces.boxes.affine import at
from lipyomo.search.spaces.boxes.errors import Errors
from lipyomo.search.spaces.boxes.relaxation import Relaxed
from lipyomo.search.spaces.boxes.stage import Stage

Gap = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Factored:
    """Planes above the products of a layer.

    Attributes
    ----------
    slopes, rates : ndarray, shape (N, 2 P)
        Coefficients of z and u for each branch.
    constant, fuzz : ndarray, shape (N,)
    gaps : tuple of ndarray, shape (N, 2 P)
        What each factor's z adds for want of knowledge, with that of its u; and that of u alone.
    """

    slopes: FloatArray
    rates: FloatArray
    constant: FloatArray
    fuzz: FloatArray
    gaps: Gap

    def joined(
        self, stage: Stage, slopes: FloatArray, rates: FloatArray, gap: Gap
    ) -> tuple[FloatArray, FloatArray, Gap]:
        """Coefficients of all branches, and gaps of all rows, with those of the units."""
        pairs = (slopes, self.slopes), (rates, self.rates), *zip(gap, self.gaps, strict=True)
        s, r, *both = (np.concatenate(pair, axis=1) for pair in pairs)
        return s, r, (stage.on_rows(both[0]), stage.on_rows(both[1]))


@dataclass(frozen=True, eq=False)
class _Range:
    """Ends and middle of signals (N, P), and where they are at one point of each box."""

    low: FloatArray
    high: FloatArray
    middle: FloatArray
    there: FloatArray | None

    @property
    def size(self) -> FloatArray:
        """Largest absolute values."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


def factored(
    stage: Stage,
    layer: Relaxed,
    a: FloatArray,
    b: FloatArray,
    point: tuple[FloatArray, FloatArray] | None,
    unit: float,
) -> Factored:
    """Planes above ``a h + b t`` of the products of a layer.

    Parameters
    ----------
    stage : Stage
    layer : Relaxed
    a, b : ndarray, shape (N, P)
    point : (ndarray, ndarray), optional
        x and v of each box, at which the planes are to be the lowest; by default those through the
        middles.
    unit : float
    """
    products, planes = stage.products, layer.planes
    assert products is not None
    assert planes is not None
    n, count = products.units, products.left.size
    middles = layer.rate[:, n + count :], layer.rate[:, n : n + count]
    low = np.minimum(layer.low, layer.high)
    z, u = [], []
    for rows, middle in zip((products.left, products.right), middles, strict=True):
        ends = low[:, rows], layer.high[:, rows]
        centre, radius = layer.tangent[:, rows], layer.tangent_radius[:, rows]
        own = centre - radius, centre + radius
        there: list[FloatArray | None] = [None, None]
        if point is not None:
            there[0] = np.clip(at(layer.pre.take(rows), *point), *ends)
            there[1] = np.clip(at(layer.pre_tangent.take(rows), *point), *own)
        z.append(_Range(*ends, middle, there[0]))
        u.append(_Range(*own, centre, there[1]))
    value = _above(a, z[0], z[1], planes.values)
    left = _above(b, u[0], z[1], planes.left)
    right = _above(b, z[0], u[1], planes.right)
    slopes = np.concatenate([value[0] + right[0], value[1] + left[1]], axis=1)
    rates = np.concatenate([left[0], right[1]], axis=1)
    own_rows = products.own[n:]
    constant = (value[2] + left[2] + right[2]).sum(axis=1)
    constant = constant + (slopes * stage.bias[own_rows]).sum(axis=1)
    sizes = np.abs(a) * z[0].size * z[1].size
    sizes = sizes + np.abs(b) * (u[0].size * z[1].size + z[0].size * u[1].size)
    fuzz = 4.0 * sizes.sum(axis=1)
    fuzz = fuzz + (np.abs(slopes) * layer.reach[:, own_rows]).sum(axis=1)
    fuzz = fuzz + (np.abs(rates) * layer.pace[:, own_rows]).sum(axis=1)
    gaps = [
        np.abs(c) * (errors.high - errors.low)
        for c, errors in ((a, planes.values), (b, planes.left), (b, planes.right))
    ]
    of_u = np.concatenate([gaps[1], gaps[2]], axis=1)
    of_z = np.concatenate([gaps[0] + gaps[2], gaps[0] + gaps[1]], axis=1)
    return Factored(slopes, rates, constant, unit * fuzz, (of_z, of_u))


def _above(
    c: FloatArray, p: _Range, q: _Range, errors: Errors
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Planes ``A p + B q + C`` above ``c p q``: the lowest at the ranges' points, if there are any.

    With (p - f)(q - g) of one sign, or within the errors, ``c p q`` is at most
    ``c (g p + f q - f g)``, and the error.
    """
    rises = c >= 0.0
    g, f, e = q.middle, p.middle, np.where(rises, errors.high, errors.low)
    if p.there is not None and q.there is not None:
        g, f, e = np.broadcast_arrays(g, f, e)
        least = c * (g * p.there + f * q.there - f * g + e)
        for one, other in (
            (np.where(rises, q.high, q.low), p.low),
            (np.where(rises, q.low, q.high), p.high),
        ):
            found = c * (one * p.there + other * q.there - other * one)
            less = found < least
            least = np.where(less, found, least)
            g, f, e = np.where(less, one, g), np.where(less, other, f), np.where(less, 0.0, e)
    return c * g, c * f, c * (e - f * g)
