"""Softplus, a smooth ReLU.

``max(z, 0) + log1p(exp(-|z|))``: both terms are nonnegative, so that relative errors stay: 8 u of
the exponential, 8 u of the logarithm, 1 u of the sum.  The slope is the logistic function; its
derivatives are computed and bounded as those of the sigmoid.  softplus'' turns at 0, softplus''' at
plus and minus log(2 + sqrt 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations.activation import Slope, known_as
from lipyomo.networks.activations.branch import Branch, Turn, exact_turn
from lipyomo.networks.activations.elementary import exp, log1p, logistic
from lipyomo.networks.activations.rounding import error
from lipyomo.networks.activations.scaled import ScaledActivation
from lipyomo.networks.activations.sigmoid import Sigmoid
from lipyomo.networks.activations.tanh import INFLECTION, STEEPEST


@dataclass(frozen=True)
class SoftplusBranch(Branch):
    """``log(1 + exp(z))`` on R."""

    turns = (
        (),
        (),
        (exact_turn(0.0, 0.25),),
        (Turn(-2 * INFLECTION, STEEPEST / 8), Turn(2 * INFLECTION, -STEEPEST / 8)),
    )
    tails = ((0.0, np.inf), (0.0, 1.0), (0.0, 0.0), (0.0, 0.0))
    errors = (error(20), error(20), error(41), error(64, 16))

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        value = np.maximum(z, 0.0) + log1p(exp(-np.abs(z)))
        if order == 0:
            return (value,)
        p, q = logistic(z)
        pq = p * q
        return (value, p, pq, pq * (q - p))[: order + 1]

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        if z > 0:
            return z + (-z).exp().log1p(), 1 / (1 + (-z).exp())
        return z.exp().log1p(), 1 / (1 + (-z).exp())


@known_as("softplus")
@dataclass(frozen=True)
class Softplus(ScaledActivation):
    """``log(1 + exp(beta z)) / beta``."""

    base = SoftplusBranch()
    word = plain = "softplus"

    @property
    def derivative(self) -> Slope:
        """The logistic function of beta z."""
        return Slope(1.0, Sigmoid(), self.beta)
