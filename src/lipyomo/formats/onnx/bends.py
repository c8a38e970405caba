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
from typing import NamedTuple

from lipyomo.formats.onnx.graph import GraphNode
from lipyomo.networks.building.affine import Tensor
from lipyomo.networks.building.trace import FAR, Trace

MOST_BREAKS = 16
"""Limit of breakpoints; activations have at most four."""


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

    @staticmethod
    def line(slope: Fraction | int, offset: Fraction | int = 0) -> LinearPieces:
        """Return the function of a single line."""
        return LinearPieces((Line(Fraction(slope), Fraction(offset)),))

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

    @property
    def roots(self) -> list[Fraction]:
        """Zeros of the non-constant lines, inside their intervals or not."""
        return [-line.offset / line.slope for line in self.lines if line.slope]


# -- computing with them --------------------------------------------------------------------------


def _joined(
    first: LinearPieces,
    second: LinearPieces,
    values: Callable[[Fraction, Fraction], Fraction],
    lines: Callable[[Line, Line], Line | None],
) -> LinearPieces | None:
    """Combine two functions piece by piece; None if a result is no line, or has too many pieces."""
    first, second = first.refined(second.breaks), second.refined(first.breaks)
    each = [lines(a, b) for a, b in zip(first.lines, second.lines, strict=True)]
    found = [line for line in each if line is not None]
    if len(found) < len(each) or len(first.breaks) > MOST_BREAKS:
        return None
    points = map(values, first.values, second.values)
    return LinearPieces(tuple(found), first.breaks, tuple(points)).simple()


def _plus(first: LinearPieces | None, second: LinearPieces | None) -> LinearPieces | None:
    if first is None or second is None:
        return None
    return _joined(
        first,
        second,
        lambda a, b: a + b,
        lambda a, b: Line(a.slope + b.slope, a.offset + b.offset),
    )


def _times(first: LinearPieces | None, second: LinearPieces | None) -> LinearPieces | None:
    if first is None or second is None:
        return None

    def product(a: Line, b: Line) -> Line | None:
        if a.slope and b.slope:
            return None
        return Line(a.slope * b.offset + b.slope * a.offset, a.offset * b.offset)

    return _joined(first, second, lambda a, b: a * b, product)


def _sum(*parts: LinearPieces) -> LinearPieces | None:
    total: LinearPieces | None = parts[0]
    for part in parts[1:]:
        total = _plus(total, part)
    return total


def _negative(a: LinearPieces | None) -> LinearPieces | None:
    return _times(a, LinearPieces.line(0, -1))


def _difference(a: LinearPieces | None, b: LinearPieces | None) -> LinearPieces | None:
    return _plus(a, _negative(b))


def _by_sign(
    a: LinearPieces | None, below: Fraction, at: Fraction, above: Fraction
) -> LinearPieces | None:
    """Return the function with values `below`, `at`, `above` where `a` is < 0, = 0, > 0."""
    if a is None:
        return None

    def chosen(value: Fraction) -> Fraction:
        return at if value == 0 else above if value > 0 else below

    whole = a.refined(a.roots)
    ends = whole.breaks
    lines = []
    for i, line in enumerate(whole.lines):
        if not ends:
            middle = Fraction(0)
        elif i == 0:
            middle = ends[0] - 1
        else:
            middle = ends[-1] + 1 if i == len(ends) else (ends[i - 1] + ends[i]) / 2
        lines.append(Line(Fraction(0), chosen(line.at(middle))))
    return LinearPieces(tuple(lines), ends, tuple(map(chosen, whole.values))).simple()


def _signs(below: int, at: int, above: int) -> Callable[[LinearPieces], LinearPieces | None]:
    numbers = Fraction(below), Fraction(at), Fraction(above)
    return lambda a: _by_sign(a, *numbers)


def _compared(
    below: int, at: int, above: int
) -> Callable[[LinearPieces, LinearPieces], LinearPieces | None]:
    numbers = Fraction(below), Fraction(at), Fraction(above)
    return lambda a, b: _by_sign(_difference(a, b), *numbers)


def _where(condition: LinearPieces, a: LinearPieces, b: LinearPieces) -> LinearPieces | None:
    return _plus(b, _times(condition, _difference(a, b)))


def _relu(a: LinearPieces | None) -> LinearPieces | None:
    return _times(a, _by_sign(a, Fraction(0), Fraction(0), Fraction(1)))


def _leaky(a: LinearPieces, slope: LinearPieces) -> LinearPieces | None:
    return _difference(_relu(a), _times(slope, _relu(_negative(a))))


def _maximum(*parts: LinearPieces) -> LinearPieces | None:
    top: LinearPieces | None = parts[0]
    for part in parts[1:]:
        top = _plus(part, _relu(_difference(top, part)))
    return top


def _minimum(*parts: LinearPieces) -> LinearPieces | None:
    low: LinearPieces | None = parts[0]
    for part in parts[1:]:
        low = _difference(part, _relu(_difference(part, low)))
    return low


def _clip(a: LinearPieces, *limits: LinearPieces) -> LinearPieces | None:
    if len(limits) != 2:
        return None
    inner = _maximum(a, limits[0])
    return None if inner is None else _minimum(inner, limits[1])


def _hard_sigmoid(a: LinearPieces, alpha: LinearPieces, beta: LinearPieces) -> LinearPieces | None:
    inner = _plus(_times(a, alpha), beta)
    return None if inner is None else _clip(inner, LinearPieces.line(0, 0), LinearPieces.line(0, 1))


def _or(a: LinearPieces, b: LinearPieces) -> LinearPieces | None:
    return _difference(_plus(a, b), _times(a, b))


def _thresholded(a: LinearPieces, alpha: LinearPieces) -> LinearPieces | None:
    return _times(a, _compared(0, 0, 1)(a, alpha))


def _shrunk(a: LinearPieces, width: LinearPieces, bias: LinearPieces) -> LinearPieces | None:
    above = _times(_compared(0, 0, 1)(a, width), _difference(a, bias))
    low = _negative(width)
    below = None if low is None else _times(_compared(1, 0, 0)(a, low), _plus(a, bias))
    return _plus(above, below)


def _quotient(a: LinearPieces, b: LinearPieces) -> LinearPieces | None:
    (line, *others), none = b.lines, b.values
    if others or none or line.slope or not line.offset:
        return None
    return _times(a, LinearPieces.line(0, 1 / line.offset))


OPERATORS: dict[str, Callable[..., LinearPieces | None]] = {
    "Add": _sum,
    "Sum": _sum,
    "Sub": _difference,
    "Neg": _negative,
    "Mul": _times,
    "Div": _quotient,
    "Abs": lambda a: _times(a, _by_sign(a, Fraction(-1), Fraction(0), Fraction(1))),
    "Relu": _relu,
    "LeakyRelu": _leaky,
    "PRelu": _leaky,
    "ThresholdedRelu": _thresholded,
    "Shrink": _shrunk,
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "Max": _maximum,
    "Min": _minimum,
    "Where": _where,
    "Greater": _compared(0, 0, 1),
    "GreaterOrEqual": _compared(0, 1, 1),
    "Less": _compared(1, 0, 0),
    "LessOrEqual": _compared(1, 1, 0),
    "Sign": _signs(-1, 0, 1),
    "Bool": _signs(1, 0, 1),
    "Not": _signs(1, 1, 0),
    "And": _times,
    "Or": _or,
    "Identity": lambda a: a,
    "Cast": lambda a: a,
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
