"""The list of two-slope units that a graph needs, found while it is lowered."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.network import FloatArray
from lipyomo.onnx.affine import Affine, stack, widen
from lipyomo.onnx.budget import ENTRY, UNIT, budget


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
        budget().charge(ENTRY * self.inputs, f"an input of {self.inputs:,} entries")
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
        budget().charge(UNIT * (self.variables - self.inputs + kinked.size), "the units so far")
        keep = low.copy()
        keep[kinked] = 0.0
        offset = keep * z.offset
        offset[constant] = (np.where(z.offset < 0, low, high) * z.offset)[constant]

        columns = self.variables + np.arange(kinked.size)
        matrix = sp.csr_array(
            (np.ones(kinked.size), (kinked, columns)), shape=(z.size, self.variables + kinked.size)
        )
        if keep.any():  # what stays affine
            affine = widen(z.matrix, matrix.shape[1]).copy()
            affine.data = affine.data * np.repeat(keep, np.diff(affine.indptr))
            matrix = sp.csr_array(affine + matrix)
            matrix.eliminate_zeros()
        if kinked.size:
            whole = kinked.size == z.size
            rows = (z.matrix, z.offset) if whole else (z.matrix[kinked], z.offset[kinked])
            self.groups.append(Affine(*rows, (kinked.size,)))
            self.left.append(low[kinked])
            self.right.append(high[kinked])
            self.variables += kinked.size
        return Affine(matrix, offset, z.shape)

    def before_unit(self, x: Affine) -> tuple[Affine, float, float] | None:
        """Undo the last step, if `x` is nothing but nondecreasing units of equal slopes.

        Such a unit commutes with maxima: ``max(relu(a), relu(b)) = relu(max(a, b))``, which needs
        fewer units.

        Returns
        -------
        (Affine, float, float) or None
            The pre-activations in the shape of `x`, and the slopes.
        """
        matrix = x.matrix
        plain = (np.diff(matrix.indptr) == 1).all() and (matrix.data == 1.0).all()
        if not plain or x.offset.any() or not x.size or matrix.indices.min() < self.inputs:
            return None
        starts = np.cumsum([self.inputs, *(group.size for group in self.groups)])
        (which, *others) = np.unique(np.searchsorted(starts, matrix.indices, side="right") - 1)
        if others:
            return None
        place = matrix.indices - starts[which]
        left, right = (np.unique(slopes[which][place]) for slopes in (self.left, self.right))
        if left.size > 1 or right.size > 1 or min(left[0], right[0]) < 0.0:
            return None
        z = self.groups[which].take(place.reshape(x.shape))
        return z, float(left[0]), float(right[0])

    def relu(self, z: Affine) -> Affine:
        """``max(z, 0)``."""
        return self.unit(z, 0.0, 1.0)

    def maximum(self, a: Affine, b: Affine) -> Affine:
        """``max(a, b)``, entry by entry, with broadcasting.

        Usually ``b + relu(a - b)``.  Where the variable parts are proportional, ``b = s a + c``
        with s < 1 (``max(x, 0.1 x)``, ``max(x, -x)``, a constant b), one unit with slopes (s, 1)
        does.
        """
        shape = np.broadcast_shapes(a.shape, b.shape)
        a, b = (
            Affine(x.matrix, x.offset, (x.size,)) for x in (a.broadcast(shape), b.broadcast(shape))
        )
        slope, inverse = proportion(b.matrix, a.matrix), proportion(a.matrix, b.matrix)
        single, swapped = slope < 1.0, inverse < 1.0
        swapped &= ~single
        parts = [np.flatnonzero(mask) for mask in (single, swapped, ~(single | swapped))]
        one = self._bent(a.take(parts[0]), b.take(parts[0]), slope[parts[0]])
        other = self._bent(b.take(parts[1]), a.take(parts[1]), inverse[parts[1]])
        left, right = a.take(parts[2]), b.take(parts[2])
        two = right + self.relu(left - right)
        order = np.empty(a.size, dtype=np.intp)
        order[np.concatenate(parts)] = np.arange(a.size)
        return stack([one, other, two]).take(order.reshape(shape))

    def _bent(self, steep: Affine, flat: Affine, slope: FloatArray) -> Affine:
        """The maximum of two tensors, where `flat` has `slope` (< 1) times the rows of `steep`."""
        kink = (flat.offset - slope * steep.offset) / (1.0 - slope)
        return self.unit(steep.shift(-kink), slope).shift(kink)

    def minimum(self, a: Affine, b: Affine) -> Affine:
        """``min(a, b) = -max(-a, -b)``."""
        return -self.maximum(-a, -b)


def proportion(b: sp.csr_array, a: sp.csr_array) -> FloatArray:
    """Factors s with ``b[i] = s[i] a[i]`` up to rounding; NaN for rows that are not proportional.

    Parameters
    ----------
    b, a : csr_array, with the same number of rows

    Returns
    -------
    ndarray, shape (rows,)
        Zero where b has an empty row.
    """
    rows, columns = a.shape[0], max(a.shape[1], b.shape[1])
    a, b = widen(a, columns), widen(b, columns)
    filled = np.flatnonzero(np.diff(a.indptr))
    at = a.indptr[filled]
    first = sp.csr_array((np.ones(filled.size), (filled, a.indices[at])), shape=(rows, columns))
    factor = np.asarray(b.multiply(first).sum(axis=1)).reshape(-1)
    factor[filled] /= a.data[at]
    residual = sp.csr_array(abs(b - sp.diags_array(factor) @ a))
    size = np.asarray(abs(b).max(axis=1).todense()).reshape(-1) if columns else np.zeros(rows)
    error = np.asarray(residual.max(axis=1).todense()).reshape(-1) if columns else np.zeros(rows)
    return np.where(error <= 8 * np.finfo(np.float64).eps * size, factor, np.nan)
