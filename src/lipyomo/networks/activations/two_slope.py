"""The two-slope unit as an `Activation`: two linear branches that meet at zero.

A value has the rounding error of one multiplication; slopes are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations.activation import Activation, finite_number, known_as
from lipyomo.networks.activations.branch import Branch, Sums
from lipyomo.networks.activations.rounding import EXACT, error


@dataclass(frozen=True)
class Linear(Branch):
    """``steepness * z`` on [low, high]."""

    steepness: float
    low: float = -np.inf
    high: float = np.inf

    whole = True
    errors = (error(1), EXACT, EXACT, EXACT)

    @property
    def tails(self) -> tuple[tuple[float, float], ...]:
        """Limits at both ends."""
        ends = [self.steepness * end if self.steepness else 0.0 for end in (self.low, self.high)]
        return (ends[0], ends[1]), (self.steepness, self.steepness), (0.0, 0.0), (0.0, 0.0)

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        zero = np.zeros_like(z)
        return (self.steepness * z, np.full_like(z, self.steepness), zero, zero)[: order + 1]

    def inner(self, sums: Sums, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As `Branch.inner`: there is nothing between the ends of a line."""
        return np.full_like(s, np.inf), np.full_like(s, -np.inf)

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        return self.steepness * z, arb(self.steepness)


@known_as("two_slope")
@dataclass(frozen=True)
class TwoSlope(Activation):
    """``left * z`` below zero, ``right * z`` above.

    Parameters
    ----------
    left, right : float
        (0, 1) is a ReLU.
    """

    left: float = 0.0
    right: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "left", finite_number(self.left, "the left slope"))
        object.__setattr__(self, "right", finite_number(self.right, "the right slope"))

    @property
    def name(self) -> str:
        """The name, with both slopes."""
        return f"two_slope({self.left!r}, {self.right!r})"

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """Both sides of zero."""
        return Linear(self.left, high=0.0), Linear(self.right, low=0.0)
