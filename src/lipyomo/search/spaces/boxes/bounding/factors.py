"""Products in the collapsed objective: planes above sums of bilinear terms.

With a and b for the factors of a product's output and tangent, there are three bilinear terms,

    a z_i z_j + b u_i z_j + b z_i u_j,

each of which lies below the plane through the middles, raised by its error (`relaxing/errors.py`),
or below a constant.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.search.spaces.boxes.bounding.shared import (
    Located,
    Single,
    jointly,
    level_where_lower,
    plane_above,
)
from lipyomo.search.spaces.boxes.relaxing.inputs import Inputs, at
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxed
from lipyomo.search.spaces.boxes.structure.stage import Stage

Gap = tuple[FloatArray, FloatArray]


class Factored(NamedTuple):
    """Planes above the products of a layer.

    Attributes
    ----------
    slopes, rates : ndarray, shape (N, 2 P)
        Coefficients of z and u for each branch.
    constant, fuzz : ndarray, shape (N,)
    gaps : tuple of ndarray, shape (N, 2 P)
        The looseness due to each factor's z including its u, and due to its u alone.
    """

    slopes: FloatArray
    rates: FloatArray
    constant: FloatArray
    fuzz: FloatArray
    gaps: Gap

    def joined(
        self, stage: Stage, slopes: FloatArray, rates: FloatArray, gap: Gap
    ) -> tuple[FloatArray, FloatArray, Gap]:
        """Return coefficients of all branches and gaps of all rows, with those of the units."""
        pairs = (slopes, self.slopes), (rates, self.rates), *zip(gap, self.gaps, strict=True)
        s, r, *both = (np.concatenate(pair, axis=1) for pair in pairs)
        return s, r, (stage.on_rows(both[0]), stage.on_rows(both[1]))


def factored(
    stage: Stage,
    layer: Relaxed,
    a: FloatArray,
    b: FloatArray,
    worst: tuple[FloatArray, FloatArray],
    inputs: Inputs,
    unit: float,
) -> Factored:
    """Compute planes above ``a h + b t`` of the products of a layer.

    Parameters
    ----------
    stage : Stage
    layer : Relaxed
    a, b : ndarray, shape (N, P)
    worst : (ndarray, ndarray)
        x and v of each box where the objective is largest.
    inputs : Inputs
    unit : float
    """
    products, planes = stage.products, layer.planes
    assert products is not None
    assert planes is not None
    n, count = products.units, products.left.size
    middles = layer.rate[:, n + count :], layer.rate[:, n : n + count]
    low = np.minimum(layer.low, layer.high)
    shared = products.shared
    z, u = [], []
    for rows, middle in zip((products.left, products.right), middles, strict=True):
        ends = low[:, rows], layer.high[:, rows]
        centre, radius = layer.tangent[:, rows], layer.tangent_radius[:, rows]
        own = centre - radius, centre + radius
        there: list[FloatArray | None] = [None, None]
        if planes.whole is not None or shared is not None:
            there[0] = np.clip(at(layer.pre.take(rows), *worst), *ends)
            there[1] = np.clip(at(layer.pre_tangent.take(rows), *worst), *own)
        z.append(Located(*ends, middle, there[0]))
        u.append(Located(*own, centre, there[1]))
    value = plane_above(a, z[0], z[1], planes.values)
    left = plane_above(b, u[0], z[1], planes.left)
    right = plane_above(b, z[0], u[1], planes.right)
    gaps = [
        np.abs(c) * (errors.high - errors.low)
        for c, errors in ((a, planes.values), (b, planes.left), (b, planes.right))
    ]
    if planes.whole is not None:
        own, along = planes.whole
        (value,), (gaps[0],) = level_where_lower(a, own, [(value, z[0], z[1])], gaps[:1])
        (left, right), gaps[1:] = level_where_lower(
            b, along, [(left, u[0], z[1]), (right, z[0], u[1])], gaps[1:]
        )
    slopes = np.concatenate([value[0] + right[0], value[1] + left[1]], axis=1)
    rates = np.concatenate([left[0], right[1]], axis=1)
    own_rows, constants = products.own[n:], value[2] + left[2] + right[2]
    sizes = np.abs(a) * z[0].size * z[1].size
    sizes = sizes + np.abs(b) * (u[0].size * z[1].size + z[0].size * u[1].size)
    fuzz = sizes.sum(axis=1)
    of_u = np.concatenate([gaps[1], gaps[2]], axis=1)
    of_z = np.concatenate([gaps[0] + gaps[2], gaps[0] + gaps[1]], axis=1)
    if shared is not None:
        points = [np.concatenate([one.there, other.there], axis=1) for one, other in (z, u)]
        parts = slopes * points[0] + rates * points[1]
        heights = parts[:, :count] + parts[:, count:] + constants
        some = shared.products
        joint = jointly(shared, layer, (a[:, some], b[:, some]), worst, inputs, unit)
        single = Single(slopes, rates, constants, of_z, of_u)
        slopes, rates, constants, of_z, of_u = joint.instead(shared, heights, single)
        fuzz = fuzz + joint.size.sum(axis=1)
    constant = constants.sum(axis=1)
    constant = constant + (slopes * stage.bias[own_rows]).sum(axis=1)
    fuzz = 4.0 * fuzz + (np.abs(slopes) * layer.reach[:, own_rows]).sum(axis=1)
    fuzz = fuzz + (np.abs(rates) * layer.pace[:, own_rows]).sum(axis=1)
    return Factored(slopes, rates, constant, unit * fuzz, (of_z, of_u))
