"""A smooth branch of an activation: its derivatives, where they turn, what they are off by.

An activation is made of one branch, or of several that meet at its breaks.  Between two
neighbouring turning points a derivative is monotone, so that its range over an interval is spanned
by its values at the two ends and at the turning points between them.  A turning point is stored as
the float64 number beside it: an interval counts as holding it if it comes within four units in the
last place of that number, and its value is widened as much.  The tests find all turning points anew
in ball arithmetic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations.rounding import ULP, Error, outwards


class Sums(NamedTuple):
    """Functions ``F = A sigma + c sigma'``, each on an interval of its own; arrays of one shape.

    Attributes
    ----------
    A, c : ndarray
    low, high : ndarray
        Ends of the intervals, finite.
    slope : ndarray, optional
        What the slopes of bands are to be; those of chords if left out.
    """

    A: FloatArray
    c: FloatArray
    low: FloatArray
    high: FloatArray
    slope: FloatArray | None = None

    def of(self, value: FloatArray, slope: FloatArray) -> FloatArray:
        """F from sigma and sigma', or a derivative of it from two of theirs."""
        return self.A * value + self.c * slope

    @property
    def sizes(self) -> FloatArray:
        """The largest absolute values of the ends."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


SLACK = 4.0 * ULP
"""Relative room around what is stored of a turning point."""


class Turn(NamedTuple):
    """A turning point of a derivative: where it is, the value there; `slack` of both."""

    at: float
    value: float
    slack: float = SLACK

    @property
    def ends(self) -> tuple[float, float]:
        """Numbers that enclose the turning point."""
        room = self.slack * abs(self.at)
        return self.at - room, self.at + room

    @property
    def values(self) -> tuple[float, float]:
        """Numbers that enclose the value there."""
        room = self.slack * abs(self.value)
        return self.value - room, self.value + room


def exact_turn(at: float, value: float) -> Turn:
    """A turning point whose place and value are float64 numbers."""
    return Turn(at, value, 0.0)


class Branch(ABC):
    """A function with three derivatives on an interval.

    Attributes
    ----------
    low, high : float
        Ends of the interval on which it is part of an activation; they may be infinite.
    whole : bool
        Whether bands need no pieces: the second derivative is constant, or `inner`, or a band of
        the activation's own, says all.
    steep : bool
        Whether derivatives are far larger at one end than elsewhere: what they are off by then
        follows from the part of the interval at hand.
    """

    low: float = -np.inf
    high: float = np.inf
    whole: bool = False
    steep: bool = False

    @property
    def unit(self) -> float:
        """Length on which derivatives change."""
        return 1.0

    def units(self, low: FloatArray, high: FloatArray) -> float | FloatArray:
        """The same on parts of the interval, one number for all or shape (n,)."""
        return self.unit

    @property
    def turns(self) -> tuple[tuple[Turn, ...], ...]:
        """Turning points inside the interval, for the value and three derivatives."""
        return (), (), (), ()

    @property
    @abstractmethod
    def errors(self) -> tuple[Error, ...]:
        """What `jet` is off by, for the value and three derivatives."""

    @property
    @abstractmethod
    def tails(self) -> tuple[tuple[float, float], ...]:
        """Limits at both ends of the interval, for the value and three derivatives."""

    @abstractmethod
    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Value and derivatives up to `order` at finite `z`, arrays of the same shape."""

    @abstractmethod
    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""

    def inner(self, sums: Sums, s: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Sound least and greatest ``F - s z`` on intervals, but for its values at their ends.

        None if there is no closed form; infinite numbers say that it is nowhere less, or more, than
        at the ends.
        """
        return None

    def extent(self, order: int) -> tuple[float, float]:
        """Enclosure of the range of a derivative over the whole branch."""
        ends = self.tails[order]
        low, high = [*ends], [*ends]
        for turn in self.turns[order]:
            low.append(turn.values[0])
            high.append(turn.values[1])
        return min(low), max(high)

    def largest(self, order: int) -> float:
        """Bound of the absolute value of a derivative over the whole branch."""
        low, high = self.extent(order)
        return max(-low, high)

    def hull(
        self, order: int, low: FloatArray, high: FloatArray, at_low: FloatArray, at_high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Least and greatest value of a derivative on intervals, off by its error at most.

        Parameters
        ----------
        order : int
        low, high : ndarray
            Ends, finite.
        at_low, at_high : ndarray
            The derivative there, as `jet` computes it.
        """
        least, greatest = np.minimum(at_low, at_high), np.maximum(at_low, at_high)
        for turn in self.turns[order]:
            first, last = turn.ends
            inside = (low <= last) & (high >= first)
            under, over = turn.values
            np.minimum(least, np.where(inside, under, np.inf), out=least)
            np.maximum(greatest, np.where(inside, over, -np.inf), out=greatest)
        return least, greatest

    def range(self, order: int, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sound range of a derivative over intervals, whose ends may be infinite."""
        ends = [self._with_limits(order, z) for z in (low, high)]
        least, greatest = outwards(*self.hull(order, low, high, *ends), self.errors[order])
        below, above = self.extent(order)
        return (  # numbers that overflowed on the way say nothing
            np.where(least > below, np.minimum(least, above), below),
            np.where(greatest < above, np.maximum(greatest, below), above),
        )

    def _with_limits(self, order: int, z: FloatArray) -> FloatArray:
        """A derivative at `z`, which may be infinite."""
        if np.isfinite(z).all():
            return self.jet(z, order)[order]
        at = self.jet(np.clip(z, -_FAR, _FAR), order)[order]
        for end, limit in zip((-np.inf, np.inf), self.tails[order], strict=True):
            at = np.where(z == end, limit, at)
        return at


_FAR = float(np.finfo(np.float64).max)
