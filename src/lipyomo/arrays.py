"""The arrays that are passed around, and what both kinds of matrices have done to them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Matrix: TypeAlias = "FloatArray | sp.csr_array"
Pattern: TypeAlias = "tuple[BoolArray, ...]"
"""One boolean array a hidden layer: True where the unit is on its right-hand slope."""


def dense(matrix: Matrix) -> FloatArray:
    """The matrix as a dense array."""
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())


def scaled_rows(matrix: Matrix, scale: FloatArray) -> Matrix:
    """``diag(scale) @ matrix``; sparse matrices stay so."""
    if isinstance(matrix, np.ndarray):
        return np.asarray(scale[:, None] * matrix)
    return sp.csr_array(sp.diags_array(scale) @ matrix)
