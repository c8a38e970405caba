"""All units of a graph as one sparse system: who reads whom.

The columns of every row are ``[inputs (d) | units (n) | 1]``; the last one holds the offset, so
that substitutions also carry constants.  A unit reads earlier units only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.network import BoolArray, FloatArray
from lipyomo.onnx.affine import Affine
from lipyomo.onnx.budget import budget
from lipyomo.onnx.trace import Trace

POLL = 10_000
"""Units between two looks at the clock."""


def _homogeneous(parts: list[Affine], variables: int) -> sp.csr_array:
    """The rows of all parts, one after another, with the offset as one more column.

    The list is emptied on the way, so that no part is held twice for long.
    """
    counts = [np.diff(part.matrix.indptr) + (part.offset != 0.0) for part in parts]
    indptr = np.concatenate([[0], *counts]).cumsum()
    kind = np.int32 if max(indptr[-1], variables + 1) < 2**31 else np.int64
    budget().charge((8 + np.dtype(kind).itemsize) * float(indptr[-1]), "the rows of all units")
    data, indices = np.empty(indptr[-1]), np.empty(indptr[-1], dtype=kind)
    parts.reverse()
    row = 0
    while parts:
        part = parts.pop()
        matrix, filled = part.matrix, np.flatnonzero(part.offset)
        # where each entry goes: its place within the part, and one more for each constant before
        ahead = np.concatenate([[0], np.cumsum(part.offset != 0.0)[:-1]])[: part.size]
        start = indptr[row]
        place = np.arange(matrix.nnz) + np.repeat(ahead, np.diff(matrix.indptr)) + start
        data[place], indices[place] = matrix.data, matrix.indices
        last = indptr[row + filled + 1] - 1
        data[last], indices[last] = part.offset[filled], variables
        row += part.size
    return sp.csr_array((data, indices, indptr.astype(kind)), shape=(row, variables + 1))


@dataclass
class System:
    """Pre-activation rows of all units, their slopes, and the rows of the outputs.

    Parameters
    ----------
    inputs : int
        Number d of inputs.
    rows : csr_array, shape (n, d + n + 1)
        Pre-activations of the units.
    left, right : ndarray, shape (n,)
        Slopes.
    output : csr_array, shape (m, d + n + 1)
    """

    inputs: int
    rows: sp.csr_array
    left: FloatArray
    right: FloatArray
    output: sp.csr_array

    @classmethod
    def of(cls, trace: Trace, output: Affine) -> System:
        """Collect what `trace` found, and empty it; `output` is what the network returns."""
        rows = _homogeneous(trace.groups, trace.variables)
        left = np.concatenate([*trace.left, np.zeros(0)])
        right = np.concatenate([*trace.right, np.zeros(0)])
        return cls(trace.inputs, rows, left, right, _homogeneous([output], trace.variables))

    @property
    def units(self) -> int:
        """Number n of units."""
        return int(self.left.size)

    def depths(self) -> npt.NDArray[np.intp]:
        """Depth of every column: 0 for inputs and the constant, 1 + the deepest read for units."""
        depth = np.zeros(self.rows.shape[1], dtype=np.intp)
        indptr, indices = self.rows.indptr, self.rows.indices
        for unit in range(self.units):
            if unit % POLL == 0:
                budget().poll()
            read = indices[indptr[unit] : indptr[unit + 1]]
            depth[self.inputs + unit] = 1 + (depth[read].max() if read.size else 0)
        return depth

    def used(self) -> BoolArray:
        """Which units the outputs depend on, shape (n,)."""
        used = np.zeros(self.rows.shape[1], dtype=bool)
        used[self.output.indices] = True
        indptr, indices = self.rows.indptr, self.rows.indices
        for unit in range(self.units - 1, -1, -1):
            if unit % POLL == 0:
                budget().poll()
            if used[self.inputs + unit]:
                used[indices[indptr[unit] : indptr[unit + 1]]] = True
        return used[self.inputs : self.inputs + self.units]

    def pruned(self) -> System:
        """The same outputs without the units that no output depends on."""
        used = self.used()
        if used.all():
            return self
        columns = np.ones(self.rows.shape[1], dtype=bool)
        columns[self.inputs : self.inputs + self.units] = used
        kept = np.flatnonzero(columns)
        rows = sp.csr_array(self.rows[np.flatnonzero(used)][:, kept])
        output = sp.csr_array(self.output[:, kept])
        return System(self.inputs, rows, self.left[used], self.right[used], output)
