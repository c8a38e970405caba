"""Types of arrays, and operations for both dense and sparse matrices."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.system.memory import BATCH, MEGABYTE

FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
IntArray: TypeAlias = npt.NDArray[np.intp]
Matrix: TypeAlias = "FloatArray | sp.csr_array"
Array = TypeVar("Array", bound="npt.NDArray[Any]")
Pattern: TypeAlias = "tuple[BoolArray, ...]"
"""One boolean array per hidden layer: True where the unit is on its right-hand slope."""


def keep_memory() -> None:
    """Make the allocator of this process reuse the memory of freed arrays.

    The GNU C library returns large blocks to the system, and new ones are mapped page by page: 5 to
    12 % of a search's time.  Its threshold rises to the largest block that was freed before, up to
    32 MB; so one such block is freed here.  Other libraries are not affected.
    """
    np.empty(BATCH - MEGABYTE, dtype=np.uint8)  # smaller by a margin for the allocator's overhead


def read_only(values: Array) -> Array:
    """Make `values` read-only and return it."""
    values.setflags(write=False)
    return values


def dense(matrix: Matrix) -> FloatArray:
    """Return the matrix as a dense array."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


TOGETHER = 16
"""Batch size for back-substituted functionals, branched nodes and ascending points.  Larger batches
cost less each, but what the first members find comes too late for the others (8 to 32 perform
alike)."""

DENSE = 0.1
"""Density from which sparse matrices are no faster than dense ones, and are stored as dense."""

LITTLE = 1 << 12
"""Number of entries up to which dense arrays are faster, however many of them are zero."""

FAINT = float(np.sqrt(np.finfo(np.float64).tiny) / np.finfo(np.float64).eps)
"""Euclidean norms above this are not affected by the underflow of squares."""


def lengths(values: Matrix, axis: int = -1) -> FloatArray:
    """Return Euclidean norms along an axis, scaled where squares of small entries underflow."""
    if not isinstance(values, np.ndarray):
        top = np.asarray(abs(values).max(axis=1).todense()).reshape(-1)
        rows = scaled_rows(values, np.exp2(np.minimum(-np.frexp(top)[1], 1000.0)))
        size = np.sqrt((rows * rows).sum(axis=1)).reshape(-1)
        return np.asarray(size * np.exp2(np.maximum(np.frexp(top)[1], -1000.0)))
    found = np.sqrt(np.add.reduce(np.square(values), axis=axis))
    if np.minimum.reduce(found, axis=None, initial=np.inf) < FAINT:
        exponent = np.frexp(np.abs(values).max(axis=axis, keepdims=True, initial=0.0))[1]
        scaled = np.sqrt(np.square(np.ldexp(values, -exponent)).sum(axis=axis))
        found = np.ldexp(scaled, np.squeeze(exponent, axis=axis))
    return np.asarray(found)


def middles(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return midpoints of intervals, which lie inside in spite of rounding."""
    return np.clip(low + 0.5 * (high - low), low, high)


def ranges(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return widths of intervals; one where an interval is unbounded, or is a point."""
    width = high - low
    return np.where(np.isfinite(width) & (width > 0), width, 1.0)


def scaled_rows(matrix: Matrix, scale: FloatArray) -> Matrix:
    """Return ``diag(scale) @ matrix``, one for each row of `scale`; sparse matrices stay sparse."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(scale[..., None] * matrix)
    return sp.csr_array(sp.diags_array(scale) @ matrix)


def scaled_columns(matrix: Matrix, scale: FloatArray) -> Matrix:
    """Return ``matrix @ diag(scale)``; sparse matrices stay sparse."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(matrix * scale)
    return sp.csr_array(matrix @ sp.diags_array(scale))


def sparse_product(left: Matrix, right: Matrix) -> Matrix:
    """Return the product, sparse only where that is faster."""
    found = left @ right
    return found if isinstance(found, np.ndarray) else compact(sp.csr_array(found))


def compact(matrix: Matrix) -> Matrix:
    """Return the matrix, converted to dense if it is small or has many nonzeros."""
    if isinstance(matrix, np.ndarray):
        return matrix
    rows, columns = matrix.shape
    if rows * columns <= LITTLE or matrix.nnz > DENSE * rows * columns:
        return np.asarray(matrix.toarray())
    return sp.csr_array(matrix)
