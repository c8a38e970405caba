"""Names for the arrays that are passed around, and nothing else."""

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
