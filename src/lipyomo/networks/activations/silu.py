"""SiLU, with other scales Swish and QuickGELU.

With p and q = 1 - p of `logistic`, each off by 20 u:

    sigma = z p, sigma' = p (1 + z q), sigma'' = p q (2 + z (q - p)),
    sigma''' = p q (3 (q - p) + z (1 - 6 p q)).

The sums cancel; as |z| p q <= 0.224 and p q <= 1/4, their errors are at most 8 u, 24 u and 48 u.
Turning points are roots of sigma' .. sigma'''' (the slope's are at plus and minus 2.3994).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations.activation import Slope, known_as
from lipyomo.networks.activations.branch import Branch, Turn, exact_turn
from lipyomo.networks.activations.derived import Derivative
from lipyomo.networks.activations.elementary import logistic
from lipyomo.networks.activations.families import SiluFamily
from lipyomo.networks.activations.rounding import error
from lipyomo.networks.activations.scaled import ScaledActivation


@dataclass(frozen=True)
class SiluBranch(Branch):
    """``z / (1 + exp(-z))`` on R."""

    turns = (
        (Turn(-1.2784645427610737, -0.2784645427610738),),
        (
            Turn(-2.3993572805154675, -0.09983932012886691),
            Turn(2.3993572805154675, 1.099839320128867),
        ),
        (
            Turn(-3.435840993535111, -0.036914373199893186),
            exact_turn(0.0, 0.5),
            Turn(3.435840993535111, -0.036914373199893186),
        ),
        (
            Turn(-4.429235100557228, -0.013862297655470339),
            Turn(-1.0319582417807491, 0.3081815157964791),
            Turn(1.0319582417807491, -0.3081815157964791),
            Turn(4.429235100557228, 0.013862297655470339),
        ),
    )
    tails = ((0.0, np.inf), (0.0, 1.0), (0.0, 0.0), (0.0, 0.0))
    errors = (error(24), error(24, 8), error(48, 24), error(48, 48))

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        p, q = logistic(z)
        if order == 0:
            return (z * p,)
        found = z * p, p * (1.0 + z * q)
        if order == 1:
            return found
        pq, fall = p * q, q - p
        second = pq * (2.0 + z * fall)
        return (*found, second, pq * (3.0 * fall + z * (1.0 - 6.0 * pq)))[: order + 1]

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        p = 1 / (1 + (-z).exp())
        return z * p, p * (1 + z / (1 + z.exp()))


@known_as("swish")
@dataclass(frozen=True)
class Swish(ScaledActivation):
    """``z / (1 + exp(-beta z))``: SiLU for beta = 1, QuickGELU for beta = 1.702."""

    base = SiluBranch()
    word, plain = "swish", "silu"

    @property
    def derivative(self) -> Slope:
        """That of SiLU at beta z."""
        return Slope(1.0, Derivative(SiluFamily(SiluBranch()), 1), self.beta)


@known_as("silu")
def Silu() -> Swish:
    """``z / (1 + exp(-z))``."""
    return Swish()


@known_as("quick_gelu")
def QuickGelu() -> Swish:
    """``z / (1 + exp(-1.702 z))``."""
    return Swish(1.702)
