"""Exact arithmetic on float64 numbers, and tests whether float64 operations are exact.

A float64 number is ``m * 2**e`` with an odd integer m; call ``2**e`` its unit.  Sums and products
of such numbers are integers times a power of two as well; matrices of integers are FLINT's.

All partial sums of ``sum_k a_k b_k`` are multiples of the least unit of a times the least unit of
b.  Where the sum of ``|a_k b_k|`` is at most 2**53 of those, every partial sum is a float64 number:
nothing is rounded, in whatever order it is added up.

Vertices of polytopes are found in rational arithmetic.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from flint import fmpq, fmpq_mat, fmpz, fmpz_mat

from lipyomo.base.arrays import LITTLE, BoolArray, FloatArray, Matrix, dense
from lipyomo.base.numerics.params import PARAMS
from lipyomo.base.numerics.rounding import EQUAL, UNIT, gamma

_Array = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]

_LOWEST = int(np.finfo(np.float64).minexp)
"""Exponent of the least normal number."""

_HUGE = -1024 * _LOWEST
"""Exponent assigned to the unit of zero, larger than those of all products."""


def unit_exponents(values: _Array) -> _Ints:
    """Return the exponents e of the units of numbers; `_HUGE` for zeros."""
    mantissa, exponent = np.frexp(values)
    digits = np.ldexp(mantissa, 53).astype(np.int64)
    low = (digits & -digits).astype(np.float64)  # a power of two
    shift = np.frexp(low)[1] - 1
    return np.where(digits == 0, _HUGE, exponent.astype(np.int64) - 53 + shift)


def _without_zeros(values: object) -> sp.csr_array:
    """Return the matrix in CSR format without explicit zeros; the input is not changed."""
    matrix = sp.csr_array(values)
    if not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix


def product_is_exact(first: Matrix, second: Matrix) -> bool:
    """Return whether ``first @ second`` is computed without rounding.

    Parameters
    ----------
    first : ndarray or sparse array, shape (n, k)
    second : ndarray or sparse array, shape (k, m)

    Notes
    -----
    The test is sufficient, and necessary except for sums that happen not to be rounded.  Rows of
    `first` and columns of `second` with a single entry are tested entry by entry.
    """
    (n, k), m = first.shape, second.shape[1]
    if max(n * k, k * m, n * m) <= LITTLE:
        return _little_product_is_exact(dense(first), dense(second))
    return _sparse_product_is_exact(_without_zeros(first), _without_zeros(second))


def _little_product_is_exact(a: FloatArray, b: FloatArray) -> bool:
    """`product_is_exact` of small dense arrays; converting to sparse would take 10 times longer."""
    filled, turned = a != 0, b.T != 0
    if not _single_entries_are_exact(a, filled, b):
        return False
    several = np.count_nonzero(filled, axis=1) > 1
    a, filled = a[several], filled[several]
    if not _single_entries_are_exact(b.T, turned, a.T):
        return False
    several = np.count_nonzero(turned, axis=1) > 1
    b, turned = b[:, several], turned[several]
    rows = unit_exponents(a).min(axis=1, initial=_HUGE)
    columns = unit_exponents(b).min(axis=0, initial=_HUGE)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        sizes = np.abs(a) @ np.abs(b)
    met = filled.astype(np.float64) @ turned.T > 0
    return _sums_fit(sizes[met], np.add.outer(rows, columns)[met])


def _single_entries_are_exact(a: FloatArray, filled: BoolArray, b: FloatArray) -> bool:
    """Return whether rows of ``a @ b`` with one nonzero in `a` are exact, for dense arrays."""
    rows = np.flatnonzero(np.count_nonzero(filled, axis=1) == 1)
    if not rows.size:
        return True
    places = filled[rows].argmax(axis=1)
    return bool(entries_are_exact(a[rows, places, None], b[places]).all())


def _sums_fit(sizes: FloatArray, units: _Ints) -> bool:
    """Return whether sums of terms that are multiples of ``2**units`` are float64 numbers."""
    if (units < _LOWEST).any() or not np.isfinite(sizes).all():
        return False
    return bool((sizes <= np.ldexp(1.0 - 2.0**-40, units + 53)).all())


def _sparse_product_is_exact(a: sp.csr_array, b: sp.csr_array) -> bool:
    """`product_is_exact` of sparse arrays without explicit zeros."""
    if not a.nnz or not b.nnz:
        return True
    if not _single_rows_are_exact(a, b):
        return False
    a = sp.csr_array(a[np.flatnonzero(np.diff(a.indptr) > 1)])
    if not a.nnz:
        return True
    turned = sp.csr_array(b.T)
    if not _single_rows_are_exact(turned, sp.csr_array(a.T)):
        return False
    b = sp.csr_array(turned[np.flatnonzero(np.diff(turned.indptr) > 1)].T)
    rows = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    row_units = np.full(a.shape[0], _HUGE)
    np.minimum.at(row_units, rows, unit_exponents(a.data))
    column_units = np.full(b.shape[1], _HUGE)
    np.minimum.at(column_units, b.indices, unit_exponents(b.data))
    least = row_units.min(initial=_HUGE) + column_units.min(initial=_HUGE)
    if least < _LOWEST:  # sparse products have no entries for products that underflow
        met = sp.coo_array(a.astype(bool) @ b.astype(bool))
        if (row_units[met.row] + column_units[met.col] < _LOWEST).any():
            return False
    terms = sp.coo_array(abs(a) @ abs(b))
    return _sums_fit(terms.data, row_units[terms.row] + column_units[terms.col])


def _single_rows_are_exact(a: sp.csr_array, b: sp.csr_array) -> bool:
    """Return whether the rows of ``a @ b`` with a single entry in `a` are exact."""
    rows = np.flatnonzero(np.diff(a.indptr) == 1)
    if not rows.size:
        return True
    places = a.indptr[rows]
    chosen = sp.csr_array(b[a.indices[places]])
    factor = np.repeat(a.data[places], np.diff(chosen.indptr))
    return bool(entries_are_exact(factor, chosen.data).all())


def sum_is_exact(first: _Array, second: _Array) -> bool:
    """Return whether ``first + second`` is computed without rounding, entry by entry."""
    return bool(sums_are_exact(first, second).all())


def sums_are_exact(first: _Array, second: _Array) -> npt.NDArray[np.bool_]:
    """Return which sums ``first + second`` of numbers are computed without rounding."""
    total = first + second
    return np.asarray((lost_in_sum(first, second, total) == 0) & np.isfinite(total))


def lost_in_sum(first: Any, second: Any, total: Any) -> Any:
    """Return the rounding error of ``total = first + second``, by Knuth's two-sum."""
    part = total - first
    return (first - (total - part)) + (second - part)


