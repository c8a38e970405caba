"""Confine units of unbounded slope to the ranges of their arguments over a domain.

The domain is enclosed in boxes.  On each box every layer is enclosed in an affine function of the
inputs with an error, and in an interval.  A unit is enclosed between lines on the proved range of
its argument, the intersection of the two.  The units of one function in a layer are confined to one
interval, which contains all their ranges on all boxes.  If a function is singular there, or too
steep, the boxes are bisected and the ranges recomputed, unless points of the boxes lead there:
then smaller boxes do not help.

Rounding.  Rounding errors of sums of products and of the units' lines are bounded by `gamma` of the
number of all operations so far times the sum of the absolute terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.errors import NetworkError, ProblemError
from lipyomo.base.numerics.ranges import mean, mean_size, size
from lipyomo.base.numerics.rounding import UNDERFLOW, gamma
from lipyomo.base.numerics.split import SplitMatrix
from lipyomo.networks.activations import Activation, TwoSlope, Unbounded
from lipyomo.networks.gates import AffineRows, Gates, gated_sums
from lipyomo.networks.layer import square_pairs
from lipyomo.networks.network import Curve, Layer, Network
from lipyomo.problems.domains import Domain

SOME_NUMBERS = 2e5
"""Limit of boxes times inputs times units for a first subdivision of the domain, which narrows the
ranges within some hundredths of a second."""

MOST_NUMBERS = 2e7
"""Limit of the same product for further subdivisions while ranges are not proved."""


def confined(network: Network, domain: Domain) -> Network:
    """Return a network with bounded slopes that is the same function on a domain.

    Parameters
    ----------
    network : Network
        If it is confined over another domain already, that is ignored.
    domain : Domain

    Returns
    -------
    Network
        `network` itself if all slopes are bounded.

    Raises
    ------
    ProblemError
        If it cannot be proved that a unit's argument stays where its function is smooth.
    """
    if not network.needs_ranges:
        return network
    boxes = np.stack([domain.lower, domain.upper])[:, None, :]
    bounded, each = np.isfinite(boxes).all(), sum(network.sizes) * network.input_dim
    while bounded and 2 * boxes.shape[1] * each <= SOME_NUMBERS:
        boxes = _halved(boxes)
    gated = [None, *(_gated(*both) for both in pairwise(network.hidden))]
    while True:
        found, refused = _confined_on(network, gated, boxes)
        if refused is None:
            return network.with_layers(found)
        if (
            not bounded
            or 2 * boxes.shape[1] * each > MOST_NUMBERS
            or _leads_to_poles(network, boxes)
        ):
            where = "" if bounded else "; the domain is unbounded"
            remedy = "a smaller domain" if bounded else "a bounded domain"
            raise ProblemError(f"{refused}{where}.  Remedy: {remedy}, or cut the network before it")
        boxes = _halved(boxes)


def _leads_to_poles(network: Network, boxes: FloatArray) -> bool:
    """Return whether points of the boxes lead to a pole, or where a unit's slope is unbounded."""
    values = np.concatenate([*boxes, 0.5 * boxes[0] + 0.5 * boxes[1]])
    with np.errstate(all="ignore"):
        for layer in network.hidden:
            curves = [Curve(curve.activation.true, curve.units) for curve in layer.curves]
            true = Layer(layer.weight, layer.bias, layer.left, layer.right, curves)
            z = true.preactivation(values)
            if not np.isfinite(z).all():
                return False
            try:
                for curve in curves:
                    _curve(curve, z[:, curve.units], z[:, curve.units])
            except NetworkError:
                return True
            values = true.activate(z)
    return False


def _halved(boxes: FloatArray) -> FloatArray:
    """Bisect each of the boxes (2, N, d) along its widest side."""
    low, high = boxes
    every = np.arange(len(low))
    side = np.argmax(high - low, axis=1)
    middle = 0.5 * low[every, side] + 0.5 * high[every, side]
    below, above = high.copy(), low.copy()
    below[every, side] = above[every, side] = middle
    return np.stack([np.concatenate([low, above]), np.concatenate([below, high])])


