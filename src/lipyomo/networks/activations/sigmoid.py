"""Logistic sigmoid.

With p and q = 1 - p of `logistic`, each off by 20 u: sigma' = p q (41 u), sigma'' = p q (q - p),
sigma''' = p q (1 - 6 p q).  The differences cancel: q - p is off by 41 u, 1 - 6 p q by 120 u,
both times p q <= 1/4.
Turning points are twice those of tanh, as p = (1 + tanh(z / 2)) / 2; bands are made from those of
tanh, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNDERFLOW, UNIT_ROUNDOFF
from lipyomo.networks.activations.activation import Activation, Slope, known_as
from lipyomo.networks.activations.bands import Band, Cut
from lipyomo.networks.activations.branch import Branch, Sums, Turn, exact_turn
from lipyomo.networks.activations.derived import Derivative
from lipyomo.networks.activations.elementary import logistic
from lipyomo.networks.activations.families import TanhFamily
from lipyomo.networks.activations.rounding import error
from lipyomo.networks.activations.tanh import INFLECTION, OUTER, STEEPEST, tanh_band


@dataclass(frozen=True)
class SigmoidBranch(Branch):
    """``1 / (1 + exp(-z))`` on R."""

    whole = True
    turns = (
        (),
        (exact_turn(0.0, 0.25),),
        (Turn(-2 * INFLECTION, STEEPEST / 8), Turn(2 * INFLECTION, -STEEPEST / 8)),
        (Turn(-2 * OUTER, 1 / 24), exact_turn(0.0, -0.125), Turn(2 * OUTER, 1 / 24)),
    )
    tails = ((0.0, 1.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))
    errors = (error(20), error(41), error(64, 16), error(64, 48))

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        p, q = logistic(z)
        if order == 0:
            return (p,)
        pq = p * q
        return (p, pq, pq * (q - p), pq * (1.0 - 6.0 * pq))[: order + 1]

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        return 1 / (1 + (-z).exp()), (z / 2).sech() ** 2 / 4


@known_as("sigmoid")
@dataclass(frozen=True)
class Sigmoid(Activation):
    """``1 / (1 + exp(-z))``."""

    name = "sigmoid"
    branches = (SigmoidBranch(),)

    @property
    def derivative(self) -> Slope:
        """``tanh'(z / 2) / 4``."""
        return Slope(0.25, Derivative(TanhFamily(), 1), 0.5)

    def _band(self, cut: Cut, sums: Sums) -> Band:
        """``A (1 + tanh y) / 2 + c tanh'(y) / 4`` with y = z / 2; halves and last sums round."""
        half = 0.5 * sums.A
        slope = None if sums.slope is None else 2.0 * sums.slope
        turned = Sums(half, 0.25 * sums.c, 0.5 * sums.low, 0.5 * sums.high, slope)
        s, least, greatest = tanh_band(turned)
        off = 2 * UNIT_ROUNDOFF * np.abs(half)
        off += 2 * UNIT_ROUNDOFF * np.maximum(np.abs(least), np.abs(greatest))
        off += UNDERFLOW * ((sums.A != 0.0) | (sums.c != 0.0))  # halves of the least numbers are 0
        return 0.5 * s, least + half - off, greatest + half + off
