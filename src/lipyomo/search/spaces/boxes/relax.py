"""Affine bounds of values and tangents: what is known of every unit on every box.

With z the pre-activations of a layer, h = sigma(z), u the derivatives of z along the direction v
and t = sigma'(z) u, on a box

    h = slope z + middle +- radius,
    t = rate u + tilt z + drift +- spread.

The first is a pair of parallel lines around sigma; the second follows from
``t = (sigma' - rate)(u - u0) + rate u + u0 sigma' - u0 rate`` with u in u0 +- ur, sigma' in
rate +- rr, and lines around sigma'.  Rows of later layers are taken back through these to affine
functions of x and v, whose ranges are ranges of those layers' z and u (back-substitution).

Rounding.  A row X of a later layer becomes ``fl(fl(X slope) W)``; on points of the box that differs
from what it stands for by at most ``unit |X| |slope| reach``, where reach >= |W| |h| + |b| is the
size of all that z is made of, and unit pays for the lengths of all sums of the whole chain
(`Context.unit`).  Terms of tangents are alike with pace >= |W| |t|.  Constants are sums of
``X middle`` and ``|X| radius``, off by unit times the sums of their absolute values.  All these
errors are |X| times a number of the unit: that number is added to `radius` and `spread`, once, and
every row is sound.  The last step is a sum over x and v, whose error is added there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.relaxations.linear.kinds import each_kind
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import Context, Stage
from lipyomo.search.spaces.boxes.inputs import Inputs, Signal, inputs_of, spans, times


@dataclass(frozen=True, eq=False)
class Affine:
    """Functions ``x . X + v . V + c +- r`` of (x, v) in boxes; V is None where v does not matter.

    Attributes
    ----------
    x, v : ndarray, shape (N or 1, n, d)
    constant, radius : ndarray, shape (N, n)
    """

    x: FloatArray
    v: FloatArray | None
    constant: FloatArray
    radius: FloatArray


Lines = tuple[FloatArray, FloatArray, FloatArray]
"""Slope, middle and radius."""


@dataclass(frozen=True, eq=False)
class Relaxed:
    """What is known of a layer's units on N boxes; arrays have the shape (N, n).

    Attributes
    ----------
    low, high : ndarray
        Ends of z.
    tangent, tangent_radius : ndarray
        u is in one +- the other.
    rate, rate_radius : ndarray
        So is sigma'(z).
    reach, pace : ndarray
        Sizes of all that z and u are made of.
    pre, pre_tangent : Affine
        z and u as functions of (x, v).
    bend : tuple of ndarray
        (slope, middle, radius) of sigma'(z).
    value : tuple of ndarray, or None
        The same of h, where a later layer needs it; the bias's part is in the middle.
    change : tuple of ndarray, or None
        (tilt, drift, spread) of t, likewise.
    """

    low: FloatArray
    high: FloatArray
    tangent: FloatArray
    tangent_radius: FloatArray
    rate: FloatArray
    rate_radius: FloatArray
    reach: FloatArray
    pace: FloatArray
    pre: Affine
    pre_tangent: Affine
    bend: Lines
    value: Lines | None = None
    change: Lines | None = None

    @property
    def empty(self) -> BoolArray:
        """Boxes on which z has no room, shape (N,)."""
        return np.asarray((self.low > self.high).any(axis=1))


@dataclass(frozen=True, eq=False)
class Relaxation:
    """What is known of all hidden layers on N boxes.

    Attributes
    ----------
    context : Context
    boxes : Boxes
    directions : (ndarray, ndarray), shape (N, d) each
        Ends of v.  There may be several for one box.
    inputs : Inputs
    layers : list of Relaxed
    """

    context: Context
    boxes: Boxes
    directions: tuple[FloatArray, FloatArray]
    inputs: Inputs
    layers: list[Relaxed]

    @property
    def empty(self) -> BoolArray:
        """Boxes on which a unit has no room, shape (N,)."""
        return np.asarray(np.any([layer.empty for layer in self.layers], axis=0))


def relaxed(
    context: Context, boxes: Boxes, directions: tuple[FloatArray, FloatArray]
) -> Relaxation:
    """All hidden layers on boxes, for directions between two ends (N, d)."""
    unit, inputs = context.unit, inputs_of(context, boxes, *directions)
    found: list[Relaxed] = []
    h, t = inputs.x, inputs.v
    for number, stage in enumerate(context.stages):
        last = number == len(context.stages) - 1
        layer = _layer(context, stage, found, boxes, inputs, (h, t))
        found.append(_with_lines(context, stage, layer, last))
        if not last:
            h, t = _values(stage, found[-1]), _tangents(found[-1], unit)
    return Relaxation(context, boxes, directions, inputs, found)


def _layer(
    context: Context,
    stage: Stage,
    before: Sequence[Relaxed],
    boxes: Boxes,
    inputs: Inputs,
    signals: tuple[Signal, Signal],
) -> Relaxed:
    """Ranges of z and u: from what is known of the layer before, and by back-substitution."""
    unit, (h, t) = context.unit, signals
    reach = h.size @ stage.sizes.T + np.abs(stage.bias) + stage.off
    pace = t.size @ stage.along_sizes.T
    z = h.middle @ stage.weight.T + stage.bias
    z_radius = h.radius @ stage.sizes.T + unit * reach
    u, u_radius = t.middle @ stage.along.T, t.radius @ stage.along_sizes.T + unit * pace
    low, high = z - z_radius, z + z_radius
    if not before:
        one, flat = stage.weight[None], np.zeros((1, *stage.weight.shape))
        pre = Affine(one, None, np.broadcast_to(stage.bias, z.shape), unit * reach)
        pre_tangent = Affine(flat, stage.along[None], 0.0 * u, unit * pace)
        if inputs.row is not None:
            z, z_radius = _range(pre, inputs, unit)
            low, high = np.maximum(low, z - z_radius), np.minimum(high, z + z_radius)
    else:
        pre = _substituted(context, stage, before, inputs, False)
        pre_tangent = _substituted(context, stage, before, inputs, True)
        z, z_radius = _range(pre, inputs, unit)
        low, high = np.maximum(low, z - z_radius), np.minimum(high, z + z_radius)
        alone = len(inputs.x.middle) == 1  # the half-spaces of many take longer than they gain
        within = inputs if alone else inputs._replace(row=None)
        other, other_radius = _range(pre_tangent, within, unit)
        u_low = np.maximum(u - u_radius, other - other_radius)
        u_high = np.minimum(u + u_radius, other + other_radius)
        u, u_radius = _centred(u_low, u_high, unit)
    if stage.broken.size:
        low, high = low.copy(), high.copy()
        low[:, stage.broken] = np.maximum(low[:, stage.broken], boxes.floor[:, stage.phases])
        high[:, stage.broken] = np.minimum(high[:, stage.broken], boxes.ceiling[:, stage.phases])
    none = low > high
    some_low = np.where(none, high, low)
    least, largest = each_kind(stage.kinds, "slope_range", some_low, high)
    rate, rate_radius = _centred(least, largest, unit)
    lines = np.zeros_like(rate), rate, rate_radius  # until better ones are known
    return Relaxed(low, high, u, u_radius, rate, rate_radius, reach, pace, pre, pre_tangent, lines)


def _centred(low: FloatArray, high: FloatArray, unit: float) -> tuple[FloatArray, FloatArray]:
    """``middle +- radius`` around [low, high]."""
    middle = 0.5 * (low + high)
    radius = np.maximum(high - middle, middle - low)
    return middle, np.maximum(radius, 0.0) * (1.0 + unit)


def _with_lines(context: Context, stage: Stage, layer: Relaxed, last: bool) -> Relaxed:
    """The same with lines around sigma and sigma', widened for rounding."""
    unit, one, zero = context.unit, np.ones_like(layer.low), np.zeros_like(layer.low)
    low = np.minimum(layer.low, layer.high)
    bend, under, over = each_kind(stage.kinds, "lines", zero, one, low, layer.high)
    centre, away = _centred(under, over, unit)
    layer = replace(layer, bend=(bend, centre, away))
    if last:
        return layer
    slope, under, over = each_kind(stage.kinds, "lines", one, zero, low, layer.high)
    middle, radius = _centred(under, over, unit)
    shift = slope * stage.bias
    radius = radius + unit * (np.abs(middle) + radius + np.abs(slope) * layer.reach)
    u, ur, rate, rr = layer.tangent, layer.tangent_radius, layer.rate, layer.rate_radius
    tilt, size = u * bend, np.abs(u)
    drift = u * (centre - rate) + tilt * stage.bias
    rounding = size * (np.abs(bend) * layer.reach + np.abs(centre) + away + np.abs(rate) + rr)
    rounding += np.abs(rate) * layer.pace + rr * ur
    change = tilt, drift, size * away + rr * ur + unit * rounding
    return replace(layer, value=(slope, middle + shift, radius), change=change)