class _Signal(NamedTuple):
    """Enclosures on N boxes: ``map t + middle +- error``, t in [-1, 1]^d, and [low, high].

    Shapes (N, n, d) and (N, n).
    """

    map: FloatArray
    middle: FloatArray
    error: FloatArray
    low: FloatArray
    high: FloatArray


def _start(boxes: FloatArray) -> _Signal:
    """Return the inputs' enclosure; infinite sides have an infinite error."""
    low, high = boxes
    with np.errstate(invalid="ignore"):  # infinite sides
        middle, radius = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    open_ = ~(np.isfinite(low) & np.isfinite(high))
    middle, radius = np.where(open_, 0.0, middle), np.where(open_, 0.0, radius)
    error = np.where(open_, np.inf, gamma(2) * np.maximum(np.abs(low), np.abs(high)))
    return _Signal(np.eye(low.shape[1]) * radius[:, None, :], middle, error, low, high)


def _confined_on(
    network: Network, gated: Sequence[_Gated | None], boxes: FloatArray
) -> tuple[Sequence[Layer], str | None]:
    """Return the layers with confined units, or () and the reason of a failure."""
    signal, layers, operations = _start(boxes), [], network.input_dim
    earlier: _Signal | None = None
    last = max(position for position, layer in enumerate(network.hidden) if layer.needs_ranges)
    with np.errstate(all="ignore"):
        for position, layer in enumerate(network.hidden[: last + 1]):
            operations += layer.inputs + 16
            z = _affine(layer, signal, gamma(operations))
            sums = gated[position]
            if sums is not None and earlier is not None:
                z = _between(sums, earlier, z, gamma(operations))
            try:
                curves = [
                    _curve(curve, z.low[:, curve.units], z.high[:, curve.units])
                    for curve in layer.curves
                ]
            except NetworkError as refused:
                return (), f"layer {position} of the network: {refused}"
            flat = [part for parts in curves for part in parts]
            bounded = Layer(layer.weight, layer.bias, layer.left, layer.right, flat)
            layers.append(bounded)
            if position < last:
                earlier = signal
                signal = _activated(bounded, z, gamma(operations))
    return (*layers, *network.layers[last + 1 :]), None


def _affine(layer: Layer, h: _Signal, unit: float) -> _Signal:
    """Return the enclosure of a layer's pre-activations."""
    weight, sizes = layer.dense_weight, np.abs(layer.dense_weight)
    low, high = SplitMatrix.of(weight).range(h.low, h.high, layer.bias)
    low, high = low - UNDERFLOW, high + UNDERFLOW
    map_ = weight @ h.map
    middle = h.middle @ weight.T + layer.bias
    span = np.abs(h.map).sum(axis=-1)
    terms = _times(span + np.abs(h.middle) + h.error, sizes) + np.abs(layer.bias)
    error = _times(h.error, sizes) + unit * terms + UNDERFLOW
    radius = np.abs(map_).sum(axis=-1) * (1.0 + unit) + error
    low, high = np.fmax(low, middle - radius), np.fmin(high, middle + radius)
    return _Signal(map_, middle, error, low, high)


class _Gated(NamedTuple):
    """Gated sums of a layer, and their gates as affine functions of the preceding inputs."""

    gates: Gates
    weight: FloatArray
    bias: FloatArray


def _gated(before: Layer, layer: Layer) -> _Gated | None:
    """Detect the gated sums of a layer behind another one; None if there are none."""
    pairs = square_pairs(before, layer.dense_weight)
    if not pairs:
        return None
    sums, differences = np.array(pairs, dtype=np.intp).T
    singles = np.setdiff1d(np.arange(before.units), np.concatenate([sums, differences]))
    rows, bias = before.dense_weight, before.bias
    first, second = (
        AffineRows(rows[sums] + sign * rows[differences], bias[sums] + sign * bias[differences])
        for sign in (1.0, -1.0)
    )
    after = AffineRows(layer.dense_weight[:, np.concatenate([singles, sums])], layer.bias)
    passed = ~before.curved & (before.left == 1.0) & (before.right == 1.0)
    gates = gated_sums(
        after, AffineRows(rows[singles], bias[singles]), passed[singles], first, second
    )
    if gates is None:
        return None
    k, scale = gates.products, gates.scale
    weight = np.where(gates.second[:, None], second.weight[k], first.weight[k])
    own = np.where(gates.second, second.bias[k], first.bias[k])
    return _Gated(gates, weight * scale[:, None], own * scale)


