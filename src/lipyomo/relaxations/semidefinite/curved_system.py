"""The linear algebra of programs with multipliers for quadratic inequalities on curves of units.

A unit's ``c = (1, z, y, s)`` lies on a curve, and a symmetric Q with ``c' Q c >= 0`` on it is a
valid inequality for the unit's moments.  The Q of all units are multipliers here, entry by entry,
with one slack at each of some nodes of the curve: ``c_p' Q c_p >= 0``.  Between the nodes Q is only
checked by the proof.

Terms are products of single variables (dense forms of the extension included), ``w_a w_b``, or sums
of such products, so that the Schur complement is

    4 M_ij = X_ac P_bd + X_bd P_ac + X_bc P_ad + X_ad P_bc

for i = (a, b) and j = (c, d).  Multipliers of constants, Q_00, have a slack and a cost each, but no
term: they are eliminated before M is factorised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.relaxations.semidefinite.interior import positive_solver
from lipyomo.relaxations.semidefinite.quadratic import QuadraticProgram

BLOCK = 256
"""Rows of products computed at a time."""


class CurveNodes(NamedTuple):
    """Nodes on the curves of the units of a layer.

    Attributes
    ----------
    columns : ndarray of int, shape (n, k)
        Variables of which z, y and s, or z and s, are affine functions; the first is the constant.
    nodes : ndarray, shape (n, P, k)
        Values of these variables.
    """

    columns: IntArray
    nodes: FloatArray

    @property
    def entries(self) -> tuple[IntArray, IntArray]:
        """Rows and columns of the entries of the upper triangle of Q, without Q_00."""
        rows, columns = np.triu_indices(self.columns.shape[1])
        return rows[1:], columns[1:]


class CurvedSystem:
    """See `lipyomo.relaxations.semidefinite.interior.ConicProgram`.

    v consists of gamma, the multipliers of the program's constraints, the entries of Q of all units
    of the layers without Q_00, and last all Q_00.  Slacks are the multipliers of inequalities, then
    the values at the nodes.

    Parameters
    ----------
    program : QuadraticProgram
        A program with a ball.
    layers : sequence of CurveNodes

    Attributes
    ----------
    costs : ndarray
    signed : ndarray of int
        Positions of the multipliers of inequalities in v.
    """

    def __init__(self, program: QuadraticProgram, layers: Sequence[CurveNodes]) -> None:
        self._program, self._curves = program, layers
        first, second, self._sums = _single_products(program)
        rows = self._sums.shape[0]
        self._ball, at = rows, rows + 1
        self.signed = np.append(1 + np.flatnonzero(~program.equality), self._ball)
        self._places: list[IntArray] = []
        self._values: list[FloatArray] = []
        pairs = [(first, second)]
        for layer in layers:
            left, right = layer.entries
            pairs.append((layer.columns[:, left].ravel(), layer.columns[:, right].ravel()))
            size = pairs[-1][0].size
            self._places.append(at + np.arange(size).reshape(-1, left.size))
            with np.errstate(over="ignore"):  # a descent does not start from infinite numbers
                values = layer.nodes[:, :, left] * layer.nodes[:, :, right]
            self._values.append(values)
            at += size
        self._own, self._inner = len(first), at
        self._first, self._second = (np.concatenate(part) for part in zip(*pairs, strict=True))
        counts = [len(layer.columns) for layer in layers]
        self._constants = np.split(at + np.arange(sum(counts)), np.cumsum(counts)[:-1])
        self.costs = np.zeros(at + sum(counts))
        self.costs[0], self.costs[at:] = 1.0, 1.0
        self._sphere = np.append(0, program.ball)
        self._mask = np.append(-1.0, np.ones(program.ball.size))

    def multipliers(self, v: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """Return the multipliers of the constraints and the ball, and Q (n, k, k) of each layer."""
        found = []
        for curves, places, constants in self._forms():
            left, right = curves.entries
            n, k = curves.columns.shape
            Q = np.zeros((n, k, k))
            Q[:, left, right] = 0.5 * v[places]
            Q = Q + Q.transpose(0, 2, 1)
            Q[:, 0, 0] = v[constants]
            found.append(Q)
        return v[1 : self._ball + 1], found

    def started(self, y: FloatArray, forms: Sequence[FloatArray]) -> FloatArray:
        """Return v for multipliers y and matrices Q, with gamma zero."""
        v = np.zeros_like(self.costs)
        v[1 : self._ball + 1] = y
        for (curves, places, constants), Q in zip(self._forms(), forms, strict=True):
            left, right = curves.entries
            v[places] = np.where(left == right, 1.0, 2.0) * Q[:, left, right]
            v[constants] = Q[:, 0, 0]
        return v

    def combine(self, v: FloatArray) -> FloatArray:
        """See `ConicProgram`."""
        n, Z = self._program.variables, self._program.extension
        terms = np.concatenate([self._sums.T @ v[: self._ball], -v[self._ball + 1 : self._inner]])
        wide = np.zeros((n + len(Z), n + len(Z)))
        for part in (slice(0, self._own), slice(self._own, None)):  # no product twice in either
            wide[self._first[part], self._second[part]] += terms[part]
        wide = 0.5 * (wide + wide.T)
        half = (wide[:n, n:] + 0.5 * (Z.T @ wide[n:, n:])) @ Z
        found = wide[:n, :n] + half + half.T
        found[self._sphere, self._sphere] += v[self._ball] * self._mask
        return np.asarray(found)

    def traces(self, matrix: FloatArray) -> FloatArray:
        """See `ConicProgram`."""
        lifted = self._program.lift(0.5 * (matrix + matrix.T))
        terms = lifted[self._first, self._second]
        ball = float(self._mask @ matrix[self._sphere, self._sphere])
        constants = np.zeros(len(self.costs) - self._inner)
        return np.concatenate(
            [self._sums @ terms[: self._own], [ball], -terms[self._own :], constants]
        )

    def slacks(self, v: FloatArray) -> FloatArray:
        """See `ConicProgram`."""
        parts = [v[self.signed]]
        for places, values, constants in self._layers():
            parts.append((values @ v[places][:, :, None])[:, :, 0] + v[constants][:, None])
        return np.concatenate([part.ravel() for part in parts])

    def weighted(self, x: FloatArray) -> FloatArray:
        """See `ConicProgram`."""
        own, nodes = self._split(x)
        found = np.zeros_like(self.costs)
        found[self.signed] = own
        for (places, values, constants), part in zip(self._layers(), nodes, strict=True):
            found[places] = (part[:, None, :] @ values)[:, 0, :]
            found[constants] = part.sum(axis=1)
        return found

    def solver(
        self, X: FloatArray, P: FloatArray, ratio: FloatArray
    ) -> Callable[[FloatArray], FloatArray]:
        """See `ConicProgram`."""
        M = self._schur(X, P)
        own, nodes = self._split(ratio)
        M[self.signed, self.signed] += own
        coupled = []
        for (places, values, constants), part in zip(self._layers(), nodes, strict=True):
            weights = part[:, :, None] * values
            total = part.sum(axis=1)
            to_constant = weights.sum(axis=1)
            blocks = values.transpose(0, 2, 1) @ weights
            blocks -= to_constant[:, :, None] * (to_constant / total[:, None])[:, None, :]
            M[places[:, :, None], places[:, None, :]] += blocks
            coupled.append((places, constants, to_constant, total))
        inner, solve = self._inner, positive_solver(M)

        def solved(right: FloatArray) -> FloatArray:
            rest, v = right[:inner].copy(), np.zeros_like(right)
            for places, constants, row, total in coupled:
                rest[places] -= row * (right[constants] / total)[:, None]
            v[:inner] = solve(rest)
            for places, constants, row, total in coupled:
                v[constants] = (right[constants] - (row * v[places]).sum(axis=1)) / total
            return v

        return solved

    def _schur(self, X: FloatArray, P: FloatArray) -> FloatArray:
        """Return M without the part of the slacks; only its lower triangle is meaningful."""
        XL, PL, own = self._program.lift(X), self._program.lift(P), self._own
        H = self._of_products(XL, PL)
        ball, inner = self._ball, self._inner
        M = np.empty((inner, inner))
        M[:ball, :ball] = self._sums @ np.ascontiguousarray((self._sums @ H[:own, :own]).T)
        M[ball + 1 :, ball + 1 :] = H[own:, own:]
        M[ball + 1 :, :ball] = -(self._sums @ H[own:, :own].T).T
        sphere = self._sphere
        Xs, Ps = XL[:, sphere], PL[:, sphere]
        terms = Xs[self._first] * Ps[self._second] + Xs[self._second] * Ps[self._first]
        column = 0.5 * (terms @ self._mask)
        M[ball, :ball], M[ball + 1 :, ball] = self._sums @ column[:own], -column[own:]
        M[ball, ball] = float(self._mask @ (Xs[sphere] * Ps[sphere]) @ self._mask)
        return M

    def _of_products(self, X: FloatArray, P: FloatArray) -> FloatArray:
        """Return the Schur complement of single products, up to the diagonal of blocks only."""
        count = self._first.size
        H = np.empty((count, count))
        for start, end in pairwise([0, *range(self._own, count, BLOCK), count]):
            a, b = self._first[start:end], self._second[start:end]
            c, d = self._first[:end], self._second[:end]
            Xa, Xb, Pa, Pb = X.take(a, 0), X.take(b, 0), P.take(a, 0), P.take(b, 0)
            part = Xa.take(c, 1)
            part *= Pb.take(d, 1)
            for one, left, other, right in ((Xb, d, Pa, c), (Xb, c, Pa, d), (Xa, d, Pb, c)):
                term = one.take(left, 1)
                term *= other.take(right, 1)
                part += term
            np.multiply(part, 0.25, out=H[start:end, :end])
        return H

    def _forms(self) -> zip[tuple[CurveNodes, IntArray, IntArray]]:
        """Iterate over layers with the positions of their entries and their constants in v."""
        return zip(self._curves, self._places, self._constants, strict=True)

    def _layers(self) -> zip[tuple[IntArray, FloatArray, IntArray]]:
        """Iterate over positions of entries, their values at the nodes, positions of constants."""
        return zip(self._places, self._values, self._constants, strict=True)

    def _split(self, x: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """Split an array over the slacks: those of multipliers, and those of each layer (n, P)."""
        sizes = [values[:, :, 0].size for values in self._values]
        own, *parts = np.split(x, self.signed.size + np.cumsum([0, *sizes[:-1]]))
        return own, [
            part.reshape(values.shape[:2]) for part, values in zip(parts, self._values, strict=True)
        ]


def _single_products(program: QuadraticProgram) -> tuple[IntArray, IntArray, sp.csr_array]:
    """Return products ``w_a w_b``, a <= b, and gamma and all constraints as sums of them."""
    width = program.left.shape[1]
    left, right = program.left.tocoo(), program.right
    starts, sizes = right.indptr[left.row], np.diff(right.indptr)[left.row]
    entry = np.repeat(np.arange(left.row.size), sizes)
    at = np.arange(entry.size) - np.repeat(np.cumsum(sizes) - sizes, sizes) + starts[entry]
    a, b = left.col[entry], right.indices[at]
    a, b = np.append(0, np.minimum(a, b)), np.append(0, np.maximum(a, b))
    value = np.append(1.0, -left.data[entry] * right.data[at])
    owner = np.append(0, program.owners[left.row[entry]] + 1)
    found, place = np.unique(a * width + b, return_inverse=True)
    shape = len(program.equality) + 1, found.size
    sums = sp.csr_array(sp.coo_array((value, (owner, place)), shape=shape))
    return found // width, found % width, sums
