"""Hyperbolic tangent.

With e = exp(-2 |z|), exact but for the exponential: sigma' = 4 e / (1 + e)**2, never 1 - tanh**2,
so that it keeps its relative precision far out.  sigma'' = -2 t sigma', and
sigma''' = (6 t**2 - 2) sigma'.
Relative errors: t 8 u; e 8 u, 1 + e and its square 20 u at most, together 24 u for sigma'; 40 u for
sigma''; sigma''' likewise, and 64 u absolute where 6 t**2 - 2 cancels.
Turning points: sigma' at 0, sigma'' at t**2 = 1/3, sigma''' at 0 and t**2 = 2/3.
Bands are those of `lipyomo.networks.activations.cubic`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations.activation import Activation, Slope
from lipyomo.networks.activations.bands import Band
from lipyomo.networks.activations.branch import Branch, Turn, exact_turn
from lipyomo.networks.activations.cubic import tanh_band
from lipyomo.networks.activations.derived import Derivative
from lipyomo.networks.activations.elementary import exp, tanh
from lipyomo.networks.activations.hyperbolic import TanhFamily
from lipyomo.networks.activations.registry import known_as
from lipyomo.networks.activations.rounding import error
from lipyomo.networks.activations.samples import Cut
from lipyomo.networks.activations.sums import Sums

INFLECTION = math.log(2.0 + math.sqrt(3.0)) / 2.0
"""artanh(1 / sqrt 3)."""

STEEPEST = 4.0 / (3.0 * math.sqrt(3.0))
"""The value of sigma'' at minus the former."""

OUTER = math.log(math.sqrt(3.0) + math.sqrt(2.0))
"""artanh(sqrt(2 / 3)), where sigma''' is 2/3."""


@dataclass(frozen=True)
class TanhBranch(Branch):
    """tanh on R."""

    whole = True
    turns = (
        (),
        (exact_turn(0.0, 1.0),),
        (Turn(-INFLECTION, STEEPEST), Turn(INFLECTION, -STEEPEST)),
        (Turn(-OUTER, 2 / 3), exact_turn(0.0, -2.0), Turn(OUTER, 2 / 3)),
    )
    tails = ((-1.0, 1.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))
    errors = (error(8), error(24), error(40), error(40, 64))

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Value and derivatives up to `order` at finite `z`."""
        t = tanh(z)
        if order == 0:
            return (t,)
        e = exp(-2.0 * np.abs(z))
        d = 1.0 + e
        slope = 4.0 * e / (d * d)
        if order == 1:
            return t, slope
        found = t, slope, -2.0 * t * slope
        return found if order == 2 else (*found, (6.0 * t * t - 2.0) * slope)

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        return z.tanh(), z.sech() ** 2


@known_as("tanh")
@dataclass(frozen=True)
class Tanh(Activation):
    """``tanh z``."""

    name = "tanh"
    reflection = (-1.0, 0.0)
    branches = (TanhBranch(),)

    @property
    def derivative(self) -> Slope:
        """``1 - tanh**2``."""
        return Slope(1.0, Derivative(TanhFamily(), 1))

    def _band(self, cut: Cut, sums: Sums) -> Band:
        """By the roots of a cubic."""
        return tanh_band(sums)
