"""Whether float64 products of matrices are exact.

A float64 number is ``m * 2**e`` with an odd integer m; call ``2**e`` its unit.  All partial sums of
``sum_k a_k b_k`` are multiples of the least unit of a times the least unit of b.  Where the
sum of ``|a_k b_k|`` is at most 2**53 of those, every partial sum is a float64 number: nothing is
rounded, in whatever order it is added up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

_Array = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]

_LOWEST = int(np.finfo(np.float64).minexp)
"""Exponent of the least normal number."""

_HUGE = -1024 * _LOWEST
"""Stands for the exponent of zero's unit: beyond those of all products."""


def unit_exponents(values: _Array) -> _Ints:
    """Exponents e of the units of numbers; large for zeros."""
    mantissa, exponent = np.frexp(values)
    digits = np.ldexp(mantissa, 53).astype(np.int64)
    low = (digits & -digits).astype(np.float64)  # a power of two
    shift = np.frexp(low)[1] - 1
    return np.where(digits == 0, _HUGE, exponent.astype(np.int64) - 53 + shift)


def _without_zeros(values: object) -> sp.csr_array:
    """A matrix as rows of its non-zero entries; what was given stays as it is."""
    matrix = sp.csr_array(values)
    if not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix


def product_is_exact(first: object, second: object) -> bool:
    """Whether ``first @ second`` is computed without rounding.

    Parameters
    ----------
    first : ndarray or sparse array, shape (n, k)
    second : ndarray or sparse array, shape (k, m)

    Notes
    -----
    Sufficient, and necessary but for sums that happen to round to themselves.  Rows of `first` and
    columns of `second` with a single entry are looked at entry by entry.
    """
    a, b = _without_zeros(first), _without_zeros(second)
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
    terms = sp.coo_array(abs(a) @ abs(b))
    sizes = terms.data
    units = row_units[terms.row] + column_units[terms.col]
    if (units < _LOWEST).any() or not np.isfinite(sizes).all():
        return False
    return bool((sizes <= np.ldexp(1.0 - 2.0**-40, units + 53)).all())


def _single_rows_are_exact(a: sp.csr_array, b: sp.csr_array) -> bool:
    """Whether those rows of ``a @ b`` are exact for which `a` has one entry."""
    rows = np.flatnonzero(np.diff(a.indptr) == 1)
    if not rows.size:
        return True
    places = a.indptr[rows]
    chosen = sp.csr_array(b[a.indices[places]])
    factor = np.repeat(a.data[places], np.diff(chosen.indptr))
    return bool(entries_are_exact(factor, chosen.data).all())


def sum_is_exact(first: _Array, second: _Array) -> bool:
    """Whether ``first + second`` is computed without rounding, entry by entry."""
    return bool(sums_are_exact(first, second).all())


def sums_are_exact(first: _Array, second: _Array) -> npt.NDArray[np.bool_]:
    """Which sums ``first + second`` of numbers are computed without rounding."""
    total = first + second
    return np.asarray((lost_in_sum(first, second, total) == 0) & np.isfinite(total))


def lost_in_sum(first: Any, second: Any, total: Any) -> Any:
    """What rounding took away from ``total = first + second``, dense or sparse: Knuth's two-sum."""
    part = total - first
    return (first - (total - part)) + (second - part)


def entries_are_exact(first: _Array, second: _Array) -> npt.NDArray[np.bool_]:
    """Which products ``first * second`` of numbers are computed without rounding."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        product = first * second
    units = unit_exponents(first) + unit_exponents(second)
    zero = (first == 0) | (second == 0)
    fits = (units >= _LOWEST) & np.isfinite(product) & (product != 0)
    # the true product is an odd multiple of its unit: exact if and only if that has 53 bits
    fits[fits] = np.abs(product[fits]) < np.ldexp(1.0, units[fits] + 53)
    return np.asarray(zero | fits)
