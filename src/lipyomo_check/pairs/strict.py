"""Bounds of pairs once more, in Arb: nothing rests on float64 arithmetic or its error bounds.

The formulas are those of `ranges` and `tangents`.  Of float64 is used what it has found: on which
sides units are, and which pairs are done with; both are confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat, ctx

from lipyomo_check.errors import ProofError
from lipyomo_check.pairs.ranges import LEFT, OPEN, RIGHT
from lipyomo_check.pairs.tree import SINGLE, Asked, Waiting
from lipyomo_check.parts import BITS
from lipyomo_check.smooth.balls import (
    Numbers,
    Ranges,
    absolute,
    added,
    affine_range,
    columns_times,
    matrix_of,
    product,
    ranges_of,
    unzipped,
)
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.kind import Bools
from lipyomo_check.smooth.strict_spaces import is_outside
from lipyomo_check.smooth.two_lines import TIE

Ends = tuple[Numbers, Numbers]
"""Lower and upper ends."""

Lines = tuple[Numbers, Numbers]
"""Slopes and constants."""


class InBalls(NamedTuple):
    """A hidden layer."""

    weight: arb_mat
    bias: Numbers
    tangents: arb_mat
    slopes: list[tuple[arb, arb]]


class OnBox(NamedTuple):
    """Its units on a box: slopes within ``middle +- reach``, lines above and below, outputs."""

    middle: Numbers
    reach: Numbers
    above: Lines
    below: Lines
    outputs: Ranges

    @property
    def open(self) -> list[int]:
        """Units whose slopes may be any."""
        return [k for k, reach in enumerate(self.reach) if reach != 0]


class StrictPairs:
    """The question in ball arithmetic (Arb)."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._layers = [
            InBalls(
                matrix_of(kinks.level.weight),
                _numbers(kinks.level.bias),
                matrix_of(kinks.level.tangents),
                list(zip(_numbers(kinks.left), _numbers(kinks.right), strict=True)),
            )
            for kinks in asked.hidden
        ]
        self._head = matrix_of(asked.head)

    def check(self, before: Waiting, after: Waiting) -> None:
        """Check what float64 has found of boxes: sides of units, and pairs that are proved.

        Raises
        ------
        ProofError
            If Arb does not confirm it.
        """
        with ctx.workprec(BITS):
            for k in range(before.size):
                if is_outside(self._asked.domain, before.low[k], before.high[k]):
                    continue
                x = ranges_of(before.low[k], before.high[k])
                units = self._units(x, before.sides[k].tolist(), after.sides[k].tolist())
                if units is None:  # no point
                    continue
                self._bound(units, before.live[k], before.live[k] & ~after.live[k])

    def _units(self, x: Ranges, before: list[int], after: list[int]) -> list[OnBox] | None:
        """Return the units of all layers on a box; None if it has no point."""
        found: list[OnBox] = []
        h, end = x, 0
        for i, layer in enumerate(self._layers):
            start, end = end, end + len(layer.bias)
            middle, radius = affine_range(layer.weight, h, layer.bias)
            low = [m - r for m, r in zip(middle, radius, strict=True)]
            high = [m + r for m, r in zip(middle, radius, strict=True)]
            known, sides = before[start:end], after[start:end]
            own = enumerate(zip(known, low, high, strict=True))
            pick = [k for k, (side, a, b) in own if side == OPEN and a < 0 and b > 0]
            if i and pick:
                for k, a, b in zip(pick, *self._by_lines(found, pick, x), strict=True):
                    low[k], high[k] = low[k].max(a), high[k].min(b)
            for k, (left, right) in enumerate(layer.slopes):
                if left != right and known[k] == RIGHT:
                    low[k] = low[k].max(arb(0))
                if left != right and known[k] == LEFT:
                    high[k] = high[k].min(arb(0))
                if low[k] > high[k]:
                    return None
                new = known[k] == OPEN != sides[k]
                if new and not (low[k] >= 0 if sides[k] == RIGHT else high[k] <= 0):
                    raise ProofError("ball arithmetic does not confirm the side of a unit")
            found.append(_on_box(layer, (low, high), sides))
            h = found[-1].outputs
        return found

    def _by_lines(self, units: Sequence[OnBox], pick: list[int], x: Ranges) -> Ends:
        """Return ranges of some pre-activations of the next layer, by two lines of each unit."""
        layer, nothing = self._layers[len(units)], arb(0)
        table = layer.weight.tolist()
        A = arb_mat([table[k] for k in pick] + [[-a for a in table[k]] for k in pick])
        constant = [layer.bias[k] for k in pick] + [-layer.bias[k] for k in pick]
        for own, before in zip(reversed(units), reversed(self._layers[: len(units)]), strict=True):
            shape, entries = (A.nrows(), A.ncols()), A.entries()
            up = arb_mat(*shape, [a.max(nothing) for a in entries])
            down = arb_mat(*shape, [a.min(nothing) for a in entries])
            constant = added(constant, product(up, own.above[1]))
            constant = added(constant, product(down, own.below[1]))
            P = columns_times(up, own.above[0]) + columns_times(down, own.below[0])
            constant = added(constant, product(P, before.bias))
            A = P * before.weight
        tops = added(added(constant, product(A, x[0])), product(absolute(A), x[1]))
        return [-top for top in tops[len(pick) :]], tops[: len(pick)]

    def _bound(self, units: list[OnBox], live: Bools, done: Bools) -> None:
        """Check that pairs (F, q) of a box are proved."""
        upper = arb(self._asked.upper)
        shared = self._shared_rows(units) if live.any(axis=0).sum() > SINGLE else None
        for q in np.flatnonzero(done.any(axis=0)).tolist():
            v = _numbers(self._asked.directions[q])
            rows = matrix_of(self._asked.functionals[done[:, q]]) * self._head
            ways = [None] if shared is None else [shared, None]
            if not any(
                all(bound <= upper for bound in self._above(units, known, rows, v))
                for known in (self._tangents(units, v, way) for way in ways)
            ):
                raise ProofError("ball arithmetic does not confirm a bound")

    def _shared_rows(self, units: list[OnBox]) -> list[tuple[list[arb_mat], arb_mat]]:
        """Return rows of open units' tangents in v, and sizes of rows of earlier outputs."""
        found = []
        for i, layer in enumerate(self._layers):
            rows, sizes = _picked(layer.tangents, units[i].open), []
            for j in range(i - 1, -1, -1):
                sizes.append(absolute(rows))
                rows = columns_times(rows, units[j].middle) * self._layers[j].tangents
            found.append((sizes[::-1], rows))
        return found

    def _tangents(
        self,
        units: list[OnBox],
        v: Numbers,
        shared: list[tuple[list[arb_mat], arb_mat]] | None,
    ) -> list[Ends]:
        """Return ranges of tangents along a direction, by rows of its own if none are given."""
        found: list[Ends] = []
        errors: list[Numbers] = []
        t: Ranges = v, [arb(0)] * len(v)
        for i, (layer, own) in enumerate(zip(self._layers, units, strict=True)):
            middle, radius = affine_range(layer.tangents, t)
            low = [m - r for m, r in zip(middle, radius, strict=True)]
            high = [m + r for m, r in zip(middle, radius, strict=True)]
            pick = own.open
            if i and pick:
                if shared is None:
                    rows = _picked(layer.tangents, pick)
                    ups, downs = (self._above(units, found, r, v) for r in (rows, -rows))
                    ends = [-down for down in downs], ups
                else:
                    sizes, rows = shared[i]
                    ends = _around(product(rows, v), sizes, errors)
                for k, a, b in zip(pick, *ends, strict=True):
                    low[k], high[k] = low[k].max(a), high[k].min(b)
            found.append((low, high))
            largest = [abs(a).max(abs(b)) for a, b in zip(low, high, strict=True)]
            errors.append([b * most for b, most in zip(own.reach, largest, strict=True)])
            passed = []
            for c, b, ends_of in zip(
                own.middle, own.reach, zip(low, high, strict=True), strict=True
            ):
                products = [slope * end for slope in (c - b, c + b) for end in ends_of]
                passed.append(_hull(products))
            t = [(a + b) / 2 for a, b in passed], [(b - a) / 2 for a, b in passed]
        return found

    def _above(self, units: list[OnBox], known: list[Ends], rows: arb_mat, v: Numbers) -> Numbers:
        """Return upper bounds of rows of the outputs of layers whose tangents are known."""
        constant = [arb(0)] * rows.nrows()
        for i in range(len(known) - 1, -1, -1):
            turns, overs = [], []
            for b, low, high in zip(units[i].reach, *known[i], strict=True):
                least, most = low.min(arb(0)), high.max(arb(0))
                moves = b != 0 and most - least > 0
                turn = b * (most + least) / (most - least) if moves else arb(0)
                turns.append(turn)
                overs.append(((b - turn) * most).max((b + turn) * -least))
            sizes = absolute(rows)
            constant = added(constant, product(sizes, overs))
            turned = columns_times(rows, units[i].middle) + columns_times(sizes, turns)
            rows = turned * self._layers[i].tangents
        return added(constant, product(rows, v))


