"""A branch in another scale, ``base(beta z) / beta``, and the activations that are one.

Derivatives are those of the base times beta**(k - 1).  The argument y = beta z is off by u |y|,
which moves the k-th derivative by u |y sigma^(k+1)(y)| at most; for all bases here that is less
than u (2 + |sigma^(k)(y)|), which the tests confirm.  Powers of beta and the last product add 5 u.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.networks.activations.activation import Activation, positive_number
from lipyomo.networks.activations.branch import Branch, Turn
from lipyomo.networks.activations.rounding import TINY, Error


@dataclass(frozen=True)
class Scaled(Branch):
    """``base(beta z) / beta`` on R, for a base on R and beta > 0."""

    base: Branch
    beta: float

    @property
    def unit(self) -> float:
        """That of the base, scaled."""
        return self.base.unit / self.beta

    @cached_property
    def _factors(self) -> tuple[float, ...]:
        return 1.0 / self.beta, 1.0, self.beta, self.beta**2

    @cached_property
    def turns(self) -> tuple[tuple[Turn, ...], ...]:
        """Turning points of the base, with arguments divided by beta."""
        return tuple(
            tuple(Turn(turn.at / self.beta, turn.value * factor) for turn in row)
            for row, factor in zip(self.base.turns, self._factors, strict=True)
        )

    @cached_property
    def tails(self) -> tuple[tuple[float, float], ...]:
        """Limits at both ends; values are zero or infinite there, slopes the same."""
        return self.base.tails

    @cached_property
    def errors(self) -> tuple[Error, ...]:
        """Error bounds of the base and of the scaling."""
        unit = UNIT_ROUNDOFF
        return tuple(
            Error(off.relative + 6 * unit, (off.absolute + 3 * unit) * factor + TINY)
            for off, factor in zip(self.base.errors, self._factors, strict=True)
        )

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        found = self.base.jet(self.beta * z, order)
        scaled = (factor * part for part, factor in zip(found, self._factors, strict=False))
        return tuple(np.asarray(part) for part in scaled)

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        value, slope = self.base.ball(self.beta * z)
        return value / self.beta, slope


@dataclass(frozen=True)
class ScaledActivation(Activation):
    """``base(beta z) / beta`` for a base with ``base(-z) = base(z) - z``.

    Parameters
    ----------
    beta : float, optional
        Positive.

    Attributes
    ----------
    base : Branch
    word, plain : str
        Its name with a scale, and where that is one.
    """

    beta: float = 1.0

    base: ClassVar[Branch]
    word: ClassVar[str]
    plain: ClassVar[str]
    reflection = (1.0, -1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", positive_number(self.beta, f"{self.word}: beta"))

    @property
    def name(self) -> str:
        """The name, with beta unless that is one."""
        return self.plain if self.beta == 1.0 else f"{self.word}({self.beta!r})"

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """A single branch."""
        return (self.base if self.beta == 1.0 else Scaled(self.base, self.beta),)
