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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any

from flint import arb, arb_mat, fmpq, fmpq_mat

from lipyomo_check.errors import ProofError
from lipyomo_check.statement import Number, Statement, rational

OPEN, RIGHT, LEFT = 0, 1, -1

NEAR = 2.0**-20
"""Maxima within this share of the row's own range from zero are computed again: their sign counts,
and the radius of a ball has 30 bits only."""

Table = list[list[Number]]
Matrix = Any
"""An `arb_mat` or an `fmpq_mat`."""


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
    _box: arb_mat | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_box": None}

    def copy(self) -> Node:
        """A copy with phases and bounds of its own."""
        lower, upper = list(self.lower), list(self.upper)
        return replace(self, phases=list(self.phases), lower=lower, upper=upper)

    def cut(self, j: int, low: float, high: float) -> Node:
        """A copy with another side of the box."""
        new = self.copy()
        new.low, new.high = list(self.low), list(self.high)
        new.low[j], new.high[j] = low, high
        new.boxed, new._box = False, None
        return new

    @property
    def box(self) -> arb_mat:
        """The box as a column of balls."""
        if self._box is None:
            sides = zip(self.low, self.high, strict=True)
            self._box = arb_mat([[arb(low).union(arb(high))] for low, high in sides])
        return self._box


@dataclass(frozen=True)
class Weights:
    """Multipliers of one bound: of decided units, of lower lines, of the domain's rows."""

    beta: dict[int, float | fmpq] = field(default_factory=dict)
    alpha: dict[int, float | fmpq] = field(default_factory=dict)
    rho: dict[int, float | fmpq] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(v < 0 for part in (self.beta, self.rho) for v in part.values()):
            raise ProofError("a weight is negative")
        if any(not 0 <= v <= 1 for v in self.alpha.values()):
            raise ProofError("a lower line's slope is not between 0 and 1")


