"""The Shor dual of a quadratic program whose constraints are products of two linear forms.

    maximise  w^T Q w   over  w = (1, w_1, ..., w_N-1),  |w_i| <= 1,
    subject to  (a_i . w)(b_i . w) >= 0  or  = 0,   and optionally  |w_S|_2 <= 1;

a constraint may be the sum of several such products.  For multipliers y_i (>= 0 on inequalities)
and any number gamma

    C = gamma e_0 e_0^T - Q - sum_i y_i sym(a_i b_i^T) >= 0   implies   w^T Q w <= gamma,

the first order of Lasserre's hierarchy (Shor's relaxation).  `interior.minimise_gamma` only finds
multipliers: `proved_bound` proves a bound by any multipliers, with its own rounding counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.relaxations.semidefinite.verify import proved_shift


@dataclass(frozen=True)
class QuadraticProgram:
    """A program of the form above.

    Attributes
    ----------
    objective : ndarray, shape (N, N)
        Q, symmetric.
    left, right : sparse arrays, shape (K, N + E)
        a and b, row by row, in the variables and the forms of `extension`.
    extension : ndarray, shape (E, N)
        Dense linear forms that occur in many constraints, stored once: a row (p, q) of `left`
        means the form ``p + q @ extension``.
    owners : ndarray of int, shape (K,)
        The constraint of each product, ascending; there are C <= K constraints.
    equality : ndarray of bool, shape (C,)
    anchors : ndarray of int, shape (N - 1,)
        For each variable w_1, ..., the constraint that bounds its square: (1 - w)(1 + w) >= 0 or
        w (1 - w) = 0.
    ball : ndarray of int
        The variables S of the Euclidean ball; empty if there is none.
    magnitudes : ndarray, shape (K, 2)
        Sums of the absolute terms of each a and b, before cancellation.
    objective_mass : float
        The same for Q.
    error : float
        Relative error of the forms: for ``|w_i| <= 1`` their values are off by at most this times
        their magnitude.
    """

    objective: FloatArray
    left: sp.csr_array
    right: sp.csr_array
    extension: FloatArray
    owners: IntArray
    equality: BoolArray
    anchors: IntArray
    ball: IntArray
    magnitudes: FloatArray
    objective_mass: float
    error: float

    @property
    def variables(self) -> int:
        """Number of variables N."""
        return len(self.objective)

    @property
    def constraints(self) -> int:
        """Number of multipliers, that of the ball included."""
        return len(self.equality) + (1 if self.ball.size else 0)

    def with_sums(
        self, left: FloatArray, right: FloatArray, owners: IntArray, magnitudes: FloatArray
    ) -> QuadraticProgram:
        """Append inequalities ``sum of products >= 0``, given by p products.

        Parameters
        ----------
        left, right : ndarray, shape (p, N + E)
        owners : ndarray of int, shape (p,)
            The new inequality of each product: 0, 1, ..., ascending.
        magnitudes : ndarray, shape (p, 2)
        """
        count = len(self.equality)
        more = np.zeros(int(owners.max(initial=-1)) + 1, dtype=bool)
        return replace(
            self,
            left=sp.csr_array(sp.vstack([self.left, left])),
            right=sp.csr_array(sp.vstack([self.right, right])),
            owners=np.concatenate([self.owners, count + owners]),
            equality=np.concatenate([self.equality, more]),
            magnitudes=np.concatenate([self.magnitudes, magnitudes]),
        )

    def lift(self, matrix: FloatArray) -> FloatArray:
        """Return ``F M F^T`` with ``F = [I; extension]``, shape (N + E, N + E)."""
        Z = self.extension
        if not len(Z):
            return matrix
        wide = np.hstack([matrix, matrix @ Z.T])
        return np.vstack([wide, Z @ wide])

    def gather(self, weights: sp.csr_array, extension: FloatArray) -> FloatArray:
        """Return ``F^T G F`` for a sparse G over the extended forms, shape (N, N)."""
        n = self.variables
        inner = weights[:n, :n].toarray()
        if len(extension):
            inner = inner + weights[:n, n:] @ extension + extension.T @ weights[n:, :n]
            inner = inner + extension.T @ (weights[n:, n:] @ extension)
        return np.asarray(inner)

    def combine(self, y: FloatArray) -> FloatArray:
        """Return ``sum_i y_i sym(a_i b_i^T)``, including the ball's ``e_0 e_0^T - I_S``."""
        count = len(self.equality)
        weights = sp.csr_array(self.left.T @ (sp.diags_array(y[self.owners]) @ self.right))
        half = self.gather(weights, self.extension)
        total = np.asarray(0.5 * (half + half.T))
        if self.ball.size:
            total[0, 0] += y[count]
            total[self.ball, self.ball] -= y[count]
        return total


def starting_multipliers(program: QuadraticProgram, objective: FloatArray) -> FloatArray:
    """Return multipliers that make C diagonally dominant: small ones, and large ones of anchors."""
    y = np.where(program.equality, 0.0, 1e-3)
    if program.ball.size:
        y = np.append(y, 1e-3)
    y[program.anchors] = 0.0
    rest = np.abs(objective + program.combine(y)).sum(axis=1)
    y[program.anchors] = 3.0 * rest[1:] + 1e-2
    return y


def least_gamma(matrix: FloatArray) -> float:
    """Return the smallest gamma with ``gamma e_0 e_0^T + matrix`` semidefinite.

    Raises
    ------
    numpy.linalg.LinAlgError
        If there is none, or entries are not finite.
    """
    if not np.isfinite(matrix).all():
        raise np.linalg.LinAlgError("numbers that are not finite")
    factor = cho_factor(matrix[1:, 1:], lower=True)
    return float(matrix[0, 1:] @ cho_solve(factor, matrix[0, 1:])) - float(matrix[0, 0])


def proved_bound(program: QuadraticProgram, y: FloatArray) -> float:
    """Prove an upper bound of the objective by any multipliers.

    Parameters
    ----------
    program : QuadraticProgram
    y : ndarray, shape (K,)
        Negative multipliers of inequalities count as zero.

    Returns
    -------
    float
        Infinite if the proof fails.
    """
    equality = program.equality
    if program.ball.size:
        equality = np.append(equality, False)
    y = np.where(equality, y, np.maximum(y, 0.0))
    matrix = -program.objective - program.combine(y)
    try:
        gamma = least_gamma(matrix)
    except np.linalg.LinAlgError:
        return math.inf
    gamma += 1e-12 * (abs(gamma) + abs(float(matrix[0, 0])))
    matrix[0, 0] += gamma
    count, each = len(program.equality), np.abs(y[program.owners])
    weights = sp.diags_array(each) @ abs(program.right)
    size = program.gather(sp.csr_array(abs(program.left).T @ weights), np.abs(program.extension))
    total = float(np.sqrt(np.square(np.abs(program.objective) + size).sum())) + abs(gamma)
    if program.ball.size:
        total += float(y[count]) * (1.0 + math.sqrt(program.ball.size))
    error = (len(program.owners) + 17) * UNIT_ROUNDOFF * total
    # error bound of (a.w)(b.w) with forms that are off by error * magnitude
    products = 2.0 * (1.0 + program.error) * program.magnitudes[:, 0] * program.magnitudes[:, 1]
    data = program.error * (program.objective_mass + float(each @ products))
    shift = proved_shift(matrix, error) * program.variables
    return (gamma + shift + data) + 4 * UNIT_ROUNDOFF * (abs(gamma) + shift + data)
