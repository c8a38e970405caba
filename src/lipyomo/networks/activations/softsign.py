"""Softsign: ``z / (1 + |z|)``, whose curvature jumps at zero.

With r = 1 / (1 + |z|), off by 2 u: sigma' = r**2, sigma'' = -+2 r**3, sigma''' = 6 r**4; each
product adds 1 u.  Every derivative is monotone on either side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations.activation import Activation, known_as
from lipyomo.networks.activations.branch import Branch
from lipyomo.networks.activations.rounding import error


@dataclass(frozen=True)
class SoftsignBranch(Branch):
    """``z / (1 + |z|)`` on one side of zero."""

    low: float
    high: float

    errors = (error(4), error(8), error(12), error(16))

    @property
    def tails(self) -> tuple[tuple[float, float], ...]:
        """Limits at both ends."""
        if self.high == 0.0:
            return (-1.0, 0.0), (0.0, 1.0), (0.0, 2.0), (0.0, 6.0)
        return (0.0, 1.0), (1.0, 0.0), (-2.0, 0.0), (6.0, 0.0)

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        r = 1.0 / (1.0 + np.abs(z))
        square, bend = r * r, 2.0 if self.high == 0.0 else -2.0
        return (z * r, square, bend * r * square, 6.0 * square * square)[: order + 1]

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        r = 1 / (1 + abs(z))
        return z * r, r * r


@known_as("softsign")
@dataclass(frozen=True)
class Softsign(Activation):
    """``z / (1 + |z|)``."""

    name = "softsign"
    reflection = (-1.0, 0.0)
    branches = (SoftsignBranch(-np.inf, 0.0), SoftsignBranch(0.0, np.inf))
