"""Proof of a bound by the vectors and weights of `switches`.

With ``w = (1, s, h, sigma)``, ``sigma = 2 y - 1`` of the last layer's units, the Lagrangian is a
quadratic function of w and linear in v and xi.  As ``s_k = y_k u_k`` and ``h_k = y_k z_k``,

    L_11 s (u - s) + L_12 s (z - h) + L_21 h (u - s) + L_22 h (z - h) = 0

may be added for every inner unit, with any four numbers L.  For delta > 0 and |v| <= 1,
``e v <= delta + e^2 / (4 delta)``, which eliminates v and xi, and

    w . M w <= sum_i D_i w_i^2 + w . (M - D) w,

where the second term is at most zero if ``D - M`` is semidefinite.  This is proved by a Cholesky
factorisation.  At optimal vectors delta and D follow from their lengths, and the four numbers from
least squares; what is missing for vectors that are not optimal is added to the diagonal.

Rounding.  The forms are treated as exact, and their errors, times the sums of magnitudes of their
coefficients, are added to the bound.  Magnitudes of all entries of M bound its own rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from lipyomo.base.arrays import FloatArray, IntArray, Matrix
from lipyomo.base.numerics.rounding import gamma
from lipyomo.relaxations.semidefinite.switches import (
    DEPENDENT,
    Adjoints,
    Flow,
    Standpoint,
    SwitchedForm,
    Weights,
)
from lipyomo.relaxations.semidefinite.verify import VANISHED, proved_shift

_LEAST = 1e-4
"""Smallest delta relative to the mean: it must be positive even if vectors vanish."""

_SMALL = 40_000
"""Number of entries up to which a sparse matrix is faster as a dense array."""


@dataclass(frozen=True, eq=False)
class SwitchedErrors:
    """Bounds for a form in exact arithmetic, and of its errors.

    Attributes
    ----------
    s, h : ndarray, shape (F,)
        Bounds of their absolute values.
    tangents : ndarray, shape (F,)
        Error bounds of the tangents.
    values : ndarray, shape (F + H,)
        Error bounds of the pre-activations.
    objective : float
        Error bound of the functional.
    """

    s: FloatArray
    h: FloatArray
    tangents: FloatArray
    values: FloatArray
    objective: float


def proved_switched_bound(
    form: SwitchedForm, errors: SwitchedErrors, standing: Standpoint
) -> float:
    """Prove a bound of ``c . (v, s)``; infinite if the proof fails."""
    inner, last = form.inner, form.count - form.inner
    count = 1 + 2 * inner + last
    flow = Flow.of(form.single, standing.vectors)
    adjoints = Adjoints.of(form.single, standing.vectors, standing.weights)
    one = np.zeros((1, flow.u.shape[1]))
    one[0, 0] = 1.0
    vectors = np.vstack([one, flow.s[:inner], flow.h[:inner], standing.vectors.sides])
    numbers = np.ones(1 + inner + inner + last)
    numbers[1 : 1 + inner], numbers[1 + inner : 1 + 2 * inner] = errors.s[:inner], errors.h[:inner]
    terms = _Terms.of(form, standing.weights, _multipliers(flow, adjoints, inner))
    directions, inputs, matrix = terms.matrices(form)
    eliminated = directions, inputs
    if not all(np.isfinite(part).all() for part in (vectors, *eliminated, matrix)):
        return math.inf  # overflow of single precision
    deltas = [_deltas(part.T @ vectors) for part in eliminated]
    halves = [0.5 / np.sqrt(delta) for delta in deltas]
    for part, half in zip(eliminated, halves, strict=True):
        part *= half
        matrix += part @ part.T
    diagonal = ((matrix @ vectors) * vectors).sum(axis=1)
    diagonal[1 : 1 + 2 * inner] = 0.0
    scale = np.maximum(numbers, _LEAST * numbers.max())
    rest = (np.diag(diagonal) - matrix) * scale[:, None] * scale
    rest = 0.5 * (rest + rest.T)
    more = _missing(rest)
    rest[np.diag_indices(count)] += more
    *sizes, plain = terms.magnitudes.matrices(form.magnitudes)
    mass = float(np.linalg.norm(scale[:, None] * plain * scale) + np.linalg.norm(rest))
    for part, half in zip(sizes, halves, strict=True):
        mass += float(np.square(scale[:, None] * part * half).sum())
    rounding = gamma(2 * (sum(form.values.shape) + count))
    shift = proved_shift(rest, 2.0 * rounding * mass) if mass < math.inf else math.inf
    if not math.isfinite(shift):
        return math.inf
    off = errors.objective
    off += float((terms.magnitudes.u @ numbers) @ errors.tangents)
    off += float((terms.magnitudes.z @ numbers) @ errors.values)
    parts = np.concatenate([*deltas, diagonal, more, [count * shift, off * (1.0 + rounding)]])
    return float(parts.sum() + gamma(parts.size) * np.abs(parts).sum())


class _Terms(NamedTuple):
    """The Lagrangian, including the vanishing products, as a function of w.

    Attributes
    ----------
    u : matrix, shape (F, n)
        Coefficients of the tangents.
    z : matrix, shape (F + H, n)
        Coefficients of the pre-activations.
    squares : ndarray, shape (n, n)
        The remaining quadratic terms.
    """

    u: Matrix
    z: Matrix
    squares: FloatArray

    @classmethod
    def of(cls, form: SwitchedForm, weights: Weights, four: FloatArray) -> _Terms:
        """Build the terms for the numbers `four` of shape (I, 2, 2)."""
        inner, count, more = form.inner, form.count, len(form.values)
        s, h = 1 + np.arange(inner), 1 + inner + np.arange(inner)
        y = 1 + 2 * inner + np.arange(count - inner)
        size, both = 1 + inner + count, weights.on + weights.off
        first, last, known = np.arange(inner), np.arange(inner, count), np.arange(count, more)

        def placed(*entries: tuple[IntArray, IntArray, FloatArray]) -> Matrix:
            rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
            if more * size <= _SMALL:
                found = np.zeros((more, size))
                found[rows, columns] = values
                return found
            return sp.csr_array((values, (rows, columns)), shape=(more, size))

        none = np.zeros(more, dtype=np.int64)
        u = placed(
            (last, none[last], 0.5 * form.units[last]),
            (last, y, 0.5 * form.units[last]),
            (first, s, four[:, 0, 0]),
            (first, h, four[:, 1, 0]),
        )
        z = placed(
            (last, none[last], 0.5 * (weights.on - weights.off)[last]),
            (last, y, 0.5 * both[last]),
            (first, none[first], -weights.off[first]),
            (first, s, four[:, 0, 1]),
            (first, h, four[:, 1, 1]),
            (known, none[known], weights.known),
        )
        squares = np.zeros((size, size))
        squares[s, s], squares[h, h] = -four[:, 0, 0], -four[:, 1, 1]
        squares[s, h] = squares[h, s] = -0.5 * (four[:, 0, 1] + four[:, 1, 0])
        squares[0, s] = squares[s, 0] = 0.5 * form.units[:inner]
        squares[0, h] = squares[h, 0] = 0.5 * both[:inner]
        return cls(u[:count], z, squares)

    @property
    def magnitudes(self) -> _Terms:
        """The terms with absolute values."""
        return _Terms(abs(self.u), abs(self.z), np.abs(self.squares))

    def matrices(self, form: SwitchedForm) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the coefficients of v and xi, (n, d), and the quadratic function without them."""
        inner, squares = form.inner, self.squares.copy()
        directions = np.asarray(self.u.T @ form.tangents)
        directions[0] += form.inputs
        inputs = np.asarray(self.z.T @ form.values)
        behind = np.zeros_like(squares)
        behind[:, 1 : 1 + inner] = self.u.T @ form.before[: form.count, :inner]
        behind[:, 1 + inner : 1 + 2 * inner] = self.z.T @ form.before[:, :inner]
        behind[:, 0] = self.z.T @ form.offsets
        squares += 0.5 * (behind + behind.T)
        return directions, inputs, squares


