"""What is left of a layer's products and squares beside planes, as quadratic functions.

With f and n in the middles of the ranges of z and u

    z_i z_j           = f_j z_i + f_i z_j - f_i f_j                     + (z_i - f_i)(z_j - f_j),
    u_i z_j + z_i u_j = f_j u_i + n_i z_j + n_j z_i + f_i u_j
                        - n_i f_j - f_i n_j       + (u_i - n_i)(z_j - f_j) + (z_i - f_i)(u_j - n_j).

A later row takes a sum of these last terms.  With ranges of each of them that is what
`relax.py` knows; here they are quadratic functions of (x, v), whose sum is bounded as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.errors import Errors
from lipyomo.search.spaces.boxes.inputs import Affine, Inputs, centred, times
from lipyomo.search.spaces.boxes.quadratic import Deviations, Quadratic, turned
from lipyomo.search.spaces.boxes.relaxation import Change, Lines, Relaxed
from lipyomo.search.spaces.boxes.stage import Stage

DIMENSIONS = 16
"""Most entries of (x, v): matrices of more take longer than they gain."""


@dataclass(frozen=True, eq=False)
class Remainders:
    """Lines without them, and remainders in two forms.

    Attributes
    ----------
    stage : Stage
    value : tuple of ndarray
    change : Change
        As `Relaxed.value` and `Relaxed.change`, without remainders of products and squares.
    values, tangents : Errors
        Ranges (N, P) of the remainders.
    z, u : Deviations
        Of all rows; u of none where directions are zero.
    """

    stage: Stage
    value: Lines
    change: Change
    values: Errors
    tangents: Errors
    z: Deviations
    u: Deviations | None

    @cached_property
    def of_values(self) -> Quadratic:
        """The remainders of z_i z_j."""
        pairs = self.stage.pairs
        assert pairs is not None
        return self.z.take(pairs.left).times(self.z.take(pairs.right))

    @cached_property
    def of_tangents(self) -> Quadratic:
        """The remainders of u_i z_j + z_i u_j."""
        pairs = self.stage.pairs
        assert pairs is not None
        assert self.u is not None
        one = self.u.take(pairs.left).times(self.z.take(pairs.right))
        return one.plus(self.z.take(pairs.left).times(self.u.take(pairs.right)))


class Whole(NamedTuple):
    """Some rows of a layer as quadratic functions, and their ends (N, s)."""

    functions: Quadratic
    ends: Ends


@dataclass(frozen=True, eq=False)
class RemainderSums:
    """Sums of remainders in rows of the next layer.

    Attributes
    ----------
    middle, radius : ndarray, shape (N, n)
        They are in one +- the other.
    quadratic : Quadratic
        Those of some rows.
    convex : ndarray of bool, shape (s,)
        Whether these are sums of squares.
    """

    middle: FloatArray
    radius: FloatArray
    quadratic: Quadratic
    convex: BoolArray


def sums_of(
    found: Remainders, rows: FloatArray, some: IntArray, tangent: bool, unit: float
) -> RemainderSums:
    """Sums of remainders of values, or of tangents, in rows (1, n, h); in some as wholes."""
    pairs = found.stage.pairs
    assert pairs is not None
    own = rows[:, :, pairs.output]
    errors = found.tangents if tangent else found.values
    middle, radius = times(own, errors.middle), times(np.abs(own), errors.radius)
    radius = radius + unit * (np.abs(middle) + times(np.abs(own), np.abs(errors.middle)))
    radius = radius * (1.0 + unit)
    quadratic = (found.of_tangents if tangent else found.of_values).sums(own[:, some])
    low, high = quadratic.range(unit)
    centre, away = centred(low, high, unit)
    less = away < radius[:, some]
    middle[:, some] = np.where(less, centre, middle[:, some])
    radius[:, some] = np.where(less, away, radius[:, some])
    squares = (pairs.left == pairs.right) & (not tangent)
    convex = ((own >= 0.0) & (squares | (own == 0.0))).all(axis=2)[0, some]
    return RemainderSums(middle, radius, quadratic, convex)


@np.errstate(over="ignore", invalid="ignore")  # what overflows says nothing
def with_sums(
    found: Affine, sums: RemainderSums, some: IntArray, inputs: Inputs, unit: float
) -> tuple[Affine, Whole]:
    """Affine functions, which are without remainders, with them; and some as wholes."""
    quadratic = sums.quadratic
    moving = quadratic.linear.shape[-1] > inputs.x.middle.shape[1]
    rows = found.take(some)
    linear, offset = turned(rows, inputs, moving)
    size = np.abs(offset) + np.abs(linear).sum(axis=2) + rows.radius
    whole = Quadratic(
        quadratic.constant + offset,
        quadratic.linear + linear,
        quadratic.matrix,
        quadratic.error + rows.radius,
        quadratic.size + size,
    )
    radius = sums.radius + unit * (np.abs(sums.middle) + np.abs(found.constant))
    both = found.constant + sums.middle, found.radius + radius
    return Affine(found.x, found.v, *both), Whole(whole, whole.extremes(sums.convex, unit))


def remainders_of(stage: Stage, layer: Relaxed, inputs: Inputs, unit: float) -> Remainders | None:
    """Those of a layer with lines.

    None where it has no products, inputs are many, or directions of one box are not single.
    """
    pairs = stage.pairs
    moving = bool(inputs.v.radius.any())
    count = inputs.x.middle.shape[1] + (inputs.v.middle.shape[1] if moving else 0)
    shared = moving and len(inputs.x.middle) < len(inputs.v.middle)
    if pairs is None or count > DIMENSIONS or shared:
        return None
    assert layer.value is not None
    assert layer.change is not None
    n, squares = stage.units_of(stage.bias).size, pairs.squares
    low, high = np.minimum(layer.low, layer.high), layer.high
    middles = 0.5 * (low + high)
    f, reach, bias = middles[:, squares], layer.reach[:, squares], stage.bias[squares]
    away_z = np.maximum(high - middles, middles - low)[:, squares]
    own = 2.0 * f
    middle, radius = layer.tangent[:, squares], layer.tangent_radius[:, squares]
    slope, shift, away = (part.copy() for part in layer.value)
    rate, tilt, drift, spread = (part.copy() for part in layer.change)
    slope[:, squares], rate[:, squares], tilt[:, squares] = own, own, 2.0 * middle
    shift[:, squares] = own * bias - f * f
    away[:, squares] = unit * (f * f + np.abs(own) * reach)
    drift[:, squares] = 2.0 * middle * bias - middle * own
    spread[:, squares] = unit * (
        np.abs(middle) * (2.0 * reach + np.abs(own))
        + np.abs(own) * layer.pace[:, squares]
        + away_z * radius
    )
    most = away_z * away_z * (1.0 + 4.0 * unit)
    turn = 2.0 * away_z * radius * (1.0 + 4.0 * unit)
    values, tangents = Errors(np.zeros_like(most), most), Errors(-turn, turn)
    if stage.products is not None:
        planes = layer.planes
        assert planes is not None
        last = planes.values
        shift[:, n:] -= last.middle
        away[:, n:] -= last.radius
        values = _joined(values, last)
        error = planes.left.middle + planes.right.middle
        drift[:, n:] -= error
        spread[:, n:] -= planes.left.radius + planes.right.radius
        both = Errors(planes.left.low + planes.right.low, planes.left.high + planes.right.high)
        tangents = _joined(tangents, both)
        away[:, n:] += unit * (np.abs(last.middle) + last.radius + np.abs(shift[:, n:]))
        size = np.abs(planes.left.middle) + np.abs(planes.right.middle)
        size = size + planes.left.radius + planes.right.radius + np.abs(drift[:, n:])
        spread[:, n:] += unit * size
    z = Deviations.of(layer.pre, middles, inputs, moving, unit)
    u = None
    if inputs.v.middle.any() or moving:
        u = Deviations.of(layer.pre_tangent, layer.tangent, inputs, moving, unit)
    change = Change(rate, tilt, drift, spread)
    return Remainders(stage, (slope, shift, away), change, values, tangents, z, u)


def _joined(one: Errors, other: Errors) -> Errors:
    return Errors(
        np.concatenate([one.low, other.low], axis=1),
        np.concatenate([one.high, other.high], axis=1),
    )
