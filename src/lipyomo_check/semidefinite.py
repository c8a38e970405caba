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

All numbers are integers in units of a power of two.  Entries of the matrix are rounded; what they
can be off by, at most two units each (times the norm of a basis of the inputs), is taken from its
diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import product
from math import isqrt
from operator import mul

from flint import fmpz, fmpz_mat

from lipyomo_check.linear import LEFT, OPEN, RIGHT, Linear, Node
from lipyomo_check.statement import Statement, rational

MOST_CORNERS = 16
"""Inputs of a cube whose corners are listed."""

FINE = 48
"""Bits to which inverses are rounded."""

ENTRY = 40
"""Bits behind the point of a matrix' entries."""

LARGE = 30
"""Bits before the point of its last entry: outputs may be scaled by anything."""

ROOTS = (30, 64, 256)
"""Bits of a Cholesky factor, tried in turn."""

Rows = list[list[fmpz]]


class Tangents:
    """The rows U and N of a node.

    In the inputs' part they are kept as rows over a basis, ``U = T B``: B is the first weight where
    that has fewer rows than columns (so that 784 inputs cost no more than 20 units), else one.

    Attributes
    ----------
    U : list of (list of fmpz, int), length F
        Rows without what follows their last entry, with their bits.
    N : fmpz_mat, shape (m, basis + F)
        Of the outputs themselves; functionals are applied later.
    bits : int
        Of N.
    count : int
        Number of open units F.
    """

    def __init__(self, statement: Statement, linear: Linear, node: Node) -> None:
        self.statement = statement
        self.count = node.phases.count(OPEN)
        self.basis, bits, rows = None, statement.layers[0].bits, statement.first
        if (n := rows.nrows()) < rows.ncols():
            self.basis, bits = rows, 0
            rows = fmpz_mat(n, n, [j % (n + 1) == 0 for j in range(n * n)])
        self.width = rows.ncols()
        self.U: list[tuple[list[fmpz], int]] = []
        for i, layer in enumerate(statement.hidden):
            phases = node.phases[linear.starts[i] : linear.starts[i + 1]]
            still = [k for k, phase in enumerate(phases) if phase == OPEN]
            table: Rows = rows.tolist()
            blank, nothing = [fmpz(0)] * len(still), [fmpz(0)] * (rows.ncols() + len(still))
            self.U += [(table[k], bits) for k in still]
            for k, row in enumerate(table):
                left, right = layer.slopes[k]
                slope = right if phases[k] == RIGHT else left
                table[k] = nothing
                if slope:
                    table[k] = (row if slope == 1 else [slope * t for t in row]) + blank
            for column, k in enumerate(still, rows.ncols()):
                left, right = layer.slopes[k]
                table[k] = [*table[k]]
                table[k][column] = fmpz(right - left) << bits
            rows = statement.layers[i + 1].weight * fmpz_mat(table)
            bits += layer.slope_bits + statement.layers[i + 1].bits
        self.N, self.bits = rows, bits

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
        rows = [
            _at([-value * u for u in row], own)
            for value, (row, own) in zip(lam, self.U, strict=True)
        ]
        outputs, corner = self._outputs(bound, target[0], tau, sides or [])
        n, count, width = len(outputs), self.count, self.width
        slack = 4 * (count + n + width) * self._size
        fine = max(zeta).bit_length() + FINE
        own = [k for k, j in enumerate(moving) if target[1] in (None, j)]
        D = {k: (2 * zeta[k] << ENTRY) - slack for k in own}
        if min(D.values()) <= 0:
            return False
        q = [-(-(1 << (ENTRY + fine)) // D[k]) if k in D else 0 for k in range(len(zeta))]
        made = [row[width:] + [fmpz(0)] * (width + count + n - len(row)) for row in rows + outputs]
        for k, row in enumerate(made):
            row[k] = (fmpz(lam[k]) << ENTRY if k < count else corner) - slack
        G, E = fmpz_mat([row[:width] for row in rows + outputs]), fmpz_mat(made)
        if self.basis is None:
            inner = _scaled(G, q) * G.transpose()
        else:
            inner = G * (_scaled(self.basis, q) * self.basis.transpose()) * G.transpose()
            fine += 2 * self.statement.layers[0].bits
        S = (E + E.transpose()) * (fmpz(1) << (ENTRY + fine)) - inner
        return positive(S.tolist(), count, together=sides is None)

    @cached_property
    def _size(self) -> int:
        """A bound of the Frobenius norm of the basis, or of the norm of one without."""
        if self.basis is None:
            return 1
        square = sum((b * b for b in self.basis.entries()), fmpz(0))
        return (isqrt(int(square)) >> self.statement.layers[0].bits) + 1

    def _outputs(
        self,
        bound: float,
        vertex: int | None,
        tau: int,
        sides: Sequence[tuple[int, int, float]],
    ) -> tuple[Rows, fmpz]:
        """Twice the rows Y (or what is left of it on each side), and U^2/tau; suitably scaled."""
        found, power = self._objective(vertex)
        size = rational(bound) ** 2 / tau
        scale = (LARGE - size.p.bit_length() + size.q.bit_length()) // 2
        corner = rational(2.0) ** (2 * scale + ENTRY) * size
        Y = [_at(row, self.bits + power - scale - 1) for row in found.tolist()]
        if not sides:
            return Y, corner.p // corner.q
        rows = []
        for k, side, multiple in sides:
            step = rational(multiple) * rational(2.0) ** (scale + 1)
            row = list(Y[0])
            row[self.width + k] += (1 if side != LEFT else -1) * (step.p << ENTRY) // step.q
            if side != LEFT:
                through, bits = self.U[k]
                for j, t in enumerate(_at([step.p * t for t in through], bits)):
                    row[j] -= t // step.q
            rows.append(row)
        return rows, corner.p // corner.q

    def _objective(self, vertex: int | None) -> tuple[fmpz_mat, int]:
        """The rows Y of a target, and by how many bits their units are finer than those of N."""
        if vertex is None:
            return self.N, 0
        functionals, power = self.statement.functionals
        return fmpz_mat([functionals[vertex]]) * self.N, power

    def at_most(self, bound: float, target: tuple[int | None, int | None]) -> bool | None:
        """Whether a target is at most `bound` where no unit is open; None if that is not known.

        The Euclidean norm of several outputs over the cube is taken at all its corners, if they are
        few; others of its kind need multipliers.
        """
        vertex, column = target
        gradient, power = self._objective(vertex)
        power += self.bits
        if self.basis is not None:
            gradient, power = gradient * self.basis, power + self.statement.layers[0].bits
        norm = self.statement.input_norm
        limit = (rational(bound) * (fmpz(1) << power)) ** 2
        if column is not None:
            gradient = gradient * fmpz_mat([[j == column] for j in self.statement.domain.moving])
        entries = gradient.entries()
        if column is not None or (vertex is not None and norm == "l2"):
            return bool(sum((g * g for g in entries), fmpz(0)) <= limit)
        if vertex is not None:
            return bool(sum((abs(g) for g in entries), fmpz(0)) ** 2 <= limit)
        if norm == "l2" or gradient.ncols() > MOST_CORNERS:
            return None
        corners = [[1, *signs] for signs in product((1, -1), repeat=gradient.ncols() - 1)]
        images = (fmpz_mat(corners) * gradient.transpose()).tolist()
        return all(sum((g * g for g in image), fmpz(0)) <= limit for image in images)


def _at(row: list[fmpz], bits: int) -> list[fmpz]:
    """Numbers in units of ``2^-bits`` in units of ``2^-ENTRY``, rounded down."""
    more = bits - ENTRY
    return [t >> more for t in row] if more > 0 else [t << -more for t in row]


def _scaled(matrix: fmpz_mat, q: list[int]) -> fmpz_mat:
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
