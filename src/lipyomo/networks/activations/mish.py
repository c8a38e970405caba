"""Mish: ``z tanh(softplus(z))``.

With e = exp(-|z|), T = tanh(softplus(z)) and D = 1 - T**2 are quotients of polynomials in e without
cancellation, p is the slope of softplus and q = 1 - p:

    z >= 0:  T = (1 + 2 e) / n,    D = 4 e**2 (1 + e)**2 / n**2,  n = 1 + 2 e + 2 e**2
    z < 0:   T = e (2 + e) / n,    D = 4 (1 + e)**2 / n**2,       n = 2 + 2 e + e**2
    T' = D p,  T'' = D p (q - 2 T p),  T''' = D p (q (q - p) - 6 T p q + 4 T**2 p**2 - 2 D p**2)
    sigma' = T + z T',  sigma'' = 2 T' + z T'',  sigma''' = 3 T'' + z T'''.

T is off by 32 u and D by 64 u relative.  As |z| D p <= 0.5, the sums that cancel are off by 64 u,
256 u and 1024 u at most.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations.activation import Activation, known_as
from lipyomo.networks.activations.branch import Branch, Turn
from lipyomo.networks.activations.elementary import exp
from lipyomo.networks.activations.rounding import error


@dataclass(frozen=True)
class MishBranch(Branch):
    """``z tanh(log(1 + exp(z)))`` on R."""

    turns = (
        (Turn(-1.1924312145154952, -0.30884341301725043),),
        (
            Turn(-2.256376396360793, -0.11252612238946255),
            Turn(1.4905711794854284, 1.088498161251728),
        ),
        (
            Turn(-3.2673378465204044, -0.04173207070661102),
            Turn(-0.08793443131491421, 0.6442046372369724),
            Turn(2.114842563020877, -0.05903335695393629),
        ),
        (
            Turn(-4.255411333668564, -0.015594630053995352),
            Turn(-0.8819460768319226, 0.4538611812135795),
            Turn(0.7155058867000298, -0.5884120448690197),
            Turn(2.6942158677688237, 0.04089338354759358),
        ),
    )
    tails = ((0.0, np.inf), (0.0, 1.0), (0.0, 0.0), (0.0, 0.0))
    errors = (error(40), error(64, 64), error(64, 256), error(64, 1024))

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        e = exp(-np.abs(z))
        right, one = z >= 0.0, 1.0 + e
        whole = np.where(right, 1.0 + 2.0 * e * one, 2.0 + e * (2.0 + e))
        T = np.where(right, 1.0 + 2.0 * e, e * (2.0 + e)) / whole
        if order == 0:
            return (z * T,)
        large = 1.0 / one
        small = e * large
        p, q = np.where(right, large, small), np.where(right, small, large)
        root = np.where(right, e, 1.0) * one * 2.0 / whole
        D = root * root
        first = D * p
        found = z * T, T + z * first
        if order == 1:
            return found
        twice = T * p
        second = first * (q - 2.0 * twice)
        third = first * (q * (q - p) - twice * (6.0 * q - 4.0 * twice) - 2.0 * first * p)
        return (*found, 2.0 * first + z * second, 3.0 * second + z * third)[: order + 1]

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        p = 1 / (1 + (-z).exp())
        soft = z + (-z).exp().log1p() if z > 0 else z.exp().log1p()
        T = soft.tanh()
        return z * T, T + z * soft.sech() ** 2 * p


@known_as("mish")
@dataclass(frozen=True)
class Mish(Activation):
    """``z tanh(log(1 + exp(z)))``."""

    name = "mish"
    branches = (MishBranch(),)
