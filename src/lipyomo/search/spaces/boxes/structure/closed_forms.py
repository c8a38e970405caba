"""Identity units, whose relaxations are given in closed form instead of by the general bands.

Networks with products have many of them, which carry signals past layers.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.numerics.rounding import UNIT
from lipyomo.networks.activations import TwoSlope
from lipyomo.networks.activations.bands import Band
from lipyomo.search.spaces.boxes.structure.stage import Stage


class Passed(TwoSlope):
    """The identity, with its bounds in closed form."""

    def value(self, z: FloatArray) -> FloatArray:
        """The argument."""
        return z

    def slope(self, z: FloatArray) -> FloatArray:
        """One."""
        return np.ones_like(z)

    def curvature(self, z: FloatArray) -> FloatArray:
        """Zero."""
        return np.zeros_like(z)

    def enclose(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The interval itself."""
        return low, high

    def slope_range(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """One."""
        return np.ones_like(low), np.ones_like(high)

    def lines(
        self,
        A: FloatArray,
        c: FloatArray,
        low: FloatArray,
        high: FloatArray,
        slope: FloatArray | None = None,
    ) -> Band:
        """``A z + c`` itself, or its offsets from lines of another given slope."""
        if slope is None:
            return (A, *(np.broadcast_to(c, np.broadcast_shapes(A.shape, c.shape)),) * 2)
        rest = A - slope
        ends = rest * low, rest * high
        room = 4.0 * UNIT * (np.maximum(np.abs(ends[0]), np.abs(ends[1])) + np.abs(c))
        return slope, np.minimum(*ends) + c - room, np.maximum(*ends) + c + room

    def parabolas(
        self, A: FloatArray, c: FloatArray, low: FloatArray, high: FloatArray, f: FloatArray
    ) -> tuple[FloatArray, ...]:
        """``A z + c``, with no curvature."""
        A, c = np.broadcast_arrays(A, c)
        return A, np.zeros_like(A), c, c


def passed_outputs(stage: Stage) -> BoolArray:
    """Return which outputs of a stage equal their pre-activations; products never count."""
    units = np.zeros(stage.units_of(stage.bias).size, dtype=bool)
    for kind, which in stage.kinds:
        if isinstance(kind, Passed):
            units[which] = True
    others = 0 if stage.products is None else stage.products.left.size
    return np.concatenate([units, np.zeros(others, dtype=bool)])
