"""The functions of one kind of units: value, slope, and further derivatives, with bounds.

A kind's function takes pre-activations z and, for each, whether it stands for what is right of each
of the kind's breaks (where a derivative jumps); on one side of its breaks a kind is smooth.  It
returns sigma and its first three derivatives.  `Kind.bounds` are bounds of the absolute values of
the second, third and fourth derivative everywhere (the tests prove them in Arb).

Each number that is returned errs by less than `ERROR` (sigma itself by less than ``ERROR (1 +
|z|)``), times the kind's scale: all are made of a few of `elementary`'s functions, whose errors are
below 2^-42, by operations whose terms are bounded by a few units of that scale; the tests compare
with Arb and leave a factor of 16.

Powers, the exponential and the logarithm have no bounds everywhere, and are not smooth everywhere.
Theirs are those of an interval, at whose ends they are found: all their derivatives are monotone on
either side of zero, and are zero there or do not change if zero is inside.  Their errors are
relative, and multiples of the scale beside that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lipyomo_check.smooth.elementary import ULP, Array

ERROR = 2.0**-38

ROOM = 16.0 * ULP
"""Margin of the bound of a derivative, larger than the rounding errors of its enclosures."""

Bools = npt.NDArray[np.bool_]
Four = tuple[Array, Array, Array, Array]
Derivatives = Callable[[Array, tuple[Bools, ...]], Four]
Enclosure = tuple[Array, Array]
"""Middle and radius."""


@dataclass(frozen=True)
class Kind:
    """One kind of units.

    Attributes
    ----------
    derivatives : callable
    bounds : tuple of float
        Of the second, third and fourth derivative.
    breaks : tuple of float, optional
    scale : tuple of float, optional
        What errors of sigma and of its derivatives are multiples of.
    slopes : tuple of float, optional
        The least and the largest slope, or what lies beyond them (the tests prove it in Arb).
    inside : callable, optional
        Of a kind without bounds everywhere: whether it is smooth on intervals with these ends.
    geometric : bool, optional
        Whether its intervals are better divided by ratios.
    power : float, optional
        Of a power whose tangents are bounded by ratios (`ratios`): its exponent.
    error : float, optional
        What its numbers err by.
    """

    derivatives: Derivatives
    bounds: tuple[float, float, float]
    breaks: tuple[float, ...] = ()
    scale: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    slopes: tuple[float, float] = (0.0, 1.0)
    inside: Callable[[Array, Array], Bools] | None = None
    geometric: bool = False
    power: float | None = None
    error: float = ERROR

    @property
    def kinked(self) -> bool:
        """Whether it is a line on either side of a break."""
        return bool(self.breaks) and self.bounds == (0.0, 0.0, 0.0)

    def rooms(self, z: Array, value: Array, slope: Array) -> tuple[Array | float, Array | float]:
        """Return the errors of sigma and sigma' of at most these sizes, in units of `error`."""
        if self.inside is None:
            return self.scale[0] * (1.0 + z), self.scale[1]
        return self.scale[0] + value, self.scale[1] + slope

    def bends(
        self, start: Array, middle: Array, end: Array, right: tuple[Bools, ...]
    ) -> tuple[Enclosure, Enclosure, Array, Array]:
        """Bound sigma'' and sigma''' on pieces; also return sigma' and sigma'' in their middles."""
        _, one, two, three = self.derivatives(middle, right)
        if self.inside is None:
            second, third, fourth = self.bounds
            half = np.maximum(end - middle, middle - start) * (1.0 + ULP)
            wide = half * np.minimum(np.abs(three) + half * (fourth / 2.0), third)
            of_second = _within(two, wide + self.error * self.scale[2], second)
            of_third = _within(three, half * fourth + self.error * self.scale[3], third)
            return of_second, of_third, one, two
        smooth, crossed = self.inside(start, end), (start < 0.0) & (end > 0.0)
        ends = self.derivatives(start, right)[2:], self.derivatives(end, right)[2:]
        found = []
        for a, b, scale in zip(*ends, self.scale[2:], strict=True):
            low, high = np.minimum(a, b), np.maximum(a, b)
            low = np.where(crossed, np.minimum(low, 0.0), low)
            high = np.where(crossed, np.maximum(high, 0.0), high)
            room = 2.0 * self.error * (scale + np.maximum(np.abs(low), np.abs(high)))
            known = smooth & np.isfinite(low) & np.isfinite(high)
            radius = np.where(known, 0.5 * (high - low) + room, np.inf)
            found.append((np.where(known, 0.5 * (low + high), 0.0), radius))
        return found[0], found[1], one, two


def _within(middle: Array, radius: Array, bound: float) -> Enclosure:
    """Return middle and radius of an interval and [-bound, bound] together.

    The radius has room for the rounding of the sums and products that these enter.
    """
    low = np.maximum(middle - radius, -bound)
    high = np.minimum(middle + radius, bound)
    return 0.5 * (low + high), 0.5 * (high - low) + ROOM * bound
