"""Units of a network at a point, of any kind, in ball arithmetic (Arb): enclosed, not rounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations import Activation, TwoSlope
from lipyomo.networks.layer import Layer, remembered

PRECISION = 128
"""Bits of ball arithmetic: far more than float64 numbers have, so that ends do not lose any."""


class UnitAt(NamedTuple):
    """A unit at a point: what it applies, its pre-activation, its value and its slope there."""

    kind: Activation
    at: arb
    value: arb
    slope: arb


def units_along(layers: Sequence[Layer], point: FloatArray) -> Iterator[list[UnitAt]]:
    """The units of one layer after the other at a point; to be asked with `PRECISION`.

    The point is (d,), or (2, d) for the sum of two rows.
    """
    columns = np.atleast_2d(point).T.tolist()
    h = arb_mat([[sum(map(arb, column), arb(0))] for column in columns])
    for layer in layers:
        z = matrix_of(layer) * h + arb_mat([[value] for value in layer.bias.tolist()])
        kinds: list[Activation] = [
            TwoSlope(left, right)
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
    """The (remembered) weight of a layer, shape (n, k): a search asks at point after point."""
    return arb_mat(layer.units, layer.inputs, layer.dense_weight.reshape(-1).tolist())


def around_ball(value: arb) -> tuple[float, float]:
    """Float64 numbers around a ball."""
    low, high = float(value.lower()), float(value.upper())
    while np.isfinite(low) and not value >= arb(low):
        low = float(np.nextafter(low, -np.inf))
    while np.isfinite(high) and not value <= arb(high):
        high = float(np.nextafter(high, np.inf))
    return low, high
