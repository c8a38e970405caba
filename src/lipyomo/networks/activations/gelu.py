"""GELU, in its exact form and in the one with tanh: two functions, with two sets of turning points.

Exact: with phi = exp(-z**2 / 2) / sqrt(2 pi) and Phi = erfc(-z / sqrt 2) / 2,

    sigma = z Phi, sigma' = Phi + z phi, sigma'' = (2 - z**2) phi, sigma''' = (z**3 - 4 z) phi.

phi is off by (12 + z**2) u, as its argument is rounded; Phi by (24 + 4 z**2) u relative for z < 0
and by 24 u else.  As z**2 phi <= 0.3, z**4 phi <= 0.9 and z**5 phi <= 1.8, absolute errors of 24 u,
32 u and 48 u beside relative ones of 32 u cover the products and the sums that cancel.

With tanh: sigma = z p, where p is the logistic function of ``y = 2 k (z + a z**3)``,
k = sqrt(2 / pi), a = 0.044715.  With q = 1 - p:

    p' = p q y',  p'' = p q ((q - p) y'**2 + y''),
    p''' = p q ((1 - 6 p q) y'**3 + 3 (q - p) y' y'' + y'''),
    sigma' = p + z p',  sigma'' = 2 p' + z p'',  sigma''' = 3 p'' + z p'''.

y is off by 5 u |y|, which moves p by 5 u |y| p q.  All terms stay below 8 in size, with a few dozen
u each.  Beyond |z| = 38, p q is zero in float64, and arguments are cut there lest powers overflow.

Turning points of the slope: plus and minus sqrt 2, and plus and minus 1.41850.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations.activation import Activation, Slope, known_as
from lipyomo.networks.activations.branch import Branch, Turn
from lipyomo.networks.activations.derived import Derivative
from lipyomo.networks.activations.elementary import erfc, exp, logistic
from lipyomo.networks.activations.families import BellFamily
from lipyomo.networks.activations.rounding import FARTHEST, error


@dataclass(frozen=True)
class GeluBranch(Branch):
    """``z Phi(z)`` on R."""

    tails = ((0.0, np.inf), (0.0, 1.0), (0.0, 0.0), (0.0, 0.0))
    errors = (error(32, 8), error(32, 24), error(32, 32), error(32, 48))

    @property
    def family(self) -> BellFamily:
        """The derivatives, which from the second one on are polynomials times a bell curve."""
        return BellFamily("gelu", self, 2, (2, 0, -1), 1)

    @cached_property
    def turns(self) -> tuple[tuple[Turn, ...], ...]:
        """Turning points, for the value and three derivatives."""
        lowest = (Turn(-0.7517915246935645, -0.16997120747990366),)
        return lowest, *(self.family.turns(order) for order in (1, 2, 3))

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        below = 0.5 * erfc(z * -np.sqrt(0.5))
        if order == 0:
            return (z * below,)
        z_cut = np.clip(z, -FARTHEST, FARTHEST)
        square = z_cut * z_cut
        density = exp(-0.5 * square) * (1.0 / np.sqrt(2.0 * np.pi))
        found = z * below, below + z_cut * density
        if order == 1:
            return found
        second = (2.0 - square) * density
        return (*found, second, (square - 4.0) * z_cut * density)[: order + 1]

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        below = (-z / arb(2).sqrt()).erfc() / 2
        return z * below, below + z * (-z * z / 2).exp() / (2 * arb.pi()).sqrt()


@dataclass(frozen=True)
class TanhGeluBranch(Branch):
    """``z (1 + tanh(k (z + a z**3))) / 2`` on R."""

    turns = (
        (Turn(-0.7524614220710163, -0.17004075057125406),),
        (
            Turn(-1.4185040087908283, -0.12899306865877178),
            Turn(1.4185040087908283, 1.1289930686587717),
        ),
        (
            Turn(-2.013480724624258, -0.10791351589036792),
            Turn(0.0, 0.7978845608028654),
            Turn(2.013480724624258, -0.10791351589036792),
        ),
        (
            Turn(-2.553417914329443, -0.09878746231394216),
            Turn(-0.787576186418894, 0.7766914503985405),
            Turn(0.787576186418894, -0.7766914503985405),
            Turn(2.553417914329443, 0.09878746231394216),
        ),
    )
    tails = ((0.0, np.inf), (0.0, 1.0), (0.0, 0.0), (0.0, 0.0))
    errors = (error(24, 16), error(32, 64), error(64, 256), error(64, 512))

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        x = np.clip(z, -FARTHEST, FARTHEST)
        scale = 2.0 * np.sqrt(2.0 / np.pi)
        square = x * x
        a = 0.044715  # of the definition, off by half a unit in the last place
        p, q = logistic(scale * x * (1.0 + a * square))
        if order == 0:
            return (z * p,)
        pq, fall = p * q, q - p
        rise = scale * (1.0 + 3.0 * a * square)
        first = pq * rise
        found = z * p, p + x * first
        if order == 1:
            return found
        bend = (6.0 * scale * a) * x
        second = pq * (fall * rise * rise + bend)
        third = pq * (rise * ((1.0 - 6.0 * pq) * rise * rise + 3.0 * fall * bend) + 6.0 * scale * a)
        return (*found, 2.0 * first + x * second, 3.0 * second + x * third)[: order + 1]

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        scale, cube = 2 * (2 / arb.pi()).sqrt(), arb(44715) / 1000000
        y = scale * (z + cube * z**3)
        p = 1 / (1 + (-y).exp())
        return z * p, p + z * (y / 2).sech() ** 2 / 4 * scale * (1 + 3 * cube * z * z)


@known_as("gelu")
@dataclass(frozen=True)
class Gelu(Activation):
    """The Gaussian error linear unit.

    Parameters
    ----------
    approximate : str, optional
        ``none`` for ``z Phi(z)``, ``tanh`` for the form with tanh: as ONNX and PyTorch name them.
    """

    approximate: str = "none"

    reflection = (1.0, -1.0)

    def __post_init__(self) -> None:
        if self.approximate not in ("none", "tanh"):
            raise NetworkError(f"gelu: approximate is 'none' or 'tanh', not {self.approximate!r}")

    @property
    def name(self) -> str:
        """``gelu``, or ``gelu(tanh)`` for the approximation."""
        return "gelu" if self.approximate == "none" else "gelu(tanh)"

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """A single branch."""
        return (GeluBranch() if self.approximate == "none" else TanhGeluBranch(),)

    @property
    def derivative(self) -> Slope:
        """``Phi(z) + z phi(z)``; that of the form with tanh is not supported."""
        if self.approximate != "none":
            return super().derivative
        return Slope(1.0, Derivative(GeluBranch().family, 1))