def _multipliers(flow: Flow, adjoints: Adjoints, inner: int) -> FloatArray:
    """Return the numbers L (I, 2, 2) for which gradients by s and h vanish, by least squares.

    With S = (s, h), U = (u, z), A the adjoints and P the projection, the conditions are
    ``S L = P A`` and ``(U - S) L^T = -(A - P A)``.
    """
    found = np.zeros((inner, 2, 2))
    if not inner:
        return found
    passed, all_of, pulled = (
        np.stack(pair, axis=2).astype(np.float64)
        for pair in (
            (flow.s[:inner], flow.h[:inner]),
            (flow.u[:inner], flow.z[:inner]),
            (adjoints.s, adjoints.h),
        )
    )
    size = np.maximum(np.linalg.norm(all_of, axis=1), VANISHED)
    passed, all_of, pulled = passed / size[:, None], all_of / size[:, None], pulled * size[:, None]
    bases = adjoints.bases.astype(np.float64)
    inside = bases.transpose(0, 2, 1) @ (bases @ pulled)
    held, outside = all_of - passed, pulled - inside
    one, other = passed.transpose(0, 2, 1) @ passed, held.transpose(0, 2, 1) @ held
    right = passed.transpose(0, 2, 1) @ inside - (held.transpose(0, 2, 1) @ outside).transpose(
        0, 2, 1
    )
    unit = np.eye(2)
    system = np.einsum("nac,bd->nabcd", one, unit) + np.einsum("nbd,ac->nabcd", other, unit)
    system = system.reshape(inner, 4, 4)
    system[:, range(4), range(4)] += DEPENDENT
    found = np.linalg.solve(system, right.reshape(inner, 4, 1)).reshape(inner, 2, 2)
    return np.asarray(found / (size[:, :, None] * size[:, None, :]))


def _deltas(vectors: FloatArray) -> FloatArray:
    """Return the best delta for given coefficients of v or xi."""
    found = 0.5 * np.linalg.norm(vectors, axis=1)
    return np.asarray(np.maximum(found, _LEAST * float(found.mean()) + VANISHED))


def _missing(matrix: FloatArray) -> FloatArray:
    """Return a diagonal that makes a symmetric matrix semidefinite, up to rounding.

    It consists of the absolute row sums of the matrix's negative part.
    """
    values, vectors = eigh(matrix, subset_by_value=(-np.inf, 0.0), check_finite=False)
    return np.asarray(np.abs((vectors * values) @ vectors.T).sum(axis=1))