def entries_are_exact(first: _Array, second: _Array) -> npt.NDArray[np.bool_]:
    """Return which products ``first * second`` of numbers are computed without rounding."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        product = first * second
    units = unit_exponents(first) + unit_exponents(second)
    zero = (first == 0) | (second == 0)
    fits = (units >= _LOWEST) & np.isfinite(product) & (product != 0)
    # the true product is an odd multiple of its unit: exact if and only if that has 53 bits
    fits[fits] = np.abs(product[fits]) < np.ldexp(1.0, units[fits] + 53)
    return np.asarray(zero | fits)


MOST_TERMS = 1 << 16
"""Largest number of products that are summed exactly in case of cancellation: milliseconds."""


def whole_numbers(values: FloatArray) -> tuple[list[int], int]:
    """Return finite numbers as integers times ``2**exponent``, in the order of the flat array."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    mantissa, exponent = np.frexp(flat)
    digits = np.ldexp(mantissa, 53).astype(np.int64)
    used = np.flatnonzero(digits)
    if not used.size:
        return [0] * flat.size, 0
    base = int(unit_exponents(flat[used]).min())  # of the lowest bit: short integers stay short
    shift = np.where(digits == 0, 0, exponent.astype(np.int64) - 53 - base)
    found = [
        d << s if s >= 0 else d >> -s for d, s in zip(digits.tolist(), shift.tolist(), strict=True)
    ]
    return found, base


