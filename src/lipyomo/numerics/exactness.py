"""Whether float64 products of matrices are exact.

A float64 number is ``m * 2**e`` with an odd integer m; call ``2**e`` its unit.  All partial sums of
``sum_k a_k b_k`` are multiples of the least unit of a times the least unit of b.  Where the
sum of ``|a_k b_k|`` is at most 2**53 of those, every partial sum is a float64 number: nothing is
rounded, in whatever order it is added up.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

_Array = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]

_HUGE = 1 << 20
"""Stands for the exponent of zero's unit."""

_LOWEST = -1022


def unit_exponents(values: _Array) -> _Ints:
    """Exponents e of the units of numbers; large for zeros."""
    mantissa, exponent = np.frexp(values)
    digits = np.ldexp(mantissa, 53).astype(np.int64)
    low = (digits & -digits).astype(np.float64)  # a power of two
    shift = np.frexp(low)[1] - 1
    return np.where(digits == 0, _HUGE, exponent.astype(np.int64) - 53 + shift)


def product_is_exact(first: object, second: object) -> bool:
    """Whether ``first @ second`` is computed without rounding.

    Parameters
    ----------
    first : ndarray or sparse array, shape (n, k)
    second : ndarray or sparse array, shape (k, m)

    Notes
    -----
    Sufficient, and necessary but for sums that happen to round to themselves.  Rows of `first` with
    a single entry are looked at entry by entry.
    """
    a, b = sp.csr_array(first), sp.csr_array(second)
    a.eliminate_zeros()
    b.eliminate_zeros()
    if not a.nnz or not b.nnz:
        return True
    counts = np.diff(a.indptr)
    single = counts <= 1
    if single.any():
        rows = np.flatnonzero(counts == 1)
        places = a.indptr[rows]
        chosen = sp.csr_array(b[a.indices[places]])
        factor = np.repeat(a.data[places], np.diff(chosen.indptr))
        if not _entries_exact(factor, chosen.data):
            return False
    rest = np.flatnonzero(~single)
    if not rest.size:
        return True
    a = sp.csr_array(a[rest])
    rows = np.repeat(np.arange(rest.size), np.diff(a.indptr))
    row_units = np.full(rest.size, _HUGE)
    np.minimum.at(row_units, rows, unit_exponents(a.data))
    column_units = np.full(b.shape[1], _HUGE)
    np.minimum.at(column_units, b.indices, unit_exponents(b.data))
    sizes = np.asarray((abs(a) @ abs(b)).todense())
    units = row_units[:, None] + column_units[None, :]
    used = sizes > 0
    if (units[used] < _LOWEST).any() or not np.isfinite(sizes).all():
        return False
    return bool((sizes[used] <= np.ldexp(1.0 - 2.0**-40, units[used] + 53)).all())


def sum_is_exact(first: _Array, second: _Array) -> bool:
    """Whether ``first + second`` is computed without rounding, entry by entry."""
    total = first + second
    part = total - first
    error = (first - (total - part)) + (second - part)  # Knuth's two-sum
    return bool((error == 0).all() and np.isfinite(total).all())


def _entries_exact(first: _Array, second: _Array) -> bool:
    """Whether the products of numbers are exact."""
    product = first * second
    units = unit_exponents(first) + unit_exponents(second)
    used = product != 0
    if (units[used] < _LOWEST).any() or not np.isfinite(product).all():
        return False
    if (~used & (first != 0) & (second != 0)).any():
        return False
    # the true product is an odd multiple of its unit: exact if and only if that has 53 bits
    return bool((np.abs(product[used]) < np.ldexp(1.0, units[used] + 53)).all())
