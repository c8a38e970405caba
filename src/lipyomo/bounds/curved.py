"""Pre-activation bounds of networks with smooth units: intervals, then linear ones.

On the range of its pre-activation every unit lies in a band between parallel lines,

    h = slope z + middle +- radius,

so that rows of a later layer are taken back, layer by layer, to affine functions of the inputs
(back-substitution; Zhang et al., 2018).

Rounding.  A row of a later layer becomes ``fl(fl(X slope) W)``; on points of the domain that
differs from what it stands for by at most ``unit |X| |slope| reach``, where reach >= |W| |h| + |b|
and unit pays for the lengths of all sums of the chain.  Constants are sums of ``X middle`` and
``|X| radius``, off by unit times the sums of their absolute values.  Both are |X| times a number of
the unit, which is added to its radius; the last sum, over the inputs, pays for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from lipyomo.bounds.interval import interval_range
from lipyomo.bounds.kinds import each_kind, kinds_of
from lipyomo.network import FloatArray, Layer
from lipyomo.numerics.rounding import UNIT, gamma


class Area(Protocol):
    """The inputs: one box, or what of it lies inside a domain."""

    @property
    def lower(self) -> FloatArray:
        """Lower ends, shape (1, d)."""

    @property
    def upper(self) -> FloatArray:
        """Upper ends, shape (1, d)."""

    def support(self, rows: FloatArray) -> FloatArray:
        """Largest values of functionals (1, r, d), shape (1, r)."""


class _Band(NamedTuple):
    """``slope z + middle +- radius`` holds the outputs of a layer's units; arrays (n,)."""

    slope: FloatArray
    middle: FloatArray
    radius: FloatArray


def curved_bounds(
    layers: Sequence[Layer], over: Area, linear: bool
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Lower and upper bounds of the pre-activations of each layer.

    Parameters
    ----------
    layers : sequence of Layer
    over : Area
        Its ends may be infinite, without `linear`.
    linear : bool
        Whether to substitute back; otherwise intervals only.

    Returns
    -------
    lower, upper : list of ndarray, shapes (n_i,)
        They hold in real arithmetic.
    """
    operations = sum(layer.units + layer.inputs for layer in layers) + 8 * len(layers)
    unit = gamma(operations)
    low, high = over.lower[0], over.upper[0]
    bands: list[_Band] = []
    lower, upper = [], []
    for i, layer in enumerate(layers):
        with np.errstate(invalid="ignore"):  # zero weights times infinite ends
            reach = layer.sizes @ np.maximum(np.abs(low), np.abs(high)) + np.abs(layer.bias)
        least, most = (side[0] for side in interval_range(layer, low[None], high[None]))
        linear = linear and bool(np.isfinite(reach).all())
        if linear:
            down, up = _substituted(layers[: i + 1], bands, over, unit)
            least, most = np.maximum(least, down), np.minimum(most, up)
            most = np.maximum(least, most)  # an empty domain: both hold
        lower.append(least)
        upper.append(most)
        low, high = output_ranges(layer, least, most)
        if linear:
            bands.append(_band(layer, (least, most), reach, unit))
    return lower, upper


def output_ranges(layer: Layer, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ranges of the units' outputs for pre-activations in [low, high], shapes (n,)."""
    least, most = each_kind(kinds_of(layer), "enclose", low, high)
    return np.asarray(least), np.asarray(most)


def _band(
    layer: Layer, ends: tuple[FloatArray, FloatArray], reach: FloatArray, unit: float
) -> _Band:
    """The band of each unit, as a function of ``W h``, widened for rounding."""
    one, zero = np.ones(layer.units), np.zeros(layer.units)
    slope, under, over = each_kind(kinds_of(layer), "lines", one, zero, *ends)
    middle = 0.5 * (under + over)
    radius = np.maximum(over - middle, middle - under) * (1.0 + UNIT)
    radius = radius + unit * (np.abs(middle) + radius + np.abs(slope) * reach)
    return _Band(np.asarray(slope), np.asarray(middle + slope * layer.bias), np.asarray(radius))


def _substituted(
    layers: Sequence[Layer], bands: Sequence[_Band], over: Area, unit: float
) -> tuple[FloatArray, FloatArray]:
    """Bounds of the last layer's pre-activations by the bands of those before."""
    rows = layers[-1].dense_weight
    constant = start = layers[-1].bias
    radius = np.zeros(len(rows))
    for layer, band in zip(reversed(layers[:-1]), reversed(bands), strict=True):
        constant = constant + rows @ band.middle
        radius = radius + np.abs(rows) @ band.radius
        rows = np.asarray((rows * band.slope) @ layer.weight)
    size = np.abs(rows) @ np.maximum(np.abs(over.lower[0]), np.abs(over.upper[0]))
    radius = radius + unit * (np.abs(start) + np.abs(constant) + radius + size)
    most = over.support(np.concatenate([rows, -rows])[None])[0]
    count = len(rows)
    return constant - radius - most[count:], constant + radius + most[:count]
