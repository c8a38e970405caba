"""Functions whose slope has no bound on all of R: powers, the exponential and the logarithm.

The slope of such a unit has no bound until the range of its argument is known.  A problem proves
this range over its domain (`lipyomo.problems.reductions.confine`) and replaces the unit by a
`Confined` one: the same function on that interval, where its slope is bounded.  Outside the
interval the function does not matter, as no point of the domain leads there: ranges and bands are
those on the intersection with the proved interval.

Powers are computed by products, by one quotient and by one square root, which are rounded
correctly: with p factors, relative errors of 2 p + 8 u cover the value and each derivative.  The
logarithm is ``log1p(z - 1)`` above a half and ``-log1p(1 / z - 1)`` below; z - 1 and 1 / z have an
error of 1 u relative to a number whose logarithm is at least a half in size, or are exact: 4 u
more.

Every unit has one argument, so a product is a difference of two squares, ``a b = ((a + b) / 2)**2 -
((a - b) / 2)**2``.  Both squares have their own activation (`Half`): two of them with opposite
columns in the next weight are recognised as a product, ``p**2 - q**2 = (p + q) (p - q)``, by
searches with bounds of products.  All other methods treat them as squares.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations.activation import Activation, Slope
from lipyomo.networks.activations.branch import Branch, Turn, exact_turn
from lipyomo.networks.activations.elementary import exp, log1p
from lipyomo.networks.activations.rounding import Error, error, outwards

HIGHEST = 8.0
"""Exponents of powers are multiples of a half between minus this and this."""

STEEPEST = 1e100
"""Limit of derivatives: products of larger ones overflow."""


@dataclass(frozen=True, kw_only=True)
class Piece(Branch):
    """An interval on which a function is smooth; limits at its ends are computed there."""

    low: float = -np.inf
    high: float = np.inf

    steep = True

    @cached_property
    def tails(self) -> tuple[tuple[float, float], ...]:
        """Computed limits at both ends, with errors bounded by `errors`."""
        ends = self.low, self.high or -0.0  # zero is met from below
        with np.errstate(all="ignore"):
            sides = [self.jet(np.array(end), 3) for end in ends]
        low, high = ([float(value) for value in side] for side in sides)
        return tuple(zip(low, high, strict=True))

    def extent(self, order: int) -> tuple[float, float]:
        """As `Branch.extent`, widened by the rounding errors of the limits."""
        with np.errstate(invalid="ignore"):
            ends = np.array(super().extent(order))
            low, high = outwards(ends[:1], ends[1:], self.errors[order])
        limits = self.tails[order]
        return (
            float(low[0]) if np.isfinite(low[0]) else min(limits),
            float(high[0]) if np.isfinite(high[0]) else max(limits),
        )


@dataclass(frozen=True)
class PowerPiece(Piece):
    """``z**exponent`` on [low, high], which is on one side of zero unless powers are whole."""

    exponent: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", self.exponent == 2.0)  # its second derivative is constant

    @property
    def unit(self) -> float:
        """Distance from zero, if the function is singular there."""
        if _is_whole(self.exponent):
            return 1.0
        return max(min(abs(self.low), abs(self.high)), 1e-300)

    def units(self, low: FloatArray, high: FloatArray) -> float | FloatArray:
        """Return the distances of parts of the interval from zero."""
        if _is_whole(self.exponent):
            return 1.0
        return np.maximum(np.minimum(np.abs(low), np.abs(high)), 1e-300)

    @property
    def turns(self) -> tuple[tuple[Turn, ...], ...]:
        """Even powers turn at zero."""
        if not (_is_whole(self.exponent) and self.low < 0.0 < self.high):
            return (), (), (), ()
        left = [int(self.exponent) - k for k in range(4)]
        zero = (exact_turn(0.0, 0.0),)
        return tuple(zero if k > 0 and k % 2 == 0 else () for k in left)

    @property
    def errors(self) -> tuple[Error, ...]:
        """Relative error bounds of the value and three derivatives."""
        return (error(2 * abs(self.exponent) + 16),) * 4

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        found, factor = [], 1.0
        for k in range(order + 1):
            p = self.exponent - k
            found.append(_power(z, p) * factor if factor else np.zeros_like(z))
            factor *= p
        return tuple(found)

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        p = self.exponent
        return _power_of_ball(z, p), _power_of_ball(z, p - 1.0) * p


def _is_whole(exponent: float) -> bool:
    return exponent >= 0.0 and exponent == int(exponent)


def _power(z: FloatArray, exponent: float) -> FloatArray:
    """``z**exponent`` for a multiple of a half."""
    whole = math.floor(abs(exponent))
    found = np.sqrt(z) if abs(exponent) != whole else np.ones_like(z)
    for _ in range(whole):
        found = found * z
    return np.asarray(1.0 / found if exponent < 0.0 else found)


def _power_of_ball(z: arb, exponent: float) -> arb:
    whole = math.floor(abs(exponent))
    found = z.sqrt() if abs(exponent) != whole else arb(1)
    if whole:
        found = found * z**whole
    return 1 / found if exponent < 0.0 else found


@dataclass(frozen=True)
class ExpPiece(Piece):
    """``exp(z)`` on [low, high]."""

    errors = (error(16),) * 4

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        return (exp(z),) * (order + 1)

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        return z.exp(), z.exp()


@dataclass(frozen=True)
class LogPiece(Piece):
    """``log(z)`` on [low, high], above zero."""

    errors = (error(32), error(8), error(8), error(8))

    @property
    def unit(self) -> float:
        """Distance from zero."""
        return max(self.low, 1e-300)

    def units(self, low: FloatArray, high: FloatArray) -> float | FloatArray:
        """Return the distances of parts of the interval from zero."""
        return np.maximum(low, 1e-300)

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        above = z >= 0.5
        inverse = 1.0 / z
        near = np.where(above, z - 1.0, inverse - 1.0)
        value = np.where(above, 1.0, -1.0) * log1p(near)
        return (value, inverse, -inverse * inverse, 2.0 * inverse**3)[: order + 1]

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        return z.log(), 1 / z


class Unbounded(Activation):
    """A function whose slope is unbounded on R, or that is not defined on all of it."""

    limits = (-np.inf, np.inf)
    breaks = ()
    jumps = ()

    @property
    @abstractmethod
    def pieces(self) -> tuple[Piece, ...]:
        """The intervals on which the function is defined, in ascending order."""

    @property
    def branches(self) -> tuple[Branch, ...]:
        """Raise `NetworkError`, as slopes are not bounded yet."""
        raise NetworkError(
            f"the slopes of units with {self.name} have no bound before it is known where their "
            "arguments lie.  Remedy: ask for something on a bounded domain"
        )

    def on(self, low: float, high: float) -> Confined:
        """Confine the function to an interval that contains all its arguments.

        Raises
        ------
        NetworkError
            If it is singular there, or too steep.
        """
        bounded = -np.inf < low <= high < np.inf
        if not bounded or not any(p.low < low and high < p.high for p in self.pieces):
            gap = " and ".join(f"({p.low:g}, {p.high:g})" for p in self.pieces)
            raise NetworkError(
                f"{self.name} needs arguments in {gap}, but all that is proved of them over the "
                f"domain is the range [{low:.6g}, {high:.6g}]"
            )
        found = Confined(self, float(low), float(high))
        with np.errstate(all="ignore"):
            steepest = max(found.branches[0].largest(k) for k in range(4))
        if not steepest <= STEEPEST:
            raise NetworkError(
                f"{self.name} has values or derivatives above {STEEPEST:g} on the range "
                f"[{low:.6g}, {high:.6g}], which is all that is proved of its arguments"
            )
        return found

    def _derivative(self, order: int, z: FloatArray) -> FloatArray:
        """Return a derivative at `z`; NaN where the function is not defined."""
        z = np.asarray(z, dtype=np.float64)
        with np.errstate(all="ignore"):
            return np.asarray(self.pieces[-1].jet(z, order)[order])

    def _range(
        self, order: int, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ranges on intervals; infinite where these reach a singularity."""
        low, high = np.broadcast_arrays(np.asarray(low, float), np.asarray(high, float))
        least, greatest = np.full(low.shape, -np.inf), np.full(low.shape, np.inf)
        with np.errstate(all="ignore"):
            for piece in self.pieces:
                inside = (low > piece.low) & (high < piece.high)
                under, over = piece.range(order, low, high)
                known = inside & ~(np.isnan(under) | np.isnan(over))
                least, greatest = np.where(known, under, least), np.where(known, over, greatest)
        return least, greatest

    def exact(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of sigma and sigma' on a ball; no numbers where it is not defined."""
        return self.pieces[-1].ball(z)


@dataclass(frozen=True)
class Power(Unbounded):
    """``z**exponent``.

    Parameters
    ----------
    exponent : float
        A multiple of a half between -8 and 8: 2 is the square, 0.5 the root, -1 the reciprocal.
    """

    exponent: float

    def __post_init__(self) -> None:
        p = float(self.exponent)
        if not abs(p) <= HIGHEST or 2.0 * p != int(2.0 * p) or p in (0.0, 1.0):
            raise NetworkError(
                f"powers with the exponent {self.exponent!r} are not supported.  Remedy: use a "
                f"multiple of a half between -{HIGHEST:g} and {HIGHEST:g}, other than 0 and 1"
            )
        object.__setattr__(self, "exponent", p)

    @property
    def name(self) -> str:
        """A name such as ``square``, or ``pow(3.0)``."""
        return _NAMES.get(self.exponent, f"pow({self.exponent!r})")

    @property
    def reflection(self) -> tuple[float, float] | None:
        """The symmetry of integer powers, which are even or odd."""
        if self.exponent != int(self.exponent):
            return None
        return (1.0 if self.exponent % 2.0 == 0.0 else -1.0), 0.0

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """R, both sides of zero, or the positive numbers, depending on the exponent."""
        p = self.exponent
        if _is_whole(p):
            return (PowerPiece(p),)
        above = PowerPiece(p, low=0.0)
        return (PowerPiece(p, high=0.0), above) if p == int(p) else (above,)

    @property
    def derivative(self) -> Slope:
        """A multiple of a power, or of the identity."""
        p = self.exponent
        return Slope(p, None if p == 2.0 else Power(p - 1.0))


_NAMES = {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}


@dataclass(frozen=True)
class Exp(Unbounded):
    """``exp(z)``."""

    name = "exp"
    pieces = (ExpPiece(),)

    @property
    def derivative(self) -> Slope:
        """The function itself."""
        return Slope(1.0, self)


@dataclass(frozen=True)
class Log(Unbounded):
    """``log(z)`` for z > 0."""

    name = "log"
    pieces = (LogPiece(low=0.0),)

    @property
    def derivative(self) -> Slope:
        """The reciprocal."""
        return Slope(1.0, Power(-1.0))


@dataclass(frozen=True)
class Confined(Activation):
    """A function confined to an interval that is proved to contain all its arguments on a domain.

    Parameters
    ----------
    of : Unbounded
    low, high : float
        Ends of the interval, on which `of` is smooth.
    """

    of: Unbounded
    low: float
    high: float

    @property
    def name(self) -> str:
        """The name of the function with the interval."""
        return f"{self.of.name} on [{self.low!r}, {self.high!r}]"

    @property
    def true(self) -> Activation:
        """The function itself."""
        return self.of

    @property
    def reflection(self) -> tuple[float, float] | None:
        """The symmetry of the function, if the interval is symmetric."""
        return self.of.reflection if self.low == -self.high else None

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """A single branch, on the interval."""
        return (replace(self.of.pieces[0], low=self.low, high=self.high),)

    def _shared(self, z: FloatArray) -> FloatArray:
        return np.clip(np.asarray(z, dtype=np.float64), self.low, self.high)

    def _derivative(self, order: int, z: FloatArray) -> FloatArray:
        """Return a derivative of the function itself, even outside the interval."""
        return self.of._derivative(order, z)

    def _range(
        self, order: int, low: FloatArray, high: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ranges on the intersections of intervals with this one."""
        return super()._range(order, self._shared(low), self._shared(high))

    def _each_block(
        self, some: Sequence[FloatArray], made: Callable[..., tuple[FloatArray, ...]], count: int
    ) -> tuple[FloatArray, ...]:
        """As `Activation._each_block`, for the intersections of intervals with this one."""
        A, c, low, high, *others = some
        some = A, c, self._shared(low), self._shared(high), *others
        return super()._each_block(some, made, count)

    def exact(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of sigma and sigma' on a ball, even outside the interval."""
        return self.of.exact(z)


@dataclass(frozen=True)
class Half(Power):
    """One of the two squares of a product: of half the sum, or half the difference, of its factors.

    Parameters
    ----------
    exponent : float
        Two.
    difference : bool
        Whether it is the square of the difference.
    """

    exponent: float = 2.0
    difference: bool = False


HALVES = Half(), Half(difference=True)
"""The squares of the sum and of the difference."""
