"""A branch in another scale: ``base(beta z) / beta``.

Derivatives are those of the base times beta**(k - 1).  The argument y = beta z is off by u |y|,
which moves the k-th derivative by u |y sigma^(k+1)(y)| at most; for all bases here that is less
than u (2 + |sigma^(k)(y)|), which the tests confirm.  Powers of beta and the last product add 5 u.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from lipyomo.activations.branch import Branch, Turn
from lipyomo.activations.rounding import TINY, Error
from lipyomo.arrays import FloatArray
from lipyomo.numerics.rounding import UNIT_ROUNDOFF


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
        """Those of the base, nearer to zero."""
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
        """Those of the base, and of the scaling."""
        unit = UNIT_ROUNDOFF
        return tuple(
            Error(off.relative + 6 * unit, (off.absolute + 3 * unit) * factor + TINY)
            for off, factor in zip(self.base.errors, self._factors, strict=True)
        )

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Value and derivatives up to `order` at finite `z`."""
        found = self.base.jet(self.beta * z, order)
        scaled = (factor * part for part, factor in zip(found, self._factors, strict=False))
        return tuple(np.asarray(part) for part in scaled)

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        value, slope = self.base.ball(self.beta * z)
        return value / self.beta, slope


def scaled(base: Branch, beta: float) -> Branch:
    """The branch in the scale `beta`; itself where that is one."""
    return base if beta == 1.0 else Scaled(base, beta)
