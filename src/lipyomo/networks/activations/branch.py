"""Smooth branches of activations: derivatives, their turning points and their rounding errors.

An activation consists of one branch, or of several that meet at its breaks.  Between neighbouring
turning points a derivative is monotone, so its range over an interval is determined by its values
at the two ends and at the turning points between them.  A turning point is stored as a nearby
float64 number: an interval is taken to contain it if it comes within four units in the last place
of that number, and its value is widened as much.  The tests recompute all turning points in ball
arithmetic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations.rounding import ULP, Error, outwards


class Sums(NamedTuple):
    """Functions ``F = A sigma + c sigma'``, each on its own interval; arrays of one shape.

    Attributes
    ----------
    A, c : ndarray
    low, high : ndarray
        Ends of the intervals, finite.
    slope : ndarray, optional
        Slopes of the bands; those of chords by default.
    """

    A: FloatArray
    c: FloatArray
    low: FloatArray
    high: FloatArray
    slope: FloatArray | None = None

    def of(self, value: FloatArray, slope: FloatArray) -> FloatArray:
        """Return F from sigma and sigma', or a derivative of F from derivatives of both."""
        return self.A * value + self.c * slope

    @property
    def sizes(self) -> FloatArray:
        """The largest absolute values of the ends."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


SLACK = 4.0 * ULP
"""Relative error bound of a stored turning point."""


class Turn(NamedTuple):
    """A turning point of a derivative: its place, its value, and the relative error of both."""

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
    """Return a turning point whose place and value are exactly float64 numbers."""
    return Turn(at, value, 0.0)


class Branch(ABC):
    """A function with three derivatives on an interval.

    Attributes
    ----------
    low, high : float
        Ends of the interval on which it is part of an activation; they may be infinite.
    whole : bool
        Whether bands need no pieces: the second derivative is constant, or `inner` or the
        activation's own band is exact.
    steep : bool
        Whether derivatives are far larger at one end than elsewhere, so that their errors are
        computed for each part of the interval.
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
        """Return this length on parts of the interval: one number for all, or shape (n,)."""
        return self.unit

    @property
    def turns(self) -> tuple[tuple[Turn, ...], ...]:
        """Turning points inside the interval, for the value and three derivatives."""
        return (), (), (), ()

    @property
    @abstractmethod
    def errors(self) -> tuple[Error, ...]:
        """Error bounds of `jet`, for the value and three derivatives."""

    @property
    @abstractmethod
    def tails(self) -> tuple[tuple[float, float], ...]:
        """Limits at both ends of the interval, for the value and three derivatives."""

    @abstractmethod
    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`, arrays of the same shape."""

    @abstractmethod
    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""

    def inner(self, sums: Sums, s: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Return sound bounds of ``F - s z`` inside intervals, not counting values at their ends.

        None if there is no closed form; an infinite number means that the extremum is at an end.
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
        """Return the range of a derivative on intervals, up to its error bound.

        Parameters
        ----------
        order : int
        low, high : ndarray
            Finite ends.
        at_low, at_high : ndarray
            The derivative at the ends, computed by `jet`.
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
        return (  # no bound after an overflow
            np.where(least > below, np.minimum(least, above), below),
            np.where(greatest < above, np.maximum(greatest, below), above),
        )

    def _with_limits(self, order: int, z: FloatArray) -> FloatArray:
        """Return a derivative at `z`, which may be infinite."""
        if np.isfinite(z).all():
            return self.jet(z, order)[order]
        at = self.jet(np.clip(z, -_FAR, _FAR), order)[order]
        for end, limit in zip((-np.inf, np.inf), self.tails[order], strict=True):
            at = np.where(z == end, limit, at)
        return at


_FAR = float(np.finfo(np.float64).max)
