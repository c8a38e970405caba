"""Upper bounds of the gradient's norm over a node, from multipliers.

Let v be a direction with ``|v|_alpha <= 1``, u_k the tangent of an unstable unit's pre-activation,
a_k in {0, 1} its switch and ``s_k = a_k u_k``, so that ``s_k (u_k - s_k) = 0``.  Stable units are
eliminated; all tangents are then rows ``u_k = U_k w`` in ``w = (v, s)``, and the outputs' are ``N
w``.  For numbers zeta, lambda let

    C = diag(zeta, 0) - sum_k lambda_k sym(e_k (U_k - e_k)^T),      so    w^T C w <= tau

with tau = sum zeta for the cube (linf), and tau = zeta for the Euclidean ball (l2, all zeta equal)
or for one input alone (l1).  If the matrix

    [ C       Y^T    ]
    [ Y   U^2/tau I  ]        with Y = N (one functional, or all outputs for the Euclidean norm)

is positive definite, then ``|Y w|^2 <= (U^2/tau) w^T C w <= U^2``.  In twice this matrix the block
of the inputs is diagonal, and so is that of the unstable units of one layer, as these do not depend
on each other; the largest such block is eliminated first.

The same multipliers may prove the bound of one functional on one side of an unstable unit only.
On its left ``s_k = 0``, on its right ``s_k = u_k``; so a multiple of ``e_k``, or of ``U_k - e_k``,
may be taken from Y.

U and N are exact: integers in units of a power of two.  Rows and columns of the matrix are scaled
by powers of two so that its diagonal is at most one, and rounded; `positive` allows for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import isqrt
from operator import mul

from flint import fmpq, fmpz, fmpz_mat

from lipyomo_check.linear import LEFT, OPEN, RIGHT, Linear, Node, Rows
from lipyomo_check.parts import BITS, MOST_VERTICES, dyadic, eye, rational
from lipyomo_check.statement import Statement

SMALL = 30
"""Bits of a Cholesky factor that is tried first: products of two are small numbers of FLINT."""

Whole = list[list[int]]


class Tangents:
    """The rows U and N of a node over (t, s).

    t are the directions; or, if these are fewer, the tangents of the first layer in the units of
    its weight.

    Attributes
    ----------
    rows, bits : list of list of fmpz, list of int
        Each unstable unit's row, in units of ``2^-bits``; it ends before the s of its own layer.
    outputs, power : list of list of fmpz, int
        The same of the outputs.
    base, count : int
        Lengths of t and s.
    layers : list of int
        Number of the first s of each layer, and their count at the end.
    """

    def __init__(self, statement: Statement, linear: Linear, node: Node) -> None:
        self.statement, (first, bits) = statement, statement.first
        self.wide = len(first[0]) > len(first)
        table = eye(len(first)) if self.wide else first
        self.base, self.layers = len(table[0]), [0]
        self.rows, self.bits = list[list[fmpz]](), list[int]()
        for start, (layer, behind) in zip(linear.starts, pairwise(statement.layers), strict=False):
            through, changes = [], []
            for k, (left, right) in enumerate(layer.slopes):
                phase = node.phases[start + k]
                if phase == OPEN:
                    self.rows.append(table[k])
                    self.bits.append(bits)
                    changes.append((k, fmpz(right - left) << bits))
                if slope := right if phase == RIGHT else left:
                    through.append((k, slope))
            self.layers.append(len(self.rows))
            steps = [row[k] * slope for row in behind.table for k, slope in through]
            below = [v for k, _ in through for v in table[k]]
            size, width = len(through), len(table[0])
            passed = fmpz_mat(behind.units, size, steps) * fmpz_mat(size, width, below)
            further = [[row[k] * change for k, change in changes] for row in behind.table]
            table = [row + new for row, new in zip(passed.tolist(), further, strict=True)]
            bits += layer.slope_bits + behind.bits
        self.count, self.outputs, self.power = len(self.rows), table, bits

    def holds(
        self,
        bound: float,
        target: tuple[int | None, int | None],
        zeta: list[int],
        lam: list[int],
        sides: Sequence[tuple[int, int, float]] | None = None,
    ) -> bool:
        """Return whether multipliers prove that a target is at most `bound`.

        Parameters
        ----------
        bound : float
        target : (int or None, int or None)
            Number of the dual vertex, None for the Euclidean norm of the outputs; the input of an
            l1 target (or its direction), None for all.
        zeta : list of int
            One a direction (linf), or one number (l2, l1).
        lam : list of int
            One an unstable unit; zeta and lambda may have any common factor.
        sides : sequence of (int, int, float), optional
            Prove it wherever one of some units is on one side, and not everywhere: numbers of open
            units (0 is the first open one), LEFT or RIGHT, and the multiple to take from Y.
        """
        columns, euclidean = self.statement.columns, self.statement.input_norm != "linf"
        if len(zeta) != (1 if euclidean else len(columns)) or min(zeta + lam) <= 0 or bound <= 0:
            return False
        if sides is not None and target[0] is None:  # a multiple is taken from one functional
            return False
        tau, zeta = (zeta[0], zeta * len(columns)) if euclidean else (sum(zeta), zeta)
        Y, power = self._functionals(target[0], sides)
        rows, units = self._over_inputs(self.rows + Y), self.bits + [power] * len(Y)
        if target[1] is not None:
            j, d = columns.index(target[1]), len(columns)
            zeta, rows = zeta[:1], [[row[j], *row[d:]] for row in rows]
        sizes = [fmpq(2 * v) for v in zeta + lam] + [2 * rational(bound) ** 2 / tau] * len(Y)
        starts = [0, *(len(zeta) + start for start in self.layers)]
        block = max(pairwise(starts), key=lambda ends: ends[1] - ends[0])
        together = len(sizes) - (0 if sides is None else len(Y))
        given = rows, units, [-v for v in lam] + [2] * len(Y), sizes
        return any(positive(*_scaled(*given, b), block, together, b) for b in (SMALL, BITS))

    def _over_inputs(self, rows: Rows) -> Rows:
        """Return rows over (v, s) instead of (t, s), v being single directions."""
        if not self.wide:
            return rows
        own = fmpz_mat([row[: self.base] for row in rows]) * fmpz_mat(self.statement.first[0])
        return [v + row[self.base :] for v, row in zip(own.tolist(), rows, strict=True)]

    def _functionals(
        self, vertex: int | None, sides: Sequence[tuple[int, int, float]] | None = None
    ) -> tuple[Rows, int]:
        """Return the rows Y over (t, s), in units of ``2^-power``."""
        functionals, power = self.statement.functionals
        chosen = functionals if vertex is None else [functionals[vertex]]
        Y: Rows = (fmpz_mat(chosen) * fmpz_mat(self.outputs)).tolist()
        power += self.power
        if not sides:
            return Y, power
        (multiples,), bits = dyadic([[multiple for _, _, multiple in sides]])
        rows = []
        for (k, side, _), multiple in zip(sides, multiples, strict=True):
            row, sign = [v << bits for v in Y[0]], 1 if side == LEFT else -1
            row[self.base + k] -= sign * (fmpz(multiple) << power)
            if side == RIGHT:
                step, own = fmpz(multiple) << power - self.bits[k], self.rows[k]
                row[: len(own)] = [y - step * t for y, t in zip(row, own, strict=False)]
            rows.append(row)
        return rows, power + bits

    def at_most(self, bound: float, target: tuple[int | None, int | None]) -> bool | None:
        """Return whether a target is at most `bound` where no unit is unstable; None if unknown.

        The Euclidean norm of several outputs over the cube is taken at the cube's corners, if they
        are few, or at those of its image in the plane; others of its kind need multipliers.
        """
        vertex, column = target
        Y, power = self._functionals(vertex)
        gradient = fmpz_mat(self._over_inputs(Y))
        norm = self.statement.input_norm
        limit = (rational(bound) * (fmpz(1) << power)) ** 2
        entries = gradient.entries()
        if column is not None:
            entries = entries[self.statement.columns.index(column) :: gradient.ncols()]
        if column is not None or (vertex is not None and norm == "l2"):
            return bool(sum((g * g for g in entries), fmpz(0)) <= limit)
        if vertex is not None:
            return bool(sum((abs(g) for g in entries), fmpz(0)) ** 2 <= limit)
        if norm == "l2" or (gradient.nrows() > 2 and 1 << gradient.ncols() > MOST_VERTICES):
            return None
        if gradient.nrows() == 2:
            images = _polygon(gradient.transpose().tolist())
        else:
            corners = [[1, *signs] for signs in product((1, -1), repeat=gradient.ncols() - 1)]
            images = (fmpz_mat(corners) * gradient.transpose()).tolist()
        return all(sum((g * g for g in image), fmpz(0)) <= limit for image in images)


def _polygon(columns: Rows) -> Rows:
    """Return half of the corners of the sums of +-columns in the plane; the rest are negatives.

    With all columns turned into one half-plane and sorted by their angle, the corners turn one
    after the other.
    """
    turned = [[-x, -y] if y < 0 or (y == 0 and x < 0) else [x, y] for x, y in columns]
    turned.sort(key=lambda v: (v[1] != 0, fmpq(-v[0], v[1]) if v[1] else fmpq(0)))
    corners = [[-sum(part, fmpz(0)) for part in zip(*turned, strict=True)]]
    for x, y in turned:
        corners.append([corners[-1][0] + 2 * x, corners[-1][1] + 2 * y])
    return corners


def _scaled(
    rows: Rows, units: list[int], times: list[int], sizes: list[fmpq], bits: int
) -> tuple[Whole, list[int]]:
    """Return the last rows of a symmetric matrix before its diagonal, and that, times ``4^bits``.

    The diagonal is `sizes`; other rows than the last ones have nothing else.  These are `rows`, in
    units of ``2^-units``, `times` so much.  The matrix is scaled by powers of two so that the
    diagonal is between 1/8 and one, and rounded down.
    """
    half = [(v.p.bit_length() - v.q.bit_length() + 2) // 2 for v in sizes]
    fine, low, d = 2 * bits, 2 * min(half), len(sizes) - len(rows)
    lift = max(0, -low, fine - low - min(units))
    scaled = zip(sizes, half, strict=True)
    diagonal = [int((v.p << fine + lift) // v.q >> 2 * h + lift) for v, h in scaled]
    before: Whole = []
    for row, unit, time, h in zip(rows, units, times, half[d:], strict=True):
        by, drop = fmpz(time) << lift, unit + h - fine + lift
        new = [int(t * by >> drop + other) for t, other in zip(row, half, strict=False)]
        before.append(new + [0] * (d + len(before) - len(new)))
    return before, diagonal


def positive(
    before: Whole, diagonal: list[int], block: tuple[int, int], together: int, bits: int
) -> bool:
    """Return whether a symmetric matrix, as `_scaled` rounds it down, is surely positive definite.

    Parameters
    ----------
    before, diagonal : list of list of int, list of int
        Of `_scaled`.
    block : (int, int)
        First row of a diagonal block, and the one behind it: all that `before` does not cover, or
        none of these.
    together : int
        The answer is for all of the matrices that the first so many rows (and columns) make with
        one of the others.

    Notes
    -----
    Let b be `bits`.  The block D, of d rows, is eliminated: if E are the other rows and columns,
    and X their part in the block, S = E - G G^T is left, with ``G = X D^-1/2``.  The roots of D are
    rounded down, which makes S smaller; they are more than ``2^(b-2)``, so that an entry of G, in
    units of 2^-b and rounded down, is less than ``1 + 2^(2-b)`` wrong.  As pivots are positive, no
    row of G is longer than 2^b; so that an entry of ``G G^T`` is less than ``2 sqrt(d) 2^b + 10 d``
    units wrong, and one of S one more.

    A factor L of S is made with entries rounded down to integers: with l_jj <= 2^b, an entry of
    L L^T lies less than 2^b below that of S.  As both errors, n times, were taken from the diagonal
    first (10 d + 1 <= 2^b), S - L L^T is diagonally dominant, hence positive definite, and so is S.
    """
    first, last = block
    before = [[0] * min(k, first) for k in range(len(diagonal) - len(before))] + before
    roots, inner = [isqrt(v) for v in diagonal[first:last]], before[first:last]
    G = [[row[k] // r for row, r in zip(inner, roots, strict=True)] for k in range(first)]
    for row in before[last:]:
        G.append([x // r for x, r in zip(row[first:], roots, strict=False)])
    E = before[:first] + [row[:first] + row[last:] for row in before[last:]]
    pivots = diagonal[:first] + diagonal[last:]
    P = (fmpz_mat(G) * fmpz_mat(G).transpose()).tolist()
    slack, factor = len(E) * (2 * isqrt(last - first) + 4 << bits), list[list[int]]()
    for k, (row, part, pivot) in enumerate(zip(E, P, pivots, strict=True)):
        new: list[int] = []
        for total, own, other in zip(row, part, factor, strict=False):
            new.append((total - int(own) - sum(map(mul, new, other))) // other[-1])
        pivot -= int(part[k]) + sum(map(mul, new, new)) + slack
        if pivot <= 0:
            return False
        if k < together - (last - first):
            factor.append([*new, isqrt(pivot)])
    return True