def _between(gated: _Gated, h: _Signal, z: _Signal, unit: float) -> _Signal:
    """Intersect gated sums with the hull of the two values that the gate interpolates.

    `h` encloses the outputs of the last layer but one.
    """
    gates, rows = gated.gates, gated.gates.rows
    parts = (gated.weight, gated.bias), *zip(gates.weights, gates.biases, strict=True)
    share, *values = ((one.low, one.high) for one in (_affine(Layer(*p), h, unit) for p in parts))
    low, high = mean(share, *values)
    room = 8.0 * unit * mean_size(share, *values)
    for sizes, shifts in zip(gates.sizes, gates.bias_sizes, strict=True):  # of rounded weights
        lost = unit * (_times(size((h.low, h.high)), sizes) + shifts)
        room = room + (1.0 + size(share)) * lost
    low_z, high_z = z.low.copy(), z.high.copy()
    low_z[:, rows] = np.fmax(low_z[:, rows], low - room)
    high_z[:, rows] = np.fmin(high_z[:, rows], high + room)
    return z._replace(low=low_z, high=high_z)


def _times(values: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return ``values @ sizes.T``, with zero times infinity equal to zero."""
    if np.isfinite(values).all():
        return np.asarray(values @ sizes.T)
    return np.asarray(np.where(sizes == 0.0, 0.0, values[:, None, :] * sizes).sum(axis=-1))


def _curve(curve: Curve, low: FloatArray, high: FloatArray) -> list[Curve]:
    """Confine the units of a curve; units on the two sides of a pole form two curves.

    Their arguments, on N boxes or points, lie between `low` and `high` of shape (N, n).
    """
    kind = curve.activation.true
    if not isinstance(kind, Unbounded):
        return [curve]
    low, high = low.min(axis=0), high.max(axis=0)
    found = []
    if len(kind.pieces) > 1:  # of several pieces each unit is on one
        left = high < kind.pieces[0].high
        sides: list[BoolArray] = [side for side in (left, ~left) if side.any()]
    else:
        sides = [np.ones(low.size, dtype=bool)]
    for side in sides:
        own = kind.on(float(low[side].min()), float(high[side].max()))
        found.append(Curve(own, curve.units[side]))
    return found


def _activated(layer: Layer, z: _Signal, unit: float) -> _Signal:
    """Return the enclosure of the units' outputs."""
    slope, under, over, low, high = (np.empty_like(z.low) for _ in range(5))
    first, last = np.minimum(z.low, z.high), z.high
    kinds: list[tuple[Activation, IntArray]] = [
        (curve.activation, curve.units) for curve in layer.curves
    ]
    rest = np.flatnonzero(~layer.curved)
    pairs = np.stack([layer.left[rest], layer.right[rest]], axis=1)
    for pair in np.unique(pairs, axis=0):
        kinds.append((TwoSlope(*pair.tolist()), rest[(pairs == pair).all(axis=1)]))
    for activation, units in kinds:
        ends = first[:, units], last[:, units]
        known = np.isfinite(ends[0]) & np.isfinite(ends[1])
        inner = [np.where(known, end, 0.0) for end in ends]
        s, lo, hi = activation.lines(np.ones(1), np.zeros(1), *inner)
        low[:, units], high[:, units] = activation.enclose(*ends)
        slope[:, units] = np.where(known, s, 0.0)
        under[:, units] = np.where(known, lo, low[:, units])
        over[:, units] = np.where(known, hi, high[:, units])
    shift = 0.5 * under + 0.5 * over
    away = np.maximum(over - shift, shift - under)
    map_ = slope[..., None] * z.map
    middle = slope * z.middle + shift
    error = np.where(slope == 0.0, 0.0, np.abs(slope) * z.error) + away
    sizes = np.abs(map_).sum(axis=-1) + np.abs(slope * z.middle) + np.abs(shift) + error
    return _Signal(map_, middle, error + unit * sizes, low, high)
