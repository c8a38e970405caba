"""Units of any kind at a point, enclosed by ball arithmetic (Arb)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat

from lipyomo.base.arrays import FloatArray
from lipyomo.networks import activations
from lipyomo.networks.activations import Activation
from lipyomo.networks.layer import Layer, remembered

PRECISION = 128
"""Bits of ball arithmetic: far more than in float64 numbers, so that no float64 digits are lost."""


class UnitAt(NamedTuple):
    """A unit at a point: its activation, pre-activation, value and slope."""

    kind: Activation
    at: arb
    value: arb
    slope: arb


def units_along(layers: Sequence[Layer], point: FloatArray) -> Iterator[list[UnitAt]]:
    """Yield the units of one layer after the other at a point; call it with `PRECISION` bits.

    The point is (d,), or (2, d) for the sum of two rows.
    """
    columns = np.atleast_2d(point).T.tolist()
    h = arb_mat([[sum(map(arb, column), arb(0))] for column in columns])
    for layer in layers:
        z = matrix_of(layer) * h + arb_mat([[value] for value in layer.bias.tolist()])
        kinds: list[Activation] = [
            activations.TwoSlope(left, right)
            for left, right in zip(layer.left.tolist(), layer.right.tolist(), strict=True)
        ]
        for curve in layer.curves:
            for k in curve.units.tolist():
                kinds[k] = curve.activation
        units = [UnitAt(kind, z[k, 0], *kind.exact(z[k, 0])) for k, kind in enumerate(kinds)]
        yield units
        h = arb_mat([[unit.value] for unit in units])


@remembered
def matrix_of(layer: Layer) -> arb_mat:
    """Return the weight of a layer, shape (n, k); it is cached, as searches use many points."""
    return arb_mat(layer.units, layer.inputs, layer.dense_weight.reshape(-1).tolist())


def around_ball(value: arb) -> tuple[float, float]:
    """Return float64 numbers that enclose a ball."""
    low, high = float(value.lower()), float(value.upper())
    while np.isfinite(low) and not value >= arb(low):
        low = float(np.nextafter(low, -np.inf))
    while np.isfinite(high) and not value <= arb(high):
        high = float(np.nextafter(high, np.inf))
    return low, high