NONE = Weights()


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
        self._kept: dict[tuple[int, bool], tuple[Matrix, Matrix]] = {}

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

    # -- what a node implies -------------------------------------------------------------------

    def bound(self, node: Node, given: Sequence[tuple[int, int, Weights]]) -> bool:
        """Bound ``sign * z_unit`` for triples (unit, sign, weights), and decide what follows.

        False if nothing is left of the node.
        """
        wanted = [({unit: float(sign)}, weights) for unit, sign, weights in given]
        tops = self._maxima(node, *self._backwards(node, wanted, exact=False))
        alive = True
        for (unit, sign, _), top in zip(given, tops, strict=True):
            if sign > 0:
                node.upper[unit] = min(node.upper[unit], rounded_up(top))
            else:
                node.lower[unit] = max(node.lower[unit], -rounded_up(top))
            alive = self.settle(node, unit) and alive
        return alive

    def is_empty(self, node: Node, weights: Weights) -> bool:
        """Whether `weights` contradict the node: in balls if they can tell, else in rationals."""
        (top,) = self._maxima(node, *self._backwards(node, [({}, weights)], exact=False))
        if top < 0:
            return True
        constants, rows = self._backwards(node, [({}, weights)], exact=True)
        if constants[0] is inf:
            return False
        (row,) = rows.tolist()
        top = self._over_box(node, row, constants[0], exact=True)
        moving, A = self.statement.domain.moving, self.statement.domain.A
        return bool(top < 0) or (
            bool(top == 0)
            and (
                any(row[j] != 0 for j in moving)
                or any(w > 0 and any(A[r][j] != 0 for j in moving) for r, w in weights.rho.items())
                or any(beta > 0 and self._varies(node, k) for k, beta in weights.beta.items())
            )
        )

    def _varies(self, node: Node, unit: int) -> bool:
        """Whether a unit's pre-activation is surely not constant on any full-dimensional piece.

        Its affine form in the inputs is written out without rounding; where it depends on an open
        unit the answer is no.
        """
        last = self.layer_of(unit)
        row = [rational(float(unit - self.starts[last] == k)) for k in range(self._units(last))]
        for i in range(last, -1, -1):
            start = self.starts[i]
            for k, c in enumerate(row):
                if i == last or c == 0:
                    continue
                if node.phases[start + k] == OPEN:
                    return False
                row[k] = c * rational(self.slope(node, start + k))
            row = (fmpq_mat([row]) * self._layer(i, exact=True)[0]).entries()
        return any(row[j] != 0 for j in self.statement.domain.moving)

    def slope(self, node: Node, unit: int) -> float:
        """Slope of a decided unit."""
        return self.left[unit] if node.phases[unit] == LEFT else self.right[unit]

    # -- backwards through the layers ----------------------------------------------------------

    def _units(self, i: int) -> int:
        return self.statement.hidden[i].units

    def _layer(self, i: int, exact: bool) -> tuple[Matrix, Matrix]:
        """Weight and bias (a column) of a layer."""
        if (i, exact) not in self._kept:
            layer = self.statement.hidden[i]
            bias = arb_mat([[b] for b in layer.bias])
            kept = layer.weight, bias
            if exact:
                kept = layer.exact_weight, fmpq_mat([[rational(b)] for b in layer.bias])
            self._kept[i, exact] = kept
        return self._kept[i, exact]

    def _backwards(
        self, node: Node, wanted: Sequence[tuple[dict[int, float], Weights]], exact: bool
    ) -> tuple[list[Number], Matrix]:
        """Linear functions ``rows . x + constants`` above ``aim . z`` for pairs (aim, weights).

        Where there is none, the constant is the float ``inf``.
        """
        make, read = (fmpq_mat, rational) if exact else (arb_mat, arb)
        zero: Number = read(0.0)
        sums = [self._sum(node, aim, weights, read) for aim, weights in wanted]
        constants, rows = [zero] * len(sums), None
        for i in range(max((self.layer_of(k) for own in sums for k in own), default=-1), -1, -1):
            start, stop = self.starts[i], self.starts[i + 1]
            if rows is None:
                table = [[zero] * (stop - start) for _ in sums]
            else:
                table = rows.tolist()
                self._pass_on(node, i, table, constants, [w for _, w in wanted], read)
            for row, own in zip(table, sums, strict=True):
                for k, c in own.items():
                    if start <= k < stop:
                        row[k - start] += c
            weight, bias = self._layer(i, exact)
            rows = make(table)
            shifts = rows * bias
            constants = [c if c is inf else c + shifts[r, 0] for r, c in enumerate(constants)]
            rows = rows * weight
        if rows is None:
            rows = make([[zero] * self.statement.inputs for _ in sums])
        if any(weights.rho for _, weights in wanted):
            rows = make(self._with_domain(rows.tolist(), constants, [w for _, w in wanted], read))
        return constants, rows

    def _sum(self, node: Node, aim: dict[int, float], weights: Weights, read: Any) -> Any:
        """Aim and weights of decided units as coefficients of pre-activations."""
        own = {k: read(v) for k, v in aim.items()}
        for k, beta in weights.beta.items():
            if node.phases[k] == OPEN or self.left[k] == self.right[k]:
                raise ProofError("a weight belongs to no decided unit")
            own[k] = own.get(k, read(0.0)) + read(beta) * node.phases[k]
        return own

    def _pass_on(
        self,
        node: Node,
        i: int,
        table: Table,
        constants: list[Number],
        weights: list[Weights],
        read: Any,
    ) -> None:
        """Replace what the units of a layer pass on by lines in their pre-activations."""
        start = self.starts[i]
        lines = [self._lines(node, start + k, read) for k in range(self._units(i))]
        for r, row in enumerate(table):
            alpha = weights[r].alpha
            for k, c in enumerate(row):
                if c == 0:
                    continue
                below, chord, shift, jump = lines[k]
                if jump is None:
                    row[k] = c * below
                    continue
                if start + k in alpha:
                    below = read(self.left[start + k]) + jump * read(alpha[start + k])
                up, down = _parts(c) if jump > 0 else _parts(c)[::-1]
                if up == 0:
                    row[k] = c * below
                elif chord is None:
                    constants[r], row[k] = inf, c * below
                else:
                    row[k] = up * chord + down * below
                    if constants[r] is not inf:
                        constants[r] += up * shift

    def _lines(self, node: Node, k: int, read: Any) -> tuple[Number, ...]:
        """Slope of the line through zero, slope and offset of the chord, jump of the slopes.

        The jump is None for a decided unit, the chord for an unbounded one.
        """
        if node.phases[k] != OPEN:
            return read(self.slope(node, k)), None, None, None
        left, low, high = read(self.left[k]), node.lower[k], node.upper[k]
        jump = read(self.right[k]) - left
        below = left + jump if high > -low else left
        if not -inf < low < 0.0 < high < inf:
            return below, None, None, jump
        share = jump * read(high) / (read(high) - read(low))
        return below, left + share, -share * read(low), jump

    def _with_domain(
        self, table: Table, constants: list[Number], weights: list[Weights], read: Any
    ) -> Table:
        """Add the domain's rows with their weights."""
        domain = self.statement.domain
        for place, given in enumerate(weights):
            for r, value in given.rho.items():
                if r >= len(domain.A):
                    raise ProofError("a weight belongs to no row of the domain")
                rho = read(value)
                if constants[place] is not inf:
                    constants[place] += rho * read(domain.b[r])
                pairs = zip(table[place], domain.A[r], strict=True)
                table[place] = [c - rho * read(a) for c, a in pairs]
        return table

    # -- over the domain -----------------------------------------------------------------------

    def _maxima(self, node: Node, constants: list[Number], rows: arb_mat) -> list[Number]:
        """Maxima of ``rows . x + constants`` over the domain within the node's box.

        In a product of a row with the balls of the box, the radius is the sum that is wanted.
        """
        bounded = all(map(isfinite, node.low)) and all(map(isfinite, node.high))
        around = rows * node.box if bounded else None
        ball = self.statement.domain.ball
        found: list[Number] = []
        for r, constant in enumerate(constants):
            if constant is inf:
                found.append(inf)
                continue
            if around is not None:
                reach = around[r, 0]
                top = constant + reach.upper()
            if around is None or abs(top) < NEAR * reach.rad():
                row = [rows[r, j] for j in range(rows.ncols())]
                top = self._over_box(node, row, constant, exact=False)
            if ball is not None:
                row = [rows[r, j] for j in range(rows.ncols())]
                curved = constant + self._over_ball(row)
                top = curved if top is inf or curved < top else top
            found.append(top)
        return found

    def _over_ball(self, row: list[arb]) -> arb:
        """Maximum of a row over the ball."""
        norm, center, radius = self.statement.domain.ball or ("", [], 0.0)
        reach = sum((c * x for c, x in zip(row, center, strict=True)), arb(0))
        if norm == "l2":
            return reach + radius * sum((c * c for c in row), arb(0)).sqrt()
        size = arb(0)
        for c in row:
            size = size.max(abs(c))
        return reach + radius * size

    @staticmethod
    def _over_box(node: Node, row: list[Number], constant: Number, exact: bool) -> Number:
        """Maximum of one row over the box, side by side."""
        read = rational if exact else arb
        for c, low, high in zip(row, node.low, node.high, strict=True):
            if c == 0:
                continue
            if low == -inf or high == inf:
                side = high if c > 0 else low if c < 0 else inf
                if abs(side) == inf:
                    return inf
                constant += c * read(side)
            else:
                ends = c * read(low), c * read(high)
                constant += max(ends) if exact else ends[0].max(ends[1])
        return constant

    # -- all bounds ----------------------------------------------------------------------------

    def tighten(self, node: Node, only: set[int] | None = None) -> bool:
        """Bound open units' pre-activations without weights (CROWN), and decide what follows.

        Layer by layer; all of them, or `only` some.  False if nothing is left of the node.
        """
        for i in range(len(self.statement.hidden)):
            units = [
                k
                for k in range(*self.starts[i : i + 2])
                if node.phases[k] == OPEN and (only is None or k in only)
            ]
            if not units or (i == 0 and node.boxed):
                continue
            if not self.bound(node, [(k, sign, NONE) for k in units for sign in (1, -1)]):
                return False
        node.boxed = node.boxed or only is None
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


def _parts(value: Number) -> tuple[Number, Number]:
    """Positive and negative part of a number."""
    if value >= 0:
        return value, 0
    if value <= 0:
        return 0, value
    return value.max(0), value.min(0)


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
