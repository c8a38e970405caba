"""Upper bounds of linear functions of pre-activations over a node, and proofs that it is empty.

A node fixes the side of some units (its phases) and a box.  On every full-dimensional piece that
it stands for, a stable unit satisfies ``sigma z >= 0`` (sigma = 1 on the right, -1 on the left).
For weights ``beta >= 0`` of stable units and ``rho >= 0`` of the domain's rows

    aim . z  <=  aim . z + sum_k beta_k sigma_k z_k + sum_r rho_r (b_r - A_r x),

and the right-hand side is bounded by going backwards through the layers: with y = max(z, 0) a
unit's output is ``left z + (right - left) y``; that of a stable unit is a multiple of z, and an
unstable one with ``l <= z <= u`` has ``alpha z <= y <= s (z - l)`` for any alpha in [0, 1] and
``s >= u / (u - l)``.
What is left is ``c . x + constant``, whose maximum over the box (or the ball) is known.

If the maximum M with aim = 0 is negative, no piece is left.  If it is zero, every term of the sum,
none of which is negative, vanishes on the whole piece; so none is left either if
``c . x + constant`` is not constant (it is then negative inside), or if one of the terms cannot
vanish: a row of the domain (positive inside), or a stable unit whose affine form is not constant.

All numbers are integers in units of a power of two, 2^-bits; nothing is rounded but s, upwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import accumulate
from math import inf
from typing import Any

from flint import fmpq, fmpz, fmpz_mat

from lipyomo_check.errors import ProofError
from lipyomo_check.parts import TOGETHER, Box, dyadic, rational
from lipyomo_check.statement import Statement


class Phase(IntEnum):
    """On which side of its kink a unit is."""

    OPEN = 0
    RIGHT = 1
    LEFT = -1


OPEN, RIGHT, LEFT = Phase

CHORD = 24
"""Bits of the chords' slopes s."""

SLOPE = 8
"""Bits of the lower lines' slopes alpha."""

Rows = list[list[fmpz]]

Line = tuple[fmpz, Any]
"""Slope and offset of a line; None where there is no line."""


@dataclass
class Node:
    """A case of the proof.

    Attributes
    ----------
    phases : list of int
        Of all hidden units, layer by layer.  A unit whose slopes agree counts as RIGHT; its sign
        is not known.
    box : Box
    lower, upper : list of float
        Bounds of the pre-activations.
    """

    phases: list[int]
    box: Box
    lower: list[float]
    upper: list[float]

    def copy(self, box: Box | None = None) -> Node:
        """Return a copy with its own phases and bounds, in another box if one is given."""
        return Node(list(self.phases), box or self.box, list(self.lower), list(self.upper))


@dataclass(frozen=True)
class Weights:
    """Multipliers of one bound: of stable units, of lower lines, of the domain's rows.

    `beta` and `rho` are in units of ``2^-bits``, `alpha` in units of ``2^-SLOPE``.
    """

    bits: int = 0
    beta: dict[int, int] = field(default_factory=dict)
    alpha: dict[int, int] = field(default_factory=dict)
    rho: dict[int, int] = field(default_factory=dict)


NONE = Weights()

Bound = tuple[int, int, float, Weights]
"""Unit, sign, value, weights."""


@dataclass(frozen=True)
class Function:
    """A linear function ``row . x + constant``, in units of ``2^-bits``; None for infinity."""

    row: list[fmpz]
    constant: Any
    bits: int


