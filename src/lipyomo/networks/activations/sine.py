"""Sine and cosine.

All derivatives are sines of ``z + k pi / 2``, computed as plus or minus numpy's sin or cos, which
have an absolute error of 8 u up to |z| = 2**20.  Beyond that, ranges are [-1, 1].
An interval contains a maximum of ``sin(z + k pi / 2)`` if a whole number lies in

    [(low + k pi / 2) / (2 pi) - 1/4, (high + k pi / 2) / (2 pi) - 1/4].

Both ends have errors below 2**20 * 2**-52 = 2.4e-10, and are moved outwards by four times as much:
a maximum that is wrongly taken as inside adds (2 pi 1e-9)**2 / 2 = 2e-17.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT
from lipyomo.networks.activations.activation import Activation, Slope, known_as
from lipyomo.networks.activations.bands import Band, Cut
from lipyomo.networks.activations.branch import Branch, Sums
from lipyomo.networks.activations.elementary import cos, sin
from lipyomo.networks.activations.rounding import error

FAR = 2.0**20
"""Arguments beyond which ranges are [-1, 1]."""

_ROOM = 4.0 * FAR * UNIT
"""How far ends of intervals are moved outwards, in periods."""


@dataclass(frozen=True)
class SineBranch(Branch):
    """``sin(z + quarters * pi / 2)`` on R."""

    quarters: int

    tails = ((-1.0, 1.0),) * 4
    errors = (error(0, 8),) * 4

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        s, c = sin(z), cos(z)
        around = s, c, -s, -c
        return tuple(around[(self.quarters + k) % 4] for k in range(order + 1))

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        s, c = z.sin(), z.cos()
        return ((s, c), (c, -s))[self.quarters]

    def hull(
        self, order: int, low: FloatArray, high: FloatArray, at_low: FloatArray, at_high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the range of a derivative on intervals, off by its error at most."""
        least, greatest = np.minimum(at_low, at_high), np.maximum(at_low, at_high)
        far = ~(np.maximum(np.abs(low), np.abs(high)) <= FAR)
        ends = [np.clip(end, -FAR, FAR) / (2.0 * np.pi) for end in (low, high)]
        for shift, extreme in ((0.25, 1.0), (0.75, -1.0)):
            turned = (self.quarters + order) * 0.25 - shift
            held = np.floor(ends[1] + (turned + _ROOM)) >= np.ceil(ends[0] + (turned - _ROOM))
            side, out = (np.maximum, greatest) if extreme > 0.0 else (np.minimum, least)
            side(out, np.where(held | far, extreme, out), out=out)
        return least, greatest


@dataclass(frozen=True)
class _Wave(Activation):
    def _band(self, cut: Cut, sums: Sums) -> Band:
        s, least, greatest = super()._band(cut, sums)
        far = sums.sizes > FAR
        most = np.nextafter(np.abs(sums.A) + np.abs(sums.c), np.inf)
        return (
            np.where(far, 0.0, s),
            np.where(far, -most, least),
            np.where(far, most, greatest),
        )


@known_as("sin")
@dataclass(frozen=True)
class Sin(_Wave):
    """``sin z``."""

    name = "sin"
    reflection = (-1.0, 0.0)
    branches = (SineBranch(0),)

    @property
    def derivative(self) -> Slope:
        """The cosine."""
        return Slope(1.0, Cos())


@known_as("cos")
@dataclass(frozen=True)
class Cos(_Wave):
    """``cos z``."""

    name = "cos"
    reflection = (1.0, 0.0)
    branches = (SineBranch(1),)

    @property
    def derivative(self) -> Slope:
        """Minus the sine."""
        return Slope(-1.0, Sin())
