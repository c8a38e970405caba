"""Upper bounds of the gradient's norm over a node, from multipliers.

Let v be a direction with ``|v|_alpha <= 1``, u_k the tangent of an open unit's pre-activation, a_k
in {0, 1} its switch and ``s_k = a_k u_k``, so that ``s_k (u_k - s_k) = 0``.  Decided units are
eliminated; all tangents are then rows ``u_k = U_k w`` in ``w = (v, s)``, and the outputs' are
``N w``.  For numbers zeta, lambda let

    C = diag(zeta, 0) - sum_k lambda_k sym(e_k (U_k - e_k)^T),      so    w^T C w <= tau

with tau = sum zeta for the cube (linf), and tau = zeta for the Euclidean ball (l2, all zeta equal)
or for one input alone (l1).  If the matrix

    [ C       Y^T    ]
    [ Y   U^2/tau I  ]        with Y = N (one functional, or all outputs for the Euclidean norm)

is positive definite, then ``|Y w|^2 <= (U^2/tau) w^T C w <= U^2``.  Twice the block of the inputs
is the diagonal matrix D = 2 diag(zeta); it is eliminated first, with ``q >= D^-1`` instead of its
inverse, which makes the matrix smaller.  The rest is S.

The same multipliers may prove the bound of one functional on one side of an open unit only.  On its
left ``s_k = 0``, on its right ``s_k = u_k``; so a multiple of ``e_k``, or of ``U_k - e_k``, may be
taken from Y.

All numbers are integers in units of a power of two; nothing is rounded but q, upwards, U^2/tau,
downwards, and the factor of S.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import isqrt
from operator import mul

from flint import fmpq, fmpz, fmpz_mat

from lipyomo_check.linear import LEFT, OPEN, RIGHT, Linear, Node
from lipyomo_check.statement import Statement, dyadic, rational

MOST_CORNERS = 16
"""Inputs of a cube whose corners are listed."""

FINE = 48
"""Bits to which inverses are rounded."""

ROOTS = (30, 64, 256)
"""Bits of a Cholesky factor, tried in turn."""

Rows = list[list[fmpz]]


class Tangents:
    """The rows U and N of a node, with the inputs' part as rows over the first weight.

    Attributes
    ----------
    inner : fmpz_mat, shape (F + m, units of the first layer)
        U, then N, in units of ``2^-bits``; times the first weight, this is the inputs' part.
    states : fmpz_mat, shape (F + m, F)
        The part of the open units' s, in the same units.
    bits : int
    count, rows : int
        Numbers of open units F, and of rows F + m.
    """

    def __init__(self, statement: Statement, linear: Linear, node: Node) -> None:
        self.statement, self.bits = statement, 0
        m = statement.layers[-1].units
        rows: Rows = [[fmpz(i == j) for j in range(m)] for i in range(m)]
        states: Rows = [[] for _ in rows]
        scales: list[int] = []  # bits of each of the states' columns
        for i in range(len(statement.hidden) - 1, -1, -1):
            layer, behind = statement.hidden[i], statement.layers[i + 1]
            phases = node.phases[linear.starts[i] : linear.starts[i + 1]]
            still = [k for k, phase in enumerate(phases) if phase == OPEN]
            rows = (fmpz_mat(rows) * behind.weight).tolist()
            self.bits += behind.bits + layer.slope_bits
            scales = [self.bits] * len(still) + scales
            jumps = [(k, layer.slopes[k][1] - layer.slopes[k][0]) for k in still]
            states = [
                [row[k] * jump for k, jump in jumps] + own
                for row, own in zip(rows, states, strict=True)
            ]
            states = [[fmpz(0)] * len(scales) for _ in still] + states
            slopes = [
                right if phase == RIGHT else left
                for phase, (left, right) in zip(phases, layer.slopes, strict=True)
            ]
            unit, zero = fmpz(1) << self.bits, fmpz(0)
            begun = [[unit if j == k else zero for j in range(layer.units)] for k in still]
            rows = begun + [
                [t * slope if slope else zero for t, slope in zip(row, slopes, strict=True)]
                for row in rows
            ]
        self.count, self.rows, self.inner = len(scales), len(rows), fmpz_mat(rows)
        self.states = fmpz_mat(
            self.rows,
            self.count,
            [t << (self.bits - b) for row in states for t, b in zip(row, scales, strict=True)],
        )

    def holds(
        self,
        bound: float,
        target: tuple[int | None, int | None],
        zeta: list[int],
        lam: list[int],
        sides: Sequence[tuple[int, int, float]] | None = None,
    ) -> bool:
        """Whether multipliers prove that a target is at most `bound`.

        Parameters
        ----------
        bound : float
        target : (int or None, int or None)
            Number of the dual vertex, None for the Euclidean norm of the outputs; the input of an
            l1 target, None for all.
        zeta : list of int
            One a moving input (linf), or one number (l2, l1).
        lam : list of int
            One an open unit; zeta and lambda may have any common factor.
        sides : sequence of (int, int, float), optional
            Prove it wherever one of some units is on one side, and not everywhere: numbers of open
            units (0 is the first open one), LEFT or RIGHT, and the multiple to take from Y.
        """
        moving, euclidean = self.statement.domain.moving, self.statement.input_norm != "linf"
        if len(zeta) != (1 if euclidean else len(moving)) or min(zeta) <= 0 or bound <= 0:
            return False
        if sides is not None and target[0] is None:  # a multiple is taken from one functional
            return False
        tau, zeta = (zeta[0], zeta * len(moving)) if euclidean else (sum(zeta), zeta)
        count, first = self.count, self.statement.first
        Y, taken, power = self._outputs(target[0], sides)
        corner = rational(bound) ** 2 * (fmpz(1) << (2 * power + self.bits)) / tau
        small = FINE + corner.q.bit_length() - corner.p.bit_length()  # outputs may be
        more = max((small + 1) // 2, 0)
        size = [fmpz(v) << self.bits for v in lam]
        size += [fmpz(corner.p << (2 * more)) // corner.q] * len(Y)
        mix = [[0] * k + [-v] + [0] * (self.rows - k - 1) for k, v in enumerate(lam)]
        mix += [[v << (more + 1) for v in row] for row in Y]
        E = (fmpz_mat(mix) * self.states).tolist()
        for row, steps in zip(E[count:], taken, strict=True):
            for k, value in steps:
                row[k] += fmpz(value) << (more + 1 + self.bits)
        for k, row in enumerate(E):
            row += [fmpz(0)] * len(Y)
            row[k] += size[k]
        fine = max(zeta).bit_length() + FINE
        own = [target[1] in (None, j) for j in moving]
        one = fmpz(1) << fine
        q = [-(-one // (2 * z)) if use else fmpz(0) for z, use in zip(zeta, own, strict=True)]
        V = fmpz_mat(mix) * self.inner
        if V.nrows() < first.nrows():
            G = V * first
            less = _scaled(G, q) * G.transpose()
        else:  # 784 inputs cost no more than 20 units
            less = V * (_scaled(first, q) * first.transpose()) * V.transpose()
        fine += self.bits + 2 * self.statement.layers[0].bits
        S = (fmpz_mat(E) + fmpz_mat(E).transpose()) * (fmpz(1) << fine) - less
        return positive(S.tolist(), count, together=sides is None)

    def _outputs(
        self, vertex: int | None, sides: Sequence[tuple[int, int, float]] | None
    ) -> tuple[list[list[int]], list[list[tuple[int, int]]], int]:
        """The rows Y as combinations of U and N, and of the e_k; in units of ``2^-power``."""
        functionals, power = self.statement.functionals
        chosen = functionals if vertex is None else [functionals[vertex]]
        Y = [[0] * self.count + row for row in chosen]
        if not sides:
            return Y, [[] for _ in Y], power
        (multiples,), bits = dyadic([[multiple for _, _, multiple in sides]])
        rows, taken = [], []
        for (k, side, _), multiple in zip(sides, multiples, strict=True):
            row, step = [v << bits for v in Y[0]], multiple << power
            row[k] -= 0 if side == LEFT else step
            rows.append(row)
            taken.append([(k, -step if side == LEFT else step)])
        return rows, taken, power + bits

    def at_most(self, bound: float, target: tuple[int | None, int | None]) -> bool | None:
        """Whether a target is at most `bound` where no unit is open; None if that is not known.

        The Euclidean norm of several outputs over the cube is taken at the cube's corners, if they
        are few, or at those of its image in the plane; others of its kind need multipliers.
        """
        vertex, column = target
        Y, _, power = self._outputs(vertex, None)
        gradient = fmpz_mat(Y) * self.inner * self.statement.first
        power += self.bits + self.statement.layers[0].bits
        norm = self.statement.input_norm
        limit = (rational(bound) * (fmpz(1) << power)) ** 2
        entries = gradient.entries()
        if column is not None:
            entries = entries[self.statement.domain.moving.index(column) :: gradient.ncols()]
        if column is not None or (vertex is not None and norm == "l2"):
            return bool(sum((g * g for g in entries), fmpz(0)) <= limit)
        if vertex is not None:
            return bool(sum((abs(g) for g in entries), fmpz(0)) ** 2 <= limit)
        if norm == "l2" or (gradient.nrows() > 2 and gradient.ncols() > MOST_CORNERS):
            return None
        if gradient.nrows() == 2:
            images = _polygon(gradient.transpose().tolist())
        else:
            corners = [[1, *signs] for signs in product((1, -1), repeat=gradient.ncols() - 1)]
            images = (fmpz_mat(corners) * gradient.transpose()).tolist()
        return all(sum((g * g for g in image), fmpz(0)) <= limit for image in images)


def _polygon(columns: Rows) -> Rows:
    """Half of the corners of the sums of +-columns in the plane, the others being their negatives.

    With all columns turned into one half-plane and sorted by their angle, the corners turn one
    after the other.
    """
    turned = [[-x, -y] if y < 0 or (y == 0 and x < 0) else [x, y] for x, y in columns]
    turned.sort(key=lambda v: (v[1] != 0, fmpq(-v[0], v[1]) if v[1] else fmpq(0)))
    corners = [[-sum(part, fmpz(0)) for part in zip(*turned, strict=True)]]
    for x, y in turned:
        corners.append([corners[-1][0] + 2 * x, corners[-1][1] + 2 * y])
    return corners


def _scaled(matrix: fmpz_mat, q: list[fmpz]) -> fmpz_mat:
    """A matrix with its columns multiplied by numbers."""
    return fmpz_mat([[t * v for t, v in zip(row, q, strict=True)] for row in matrix.tolist()])


def positive(S: Rows, count: int, together: bool) -> bool:
    """Whether a symmetric matrix is surely positive definite.

    Parameters
    ----------
    S : list of list of fmpz
    count : int
    together : bool
        False: the answer is for all of the matrices that the first `count` rows (and columns) make
        with one of the others.

    Notes
    -----
    S is scaled by powers of two to a diagonal below 4^b.  A factor L is made with entries rounded
    down to integers: with l_jj <= 2^b, an entry of L L^T lies less than 2^b below that of S, and S
    was rounded by less than one.  As n 2^b was taken from the diagonal first, S - L L^T is
    diagonally dominant, hence positive definite, and so is S.
    """
    half = [(row[k].bit_length() + 1) // 2 for k, row in enumerate(S)]
    for bits in ROOTS:
        slack, factor = len(S) << bits, list[list[int]]()
        for k, entries in enumerate(S):
            shift = half[k] - 2 * bits
            pairs = zip(entries, half[: k + 1], strict=False)
            *row, pivot = [int(s >> d if (d := shift + h) >= 0 else s << -d) for s, h in pairs]
            new: list[int] = []
            for total, other in zip(row, factor, strict=False):
                new.append((total - sum(map(mul, new, other))) // other[-1])
            pivot -= sum(map(mul, new, new)) + slack
            if pivot <= 0:
                break
            if together or k < count:
                factor.append([*new, isqrt(pivot)])
        else:
            return True
    return False