class Linear:
    """Bounds over nodes of one statement."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.starts = [0, *accumulate(layer.units for layer in statement.hidden)]
        self.count = self.starts[-1]
        self.left = [v for layer in statement.hidden for v in layer.left]
        self.right = [v for layer in statement.hidden for v in layer.right]

    def root(self) -> Node:
        """Return the node of the whole domain, with no phase fixed."""
        phases: list[int] = [
            OPEN if a != b else RIGHT for a, b in zip(self.left, self.right, strict=True)
        ]
        return Node(phases, self.statement.domain.box, [-inf] * self.count, [inf] * self.count)

    # -- what a node implies -------------------------------------------------------------------

    def check(self, node: Node, given: Sequence[Bound]) -> None:
        """Check that ``sign * z_unit <= value`` for (unit, sign, value, weights)."""
        for start in range(0, len(given), TOGETHER):
            part = given[start : start + TOGETHER]
            above = self.above(node, [({unit: sign}, weights) for unit, sign, _, weights in part])
            for (_, _, value, _), function in zip(part, above, strict=True):
                if not self.at_most(node, function, rational(value)):
                    raise ProofError("the weights do not prove a bound")

    def note(self, node: Node, given: Sequence[Bound]) -> bool:
        """Enter these bounds and the phases that follow; return False if the node is empty."""
        alive = True
        for unit, sign, value, _ in given:
            if sign > 0:
                node.upper[unit] = min(node.upper[unit], value)
            else:
                node.lower[unit] = max(node.lower[unit], -value)
            alive = self.stabilise(node, unit) and alive
        return alive

    def stabilise(self, node: Node, unit: int) -> bool:
        """Fix the phase of a unit whose bounds leave one side; return False if they leave none."""
        if self.left[unit] == self.right[unit]:
            return True
        if node.phases[unit] == OPEN:
            if node.lower[unit] >= 0:
                node.phases[unit] = RIGHT
            elif node.upper[unit] <= 0:
                node.phases[unit] = LEFT
        if node.phases[unit] == RIGHT:
            node.lower[unit] = max(node.lower[unit], 0.0)
        elif node.phases[unit] == LEFT:
            node.upper[unit] = min(node.upper[unit], 0.0)
        return node.lower[unit] <= node.upper[unit]

    def is_empty(self, node: Node, weights: Weights) -> bool:
        """Return whether `weights` prove that the node is empty."""
        (function,) = self.above(node, [({}, weights)])
        top = self._over_box(node, function)
        if (top is not None and top < 0) or self._in_ball(function, fmpq(0), strict=True):
            return True
        moving, A = self.statement.domain.moving, self.statement.domain.A
        if top is None or top != 0:
            return False
        return (
            any(function.row[j] != 0 for j in moving)
            or any(w and any(A[r][j] != 0 for j in moving) for r, w in weights.rho.items())
            or any(beta and self._varies(node, k) for k, beta in weights.beta.items())
        )

    def _varies(self, node: Node, unit: int) -> bool:
        """Return whether a unit's pre-activation is proved not constant on full-dimensional pieces.

        It is a known function of the inputs where its upper and its lower bound are the same.
        """
        up, down = self.above(node, [({unit: 1}, NONE), ({unit: -1}, NONE)])
        if up.constant is None or down.constant is None or up.constant + down.constant != 0:
            return False
        same = all(a + b == 0 for a, b in zip(up.row, down.row, strict=True))
        return same and any(up.row[j] != 0 for j in self.statement.domain.moving)

    # -- backwards through the layers ----------------------------------------------------------

    def above(self, node: Node, wanted: Sequence[tuple[dict[int, int], Weights]]) -> list[Function]:
        """Return linear functions of the inputs above ``aim . z`` for pairs (aim, weights)."""
        weights = [own for _, own in wanted]
        faces, fine = self.statement.domain.rows
        first = bits = max((own.bits for own in weights), default=0) + fine
        sums = [self._sum(node, aim, own, bits) for aim, own in wanted]
        last = max((k for own in sums for k in own), default=-1)
        constants: list[Any] = [fmpz(0)] * len(sums)
        table: Rows = []
        for i in range(len(self.statement.hidden) - 1, -1, -1):
            start, stop = self.starts[i : i + 2]
            if start > last:
                continue
            if table:
                bits += self._pass_on(node, i, table, constants, weights)
            else:
                table = [[fmpz(0)] * (stop - start) for _ in sums]
            for row, terms in zip(table, sums, strict=True):
                for k, c in terms.items():
                    if start <= k < stop:
                        row[k - start] += c << (bits - first)
            layer = self.statement.hidden[i]
            rows = fmpz_mat(table)
            for r, shift in enumerate((rows * layer.bias).entries()):
                known = constants[r]
                constants[r] = None if known is None else (known << layer.bits) + shift
            table = (rows * layer.weight).tolist()
            bits += layer.bits
        found = []
        for r, own in enumerate(weights):
            row = table[r] if table else [fmpz(0)] * self.statement.inputs
            constant = constants[r]
            for k, value in own.rho.items():
                rho = fmpz(value) << (bits - own.bits - fine)
                *through, end = faces[k]
                row = [c - rho * a for c, a in zip(row, through, strict=True)]
                constant = None if constant is None else constant + rho * end
            found.append(Function(row, constant, bits))
        return found

    def _sum(self, node: Node, aim: dict[int, int], weights: Weights, bits: int) -> dict[int, fmpz]:
        """Return aim and weights of stable units as coefficients of pre-activations."""
        own = {k: fmpz(v) << bits for k, v in aim.items()}
        for k, beta in weights.beta.items():
            if node.phases[k] == OPEN or self.left[k] == self.right[k]:
                raise ProofError("a weight belongs to no stable unit")
            own[k] = own.get(k, fmpz(0)) + node.phases[k] * (fmpz(beta) << (bits - weights.bits))
        return own

    def _pass_on(
        self, node: Node, i: int, table: Rows, constants: list[Any], weights: list[Weights]
    ) -> int:
        """Replace the outputs of a layer's units by lines in their pre-activations.

        Return the bits of the lines, by which the units of all numbers become smaller.
        """
        start, slopes = self.starts[i], self.statement.hidden[i].slopes
        stop = start + len(slopes)
        numbers, fine = dyadic(zip(node.lower[start:stop], node.upper[start:stop], strict=True))
        grow = CHORD + fine
        usual: list[tuple[Line, Line]] = []
        for k, (ends, (left, right)) in enumerate(zip(numbers, slopes, strict=True)):
            phase, change = node.phases[start + k], right - left
            low, high = (0, 0) if None in ends else ends
            if phase != OPEN:
                line = fmpz(left if phase == LEFT else right) << grow, 0
                usual.append((line, line))
                continue
            below = fmpz(right if high > -low else left) << grow, 0
            chord: Line = below[0], None
            if low < 0 < high:
                share = change * -((-high << CHORD) // (high - low))
                chord = fmpz((left << grow) + (share << fine)), -share * low
            usual.append((chord, below) if change > 0 else (below, chord))
        more = grow + self.statement.hidden[i].slope_bits
        for r, row in enumerate(table):
            lines, total = usual, None if constants[r] is None else constants[r] << more
            for k, alpha in weights[r].alpha.items():
                if not 0 <= k - start < len(slopes) or node.phases[k] != OPEN:
                    continue
                left, right = slopes[k - start]
                slope = fmpz((left << SLOPE) + (right - left) * alpha) << (grow - SLOPE)
                lines = list(usual) if lines is usual else lines
                above, under = lines[k - start]
                lines[k - start] = (above, (slope, 0)) if right > left else ((slope, 0), under)
            for k, c in enumerate(row):
                if c:
                    slope, offset = lines[k][c < 0]
                    row[k] = c * slope
                    if offset is None:
                        total = None
                    elif offset and total is not None:
                        total += c * offset
            constants[r] = total
        return more

    # -- over the domain -----------------------------------------------------------------------

    def at_most(self, node: Node, function: Function, value: fmpq) -> bool:
        """Return whether a function is at most `value` over the domain within the node's box."""
        top = self._over_box(node, function)
        return (top is not None and top <= value) or self._in_ball(function, value)

    @staticmethod
    def _over_box(node: Node, function: Function) -> fmpq | None:
        """Return the maximum of a function over the box, None if it is infinite."""
        if function.constant is None:
            return None
        ends, bits = node.box.numbers
        total = function.constant << bits
        for c, (low, high) in zip(function.row, ends, strict=True):
            if c:
                end = high if c > 0 else low
                if end is None:
                    return None
                total += c * end
        return fmpq(total, fmpz(1) << (function.bits + bits))

    def _in_ball(self, function: Function, value: fmpq, strict: bool = False) -> bool:
        """Return whether a function is at most (`strict`: below) `value` on the domain's ball."""
        ball = self.statement.domain.ball
        if ball is None or function.constant is None:
            return False
        norm, center, radius = ball
        unit = fmpq(1, fmpz(1) << function.bits)
        pairs = zip(function.row, center, strict=True)
        room = value - unit * sum((c * rational(x) for c, x in pairs), fmpq(function.constant))
        if norm == "l2":
            size = sum((c * c for c in function.row), fmpz(0))
        else:
            size = max(c * c for c in function.row)
        excess = room * room - (rational(radius) * unit) ** 2 * size
        return bool(room > 0 and excess > 0) if strict else bool(room >= 0 and excess >= 0)
