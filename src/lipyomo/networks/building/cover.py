"""Smallest set of values and partial sums to carry past a layer (König's theorem)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import IntArray

_FAR = 400.0
"""Largest exponent of the powers of two that columns are scaled by."""


def smallest_cover(matrix: sp.csr_array) -> tuple[IntArray, IntArray]:
    """Find the fewest rows and columns that together cover every nonzero of `matrix`.

    A column in the cover stands for one value that is carried as it is, a row for one partial sum
    that is carried instead of its terms.  By König's theorem the minimum equals the size of a
    maximum matching; among the smallest covers this one has as many columns as possible, because
    single values keep later layers sparse.

    Parameters
    ----------
    matrix : csr_array, shape (rows, columns)
        Without explicit zeros.

    Returns
    -------
    rows, columns : ndarray of int
    """
    from scipy.sparse.csgraph import maximum_bipartite_matching

    graph = sp.csr_matrix(matrix)
    row_of_column = np.asarray(maximum_bipartite_matching(graph, perm_type="row"))
    by_column = sp.csc_array(matrix)
    touched = np.diff(by_column.indptr) > 0
    column_of_row = np.full(matrix.shape[0], -1)
    matched = np.flatnonzero(row_of_column >= 0)
    column_of_row[row_of_column[matched]] = matched

    # Columns reachable from an unmatched one by alternating paths are left out of the cover, and
    # the rows on those paths are in it.
    seen_columns = touched & (row_of_column < 0)
    seen_rows = np.zeros(matrix.shape[0], dtype=bool)
    frontier = np.flatnonzero(seen_columns)
    while frontier.size:
        rows = np.unique(by_column[:, frontier].indices)
        rows = rows[~seen_rows[rows]]
        seen_rows[rows] = True
        frontier = column_of_row[rows]
        frontier = frontier[~seen_columns[frontier]]
        seen_columns[frontier] = True
    return np.flatnonzero(seen_rows), np.flatnonzero(touched & ~seen_columns)


def distinct_rows(matrix: sp.csr_array) -> tuple[IntArray, IntArray]:
    """Find the distinct rows, and which of them each row equals.

    Returns
    -------
    first : ndarray of int, shape (k,)
        Positions of the distinct rows.
    which : ndarray of int, shape (rows,)
        ``matrix[first[which[i]]] == matrix[i]``.
    """
    known: dict[tuple[bytes, bytes], int] = {}
    first: list[int] = []
    which = np.empty(matrix.shape[0], dtype=np.intp)
    matrix.sort_indices()
    for row in range(matrix.shape[0]):
        span = slice(matrix.indptr[row], matrix.indptr[row + 1])
        key = matrix.indices[span].tobytes(), matrix.data[span].tobytes()
        which[row] = known.setdefault(key, len(first))
        if which[row] == len(first):
            first.append(row)
    return np.asarray(first, dtype=np.intp), which


def parallel_columns(matrix: sp.csr_array) -> tuple[IntArray, sp.csr_array]:
    """Express all columns by representatives that are no multiples of each other.

    Parameters
    ----------
    matrix : csr_array, shape (rows, columns)
        Without explicit zeros.

    Returns
    -------
    representatives : ndarray of int, shape (k,)
        The first column of each group of parallel nonzero columns.
    shares : csr_array, shape (k, columns)
        ``matrix[:, representatives] @ shares == matrix``.
    """
    columns = sp.csr_array(matrix.T)
    columns.sort_indices()
    counts = np.diff(columns.indptr)
    filled = np.flatnonzero(counts)
    leading = columns.data[columns.indptr[filled]]
    sizes = np.clip(np.frexp(np.abs(leading))[1] - 1.0, -_FAR, _FAR)
    scales = np.exp2(sizes) * np.sign(leading)
    each = np.repeat(scales, counts[filled])
    with np.errstate(all="ignore"):
        scaled = columns.data / each
        exact = np.isfinite(scaled) & (scaled * each == columns.data)
    inexact = np.zeros(columns.shape[0], dtype=bool)
    inexact[np.repeat(np.arange(columns.shape[0]), counts)[~exact]] = True
    scales[inexact[filled]] = 1.0
    columns.data = np.where(np.repeat(inexact, counts), columns.data, scaled)
    first, which = distinct_rows(sp.csr_array(columns[filled]))
    places = which, filled
    factors = scales / scales[first][which]
    shares = sp.csr_array((factors, places), shape=(first.size, matrix.shape[1]))
    return filled[first], shares
