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
diagonal; it is eliminated first, and the rest is factorised in balls (Cholesky).
"""

from __future__ import annotations

from flint import arb, arb_mat

from lipyomo_check.errors import ProofError
from lipyomo_check.linear import LEFT, OPEN, Linear, Node
from lipyomo_check.statement import Statement


class Tangents:
    """The rows U and N of a node.

    Attributes
    ----------
    units : list of int
        The open units.
    U : arb_mat, shape (F, d + F)
    N : arb_mat, shape (m, d + F)
        Of the outputs themselves; functionals are applied later.
    """

    def __init__(self, statement: Statement, linear: Linear, node: Node) -> None:
        self.statement = statement
        self.units = [k for k, phase in enumerate(node.phases) if phase == OPEN]
        d, self.count = statement.inputs, len(self.units)
        width = d + self.count
        moving = set(statement.domain.moving)
        column, found = d, []
        blank = [arb(0)] * self.count
        table = [
            [arb(w) if j in moving else arb(0) for j, w in enumerate(row)] + blank
            for row in statement.layers[0].rows
        ]
        for i, layer in enumerate(statement.hidden):
            for k in range(layer.units):
                unit = linear.starts[i] + k
                phase, left, right = node.phases[unit], layer.left[k], layer.right[k]
                if phase == OPEN:
                    found.append(table[k])
                    table[k] = [left * t if left else arb(0) for t in table[k]]
                    table[k][column] += arb(right) - arb(left)
                    column += 1
                else:
                    slope = left if phase == LEFT else right
                    if slope == 0.0:
                        table[k] = [arb(0)] * width
                    elif slope != 1.0:
                        table[k] = [slope * t for t in table[k]]
            table = (statement.layers[i + 1].weight * arb_mat(table)).tolist()
        self.U = found
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
        statement, d = self.statement, self.statement.inputs
        inputs = statement.domain.moving if column is None else [column]
        if statement.input_norm == "linf":
            tau = sum((arb(z) for z in zeta), arb(0))
        else:
            zeta, tau = zeta * len(inputs), arb(zeta[0])
        if any(not z > 0 for z in zeta) or not bound > 0 or len(zeta) != len(inputs):
            return False
        Y = self._objective(vertex)
        top = arb(bound) * arb(bound) / tau
        rows = len(Y)
        size = self.count + rows
        # rows of the units, then of the outputs: their coupling to the inputs, and among themselves
        G = [[-arb(lam[k]) / 2 * self.U[k][j] for j in inputs] for k in range(self.count)]
        G += [[y[j] for j in inputs] for y in Y]
        M = [[arb(0)] * size for _ in range(size)]
        for k in range(self.count):
            for j in range(k):
                M[k][j] = -arb(lam[k]) / 2 * self.U[k][d + j]
            M[k][k] = arb(lam[k])
        for r, y in enumerate(Y):
            for k in range(self.count):
                M[self.count + r][k] = y[d + k]
            M[self.count + r][self.count + r] = top
        left = arb_mat(G)
        right = arb_mat([[g / z for g, z in zip(row, zeta, strict=True)] for row in G])
        schur = (left * right.transpose()).tolist()
        for a in range(size):
            for b in range(a + 1):
                M[a][b] -= schur[a][b]
        return positive_definite(M)

    def _objective(self, vertex: int | None) -> list[list[arb]]:
        """The rows Y of a target."""
        if vertex is None:
            return list(self.N)
        vertices = self.statement.vertices
        if vertices is None:
            raise ProofError("the Euclidean norm has no vertices")
        y = arb_mat([vertices[vertex]])
        return list((y * arb_mat(self.N)).tolist())

    def value(self, vertex: int, column: int | None) -> arb:
        """The target's value where no unit is open."""
        (row,) = self._objective(vertex)
        moving = self.statement.domain.moving if column is None else [column]
        entries = [row[j] for j in moving]
        norm = self.statement.input_norm
        if norm == "l2" and column is None:
            return sum((g * g for g in entries), arb(0)).sqrt()
        if norm == "linf":
            return sum((abs(g) for g in entries), arb(0))
        return abs(entries[0])


def positive_definite(lower: list[list[arb]]) -> bool:
    """Whether a symmetric matrix, given by its lower triangle, is surely positive definite.

    Cholesky in balls: each pivot has to be surely positive.
    """
    factor: list[list[arb]] = []
    for i, row in enumerate(lower):
        made: list[arb] = []
        for j in range(i):
            total = row[j]
            other = factor[j]
            for a, b in zip(made, other, strict=False):
                total -= a * b
            made.append(total / other[j])
        pivot = row[i]
        for a in made:
            pivot -= a * a
        if not pivot > 0:
            return False
        made.append(pivot.sqrt())
        factor.append(made)
    return True
