"""Products of two signals once more in Arb: the formulas of `factors`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from flint import arb, arb_mat

from lipyomo_check.smooth.balls import Numbers, Range, Ranges

Ends = tuple[arb, arb]


class Form(NamedTuple):
    """A signal ``centre + turn . delta +- away`` between ends, delta in [-1, 1]^(d + k)."""

    turn: Numbers
    centre: arb
    away: arb
    ends: Ends

    @property
    def radius(self) -> float:
        """Half of its range, about."""
        found = float((self.ends[1] - self.ends[0]) / 2)
        return found if math.isfinite(found) else 1.0


def forms_of(
    coefficients: Sequence[tuple[arb_mat | None, Numbers]],
    ranges: Ranges,
    ends: Sequence[Ends],
) -> list[Form]:
    """Return signals that are affine functions of x and v.

    Parameters
    ----------
    coefficients : sequence of (arb_mat or None, list of arb)
        Of x and of v, with their radii; None are zeros.
    ranges : (list of arb, list of arb)
        Of these functions over the whole box.
    ends : sequence of (arb, arb)
        Of the signals.
    """
    found = []
    for k, (middle, radius, pair) in enumerate(zip(*ranges, ends, strict=True)):
        turn: Numbers = []
        for rows, reach in coefficients:
            turn += [arb(0) if rows is None else rows[k, j] * r for j, r in enumerate(reach)]
        span = sum(map(abs, turn), arb(0))
        found.append(Form(turn, middle, (radius - span).max(arb(0)), pair))
    return found


def left_of(p: Form, q: Form, f: arb, g: arb) -> Ends:
    """Return ends of (p - f)(q - g)."""
    corners = [(a - f) * (b - g) for a in p.ends for b in q.ends]
    low, high = corners[0], corners[0]
    for corner in corners[1:]:
        low, high = low.min(corner), high.max(corner)
    if not (p.radius > 0.0 and q.radius > 0.0):
        return low, high
    ratio = math.sqrt(q.radius) / math.sqrt(p.radius)
    t = arb(ratio if 0.0 < ratio < math.inf else 1.0)
    squares = []
    for sign in (-1, 1):
        pairs = zip(p.turn, q.turn, strict=True)
        span = sum((abs(t * a + sign * b / t) for a, b in pairs), arb(0))
        offset = t * (p.centre - f) + sign * (q.centre - g) / t
        size = span + abs(offset) + t * p.away + q.away / t
        squares.append(size * size / 4)
    return low.max(-squares[0]), high.min(squares[1])


def around(ends: Ends) -> Range:
    """Return middle and radius of a range."""
    middle = (ends[0] + ends[1]) / 2
    return middle, (ends[1] - ends[0]) / 2


def times(one: Ends, other: Ends) -> Ends:
    """Return the range of a product of ranges."""
    corners = [a * b for a in one for b in other]
    low, high = corners[0], corners[0]
    for corner in corners[1:]:
        low, high = low.min(corner), high.max(corner)
    return low, high


def plane_error(c: arb, left: Ends) -> arb:
    """Return the constant to be added to a plane above ``c p q``: c times an end of the rest."""
    return (c * left[0]).max(c * left[1])
