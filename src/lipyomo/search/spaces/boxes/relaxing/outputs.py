"""Ranges of the outputs of a layer."""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import IntArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.relaxing.inputs import Signal
from lipyomo.search.spaces.boxes.relaxing.normalised import Normalised
from lipyomo.search.spaces.boxes.relaxing.planes import with_products
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxed
from lipyomo.search.spaces.boxes.structure.stage import Stage


def output_signals(
    stage: Stage, layer: Relaxed, rooted: Normalised | None, unit: float
) -> tuple[Signal, Signal]:
    """Compute ranges of h and t of all outputs.

    Parameters
    ----------
    stage : Stage
    layer : Relaxed
    rooted : Normalised, optional
        Bounds for the inverse roots of the layer.
    unit : float
    """
    tangents = _tangents(stage, layer, unit)
    if stage.roots is not None and rooted is not None:
        tangents = _within(tangents, stage.roots.units, rooted.roots, unit)
    units = _values(stage, layer), tangents
    return units if stage.products is None else with_products(stage, layer, unit, units)


def _values(stage: Stage, layer: Relaxed) -> Signal:
    """Compute ranges of the units' h."""
    low, high = stage.each("enclose", np.minimum(layer.low, layer.high), layer.high)
    middle = 0.5 * (low + high)
    radius = np.maximum(high - middle, middle - low)
    return Signal(middle, radius, np.maximum(np.abs(low), np.abs(high)))


def _tangents(stage: Stage, layer: Relaxed, unit: float) -> Signal:
    """Compute ranges of the units' t = sigma'(z) u."""
    some = layer if stage.products is None else layer.units(stage.products.units)
    u, ur, rate, rr = some.tangent, some.tangent_radius, some.rate, some.rate_radius
    middle = rate * u
    radius = np.abs(rate) * ur + rr * (np.abs(u) + ur) + unit * np.abs(middle)
    return Signal(middle, radius, (np.abs(middle) + radius) * (1.0 + unit))


def _within(signal: Signal, some: IntArray, ends: Ends, unit: float) -> Signal:
    """Intersect some of the ranges with others."""
    low, high = signal.middle - signal.radius, signal.middle + signal.radius
    low[:, some] = np.fmax(low[:, some], ends[0])
    high[:, some] = np.fmin(high[:, some], ends[1])
    return Signal.between(low, np.maximum(low, high), unit)
