"""Piecewise linear functions of one signal that a graph expresses by comparisons.

``Where(x > 0.5, x - 0.5, 0) + Where(x < -0.5, x + 0.5, 0)`` is PyTorch's Softshrink.  Single terms
may jump; only the result must be continuous.  So the formula is evaluated as a function of the
signal, in exact fractions: lines on open intervals, and values at the breakpoints between them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from operator import add, mul, neg, sub, truediv
from typing import Any, NamedTuple

from lipyomo.formats.onnx.graph import GraphNode
from lipyomo.networks.building.affine import Tensor
from lipyomo.networks.building.trace import FAR, Trace

MOST_BREAKS = 16
"""Limit of breakpoints; activations have at most four."""


class Inexpressible(Exception):
    """A formula is no function of the kind that is asked for."""


class Line(NamedTuple):
    """``slope x + offset``."""

    slope: Fraction
    offset: Fraction

    def at(self, x: Fraction) -> Fraction:
        """Return the value at `x`."""
        return self.slope * x + self.offset


class Jump(NamedTuple):
    """Position and size of a jump."""

    at: Fraction
    size: Fraction


@dataclass(frozen=True)
class LinearPieces:
    """A piecewise linear function of one signal, which may be discontinuous.

    Sums, products and quotients that are not piecewise linear raise `Inexpressible`.

    Parameters
    ----------
    lines : tuple of Line
        On the open intervals between the breakpoints, and on both sides.
    breaks : tuple of Fraction, optional
        Ascending breakpoints, one fewer than lines.
    values : tuple of Fraction, optional
        Values at the breakpoints.
    """

    lines: tuple[Line, ...]
    breaks: tuple[Fraction, ...] = ()
    values: tuple[Fraction, ...] = ()

    @classmethod
    def signal(cls) -> LinearPieces:
        """Return the identity."""
        return cls((Line(Fraction(1), Fraction(0)),))

    @classmethod
    def constant(cls, value: Fraction) -> LinearPieces:
        """Return a constant function."""
        return cls((Line(Fraction(0), value),))

    def refined(self, breaks: Iterable[Fraction]) -> LinearPieces:
        """Return the same function with additional breakpoints."""
        every = tuple(sorted({*self.breaks, *breaks}))
        lines = [self.lines[bisect_left(self.breaks, right)] for right in every]
        return LinearPieces((*lines, self.lines[-1]), every, tuple(map(self.at, every)))

    def at(self, x: Fraction) -> Fraction:
        """Return the value at `x`."""
        place = bisect_left(self.breaks, x)
        if place < len(self.breaks) and self.breaks[place] == x:
            return self.values[place]
        return self.lines[place].at(x)

    def simple(self) -> LinearPieces:
        """Return the same function without redundant breakpoints."""
        lines, breaks, values = [self.lines[0]], [], []
        for line, x, value in zip(self.lines[1:], self.breaks, self.values, strict=True):
            if line == lines[-1] and value == line.at(x):
                continue
            lines.append(line)
            breaks.append(x)
            values.append(value)
        return LinearPieces(tuple(lines), tuple(breaks), tuple(values))

    @property
    def jump(self) -> Jump | None:
        """The largest jump, if the function is not continuous."""
        found = Jump(Fraction(0), Fraction(0))
        for i, x in enumerate(self.breaks):
            ends = self.lines[i].at(x), self.values[i], self.lines[i + 1].at(x)
            found = max(found, Jump(x, max(ends) - min(ends)), key=lambda jump: jump.size)
        return found if found.size else None

    def _joined(
        self,
        other: LinearPieces,
        values: Callable[[Fraction, Fraction], Fraction],
        lines: Callable[[Line, Line], Line],
    ) -> LinearPieces:
        """Combine two functions piece by piece."""
        first, second = self.refined(other.breaks), other.refined(self.breaks)
        if len(first.breaks) > MOST_BREAKS:
            raise Inexpressible
        points = map(values, first.values, second.values)
        found = map(lines, first.lines, second.lines)
        return LinearPieces(tuple(found), first.breaks, tuple(points)).simple()

    def __add__(self, other: LinearPieces) -> LinearPieces:
        def total(a: Line, b: Line) -> Line:
            return Line(a.slope + b.slope, a.offset + b.offset)

        return self._joined(other, add, total)

    def __mul__(self, other: LinearPieces) -> LinearPieces:
        def product(a: Line, b: Line) -> Line:
            if a.slope and b.slope:
                raise Inexpressible
            return Line(a.slope * b.offset + b.slope * a.offset, a.offset * b.offset)

        return self._joined(other, mul, product)

    def __neg__(self) -> LinearPieces:
        return self * self.constant(Fraction(-1))

    def __sub__(self, other: LinearPieces) -> LinearPieces:
        return self + (-other)

    def __truediv__(self, other: LinearPieces) -> LinearPieces:
        (line, *others) = other.lines
        if others or line.slope or not line.offset:
            raise Inexpressible
        return self * self.constant(1 / line.offset)

    def by_sign(self, below: int, at: int, above: int) -> LinearPieces:
        """Return the values `below`, `at`, `above` where this function is < 0, = 0, > 0."""

        def chosen(value: Fraction) -> Fraction:
            return Fraction(at if value == 0 else above if value > 0 else below)

        whole = self.refined(-line.offset / line.slope for line in self.lines if line.slope)
        ends, inside = whole.breaks, [Fraction(0)]
        if ends:
            middles = [(low + high) / 2 for low, high in pairwise(ends)]
            inside = [ends[0] - 1, *middles, ends[-1] + 1]
        signs = [chosen(line.at(x)) for line, x in zip(whole.lines, inside, strict=True)]
        lines = tuple(Line(Fraction(0), sign) for sign in signs)
        return LinearPieces(lines, ends, tuple(map(chosen, whole.values))).simple()


# -- operators ------------------------------------------------------------------------------------


def _relu(a: LinearPieces) -> LinearPieces:
    return a * a.by_sign(0, 0, 1)


def _leaky(a: LinearPieces, slope: LinearPieces) -> LinearPieces:
    return _relu(a) - slope * _relu(-a)


def _maximum(*parts: LinearPieces) -> LinearPieces:
    return reduce(lambda top, part: part + _relu(top - part), parts)


def _minimum(*parts: LinearPieces) -> LinearPieces:
    return reduce(lambda low, part: part - _relu(part - low), parts)


def _clip(a: LinearPieces, *limits: LinearPieces) -> LinearPieces:
    if len(limits) != 2:
        raise Inexpressible
    return _minimum(_maximum(a, limits[0]), limits[1])


def _hard_sigmoid(a: LinearPieces, alpha: LinearPieces, beta: LinearPieces) -> LinearPieces:
    return _clip(a * alpha + beta, *map(LinearPieces.constant, (Fraction(0), Fraction(1))))


def _shrunk(a: LinearPieces, width: LinearPieces, bias: LinearPieces) -> LinearPieces:
    above, below = (a - width).by_sign(0, 0, 1), (a + width).by_sign(1, 0, 0)
    return above * (a - bias) + below * (a + bias)


ARITHMETIC: dict[str, Callable[..., Any]] = {
    "Add": lambda *parts: reduce(add, parts),
    "Sum": lambda *parts: reduce(add, parts),
    "Sub": sub,
    "Neg": neg,
    "Mul": mul,
    "Div": truediv,
    "Identity": lambda a: a,
    "Cast": lambda a: a,
}
"""Operators on functions of any kind."""

OPERATORS: dict[str, Callable[..., LinearPieces]] = {
    **ARITHMETIC,
    "Abs": lambda a: a * a.by_sign(-1, 0, 1),
    "Relu": _relu,
    "LeakyRelu": _leaky,
    "PRelu": _leaky,
    "ThresholdedRelu": lambda a, alpha: a * (a - alpha).by_sign(0, 0, 1),
    "Shrink": _shrunk,
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "Max": _maximum,
    "Min": _minimum,
    "Where": lambda condition, a, b: b + condition * (a - b),
    "Greater": lambda a, b: (a - b).by_sign(0, 0, 1),
    "GreaterOrEqual": lambda a, b: (a - b).by_sign(0, 1, 1),
    "Less": lambda a, b: (a - b).by_sign(1, 0, 0),
    "LessOrEqual": lambda a, b: (a - b).by_sign(1, 1, 0),
    "Sign": lambda a: a.by_sign(-1, 0, 1),
    "Bool": lambda a: a.by_sign(1, 0, 1),
    "Not": lambda a: a.by_sign(1, 1, 0),
    "And": mul,
    "Or": lambda a, b: a + b - a * b,
}
"""Operators on piecewise linear functions; true is 1, false is 0."""


# -- as units -------------------------------------------------------------------------------------


class Bent(NamedTuple):
    """A continuous piecewise linear function of one signal.

    Parameters
    ----------
    signal : Tensor
    pieces : LinearPieces
        Without a jump.
    """

    signal: Tensor
    pieces: LinearPieces

    def units(self, trace: Trace, node: GraphNode) -> Tensor:
        """Add units, one per breakpoint, and return their tensor.

        Raises
        ------
        ImportRefused
            If a slope, an offset or a breakpoint is no float64 number.
        """

        def number(exact: Fraction) -> float:
            found = float(exact)
            if found != exact:
                remedy = "write the activation with numbers of fewer digits"
                raise node.refuse(f"no float64 number is {exact}, which it takes", remedy)
            return found

        x, lines, breaks = self.signal, self.pieces.lines, self.pieces.breaks
        if len(breaks) == 1 and max(abs(breaks[0]), abs(self.pieces.values[0])) <= FAR:
            kink, level = number(breaks[0]), number(self.pieces.values[0])
            slopes = (number(line.slope) for line in lines)
            return trace.unit(x.shift(-kink), *slopes).shift(level)
        # start from the flattest piece whose offset hardly rounds; the units add the changes of
        # slope on both sides of it
        start = min(
            range(len(lines)), key=lambda i: (abs(lines[i].offset) > FAR, abs(lines[i].slope))
        )
        total = x.scale(number(lines[start].slope)).shift(number(lines[start].offset))
        for i, at in enumerate(breaks):
            beyond = x.shift(-number(at))
            unit = trace.relu(beyond if i >= start else -beyond)
            for line, sign in ((lines[i + 1], 1.0), (lines[i], -1.0)):
                if line.slope:
                    total = total + unit.scale(sign * number(line.slope))
        return total
