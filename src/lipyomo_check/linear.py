"""Upper bounds of linear functions of pre-activations over a node, and what contradicts itself.

A node fixes the side of some units (its phases) and a box.  On every full-dimensional piece that
it stands for, a decided unit satisfies ``sigma z >= 0`` (sigma = 1 on the right, -1 on the left).
For weights ``beta >= 0`` of decided units and ``rho >= 0`` of the domain's rows

    aim . z  <=  aim . z + sum_k beta_k sigma_k z_k + sum_r rho_r (b_r - A_r x),

and the right-hand side is bounded by going backwards through the layers: with y = max(z, 0) a
unit passes on ``left z + (right - left) y``; a decided one is a multiple of z, and an open one with
``l <= z <= u`` has ``alpha z <= y <= u (z - l) / (u - l)`` for any alpha in [0, 1].  What is left
is ``c . x + constant``, whose maximum over the box (or the ball, if that is less) is known.

If the maximum M with aim = 0 is negative, no piece is left.  If it is zero, every term of the sum,
none of which is negative, vanishes on the whole piece; so none is left either if
``c . x + constant`` is not constant (it is then negative inside), or if one of the terms cannot
vanish: a row of the domain (positive inside), or a decided unit whose affine form is not constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from flint import arb, arb_mat, fmpq, fmpq_mat

from lipyomo_check.errors import ProofError
from lipyomo_check.statement import Number, Statement, rational

OPEN, RIGHT, LEFT = 0, 1, -1

Read = Callable[[float | fmpq], Number]
"""Makes a number of a float: `arb` or `rational`."""


@dataclass
class Node:
    """A case of the proof.

    Attributes
    ----------
    phases : list of int
        Of all hidden units, layer by layer.  A unit whose slopes agree counts as RIGHT; its sign
        is not known.
    low, high : list of float
        The box.
    lower, upper : list of float
        Bounds of the pre-activations.
    boxed : bool
        Whether those of the first layer are the best over the box.
    """

    phases: list[int]
    low: list[float]
    high: list[float]
    lower: list[float]
    upper: list[float]
    boxed: bool = False

    def copy(self) -> Node:
        """An independent copy."""
        low, high = list(self.low), list(self.high)
        lower, upper = list(self.lower), list(self.upper)
        return Node(list(self.phases), low, high, lower, upper, self.boxed)


@dataclass(frozen=True)
class Weights:
    """Multipliers of one bound: of decided units, of lower lines, of the domain's rows."""

    beta: dict[int, float | fmpq] = field(default_factory=dict)
    alpha: dict[int, float | fmpq] = field(default_factory=dict)
    rho: dict[int, float | fmpq] = field(default_factory=dict)


