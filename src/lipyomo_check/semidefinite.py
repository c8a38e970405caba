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

is positive definite, then ``|Y w|^2 <= (U^2/tau) w^T C w <= U^2``.  The block of the inputs is
diagonal; it is eliminated first, and the rest S is factorised in balls (Cholesky).

The same multipliers may prove the bound of one functional on one side of an open unit only.  On its
left ``s_k = 0``: row and column k of S are left out.  On its right ``s_k = u_k``, that is
``c_v v + c_s s = 0``; with the inputs eliminated, the least of the quadratic form under that
condition is

    s^T (S + h h^T / delta) s,    h = c_s - G D^-1 c_v,   delta = c_v D^-1 c_v,

G being the rows' coupling to the inputs and D = diag(zeta).  Let S without its last row be positive
definite and the last pivot p of its factorisation be negative: S has one negative eigenvalue, and a
negative determinant.  A smaller or raised matrix has at most as many, hence none if its determinant
is positive, that is if ``e_k^T S^-1 e_k < 0``, or ``delta + h^T S^-1 h < 0``.
"""

from __future__ import annotations

from itertools import product

from flint import arb, arb_mat

from lipyomo_check.linear import LEFT, OPEN, RIGHT, Linear, Node
from lipyomo_check.statement import Statement

MOST_CORNERS = 16
"""Inputs of a cube whose corners are listed."""


class Tangents:
    """The rows U and N of a node.

    In the inputs' part they are kept as rows over a basis, ``U = T B``: B is the first weight where
    that has fewer rows than columns (so that 784 inputs cost no more than 20 units), else one.

    Attributes
    ----------
    U : list of list of arb, shape (F, basis + F)
    N : list of list of arb, shape (m, basis + F)
        Of the outputs themselves; functionals are applied later.
    count : int
        Number of open units F.
    """

    def __init__(self, statement: Statement, linear: Linear, node: Node) -> None:
        self.statement = statement
        self.count = node.phases.count(OPEN)
        self.basis = statement.first if statement.first.nrows() < statement.first.ncols() else None
        table: list[list[arb]] = statement.first.tolist()
        if self.basis is not None:
            table = [[arb(j == k) for j in range(len(table))] for k in range(len(table))]
        self.width = column = len(table[0])
        table = [row + [arb(0)] * self.count for row in table]
        self.U: list[list[arb]] = []
        for i, layer in enumerate(statement.hidden):
            for k in range(layer.units):
                unit = linear.starts[i] + k
                slope = linear.slope(node, unit)
                if node.phases[unit] == OPEN:
                    self.U.append(table[k])
                    slope = layer.left[k]
                if slope == 0.0:
                    table[k] = [arb(0)] * len(table[k])
                elif slope != 1.0:
                    table[k] = [slope * t for t in table[k]]
                if node.phases[unit] == OPEN:
                    table[k] = list(table[k])
                    table[k][column] += arb(layer.right[k]) - slope
                    column += 1
            table = (statement.layers[i + 1].weight * arb_mat(table)).tolist()
        self.N = table

    def holds(
        self,
        bound: float,
        vertex: int | None,
        column: int | None,
        zeta: list[float],
        lam: list[float],
    ) -> bool:
        """Whether the multipliers prove that a target is at most `bound`.

        Parameters
        ----------
        bound : float
        vertex : int or None
            Number of the dual vertex; None for the Euclidean norm of the outputs.
        column : int or None
            The input of an l1 target; None for all.
        zeta : list of float
            One a moving input (linf), or one number (l2, l1).
        lam : list of float
            One an open unit.
        """
        made = self._matrix(bound, vertex, column, zeta, lam, [])
        return made is not None and cholesky(made[0]) is not None

    def excluded(
        self,
        bound: float,
        target: tuple[int | None, int | None],
        zeta: list[float],
        lam: list[float],
        sides: list[tuple[int, int]],
    ) -> bool:
        """Whether the multipliers prove the bound wherever one of some units is on one side.

        Parameters
        ----------
        bound, target, zeta, lam
            See `holds`; the target is (vertex, column).
        sides : list of (int, int)
            Numbers of open units (0 is the first open one) with LEFT or RIGHT: on it, ``s_k = 0``
            or ``s_k = u_k``, and the matrix has to be positive definite on that subspace only.
        """
        ons = [k for k, side in sides if side == RIGHT]
        made = self._matrix(bound, *target, zeta, lam, [self.U[k] for k in ons])
        if made is None or len(made[0]) != self.count + 1:
            return False
        lower, others = made
        factor = cholesky(lower[:-1])
        if factor is None:
            return False
        *below, corner = lower[-1]
        last = substituted(factor, below)
        pivot = sum((-a * a for a in last), corner)
        if not pivot < 0:
            return False
        unit = [[arb(j == k) for j in range(self.count)] for k in range(self.count)]
        pairs = [(unit[k], arb(0), arb(0)) for k, side in sides if side == LEFT]
        for k, (*through, end, delta) in zip(ons, others, strict=True):
            own = zip(through, unit[k], self.U[k][self.width :], strict=True)
            pairs.append(([g + e - u for g, e, u in own], end, delta))
            if not delta > 0:
                return False
        for h, end, delta in pairs:
            front = substituted(factor, h)
            end -= sum((a * b for a, b in zip(last, front, strict=True)), arb(0))
            if not sum((a * a for a in front), delta) + end * end / pivot < 0:
                return False
        return True

    def _matrix(
        self,
        bound: float,
        vertex: int | None,
        column: int | None,
        zeta: list[float],
        lam: list[float],
        others: list[list[arb]],
    ) -> tuple[list[list[arb]], list[list[arb]]] | None:
        """The matrix (its lower triangle) without the inputs; None if numbers are not positive.

        And of each of some `others` rows u, with the inputs' part u_v, the products
        ``G D^-1 u_v`` and ``u_v D^-1 u_v``.
        """
        moving = self.statement.domain.moving
        if self.statement.input_norm == "linf":
            tau = sum((arb(z) for z in zeta), arb(0))
        else:
            zeta, tau = zeta * len(moving), arb(zeta[0])
        if any(not z > 0 for z in zeta) or not bound > 0 or len(zeta) != len(moving):
            return None
        # rows of the units, then of the outputs: their coupling to the inputs, and among themselves
        halves = [-arb(value) / 2 for value in lam]
        rows = [[h * u for u in row] for h, row in zip(halves, self.U, strict=True)]
        rows += self._objective(vertex)
        both = [row[: self.width] for row in rows + others]
        through = self._through_inputs(both, column, zeta)
        found: list[list[arb]] = []
        for a, row in enumerate(rows):
            made = [
                *row[self.width : self.width + min(a, self.count)],
                *[arb(0)] * (a - self.count),
            ]
            made.append(arb(lam[a]) if a < self.count else arb(bound) * arb(bound) / tau)
            found.append([m - s for m, s in zip(made, through[a], strict=False)])
        n = len(rows)
        return found, [[*row[:n], row[n + r]] for r, row in enumerate(through[n:])]

    def _through_inputs(
        self, rows: list[list[arb]], column: int | None, zeta: list[float]
    ) -> list[list[arb]]:
        """``G D^-1 G^T``, with G the rows and D the inputs' diagonal block, or one entry of it."""
        pairs = zip(zeta, self.statement.domain.moving, strict=True)
        inverse = [1 / arb(z) if column in (None, j) else arb(0) for z, j in pairs]

        def scaled(table: list[list[arb]]) -> arb_mat:
            return arb_mat([[g * v for g, v in zip(row, inverse, strict=True)] for row in table])

        left = arb_mat(rows)
        if self.basis is None:
            return list((scaled(rows) * left.transpose()).tolist())
        inner = scaled(self.basis.tolist()) * self.basis.transpose()
        return list((left * inner * left.transpose()).tolist())

    def _objective(self, vertex: int | None) -> list[list[arb]]:
        """The rows Y of a target."""
        if vertex is None:
            return list(self.N)
        y = arb_mat([(self.statement.vertices or [])[vertex]])
        return list((y * arb_mat(self.N)).tolist())

    def value(self, vertex: int | None, column: int | None) -> arb | None:
        """The target's value where no unit is open.

        The Euclidean norm of several outputs over the cube is taken at all its corners, if they are
        few; None for others of its kind.
        """
        gradient = arb_mat(self._objective(vertex))
        if self.basis is not None:
            gradient = gradient * self.basis
        if vertex is None:
            inputs = gradient.ncols()
            if self.statement.input_norm != "linf" or inputs > MOST_CORNERS:
                return None
            corners = [[1, *signs] for signs in product((1, -1), repeat=inputs - 1)]
            best = arb(0)
            for image in (arb_mat(corners) * gradient.transpose()).tolist():
                best = best.max(sum((g * g for g in image), arb(0)))
            return best.sqrt()
        pairs = zip(gradient.entries(), self.statement.domain.moving, strict=True)
        entries = [g for g, j in pairs if column in (None, j)]
        norm = self.statement.input_norm
        if norm == "l2" and column is None:
            return sum((g * g for g in entries), arb(0)).sqrt()
        return sum((abs(g) for g in entries), arb(0))


def cholesky(lower: list[list[arb]]) -> list[list[arb]] | None:
    """The Cholesky factor of a symmetric matrix, given by its lower triangle.

    None unless the matrix is surely positive definite: each pivot has to be surely positive.
    """
    factor: list[list[arb]] = []
    for *row, pivot in lower:
        made = substituted(factor, row)
        pivot = sum((-a * a for a in made), pivot)
        if not pivot > 0:
            return None
        factor.append([*made, pivot.sqrt()])
    return factor


def substituted(factor: list[list[arb]], row: list[arb]) -> list[arb]:
    """Solve with a lower triangular matrix."""
    made: list[arb] = []
    for total, other in zip(row, factor, strict=True):
        for a, b in zip(made, other, strict=False):
            total -= a * b
        made.append(total / other[-1])
    return made
