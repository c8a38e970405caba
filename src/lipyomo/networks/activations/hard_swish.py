"""HardSwish: ``z`` above 3, zero below -3, ``z (z + 3) / 6`` between, with jumps of the slope.

A few operations each: the value is off by 4 u relative (z + 3 by 1 u), the slope (2 z + 3) / 6 by
3 u relative, the curvature 1/3 by 1 u.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations.activation import Activation, known_as
from lipyomo.networks.activations.branch import Branch, exact_turn
from lipyomo.networks.activations.rounding import EXACT, error
from lipyomo.networks.activations.two_slope import Linear


@dataclass(frozen=True)
class HardSwishBranch(Branch):
    """``z (z + 3) / 6`` on [-3, 3]."""

    low = -3.0
    high = 3.0
    whole = True
    turns = ((exact_turn(-1.5, -0.375),), (), (), ())
    tails = ((0.0, 3.0), (-0.5, 1.5), (1.0 / 3.0, 1.0 / 3.0), (0.0, 0.0))
    errors = (error(8), error(8), error(4), EXACT)

    def extent(self, order: int) -> tuple[float, float]:
        """As `Branch.extent`; a third is rounded."""
        low, high = super().extent(order)
        return (np.nextafter(low, 0.0), np.nextafter(high, 1.0)) if order == 2 else (low, high)

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        value, slope = z * (z + 3.0) / 6.0, (2.0 * z + 3.0) / 6.0
        return (value, slope, np.full_like(z, 1.0 / 3.0), np.zeros_like(z))[: order + 1]

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        return z * (z + 3) / 6, (2 * z + 3) / 6


@known_as("hard_swish")
@dataclass(frozen=True)
class HardSwish(Activation):
    """``z min(max(z + 3, 0), 6) / 6``."""

    name = "hard_swish"
    reflection = (1.0, -1.0)
    branches = (Linear(0.0, high=-3.0), HardSwishBranch(), Linear(1.0, low=3.0))