@dataclass(frozen=True, eq=False)
class Exact:
    """An exact matrix ``matrix * 2**exponent`` of integers.

    Attributes
    ----------
    matrix : flint.fmpz_mat
    exponent : int
    """

    matrix: fmpz_mat
    exponent: int

    @classmethod
    def of(cls, values: FloatArray) -> Exact:
        """Convert a finite float64 matrix; a vector becomes a column."""
        digits, exponent = whole_numbers(values)
        columns = values.shape[1] if values.ndim == 2 else 1
        return cls(fmpz_mat(values.shape[0], columns, digits), exponent)

    def __matmul__(self, other: Exact) -> Exact:
        return Exact(self.matrix * other.matrix, self.exponent + other.exponent)

    def aligned(self, exponent: int) -> fmpz_mat:
        """Return the matrix of integers for a smaller exponent."""
        shift = self.exponent - exponent
        return self.matrix if shift == 0 else self.matrix * fmpz(1 << shift)

    def __add__(self, other: Exact) -> Exact:
        low = min(self.exponent, other.exponent)
        return Exact(self.aligned(low) + other.aligned(low), low)

    def __sub__(self, other: Exact) -> Exact:
        low = min(self.exponent, other.exponent)
        return Exact(self.aligned(low) - other.aligned(low), low)

    def rows_scaled(self, factors: FloatArray) -> Exact:
        """Return the product with ``diag(factors)`` from the left."""
        digits, exponent = whole_numbers(factors)
        width = self.matrix.ncols()
        rows = [
            row if factor == 1 else [factor * entry for entry in row] if factor else [0] * width
            for row, factor in zip(self.matrix.tolist(), digits, strict=True)
        ]
        return Exact(_matrix(rows, width), self.exponent + exponent)

    def transposed(self) -> Exact:
        """Return the transpose."""
        return Exact(self.matrix.transpose(), self.exponent)

    def rationals(self) -> list[list[fmpq]]:
        """Return the rows as rational numbers."""
        return [[rational(entry, self.exponent) for entry in row] for row in self.matrix.tolist()]


def _matrix(rows: list[list[fmpz]] | list[list[int]], width: int) -> fmpz_mat:
    """Build a matrix from its rows, of which there may be none."""
    return fmpz_mat(len(rows), width, [entry for row in rows for entry in row])


def rational(whole_part: fmpz, exponent: int) -> fmpq:
    """``whole_part * 2**exponent``."""
    if exponent >= 0:
        return fmpq(whole_part * fmpz(1 << exponent))
    return fmpq(whole_part, fmpz(1 << -exponent))


def exact(value: float) -> fmpq:
    """Convert a finite float64 number to a rational."""
    top, bottom = float(value).as_integer_ratio()
    return fmpq(top, bottom)


def affine_value(row: FloatArray, x: FloatArray, constant: float) -> fmpq:
    """Compute ``row . x + constant`` of finite numbers exactly."""
    pairs = zip(row.tolist(), x.tolist(), strict=True)
    return sum((exact(a) * exact(v) for a, v in pairs), exact(constant))


def close_product(left: FloatArray, right: Matrix) -> tuple[FloatArray, FloatArray]:
    """Compute ``left @ right`` and error bounds of its entries.

    Entries whose float64 value is dominated by cancellation are summed exactly and rounded once, as
    long as they are few.

    Parameters
    ----------
    left : ndarray, shape (k, m)
    right : Matrix, shape (m, n)

    Returns
    -------
    (ndarray, ndarray), shapes (k, n)
    """
    found = np.asarray(left @ right)
    errors = gamma(left.shape[1]) * np.asarray(np.abs(left) @ abs(right))
    terms = np.count_nonzero(left, axis=1)
    once = (terms <= 1) | ((terms == 2) & np.isin(left, (-1.0, 0.0, 1.0)).all(axis=1))
    errors[once] = UNIT * np.abs(found[once])  # a product, or a difference
    rows, columns = np.nonzero(errors > EQUAL * np.abs(found))
    if rows.size * left.shape[1] > MOST_TERMS:
        return found, errors
    for j in np.unique(columns).tolist():
        own = rows[columns == j]
        column = np.asarray(dense(right[:, [j]]))
        sums = (Exact.of(left[own]) @ Exact.of(column)).rationals()
        found[own, j] = [approximate(value) for (value,) in sums]
        errors[own, j] = UNIT * np.abs(found[own, j])
    return found, errors


def fraction(value: fmpq) -> Fraction:
    """Convert a FLINT rational to Python's."""
    return Fraction(int(value.p), int(value.q))


