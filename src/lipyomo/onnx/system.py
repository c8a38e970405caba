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
from lipyomo.onnx.affine import Affine, stack, widen
from lipyomo.onnx.budget import budget
from lipyomo.onnx.trace import Trace

POLL = 10_000
"""Units between two looks at the clock."""


def _homogeneous(tensor: Affine, variables: int) -> sp.csr_array:
    """Rows of `tensor` with the offset as one more column."""
    offset = sp.csr_array(tensor.offset[:, None])
    return sp.csr_array(sp.hstack([widen(tensor.matrix, variables), offset], format="csr"))


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
        """Collect what `trace` found; `output` is the tensor that the network returns."""
        units = trace.variables - trace.inputs
        empty = sp.csr_array((0, trace.variables + 1))
        rows = _homogeneous(stack(trace.groups), trace.variables) if units else empty
        left = np.concatenate([*trace.left, np.zeros(0)])
        right = np.concatenate([*trace.right, np.zeros(0)])
        return cls(trace.inputs, rows, left, right, _homogeneous(output, trace.variables))

    @property
    def units(self) -> int:
        """Number n of units."""
        return int(self.left.size)

    def column(self, unit: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Columns of units."""
        return np.asarray(self.inputs + unit)

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
