"""Affine signals without rounding: integer matrices times a power of two.

Every finite float64 is an integer times a power of two, and so are sums and products of them.
FLINT multiplies the integer matrices (`flint.fmpz_mat`).
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from flint import fmpz, fmpz_mat

from lipyomo.affine.signal import Passing
from lipyomo.network import FloatArray, Layer
from lipyomo.numerics.exact import Exact, whole

_LAYERS: WeakKeyDictionary[Layer, Exact] = WeakKeyDictionary()


def exact_layer(layer: Layer) -> Exact:
    """The (remembered) matrix ``[[W, b], [0, 1]]`` of a layer."""
    found = _LAYERS.get(layer)
    if found is None:
        whole_map = np.zeros((layer.units + 1, layer.inputs + 1))
        whole_map[:-1, :-1] = layer.dense_weight
        whole_map[:-1, -1] = layer.bias
        whole_map[-1, -1] = 1.0
        found = Exact.of(whole_map)
        _LAYERS[layer] = found
    return found


@dataclass(frozen=True)
class ExactSignal:
    """A signal without rounding.

    Attributes
    ----------
    values : Exact, shape (n + 1, w)
        The last row is the constant one: a unit vector in the column of the constant, the last.
    """

    values: Exact

    @classmethod
    def inputs(cls, start: FloatArray) -> ExactSignal:
        """From the float64 signal (d, w) of the inputs; the last column is the constant's."""
        constant = np.zeros((1, start.shape[1]))
        constant[0, -1] = 1.0
        return cls(Exact.of(np.concatenate([start, constant])))

    def through(self, layer: Layer) -> ExactSignal:
        """The pre-activations of a layer."""
        return ExactSignal(exact_layer(layer) @ self.values)

    def past(self, passing: Passing) -> ExactSignal:
        """What leaves the units."""
        slopes, shift = whole(np.append(passing.slope, 1.0))
        jumps, jump_shift = whole(passing.jump)
        rows = self.values.matrix.tolist()
        width = len(rows[0])
        low = min(self.values.exponent + shift, jump_shift) if jumps else None
        exponent = self.values.exponent + shift if low is None else low
        lift = self.values.exponent + shift - exponent
        left = []
        for row, slope in zip(rows, slopes, strict=True):
            factor = slope << lift
            if factor == 0:
                left.append([fmpz(0)] * width)
            else:
                left.append(row if factor == 1 else [factor * entry for entry in row])
        for unit, column, jump in zip(
            passing.units.tolist(), passing.columns.tolist(), jumps, strict=True
        ):
            row = list(left[unit])
            row[column] += jump << (jump_shift - exponent)
            left[unit] = row
        return ExactSignal(Exact(fmpz_mat(left), exponent))

    def row(self, unit: int) -> tuple[list[fmpz], int]:
        """The map of one unit: integers, and the exponent of two that they are multiplied by."""
        matrix = self.values.matrix
        return [matrix[unit, j] for j in range(matrix.ncols())], self.values.exponent