def _values(stage: Stage, layer: Relaxed) -> Signal:
    """Ranges of h."""
    low, high = each_kind(stage.kinds, "enclose", np.minimum(layer.low, layer.high), layer.high)
    middle = 0.5 * (low + high)
    radius = np.maximum(high - middle, middle - low)
    return Signal(middle, radius, np.maximum(np.abs(low), np.abs(high)))


def _tangents(layer: Relaxed, unit: float) -> Signal:
    """Ranges of t = sigma'(z) u."""
    u, ur, rate, rr = layer.tangent, layer.tangent_radius, layer.rate, layer.rate_radius
    middle = rate * u
    radius = np.abs(rate) * ur + rr * (np.abs(u) + ur) + unit * np.abs(middle)
    return Signal(middle, radius, (np.abs(middle) + radius) * (1.0 + unit))


def _range(affine: Affine, inputs: Inputs, unit: float) -> tuple[FloatArray, FloatArray]:
    """Middle and radius of affine functions on boxes, the rounding of both included."""
    x, v, row = inputs
    middle = affine.constant + times(affine.x, x.middle)
    down, up = spans(affine.x, inputs, unit)
    radius = up
    if row is not None:
        middle, radius = _centred(middle - down, middle + up, unit)
    radius = affine.radius + radius
    if affine.v is not None:
        middle = middle + times(affine.v, v.middle)
        radius = radius + times(np.abs(affine.v), v.radius)
    return middle, radius


