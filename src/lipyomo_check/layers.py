"""Upper bounds of the gradient's norm over a node, from multipliers, one layer after the other.

The matrix of `lipyomo_check.semidefinite` is definite if and only if elimination from the outputs
to the inputs meets definite matrices only.  With tangents ``u = A y'`` of a layer's unstable units,
y' being what leaves the layer before it, and ``y = F y' + H s``, let R be the form in y that is
left of all behind it: ``(tau / U^2) N^T N`` at first.  Then with the layer's lambda

    Q = diag(lambda) - H R H,     G = diag(lambda) A / 2 + H R F,     R' = F^T R F + G^T Q^-1 G,

if Q is positive definite, is the form in y'; and ``diag(zeta) - R'`` has to be definite last.  So a
matrix is as large as a layer, and not as the network.

All is enclosed in balls (Arb).  The next R is the middle of R' with the sums of the radii of its
rows added to the diagonal, and so not less than R'; any such R proves no less.

The first layer of a network of many inputs is eliminated in its own tangents t = W v, of which
there are fewer: ``diag(zeta) - W^T R W`` is definite if ``R^-1 - W diag(zeta)^-1 W^T`` is, for a
definite R.
"""

from __future__ import annotations

from itertools import accumulate

from flint import arb, arb_mat, ctx, fmpq, fmpz

from lipyomo_check.linear import OPEN, RIGHT, Linear, Node
from lipyomo_check.parts import BITS, eye, rational
from lipyomo_check.semidefinite import SMALL, Whole, positive
from lipyomo_check.statement import Statement


class Layers:
    """The layers of a node, for forms that are propagated backwards through them.

    Attributes
    ----------
    statement : Statement
    phases : list of list of int
        Layer by layer.
    count : int
        Unstable units.
    """

    def __init__(self, statement: Statement, linear: Linear, node: Node) -> None:
        self.statement = statement
        ends = zip(linear.starts, linear.starts[1:], strict=False)
        self.phases = [node.phases[start:stop] for start, stop in ends]
        self.count = node.phases.count(OPEN)

    def holds(
        self, bound: float, target: tuple[int | None, int | None], zeta: list[int], lam: list[int]
    ) -> bool:
        """Return whether multipliers prove that a target is at most `bound`.

        Parameters
        ----------
        bound : float
        target : (int or None, int or None)
            Number of the dual vertex, None for the Euclidean norm of the outputs; and None: these
            proofs are about all inputs.
        zeta : list of int
            One a direction (linf), or one number (l2).
        lam : list of int
            One an unstable unit; zeta and lambda may have any common factor.
        """
        statement = self.statement
        columns, euclidean = statement.columns, statement.input_norm == "l2"
        if target[1] is not None or not statement.hidden or bound <= 0:
            return False
        if len(zeta) != (1 if euclidean else len(columns)) or len(lam) != self.count:
            return False
        if min(zeta + lam) <= 0:
            return False
        tau, each = (zeta[0], zeta * len(columns)) if euclidean else (sum(zeta), zeta)
        with ctx.workprec(BITS):
            R = self._outputs(target[0], rational(bound) ** 2 / tau)
            first = self._first()
            wide = first.ncols() > first.nrows()
            ends = list(accumulate((own.count(OPEN) for own in self.phases), initial=0))
            for i in reversed(range(len(self.phases))):
                A = _exact(statement.layers[i].rows)
                if i == 0:
                    A = arb_mat(eye(first.nrows())) if wide else first
                found = self._before(i, A, R, lam[ends[i] : ends[i + 1]])
                if found is None:
                    return False
                R = _majorant(found)
            if not wide:
                return _is_definite(_diagonal([arb(v) for v in each]) - R)
            return _rest_is_definite(R, first, each)

    def _first(self) -> arb_mat:
        """Return the first weight in single directions."""
        rows, bits = self.statement.first
        unit = arb(1) / (arb(1) * (fmpz(1) << bits))
        return arb_mat([[arb(v) * unit for v in row] for row in rows])

    def _outputs(self, vertex: int | None, square: fmpq) -> arb_mat:
        """Return ``N^T N / square``, for what leaves the last hidden layer."""
        functionals, power = self.statement.functionals
        chosen = functionals if vertex is None else [functionals[vertex]]
        unit = arb(1) / (arb(1) * (fmpz(1) << power))
        N = arb_mat([[arb(v) * unit for v in row] for row in chosen])
        N = N * _exact(self.statement.layers[-1].rows)
        return _majorant(_times(N.transpose() * N, 1 / arb(square)))

    def _before(self, i: int, A: arb_mat, R: arb_mat, lam: list[int]) -> arb_mat | None:
        """Return the form before layer i; None if its Q may not be definite."""
        layer, phases, rows = self.statement.layers[i], self.phases[i], A.tolist()
        slopes = [
            arb(layer.right[k] if phase == RIGHT else layer.left[k])
            for k, phase in enumerate(phases)
        ]
        F = arb_mat([[slope * v for v in row] for slope, row in zip(slopes, rows, strict=True)])
        through = R * F
        found = F.transpose() * through
        units = [k for k, phase in enumerate(phases) if phase == OPEN]
        if not units:
            return found
        change = [arb(rational(layer.right[k]) - rational(layer.left[k])) for k in units]
        table, behind = R.tolist(), through.tolist()
        Q = _diagonal([arb(v) for v in lam]) - arb_mat(
            [
                [a * table[k][j] * b for j, b in zip(units, change, strict=True)]
                for k, a in zip(units, change, strict=True)
            ]
        )
        if not _is_definite(Q):
            return None
        G = arb_mat(
            [
                [arb(v) * t / 2 + a * b for t, b in zip(rows[k], behind[k], strict=True)]
                for k, v, a in zip(units, lam, change, strict=True)
            ]
        )
        try:
            return found + G.transpose() * Q.solve(G)
        except ZeroDivisionError:
            return None