class Linear:
    """Bounds over nodes of one statement."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.starts = [0]
        for layer in statement.hidden:
            self.starts.append(self.starts[-1] + layer.units)
        self.count = self.starts[-1]
        self.left = [v for layer in statement.hidden for v in layer.left]
        self.right = [v for layer in statement.hidden for v in layer.right]
        self._exact: list[fmpq_mat] = []

    def root(self) -> Node:
        """The node that stands for everything."""
        phases = [OPEN if a != b else RIGHT for a, b in zip(self.left, self.right, strict=True)]
        domain = self.statement.domain
        free = [inf] * self.count
        return Node(phases, list(domain.lower), list(domain.upper), [-inf] * self.count, free)

    def layer_of(self, unit: int) -> int:
        """The layer of a unit."""
        layer = 0
        while self.starts[layer + 1] <= unit:
            layer += 1
        return layer

    # -- one bound -----------------------------------------------------------------------------

    def is_empty(self, node: Node, weights: Weights) -> bool:
        """Whether `weights` contradict the node: in balls if they can tell, else in rationals."""
        top, _ = self.maximum(node, {}, weights, exact=False)
        if top < 0:
            return True
        top, varies = self.maximum(node, {}, weights, exact=True)
        if top == 0 and not varies:
            varies = any(beta > 0 and self._varies(node, k) for k, beta in weights.beta.items())
        return bool(top < 0) or (bool(top == 0) and varies)

    def _varies(self, node: Node, unit: int) -> bool:
        """Whether a unit's pre-activation is surely not constant on any full-dimensional piece.

        Its affine form in the inputs is written out without rounding; where it depends on an open
        unit the answer is no.
        """
        row, last = [rational(1.0)], self.layer_of(unit)
        units = [unit - self.starts[last]]
        for i in range(last, -1, -1):
            layer = self.statement.hidden[i]
            if i < last:
                units = [k for k in range(layer.units) if row[k] != 0]
                if any(node.phases[self.starts[i] + k] == OPEN for k in units):
                    return False
                slopes = {k: self._slope(node, self.starts[i] + k) for k in units}
                row = [row[k] * rational(slopes[k]) for k in units]
            full = [rational(0.0)] * layer.units
            for k, c in zip(units, row, strict=True):
                full[k] = c
            row = self._times(full, i, exact=True)
        return any(row[j] != 0 for j in self.statement.domain.moving)

    def _slope(self, node: Node, unit: int) -> float:
        """Slope of a decided unit."""
        return self.right[unit] if node.phases[unit] == RIGHT else self.left[unit]

    def maximum(
        self, node: Node, aim: dict[int, float], weights: Weights, exact: bool
    ) -> tuple[Number, bool]:
        """Upper bound of ``aim . z``, and whether the last linear function is not constant.

        Infinite bounds come as the float ``inf``.
        """
        read: Read = rational if exact else arb
        zero: Number = read(0.0)
        own = {k: read(v) for k, v in aim.items()}
        for k, beta in weights.beta.items():
            if node.phases[k] == OPEN or self.left[k] == self.right[k] or beta < 0:
                raise ProofError("a weight belongs to no decided unit, or is negative")
            own[k] = own.get(k, zero) + read(beta) * node.phases[k]
        last = max((self.layer_of(k) for k in own), default=-1)
        constant, row = zero, None
        for i in range(last, -1, -1):
            layer, start = self.statement.hidden[i], self.starts[i]
            on_z = [own.get(start + k, zero) for k in range(layer.units)]
            if row is not None:
                for k in range(layer.units):
                    slope, shift = self._passed(node, weights, start + k, row[k], read)
                    if shift is None:
                        return inf, True
                    on_z[k] += slope
                    constant += shift
            constant += sum((c * read(b) for c, b in zip(on_z, layer.bias, strict=True)), zero)
            row = self._times(on_z, i, exact)
        if row is None:
            row = [zero] * self.statement.inputs
        return self._over_domain(node, row, constant, weights.rho, read)

    def _passed(
        self, node: Node, weights: Weights, k: int, c: Number, read: Read
    ) -> tuple[Number, Number | None]:
        """Slope and offset in z of ``c`` times what unit k passes on; no offset if unbounded."""
        zero = read(0.0)
        phase = node.phases[k]
        if phase != OPEN:
            return c * read(self.right[k] if phase == RIGHT else self.left[k]), zero
        jump = c * (read(self.right[k]) - read(self.left[k]))
        if read is arb:
            up, down = jump.max(zero), jump.min(zero)
        else:
            up, down = max(jump, zero), min(jump, zero)
        low, high = node.lower[k], node.upper[k]
        alpha = weights.alpha.get(k, 1.0 if high > -low else 0.0)
        if not 0 <= alpha <= 1:
            raise ProofError("a lower line's slope is not between 0 and 1")
        slope = c * read(self.left[k]) + down * read(alpha)
        if up == 0:
            return slope, zero
        if high == inf or low == -inf:
            return slope, None
        if not low < 0.0 < high:
            raise ProofError("an open unit's bounds leave one side")
        width = read(high) - read(low)
        slope += up * read(high) / width
        return slope, -up * read(high) * read(low) / width

    def _times(self, row: list[Number], i: int, exact: bool) -> list[Number]:
        """A row times the weight of a layer."""
        if not exact:
            return list((arb_mat([row]) * self.statement.hidden[i].weight).entries())
        while len(self._exact) <= i:
            self._exact.append(self.statement.hidden[len(self._exact)].exact_weight())
        return list((fmpq_mat([row]) * self._exact[i]).entries())

    def _over_domain(
        self, node: Node, row: list[Number], constant: Number, rho: dict[int, float], read: Read
    ) -> tuple[Number, bool]:
        """Maximum of ``row . x + constant`` over box and domain."""
        domain = self.statement.domain
        for r, weight in rho.items():
            if weight < 0 or r >= len(domain.A):
                raise ProofError("a row's weight is negative, or of no row")
            constant += read(weight) * read(domain.b[r])
            row = [c - read(weight) * read(a) for c, a in zip(row, domain.A[r], strict=True)]
        moving = domain.moving
        varies = any(row[j] != 0 for j in moving) or any(
            weight > 0 and any(domain.A[r][j] != 0 for j in moving) for r, weight in rho.items()
        )
        return self._box_or_ball(node, row, constant, read), varies

    def _box_or_ball(self, node: Node, row: list[Number], constant: Number, read: Read) -> Number:
        best: Number = inf
        total, bounded = constant, True
        for c, low, high in zip(row, node.low, node.high, strict=True):
            if c.is_zero() if read is arb else c == 0:
                continue
            if low == -inf or high == inf:
                positive, negative = c > 0, c < 0
                if positive and high != inf:
                    total += c * read(high)
                elif negative and low != -inf:
                    total += c * read(low)
                else:
                    bounded = False
                    break
                continue
            ends = c * read(low), c * read(high)
            total += ends[0].max(ends[1]) if read is arb else max(ends)
        if bounded:
            best = total
        ball = self.statement.domain.ball
        if ball is not None and read is arb:
            norm, center, radius = ball
            reach = constant + sum((c * arb(x) for c, x in zip(row, center, strict=True)), arb(0))
            if norm == "l2":
                size = sum((c * c for c in row), arb(0)).sqrt()
            else:
                size = arb(0)
                for c in row:
                    size = size.max(abs(c))
            reach += arb(radius) * size
            if best is inf or reach < best:
                best = reach
        return best

    # -- all bounds ----------------------------------------------------------------------------

    def tighten(self, node: Node) -> bool:
        """Bound open units' pre-activations without weights (CROWN), and decide what follows.

        Returns
        -------
        bool
            False if the node contradicts itself: nothing is left of it.
        """
        for i, layer in enumerate(self.statement.hidden):
            start = self.starts[i]
            units = [k for k in range(layer.units) if node.phases[start + k] == OPEN]
            if not units or (i == 0 and node.boxed):
                continue
            both = [
                [sign if j == k else 0 for j in range(layer.units)]
                for sign in (1, -1)
                for k in units
            ]
            tops = self._tops(node, i, arb_mat(both))
            for place, k in enumerate(units):
                unit = start + k
                node.upper[unit] = min(node.upper[unit], tops[place])
                node.lower[unit] = max(node.lower[unit], -tops[len(units) + place])
                if not self.settle(node, unit):
                    return False
        node.boxed = True
        return True

    def settle(self, node: Node, unit: int) -> bool:
        """Decide a unit whose bounds leave one side; False if they leave none."""
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

    def _tops(self, node: Node, last: int, rows: arb_mat) -> list[float]:
        """Upper bounds of many rows over the units of layer `last`, rounded up to floats."""
        count = rows.nrows()
        constants = [arb(0)] * count
        none = Weights()
        for i in range(last, -1, -1):
            layer, start = self.statement.hidden[i], self.starts[i]
            if i < last:
                table = rows.tolist()
                for r in range(count):
                    for k in range(layer.units):
                        slope, shift = self._passed(node, none, start + k, table[r][k], arb)
                        table[r][k] = slope
                        constants[r] = arb("inf") if shift is None else constants[r] + shift
                rows = arb_mat(table)
            biases = rows * arb_mat([[b] for b in layer.bias])
            constants = [constants[r] + biases[r, 0] for r in range(count)]
            rows = rows * layer.weight
        table = rows.tolist()
        return [
            rounded_up(self._box_or_ball(node, table[r], constants[r], arb)) for r in range(count)
        ]


def rounded_up(value: Number) -> float:
    """A float that is at least the number; infinite if the ball is not finite."""
    if value is inf or (isinstance(value, arb) and not value.is_finite()):
        return inf
    top = value.upper() if isinstance(value, arb) else arb(value).upper()
    guess = float(top)
    while not arb(guess) >= top:
        step = abs(guess) * 2.0**-52 + 5e-324
        guess += step
    return guess
