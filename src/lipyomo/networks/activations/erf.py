"""The error function.

sigma' = 2 / sqrt pi exp(-z**2) is off by (12 + z**2) u, as the argument is rounded: 24 u relative
and 1 u absolute.  sigma'' = -2 z sigma', sigma''' = (4 z**2 - 2) sigma'.  As
z**2 exp(-z**2) <= 0.37 and z**4 exp(-z**2) <= 0.55, absolute errors of 8 u and 32 u cover the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations.activation import Activation, Slope, known_as
from lipyomo.networks.activations.branch import Branch, Turn
from lipyomo.networks.activations.derived import Derivative
from lipyomo.networks.activations.elementary import erf, exp
from lipyomo.networks.activations.families import BellFamily
from lipyomo.networks.activations.rounding import FARTHEST, error


@dataclass(frozen=True)
class ErfBranch(Branch):
    """erf on R."""

    tails = ((-1.0, 1.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))
    errors = (error(8), error(24, 1), error(24, 8), error(24, 32))

    @property
    def family(self) -> BellFamily:
        """The derivatives, which are polynomials times a bell curve."""
        return BellFamily("erf", self, 1, (1,), 2)

    @cached_property
    def turns(self) -> tuple[tuple[Turn, ...], ...]:
        """Turning points, for the value and three derivatives."""
        return (), *(self.family.turns(order) for order in (1, 2, 3))

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        value = erf(z)
        if order == 0:
            return (value,)
        x = np.clip(z, -FARTHEST, FARTHEST)
        square = x * x
        slope = exp(-square) * (2.0 / np.sqrt(np.pi))
        return (value, slope, -2.0 * x * slope, (4.0 * square - 2.0) * slope)[: order + 1]

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        return z.erf(), 2 * (-z * z).exp() / arb.pi().sqrt()


@known_as("erf")
@dataclass(frozen=True)
class Erf(Activation):
    """``erf z``."""

    name = "erf"
    reflection = (-1.0, 0.0)
    branches = (ErfBranch(),)

    @property
    def derivative(self) -> Slope:
        """A bell curve."""
        return Slope(1.0, Derivative(self.branches[0].family, 1))
