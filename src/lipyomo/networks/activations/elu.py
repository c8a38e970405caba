"""ELU, SELU and CELU: an exponential below zero, a line above.

Below zero ``h (exp(z / w) - 1)``, of height h and width w, whose k-th derivative is
``h / w**k exp(z / w)``; all are monotone.  The argument is rounded unless w = 1, which moves
derivatives by u |y| exp(y) <= 0.37 u; h may be a product of two numbers.  Relative errors: 8 u of
the exponential and a few products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNDERFLOW, UNIT_ROUNDOFF
from lipyomo.networks.activations.activation import (
    Activation,
    finite_number,
    known_as,
    positive_number,
)
from lipyomo.networks.activations.branch import Branch, Sums
from lipyomo.networks.activations.elementary import exp, expm1
from lipyomo.networks.activations.rounding import TINY, Error
from lipyomo.networks.activations.two_slope import Linear


@dataclass(frozen=True)
class ExpBranch(Branch):
    """``scale * height * (exp(z / width) - 1)`` below zero."""

    scale: float
    height: float
    width: float
    high: float = 0.0
    whole = True

    @property
    def unit(self) -> float:
        """The width of the exponential."""
        return self.width

    @cached_property
    def _factors(self) -> tuple[float, ...]:
        """Derivatives at zero; the first is minus the limit of the value at minus infinity."""
        steep = self.scale * (self.height / self.width)
        return self.scale * self.height, steep, steep / self.width, steep / self.width**2

    @cached_property
    def tails(self) -> tuple[tuple[float, float], ...]:
        """Limits at both ends."""
        depth, *steep = self._factors
        return (-depth, 0.0), *((0.0, factor) for factor in steep)

    @cached_property
    def errors(self) -> tuple[Error, ...]:
        """Relative error bounds, and an absolute one if the argument is rounded."""
        shift = 0.0 if self.width == 1.0 else UNIT_ROUNDOFF
        return tuple(Error(24 * UNIT_ROUNDOFF, shift * abs(f) + TINY) for f in self._factors)

    def extent(self, order: int) -> tuple[float, float]:
        """As `Branch.extent`; derivatives at zero are rounded unless all factors are one."""
        low, high = super().extent(order)
        if self.scale == 1.0 and self.height == self.width and order < 2:
            return low, high
        room = 8 * UNIT_ROUNDOFF
        return low - room * abs(low), high + room * abs(high)

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        y = z / self.width
        depth, *steep = self._factors
        value = depth * expm1(y)
        if order == 0:
            return (value,)
        e = exp(y)
        return (value, *(factor * e for factor in steep[:order]))

    def inner(self, sums: Sums, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As `Branch.inner`: ``K exp(z / w) - A h - s z`` has one stationary point.

        `room` covers the rounding of K and of values.  The tangent at any point lies below the
        function if K is positive and above it if K is negative, so the point need not be exactly
        stationary.
        """
        (A, c, low, high, _), (depth, steep, *_) = sums, self._factors
        K, sizes = A * depth + c * steep, np.abs(A * depth) + np.abs(c * steep)
        room = (32 * UNIT_ROUNDOFF + UNDERFLOW) * sizes
        stationary = self.width * np.log(s * self.width / K)
        z = np.fmax(np.minimum(stationary, high), low)  # at low if there is none
        e = exp(z / self.width)
        value, slope = K * e - A * depth - s * z, K * e / self.width - s
        off = 32 * UNIT_ROUNDOFF * (np.abs(K) / self.width + np.abs(s))
        rise, fall = np.maximum(slope + off, 0.0), np.maximum(off - slope, 0.0)
        least = value - rise * (z - low) - fall * (high - z) - room
        greatest = value + rise * (high - z) + fall * (z - low) + room
        return np.where(K <= 0, np.inf, least), np.where(K >= 0, -np.inf, greatest)

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        depth, y = self.scale * arb(self.height), z / self.width
        return depth * y.expm1(), depth * y.exp() / self.width


@known_as("elu")
@dataclass(frozen=True)
class Elu(Activation):
    """``z`` above zero, ``alpha (exp(z) - 1)`` below.

    Parameters
    ----------
    alpha : float, optional
        Any finite number; the slope jumps at zero unless it is one.
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", finite_number(self.alpha, "elu: alpha"))

    @property
    def name(self) -> str:
        """The name, with alpha unless that is one."""
        return "elu" if self.alpha == 1.0 else f"elu({self.alpha!r})"

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """Both sides of zero."""
        return ExpBranch(1.0, self.alpha, 1.0), Linear(1.0, low=0.0)


@known_as("selu")
@dataclass(frozen=True)
class Selu(Activation):
    """``gamma z`` above zero, ``gamma alpha (exp(z) - 1)`` below.

    Parameters
    ----------
    alpha, gamma : float, optional
        The default is that of PyTorch, in float64; ONNX has the nearest float32 numbers.
    """

    alpha: float = 1.6732632423543772
    gamma: float = 1.0507009873554805

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", finite_number(self.alpha, "selu: alpha"))
        object.__setattr__(self, "gamma", finite_number(self.gamma, "selu: gamma"))

    @property
    def name(self) -> str:
        """The name, with both parameters."""
        return f"selu({self.alpha!r}, {self.gamma!r})"

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """Both sides of zero."""
        return ExpBranch(self.gamma, self.alpha, 1.0), Linear(self.gamma, low=0.0)


@known_as("celu")
@dataclass(frozen=True)
class Celu(Activation):
    """``z`` above zero, ``alpha (exp(z / alpha) - 1)`` below.

    Parameters
    ----------
    alpha : float, optional
        Positive.
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", positive_number(self.alpha, "celu: alpha"))

    @property
    def name(self) -> str:
        """The name, with alpha unless that is one."""
        return "celu" if self.alpha == 1.0 else f"celu({self.alpha!r})"

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """Both sides of zero."""
        return ExpBranch(1.0, self.alpha, self.alpha), Linear(1.0, low=0.0)
