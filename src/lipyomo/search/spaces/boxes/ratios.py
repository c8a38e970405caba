"""Ranges of the tangents of powers: ``(z^p)' u = p z^p (u / z)``, for z > 0.

An inverse root is steep where its argument is small; but there that argument hardly moves: a mean
square v and its derivative v' are small together.  The ratio u / z has a narrow range where both
have wide ones, as for any number k

    u / z <= k + max(u - k z) / z,

and u - k z is bounded as one function of the inputs, in which much of u and of z cancels out.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.ranges import Ends, range_product
from lipyomo.networks.activations import Power
from lipyomo.search.spaces.boxes.inputs import Affine, Inputs, Signal, spans, times
from lipyomo.search.spaces.boxes.relaxation import Relaxed
from lipyomo.search.spaces.boxes.stacked import Quadratics
from lipyomo.search.spaces.boxes.stage import Stage

ROUNDS = 2
"""The first bound of a ratio is the k of the second one; more hardly gain."""


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what overflows says nothing
def with_ratios(
    stage: Stage, layer: Relaxed, tangents: Signal, inputs: Inputs, unit: float
) -> Signal:
    """Tangents of a layer's units, those of powers by ratios where these are narrower."""
    low, high = tangents.middle - tangents.radius, tangents.middle + tangents.radius
    for activation, units in stage.powers:
        power = activation.true
        assert isinstance(power, Power)
        z = np.minimum(layer.low, layer.high)[:, units], layer.high[:, units]
        value = activation.enclose(*z)
        ratio = _ratio(stage, layer, units, z, inputs, unit)
        ends = range_product(value, ratio)
        ends = range_product((power.exponent * np.ones(1),) * 2, ends)
        room = 8.0 * unit * np.maximum(np.abs(ends[0]), np.abs(ends[1]))
        some = z[0] > 0.0
        low[:, units] = np.where(some, np.fmax(low[:, units], ends[0] - room), low[:, units])
        high[:, units] = np.where(some, np.fmin(high[:, units], ends[1] + room), high[:, units])
    return Signal.between(low, np.maximum(low, high), unit)


def _ratio(
    stage: Stage, layer: Relaxed, units: slice | IntArray, z: Ends, inputs: Inputs, unit: float
) -> Ends:
    """Ends of u / z, for z > 0 between its ends."""
    low, high = z
    u, ur = layer.tangent[:, units], layer.tangent_radius[:, units]
    pre, along = layer.pre.take(units), layer.pre_tangent.take(units)
    sizes = (
        layer.reach[:, units] + _size(pre, inputs),
        layer.pace[:, units] + np.abs(u) + ur + _size(along, inputs),
    )
    wholes = wholes_of(stage, layer, units)
    found = []
    for sign in (1.0, -1.0):
        top = sign * u + ur
        best = np.where(top > 0.0, top / low, top / high)
        k = sign * u / (0.5 * (low + high))
        for _ in range(ROUNDS):
            s, rate = -k, np.full_like(k, sign)
            above = _largest(pre, along, s, rate, inputs)
            if wholes is not None:
                above = np.fmin(above, _highest(*wholes, s, rate, unit))
            above = above + 8.0 * unit * (sizes[1] + np.abs(k) * sizes[0] + np.abs(above))
            k = k + np.where(above > 0.0, above / low, above / high)
            best = np.fmin(best, k)
            k = np.where(np.isfinite(best), best, 0.0)
        found.append(best + 8.0 * unit * np.abs(best))
    return -found[1], found[0]


def wholes_of(
    stage: Stage, layer: Relaxed, units: slice | IntArray
) -> tuple[Quadratics, Quadratics] | None:
    """Units' z and u as quadratic functions, if all of them are."""
    numbers = np.arange(stage.bias.size)[units]
    if layer.wholes is None or not np.isin(numbers, stage.whole.fresh).all():
        return None
    place = np.searchsorted(stage.whole.fresh, numbers)
    source, scale = stage.whole.source[place], stage.whole.scale[place]
    z, u = (one.take(source).stacked().times(scale[None]) for one in layer.wholes)
    return z, u


def _highest(
    z: Quadratics, u: Quadratics, s: FloatArray, rate: FloatArray, unit: float
) -> FloatArray:
    """Maxima of ``s z + rate u``, as wholes."""
    found = z.times(s).plus(u.times(rate))
    return found.below(unit).top


def _size(affine: Affine, inputs: Inputs) -> FloatArray:
    """Sums of absolute values of what functions are made of."""
    found = times(np.abs(affine.x), inputs.x.size) + np.abs(affine.constant) + affine.radius
    if affine.v is not None:
        found = found + times(np.abs(affine.v), inputs.v.size)
    return np.asarray(found)


def _largest(
    pre: Affine, along: Affine, s: FloatArray, rate: FloatArray, inputs: Inputs
) -> FloatArray:
    """Maxima of ``s z + rate u`` on boxes, but for rounding of their sums."""
    x, v = inputs.x, inputs.v
    rows = s[:, :, None] * pre.x + rate[:, :, None] * along.x
    found = s * pre.constant + rate * along.constant + times(rows, x.middle)
    found = found + np.abs(s) * pre.radius + np.abs(rate) * along.radius
    found = found + spans(rows, inputs._replace(row=None), 0.0)[1]
    for affine, share in ((pre, s), (along, rate)):
        if affine.v is not None:
            turned = share[:, :, None] * affine.v
            found = found + times(turned, v.middle) + times(np.abs(turned), v.radius)
    return np.asarray(found)
