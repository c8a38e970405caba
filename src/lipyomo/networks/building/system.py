"""All units of a graph as one sparse system of pre-activations.

The columns of every row are ``[inputs (d) | units (n) | 1]``; the last one holds the offset.  A
unit depends on earlier units only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.networks.building.affine import Tensor
from lipyomo.networks.building.budget import budget
from lipyomo.networks.building.trace import Trace

Kinds = npt.NDArray[np.object_]


def _homogeneous(parts: list[Tensor], variables: int) -> sp.csr_array:
    """Stack the rows of all parts, with the offset as an additional column.

    The list is emptied meanwhile, so that no part is stored twice for long.
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
        where = slice(indptr[row], indptr[row + part.size])
        last = indptr[row + filled + 1] - 1  # constants stand last in their rows
        own = np.ones(where.stop - where.start, dtype=bool)
        own[last - where.start] = False
        data[where][own], indices[where][own] = matrix.data, matrix.indices
        data[last], indices[last] = part.offset[filled], variables
        row += part.size
    return sp.csr_array((data, indices, indptr.astype(kind)), shape=(row, variables + 1))


@dataclass(frozen=True, eq=False)
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
    kinds : ndarray of object, shape (n,)
        Activations of smooth units, None for the others.
    output : csr_array, shape (m, d + n + 1)
    ends : ndarray of int
        Ends of groups of units that do not depend on each other.
    """

    inputs: int
    rows: sp.csr_array
    left: FloatArray
    right: FloatArray
    kinds: Kinds
    output: sp.csr_array
    ends: IntArray

    @classmethod
    def of(cls, trace: Trace, output: Tensor) -> System:
        """Collect the units of `trace`, which is emptied; `output` is the network's output."""
        sizes = [group.size for group in trace.groups]
        ends = np.cumsum(sizes, dtype=np.intp)
        further = np.repeat([k in trace.further for k in range(len(sizes))], sizes)
        rows = _homogeneous(trace.groups, trace.variables)
        left = np.concatenate([*trace.left, np.zeros(0)])
        right = np.concatenate([*trace.right, np.zeros(0)])
        kinds = np.repeat(
            np.array([*trace.kinds, None], dtype=object)[:-1], np.diff(ends, prepend=0)
        )
        found = _homogeneous([output], trace.variables)
        whole = cls(trace.inputs, rows, left, right, kinds, found, ends)
        return whole._with_inputs(further) if trace.further else whole

    def _with_inputs(self, further: BoolArray) -> System:
        """Convert some units, which depend on nothing, to inputs after the others."""
        units = self.inputs + np.arange(self.units)
        inputs, last = np.arange(self.inputs), np.array([self.rows.shape[1] - 1])
        columns = np.concatenate([inputs, units[further], units[~further], last])
        return self._restricted(~further, columns, self.inputs + int(further.sum()))

    def _restricted(self, kept: BoolArray, columns: IntArray, inputs: int) -> System:
        """Return some of the units, over some of the columns, of which the first are inputs."""
        return System(
            inputs,
            sp.csr_array(self.rows[np.flatnonzero(kept)][:, columns]),
            self.left[kept],
            self.right[kept],
            self.kinds[kept],
            sp.csr_array(self.output[:, columns]),
            np.cumsum(kept, dtype=np.intp)[self.ends - 1],
        )

    @property
    def units(self) -> int:
        """Number n of units."""
        return int(self.left.size)

    def _groups(self) -> Iterator[tuple[slice, IntArray]]:
        """Yield the columns of each group's units, and the extents of their rows."""
        for start, stop in pairwise([0, *self.ends]):
            budget().poll()
            yield slice(self.inputs + start, self.inputs + stop), self.rows.indptr[start : stop + 1]

    def depths(self) -> IntArray:
        """Return the depth of every column: 0 for inputs and the constant, layers for units."""
        depth = np.zeros(self.rows.shape[1], dtype=np.intp)
        for units, begin in self._groups():
            filled = begin[:-1] < begin[1:]
            read = depth[self.rows.indices[begin[0] : begin[-1]]]
            deepest = np.zeros(filled.size, dtype=np.intp)
            deepest[filled] = np.maximum.reduceat(read, begin[:-1][filled] - begin[0])
            depth[units] = 1 + deepest
        return depth

    def used(self) -> BoolArray:
        """Return which units the outputs depend on, shape (n,)."""
        used = np.zeros(self.rows.shape[1], dtype=bool)
        used[self.output.indices] = True
        for units, begin in reversed(list(self._groups())):
            read = self.rows.indices[begin[0] : begin[-1]]
            own = used[units]
            used[read if own.all() else read[np.repeat(own, np.diff(begin))]] = True
        return used[self.inputs : self.inputs + self.units]

    def pruned(self) -> System:
        """Remove the units that no output depends on."""
        used = self.used()
        if used.all():
            return self
        columns = np.ones(self.rows.shape[1], dtype=bool)
        columns[self.inputs : self.inputs + self.units] = used
        return self._restricted(used, np.flatnonzero(columns), self.inputs)