def _exact(rows: list[list[float]]) -> arb_mat:
    """Return a matrix of floats."""
    return arb_mat([[arb(v) for v in row] for row in rows])


def _times(matrix: arb_mat, number: arb) -> arb_mat:
    """Return a matrix times a number."""
    return arb_mat([[v * number for v in row] for row in matrix.tolist()])


def _diagonal(values: list[arb]) -> arb_mat:
    """Return a diagonal matrix."""
    zero = arb(0)
    return arb_mat(
        [[v if i == j else zero for j in range(len(values))] for i, v in enumerate(values)]
    )


def _halves(matrix: arb_mat) -> tuple[list[list[arb]], list[arb]]:
    """Return the middles of a symmetric matrix's lower half, and the radii of its rows added up.

    What is enclosed by the lower half and what by the upper one are the same numbers.
    """
    middles: list[list[arb]] = []
    sums = [arb(0)] * matrix.nrows()
    for i, row in enumerate(matrix.tolist()):
        middles.append([v.mid() for v in row[: i + 1]])
        for j, v in enumerate(row[: i + 1]):
            radius = arb(v.rad())
            sums[i] += radius
            if j < i:
                sums[j] += radius
    return middles, sums


def _majorant(matrix: arb_mat) -> arb_mat:
    """Return a symmetric matrix of numbers that is not less than an enclosed one."""
    middles, sums = _halves(matrix)
    for row, more in zip(middles, sums, strict=True):
        row[-1] = arb((row[-1] + more).upper())
    n = len(middles)
    return arb_mat([[middles[max(i, j)][min(i, j)] for j in range(n)] for i in range(n)])


def _is_definite(matrix: arb_mat) -> bool:
    """Return whether a symmetric matrix is surely positive definite.

    Scaled by powers of two so that its diagonal is at most one, and rounded down.
    """
    middles, sums = _halves(matrix)
    ends = [_lower(row[-1] - more) for row, more in zip(middles, sums, strict=True)]
    if not all(man > 0 for man, _ in ends):
        return False
    if len(ends) == 1:
        return True
    half = [(int(man).bit_length() + exp + 1) // 2 for man, exp in ends]
    return any(_rounded_is_definite(middles, ends, half, bits) for bits in (SMALL, 64, BITS))


def _rounded_is_definite(
    middles: list[list[arb]], ends: list[tuple[int, int]], half: list[int], bits: int
) -> bool:
    """Do the same with entries in units of ``4^-bits``."""
    before: Whole = []
    for i, row in enumerate(middles):
        entries = [v.man_exp() for v in row[:-1]]
        before.append(
            [
                _shifted(int(m), int(e) + 2 * bits - half[i] - h)
                for (m, e), h in zip(entries, half, strict=False)
            ]
        )
    diagonal = [_shifted(m, e + 2 * bits - 2 * h) for (m, e), h in zip(ends, half, strict=True)]
    return positive(before, diagonal, (0, 1), len(diagonal), bits)


def _lower(value: arb) -> tuple[int, int]:
    """Return mantissa and exponent of a lower bound of an enclosed number; (0, 0) if unknown."""
    if not value.is_finite():
        return 0, 0
    man, exp = value.lower().mid().man_exp()
    return int(man), int(exp)


def _shifted(man: int, by: int) -> int:
    """Return ``man 2^by``, rounded down."""
    return man << by if by >= 0 else man >> -by


def _rest_is_definite(R: arb_mat, first: arb_mat, zeta: list[int]) -> bool:
    """Return whether ``diag(zeta) - W^T R W`` is surely definite, by a matrix of W's rows."""
    n = R.nrows()
    top = max((R[i, i] for i in range(n)), key=float)
    lifted = R + _diagonal([top / (1 << 64) if top > 0 else arb(1)] * n)
    if not _is_definite(lifted):
        return False
    inverses = [1 / arb(v) for v in zeta]
    scaled = arb_mat(
        [[w * z for w, z in zip(row, inverses, strict=True)] for row in first.tolist()]
    )
    try:
        return _is_definite(lifted.inv() - scaled * first.transpose())
    except ZeroDivisionError:
        return False