def _on_box(layer: InBalls, ends: Ends, sides: list[int]) -> OnBox:
    """Return a layer's units within ranges; those that are open as well as those on sides."""
    zero, rows = arb(0), []
    for (left, right), low, high, side in zip(layer.slopes, *ends, sides, strict=True):
        if side == OPEN and not (low < 0 and high > 0):
            side = RIGHT if low >= 0 else LEFT if high <= 0 else OPEN
        if side != OPEN:
            slope = right if side == RIGHT else left
            line = slope, zero
            rows.append((slope, zero, line, line, _hull([slope * low, slope * high])))
            continue
        slope = (right * high - left * low) / (high - low)
        chord = slope, (left * low - slope * low).max(right * high - slope * high)
        if left > right:
            chord = slope, (left * low - slope * low).min(right * high - slope * high)
        through = (right if high > -low * (1 + TIE) else left), zero
        lines = (chord, through) if left < right else (through, chord)
        outputs = _hull([left * low, right * high, zero])
        rows.append(((left + right) / 2, abs(right - left) / 2, *lines, outputs))
    middle, reach, above, below, ends_of = (list(part) for part in zip(*rows, strict=True))
    signal = [(a + b) / 2 for a, b in ends_of], [(b - a) / 2 for a, b in ends_of]
    return OnBox(middle, reach, unzipped(above), unzipped(below), signal)


def _around(middle: Numbers, sizes: list[arb_mat], errors: list[Numbers]) -> Ends:
    """Return ends about middles, whose rows are of such sizes where these errors are made."""
    radius = [arb(0)] * len(middle)
    for size, error in zip(sizes, errors, strict=True):
        radius = added(radius, product(size, error))
    low = [m - r for m, r in zip(middle, radius, strict=True)]
    return low, added(middle, radius)


def _hull(values: list[arb]) -> tuple[arb, arb]:
    """Return the least and the largest of some numbers."""
    low = high = values[0]
    for value in values[1:]:
        low, high = low.min(value), high.max(value)
    return low, high


def _numbers(values: Array) -> Numbers:
    return list(map(arb, values.tolist()))


def _picked(rows: arb_mat, pick: list[int]) -> arb_mat:
    """Select some rows."""
    table = rows.tolist()
    return arb_mat(len(pick), rows.ncols(), [a for k in pick for a in table[k]])
