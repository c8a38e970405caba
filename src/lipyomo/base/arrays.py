"""The arrays that are passed around, and what both kinds of matrices have done to them."""

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
"""One boolean array a hidden layer: True where the unit is on its right-hand slope."""


def keep_memory() -> None:
    """Have this process keep the memory of arrays that it frees, for the next ones.

    The GNU C library gives large pieces back to the system, which hands out others page by page: 5
    to 12 % of a search's time.  Pieces count as large when they are larger than any that was freed
    before, up to 32 MB.  With other libraries nothing happens.
    """
    np.empty(BATCH - MEGABYTE, dtype=np.uint8)  # with what the library keeps beside it


def read_only(values: Array) -> Array:
    """`values`, which cannot be written to any more."""
    values.setflags(write=False)
    return values


def dense(matrix: Matrix) -> FloatArray:
    """The matrix as a dense array."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


TOGETHER = 16
"""Problems of a kind that are worked on together, which costs less each: functionals that are
substituted back, nodes that are split, points that ascend.  What the first ones find comes too late
for the others (8 to 32 alike)."""

DENSE = 0.1
"""Share of entries from which a sparse matrix takes as long as a dense one, and is kept as such."""

LITTLE = 1 << 12
"""Entries up to which a dense array is quicker, however many of them are zero."""

FAINT = float(np.sqrt(np.finfo(np.float64).tiny) / np.finfo(np.float64).eps)
"""Lengths above this are not changed by the underflow of squares."""


def lengths(values: Matrix, axis: int = -1) -> FloatArray:
    """Euclidean lengths along an axis; squares of faint entries do not underflow."""
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
    """The middles of intervals, inside in spite of rounding."""
    return np.clip(low + 0.5 * (high - low), low, high)


def ranges(low: FloatArray, high: FloatArray) -> FloatArray:
    """Widths of intervals; one where an interval has no end, or is a point."""
    width = high - low
    return np.where(np.isfinite(width) & (width > 0), width, 1.0)


def scaled_rows(matrix: Matrix, scale: FloatArray) -> Matrix:
    """``diag(scale) @ matrix``, one a row of `scale`; sparse matrices stay so."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(scale[..., None] * matrix)
    return sp.csr_array(sp.diags_array(scale) @ matrix)


def scaled_columns(matrix: Matrix, scale: FloatArray) -> Matrix:
    """``matrix @ diag(scale)``; sparse matrices stay so."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(matrix * scale)
    return sp.csr_array(matrix @ sp.diags_array(scale))


def sparse_product(left: Matrix, right: Matrix) -> Matrix:
    """A product that is sparse while that pays."""
    found = left @ right
    return found if isinstance(found, np.ndarray) else compact(sp.csr_array(found))


def compact(matrix: Matrix) -> Matrix:
    """The matrix, dense if it is small, or a sparse one has many entries."""
    if isinstance(matrix, np.ndarray):
        return matrix
    rows, columns = matrix.shape
    if rows * columns <= LITTLE or matrix.nnz > DENSE * rows * columns:
        return np.asarray(matrix.toarray())
    return sp.csr_array(matrix)