def at(affine: Affine, x: FloatArray, v: FloatArray) -> FloatArray:
    """Affine functions at points (N, d) and directions (N, d), shape (N, n)."""
    found = affine.constant + times(affine.x, x)
    return found if affine.v is None else found + times(affine.v, v)


def _substituted(
    context: Context,
    stage: Stage,
    before: Sequence[Relaxed],
    inputs: Inputs,
    tangent: bool,
) -> Affine:
    """z, or u, of a layer as functions of (x, v)."""
    unit, (x, v, _) = context.unit, inputs
    rows = stage.weight[None]
    X: FloatArray | None = None if tangent else rows  # coefficients of h and of t
    Y: FloatArray | None = rows if tangent else None
    start = np.zeros_like(stage.bias) if tangent else stage.bias
    constant, radius = start, np.zeros_like(stage.bias)
    for place in range(len(before) - 1, -1, -1):
        layer, own = before[place], context.stages[place]
        assert layer.value is not None
        assert layer.change is not None
        (slope, middle, away), (tilt, drift, spread) = layer.value, layer.change
        Z = None
        if X is not None:
            constant = constant + times(X, middle)
            radius = radius + times(np.abs(X), away)
            Z = X * slope[:, None, :]
        if Y is not None:
            constant = constant + times(Y, drift)
            radius = radius + times(np.abs(Y), spread)
            bent = Y * tilt[:, None, :]
            Z = bent if Z is None else Z + bent
            Y = (Y * layer.rate[:, None, :]) @ own.along
        assert Z is not None
        X = Z @ own.weight
    assert X is not None
    size = unit * (times(np.abs(X), x.size) + np.abs(start) + np.abs(constant) + radius)
    if Y is not None:
        size += unit * times(np.abs(Y), v.size)
    return Affine(X, Y, np.asarray(constant), radius + size)
