"""The list of two-slope units that a graph needs, found while it is lowered."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.network import FloatArray
from lipyomo.onnx.affine import Affine, widen


class Trace:
    """Inputs and units met so far; `unit` makes new ones.

    Parameters
    ----------
    inputs : int
        Number d of network inputs.

    Attributes
    ----------
    groups : list of Affine
        Pre-activations of the units, one flat tensor a call of `unit`.
    """

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.variables = inputs
        self.groups: list[Affine] = []
        self.left: list[FloatArray] = []
        self.right: list[FloatArray] = []

    def input(self, shape: tuple[int, ...]) -> Affine:
        """The network's input as a tensor of the given shape."""
        return Affine(
            sp.csr_array(sp.eye_array(self.inputs, format="csr")), np.zeros(self.inputs), shape
        )

    def unit(self, z: Affine, left: npt.ArrayLike, right: npt.ArrayLike = 1.0) -> Affine:
        """Pass `z` through units with slopes `left` below zero and `right` above (broadcast to z).

        Constant entries stay constants and entries with equal slopes stay affine: neither becomes
        a unit.
        """
        slopes = np.broadcast_arrays(
            np.asarray(left, dtype=np.float64),
            np.asarray(right, dtype=np.float64),
            np.empty(z.shape),
        )
        low, high = (np.array(slope).reshape(-1) for slope in slopes[:2])
        constant = np.diff(z.matrix.indptr) == 0
        kinked = np.flatnonzero((low != high) & ~constant)
        keep = np.where(np.isin(np.arange(z.size), kinked), 0.0, low)
        offset = keep * z.offset
        offset[constant] = (np.where(z.offset < 0, low, high) * z.offset)[constant]

        affine = widen(z.matrix, self.variables + kinked.size).copy()
        affine.data = affine.data * np.repeat(keep, np.diff(affine.indptr))
        columns = self.variables + np.arange(kinked.size)
        fresh = sp.csr_array(
            (np.ones(kinked.size), (kinked, columns)), shape=(z.size, affine.shape[1])
        )
        matrix = sp.csr_array(affine + fresh)
        matrix.eliminate_zeros()
        if kinked.size:
            self.groups.append(Affine(z.matrix[kinked], z.offset[kinked], (kinked.size,)))
            self.left.append(low[kinked])
            self.right.append(high[kinked])
            self.variables += kinked.size
        return Affine(matrix, offset, z.shape)

    def relu(self, z: Affine) -> Affine:
        """``max(z, 0)``."""
        return self.unit(z, 0.0, 1.0)

    def maximum(self, a: Affine, b: Affine) -> Affine:
        """``max(a, b) = b + relu(a - b)``, entry by entry, with broadcasting."""
        return b + self.relu(a - b)

    def minimum(self, a: Affine, b: Affine) -> Affine:
        """``min(a, b) = b - relu(b - a)``, entry by entry, with broadcasting."""
        return b - self.relu(b - a)
