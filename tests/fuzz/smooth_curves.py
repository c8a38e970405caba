"""Activations in Arb, from their definitions: values, slopes and curvatures over intervals.

Nothing here is shared with the package.  A curve is a list of smooth pieces between breaks; a
piece is a formula for (value, slope, curvature) on Arb's balls, whose results contain those of
every point of the ball.  Over wide balls formulas are loose, so ranges come from the ends where
all three are monotone, and otherwise from a table of cells an eighth wide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from flint import arb, ctx

Jet = tuple[arb, arb, arb]
"""Value, slope and curvature (second derivative)."""
Formula = Callable[[arb], Jet]

REACH = 64
"""Where a table of cells ends; the tails beyond are `TAIL` from their limits."""
CELLS = 8
"""Cells of a table to a unit of length."""
TAIL = 1e-20
"""Slope and curvature of every tabulated curve are this close to their limits beyond `REACH`.

All of them differ from their limits by at most ``(4 + 2 |z|) exp(-|z|)`` there, which is 3e-26.
"""
FAR = arb(2) ** 40
FAR_TAIL = arb(2) ** -1_000_000
"""The same bound at arguments beyond `FAR`, where formulas are not evaluated any more."""
NARROW = arb(1) / 16


def hull(*balls: arb) -> arb:
    """The least ball around some."""
    found = balls[0]
    for ball in balls[1:]:
        found = found.union(ball)
    return found


def meet(one: arb, other: arb) -> arb:
    """What two balls share that both hold a number; NaN says nothing."""
    if one.is_nan() or other.is_nan():
        return other if one.is_nan() else one
    return one.intersection(other)


def between(low: arb, high: arb) -> arb:
    """A ball that contains all numbers from one to another."""
    return low.lower().union(high.upper())


def within(low: float, high: float) -> arb:
    return arb(low).union(arb(high))


@dataclass(frozen=True, eq=False)
class Piece:
    """A smooth formula on an interval.

    Parameters
    ----------
    formula : callable
    monotone : bool
        Whether value, slope and curvature are all monotone on the piece, so that the ends of an
        interval give their ranges.
    limits : pair of floats, optional
        Slopes at minus and plus infinity of a curve that is tabulated.
    values : pair of floats, optional
        Values at minus and plus infinity, between which all are, where these are bounded.
    """

    formula: Formula
    monotone: bool = False
    limits: tuple[float, float] | None = None
    values: tuple[float, float] | None = None

    def over(self, z: arb) -> Jet:
        """Enclosures over a ball."""
        if self.monotone:
            return self.from_to(z.lower(), z.upper())
        if self.limits is None:
            return self.formula(z)
        slope, curvature = self._far(z) or self._close(z)
        middle = z.mid()
        at = self._value(middle)
        value = at + slope * (z - middle)
        if slope >= 0:
            value = meet(value, hull(self._value(z.lower()), self._value(z.upper())))
        if self.values is not None:
            value = meet(value, within(*self.values))
        return value, slope, curvature

    def from_to(self, low: arb, high: arb) -> Jet:
        """Enclosures between two points; a ball about both of a long way reaches well beyond."""
        if self.monotone:
            return tuple(map(hull, self.formula(low), self.formula(high)))
        return self.over(between(low, high))

    def _value(self, z: arb) -> arb:
        if abs(z) < FAR:
            return self.formula(z)[0]
        end = 1 if z > 0 else 0
        offset = (self.values or (0.0, 0.0))[end]  # other asymptotes go through the origin
        return z * self.limits[end] + offset + FAR_TAIL * arb(0, 1)  # type: ignore[index]

    def _far(self, z: arb) -> tuple[arb, arb] | None:
        """Slope and curvature of a ball that lies far out, if it does."""
        low, high = self.limits  # type: ignore[misc]
        for limit, out in ((low, -z), (high, z)):
            if out.lower() > FAR:
                return arb(limit) + FAR_TAIL * arb(0, 1), FAR_TAIL * arb(0, 1)
        return None

    def _close(self, z: arb) -> tuple[arb, arb]:
        if z.rad() < NARROW:
            _, slope, curvature = self.formula(z)
            return slope, curvature
        table = _table(self)
        low, high = table.ends(z)
        return table.slopes(low, high), table.curvatures(low, high)


@dataclass(frozen=True)
class _Table:
    """Outward rounded ranges of slope and curvature on cells, the first and last one tails."""

    bounds: np.ndarray  # (4, cells): least and largest slope, least and largest curvature

    def ends(self, z: arb) -> tuple[int, int]:
        """The cells that a ball meets, and one more on either side."""
        low, high = (
            min(max(float(end), -REACH - 1.0), REACH + 1.0) for end in (z.lower(), z.upper())
        )
        first = int(np.floor((low + REACH) * CELLS))
        last = int(np.floor((high + REACH) * CELLS)) + 2
        count = self.bounds.shape[1]
        return min(max(first, 0), count - 1), min(max(last, 0), count - 1) + 1

    def slopes(self, low: int, high: int) -> arb:
        return within(self.bounds[0, low:high].min(), self.bounds[1, low:high].max())

    def curvatures(self, low: int, high: int) -> arb:
        return within(self.bounds[2, low:high].min(), self.bounds[3, low:high].max())


@cache
def _table(piece: Piece) -> _Table:
    """Cells of `piece`; the first and last are its tails."""
    assert piece.limits is not None
    tail = arb(0, TAIL)
    columns = [(arb(piece.limits[0]) + tail, tail)]
    for k in range(2 * REACH * CELLS):
        low = arb(k) / CELLS - REACH
        middle, rest = piece.formula(between(low, low + arb(1) / CELLS))[1:]
        columns.append((middle, rest))
    columns.append((arb(piece.limits[1]) + tail, tail))
    rows = np.empty((4, len(columns)))
    for k, (slope, curvature) in enumerate(columns):
        for j, ball in enumerate((slope, curvature)):
            rows[2 * j, k] = np.nextafter(float(ball.lower()), -np.inf)
            rows[2 * j + 1, k] = np.nextafter(float(ball.upper()), np.inf)
    return _Table(rows)


@dataclass(frozen=True, eq=False)
class Curve:
    """An activation: pieces between breaks.

    Attributes
    ----------
    name : str
        As the package has it.
    parameters : tuple of (str, float or str)
    pieces : tuple of Piece
    breaks : tuple of float
        One fewer than pieces.
    jumps : tuple of bool
        Whether the slope jumps at each break; otherwise it only bends.
    slopes : pair of floats, optional
        Left and right slope of a two-slope unit.
    """

    name: str
    pieces: tuple[Piece, ...]
    breaks: tuple[float, ...] = ()
    jumps: tuple[bool, ...] = ()
    parameters: tuple[tuple[str, float | str], ...] = ()
    slopes: tuple[float, float] | None = None

    def over(self, z: arb, first: int, last: int) -> Jet:
        """Enclosures over a ball, of the curve that goes on straight beyond some pieces.

        Outside the pieces `first` to `last` the curve is continued by its tangents, so that it
        is once continuously differentiable where no break lies between those pieces.
        """
        if z.is_nan():
            return z, z, z
        found: list[Jet] = []
        low, high = z.lower(), z.upper()
        for p in range(first, last + 1):
            left = arb(self.breaks[p - 1]) if p else None
            right = arb(self.breaks[p]) if p < len(self.breaks) else None
            start = low if left is None or low > left else left
            end = high if right is None or high < right else right
            if start <= end:
                whole = start is low and end is high
                piece = self.pieces[p]
                found.append(piece.over(z) if whole else piece.from_to(start, end))
        if first > 0 and low < self.breaks[first - 1]:
            found.append(self._tangent(first, self.breaks[first - 1], z, low))
        if last < len(self.breaks) and high > self.breaks[last]:
            found.append(self._tangent(last, self.breaks[last], z, high))
        return found[0] if len(found) == 1 else tuple(map(hull, *found))

    def _tangent(self, piece: int, at: float, z: arb, end: arb) -> Jet:
        value, slope, _ = self.pieces[piece].formula(arb(at))
        beyond = hull(arb(at), end) if z.contains(arb(at)) else z
        return value + slope * (beyond - at), slope, arb(0)


# -- formulas ---------------------------------------------------------------------------------


def _tanh(z: arb) -> Jet:
    t, s = z.tanh(), z.sech() ** 2
    return t, s, -2 * t * s


def _logistic(z: arb) -> tuple[arb, arb]:
    """``1 / (1 + exp(-z))`` and one minus it."""
    if z.rad() > 1:  # both are monotone, and exp of a wide ball has no inverse
        ends = _logistic(z.lower()), _logistic(z.upper())
        return hull(ends[0][0], ends[1][0]), hull(ends[0][1], ends[1][1])
    return 1 / (1 + (-z).exp()), 1 / (1 + z.exp())


def _sigmoid(z: arb) -> Jet:
    s, r = _logistic(z)
    return s, s * r, s * r * (r - s)


def _softplus(z: arb) -> Jet:
    s, r = _logistic(z)
    value = z.exp().log1p() if z < 0 else z + (-z).exp().log1p()
    return value, s, s * r


def _silu(z: arb) -> Jet:
    s, r = _logistic(z)
    return z * s, s * (1 + z * r), s * r * (2 + z * (r - s))


def _gelu(z: arb) -> Jet:
    root = arb(2).sqrt()
    density = (-(z**2) / 2).exp() / (2 * arb.pi()).sqrt()
    mass = (-z / root).erfc() / 2
    return z * mass, mass + z * density, density * (2 - z**2)


def _gelu_tanh(z: arb) -> Jet:
    k, c = (2 / arb.pi()).sqrt(), arb("0.044715")
    u, du, ddu = k * (z + c * z**3), k * (1 + 3 * c * z**2), 6 * k * c * z
    s, r = _logistic(2 * u)  # (1 + tanh u) / 2 and one minus it
    ds = 2 * s * r * du
    dds = 2 * s * r * (ddu + 2 * du**2 * (r - s))
    return z * s, s + z * ds, 2 * ds + z * dds


def _mish(z: arb) -> Jet:
    p, dp, ddp = _softplus(z)
    t, dt, ddt = _tanh(p)
    return z * t, t + z * dt * dp, 2 * dt * dp + z * (ddt * dp**2 + dt * ddp)


def _erf(z: arb) -> Jet:
    slope = 2 * (-(z**2)).exp() / arb.pi().sqrt()
    return z.erf(), slope, -2 * z * slope


def _sin(z: arb) -> Jet:
    unit = arb(0, 1)
    s, c = z.sin().intersection(unit), z.cos().intersection(unit)
    return s, c, -s


def _cos(z: arb) -> Jet:
    s, c, _ = _sin(z)
    return c, -s, -c


def _line(slope: float, offset: float = 0.0) -> Piece:
    return Piece(lambda z: (slope * z + offset, arb(slope), arb(0)), monotone=True)


def _exponential(height: arb, rate: arb) -> Piece:
    """``height (exp(rate z) - 1)``."""

    def formula(z: arb) -> Jet:
        slope = height * rate * (rate * z).exp()
        return height * (rate * z).expm1(), slope, rate * slope

    return Piece(formula, monotone=True)


def _softsign(side: int) -> Piece:
    def formula(z: arb) -> Jet:
        q = 1 / (1 + side * z)
        return z * q, q**2, -2 * side * q**3

    return Piece(formula, monotone=True)


def _hard_swish() -> Piece:
    return Piece(lambda z: (z * (z + 3) / 6, z / 3 + arb(1) / 2, arb(1) / 3))


UNIT = (-1.0, 1.0)

TANH = Curve("tanh", (Piece(_tanh, limits=(0.0, 0.0), values=UNIT),))
SIGMOID = Curve("sigmoid", (Piece(_sigmoid, limits=(0.0, 0.0), values=(0.0, 1.0)),))
SOFTPLUS = Curve("softplus", (Piece(_softplus, limits=(0.0, 1.0)),))
GELU = Curve("gelu", (Piece(_gelu, limits=(0.0, 1.0)),))
GELU_TANH = Curve(
    "gelu", (Piece(_gelu_tanh, limits=(0.0, 1.0)),), parameters=(("approximate", "tanh"),)
)
SILU = Curve("silu", (Piece(_silu, limits=(0.0, 1.0)),))
MISH = Curve("mish", (Piece(_mish, limits=(0.0, 1.0)),))
ERF = Curve("erf", (Piece(_erf, limits=(0.0, 0.0), values=UNIT),))
SIN = Curve("sin", (Piece(_sin),))
COS = Curve("cos", (Piece(_cos),))
SOFTSIGN = Curve("softsign", (_softsign(-1), _softsign(1)), (0.0,), (False,))
HARD_SWISH = Curve("hard_swish", (_line(0.0), _hard_swish(), _line(1.0)), (-3.0, 3.0), (True, True))


@cache
def two_slope(left: float, right: float) -> Curve:
    """``left z`` below zero and ``right z`` above."""
    if left == right:
        return Curve("line", (_line(left),), slopes=(left, right))
    return Curve("two-slope", (_line(left), _line(right)), (0.0,), (True,), slopes=(left, right))


@cache
def elu(alpha: float) -> Curve:
    """``alpha (exp(z) - 1)`` below zero."""
    pieces = (_exponential(arb(alpha), arb(1)), _line(1.0))
    return Curve("elu", pieces, (0.0,), (alpha != 1.0,), (("alpha", alpha),))


@cache
def celu(alpha: float) -> Curve:
    """``alpha (exp(z / alpha) - 1)`` below zero."""
    pieces = (_exponential(arb(alpha), 1 / arb(alpha)), _line(1.0))
    return Curve("celu", pieces, (0.0,), (False,), (("alpha", alpha),))


@cache
def selu(alpha: float, gamma: float) -> Curve:
    """``gamma`` times an ELU."""
    pieces = (_exponential(arb(gamma) * arb(alpha), arb(1)), _line(gamma))
    parameters = (("alpha", alpha), ("gamma", gamma))
    return Curve("selu", pieces, (0.0,), (alpha != 1.0,), parameters)


@cache
def swish(beta: float) -> Curve:
    """``z / (1 + exp(-beta z))``."""
    at = arb(beta)

    def formula(z: arb) -> Jet:
        value, slope, curvature = _silu(at * z)
        return value / at, slope, at * curvature

    # its tails are those of SiLU farther out
    assert 1 <= beta <= 4, "the bound of the tails is made for these"
    return Curve("swish", (Piece(formula, limits=(0.0, 1.0)),), parameters=(("beta", beta),))


def _exp(z: arb) -> Jet:
    e = z.exp()
    return e, e, e


def _log(z: arb) -> Jet:
    if not z > 0:
        return NOTHING
    return z.log(), 1 / z, -1 / (z * z)


EXP = Curve("exp", (Piece(_exp, monotone=True),))
LOG = Curve("log", (Piece(_log, monotone=True),))
NOTHING = (arb.nan(), arb.nan(), arb.nan())


@cache
def power(exponent: float) -> Curve:
    """``z**exponent`` for a multiple of a half; no numbers where it is not defined."""
    whole = exponent > 0 and exponent == int(exponent)

    def raised(z: arb, p: float) -> arb:
        if p == int(p):
            size = arb(1)
            for _ in range(abs(int(p))):
                size = size * z
            return size if p >= 0 else 1 / size
        return (z.log() * arb(p)).exp()

    def formula(z: arb) -> Jet:
        if not whole and not z > 0 and not (z < 0 and exponent == int(exponent)):
            return NOTHING
        if exponent == 2.0:  # products of a ball about zero with itself reach below it
            least = arb(0) if z.contains(arb(0)) else min(z.lower() ** 2, z.upper() ** 2)
            value = hull(least, z.lower() * z.lower(), z.upper() * z.upper())
            return value, 2 * z, arb(2)
        p = exponent
        first = p * raised(z, p - 1) if p != 1 else arb(1)
        return raised(z, p), first, p * (p - 1) * raised(z, p - 2)

    name, given = "power", (("exponent", exponent),)
    monotone = not whole
    return Curve(name, (Piece(formula, monotone=monotone),), parameters=given)


HALVES = tuple(
    replace(power(2.0), name="half", parameters=(("difference", side),)) for side in (False, True)
)
"""The two squares of a product, which are known to be that."""


ctx.prec = max(ctx.prec, 128)