class ExactWeights:
    """The exact matrix ``[[W, b], [0, 1]]`` of a layer's weights and biases.

    Sparse weights stay sparse: products sum over the stored entries only.

    Parameters
    ----------
    weight : ndarray or sparse array, shape (n, n_in)
    bias : ndarray, shape (n,)
    """

    def __init__(self, weight: Matrix, bias: FloatArray) -> None:
        n, inputs = weight.shape
        self._dense: Exact | None = None
        if isinstance(weight, np.ndarray):
            full = np.zeros((n + 1, inputs + 1))
            full[:n, :inputs], full[:n, inputs], full[n, inputs] = weight, bias, 1.0
            self._dense = Exact.of(full)
            return
        one = sp.csr_array([[1.0]])
        column = sp.csr_array(bias[:, None])
        self._matrix = sp.csr_array(sp.block_array([[weight, column], [None, one]]))
        self._matrix.sum_duplicates()

    def after(self, signal: Exact) -> Exact:
        """``[[W, b], [0, 1]] @ signal`` for a signal of shape (n_in + 1, w)."""
        if self._dense is not None:
            return self._dense @ signal
        return _sparse_product(self._matrix, signal)

    def before(self, rows: Exact) -> Exact:
        """``rows @ [[W, b], [0, 1]]`` for rows of shape (k, n + 1)."""
        if self._dense is not None:
            return rows @ self._dense
        transposed = sp.csr_array(self._matrix.T)
        return _sparse_product(transposed, rows.transposed()).transposed()


def _sparse_product(matrix: sp.csr_array, signal: Exact) -> Exact:
    digits, exponent = whole_numbers(matrix.data)
    rows, width = signal.matrix.tolist(), signal.matrix.ncols()
    indices, starts = matrix.indices.tolist(), matrix.indptr.tolist()
    zero = fmpz(0)
    found = []
    for start, stop in pairwise(starts):
        terms = [(digits[p], rows[indices[p]]) for p in range(start, stop)]
        found.append([sum((a * row[j] for a, row in terms), zero) for j in range(width)])
    return Exact(_matrix(found, width), signal.exponent + exponent)


def row_reduced(matrix: fmpq_mat) -> tuple[list[list[fmpq]], list[int]]:
    """Return the nonzero rows of the reduced row echelon form, and their pivot columns."""
    reduced, rank = matrix.rref()
    table = reduced.tolist()[:rank]
    return table, [next(j for j, value in enumerate(row) if value != 0) for row in table]


def approximate(value: fmpq) -> float:
    """Round a rational to the nearest finite float64 number."""
    try:
        return int(value.p) / int(value.q)
    except OverflowError:
        return math.copysign(sys.float_info.max, 1 if value.p > 0 else -1)


def root_below(square: fmpq) -> float:
    """Return the largest float64 number whose square is at most `square` (not negative)."""
    if square == 0:
        return 0.0
    top, bottom = int(square.p), int(square.q)
    shift = max(0, 120 - (top.bit_length() - bottom.bit_length()))
    shift += shift % 2
    try:
        value = math.isqrt((top << shift) // bottom) / (1 << (shift // 2))
    except OverflowError:
        return math.nextafter(math.inf, 0.0)
    while exact(value) ** 2 > square:
        value = math.nextafter(value, 0.0)
    return value


def exact_vertices(rows: FloatArray, right: FloatArray) -> list[list[fmpq]] | None:
    """Enumerate the vertices of the bounded polytope ``rows y <= right`` in exact arithmetic.

    Each vertex is the unique point at which m independent rows are tight, and satisfies the others.

    Parameters
    ----------
    rows : ndarray, shape (r, m)
    right : ndarray, shape (r,)

    Returns
    -------
    list of list of fmpq, or None
        None if there are too many sets of m rows.
    """
    count, m = rows.shape
    if math.comb(count, m) > PARAMS.sets:
        return None
    A = [[exact(a) for a in row] for row in rows.tolist()]
    b = [exact(value) for value in right.tolist()]
    found = {}
    for chosen in combinations(range(count), m):
        for y in _meeting([A[k] for k in chosen], [b[k] for k in chosen]):
            if all(_dot(row, y) <= end for row, end in zip(A, b, strict=True)):
                found[tuple((int(v.p), int(v.q)) for v in y)] = y
    return [found[key] for key in sorted(found)]


def _meeting(rows: list[list[fmpq]], right: list[fmpq]) -> Iterator[list[fmpq]]:
    """Yield the point at which m rows are tight, unless they are dependent."""
    m = len(rows)
    matrix = fmpq_mat(m, m, [value for row in rows for value in row])
    if matrix.det() != 0:
        yield list(matrix.solve(fmpq_mat(m, 1, right)).entries())


def _dot(row: list[fmpq], y: list[fmpq]) -> fmpq:
    return sum((a * v for a, v in zip(row, y, strict=True)), fmpq(0))
