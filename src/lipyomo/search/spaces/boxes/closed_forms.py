"""Units that pass their argument on: what the general bands find, in closed form.

Networks with products carry many signals past layers.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.numerics.rounding import UNIT
from lipyomo.networks.activations import TwoSlope
from lipyomo.networks.activations.bands import Band
from lipyomo.search.spaces.boxes.stage import Kind, Stage


class Passed(TwoSlope):
    """The identity, with closed forms."""

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
        """``A z + c``, or that about a line of another slope."""
        if slope is None:
            return (A, *(np.broadcast_to(c, np.broadcast_shapes(A.shape, c.shape)),) * 2)
        rest = A - slope
        ends = rest * low, rest * high
        room = 4.0 * UNIT * (np.maximum(np.abs(ends[0]), np.abs(ends[1])) + np.abs(c))
        return slope, np.minimum(*ends) + c - room, np.maximum(*ends) + c + room

    def parabolas(
        self, A: FloatArray, c: FloatArray, low: FloatArray, high: FloatArray, f: FloatArray
    ) -> tuple[FloatArray, ...]:
        """``A z + c``, which is not bent."""
        A, c = np.broadcast_arrays(A, c)
        return A, np.zeros_like(A), c, c


def with_passed(kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    """Kinds of units, with this one in the place of two slopes that are one."""
    return tuple(
        (Passed(1.0, 1.0) if kind == TwoSlope(1.0, 1.0) else kind, units) for kind, units in kinds
    )


def passed_outputs(stage: Stage) -> BoolArray:
    """Which of a stage's outputs are the rows of their units."""
    units = np.zeros(stage.units_of(stage.bias).size, dtype=bool)
    for kind, which in stage.kinds:
        if isinstance(kind, Passed):
            units[which] = True
    others = 0 if stage.products is None else stage.products.left.size
    return np.concatenate([units, np.zeros(others, dtype=bool)])
