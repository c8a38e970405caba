"""Affine signals without rounding, and the affine maps of chosen rows, pulled back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import fmpz_mat

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.numerics.exact import Exact, ExactWeights, whole_numbers
from lipyomo.networks.layer import remembered
from lipyomo.networks.network import Layer
from lipyomo.problems.affine.signal import UnitMap


@remembered
def exact_weights(layer: Layer) -> ExactWeights:
    """The (remembered) weights of a layer."""
    return ExactWeights(layer.weight, layer.bias)


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
    def of(cls, start: FloatArray) -> ExactSignal:
        """From the float64 signal (d, w) of the inputs; the last column is the constant's."""
        constant = np.zeros((1, start.shape[1]))
        constant[0, -1] = 1.0
        return cls(Exact.of(np.concatenate([start, constant])))

    @classmethod
    def at(cls, x: FloatArray) -> ExactSignal:
        """The constant signal of a point, shape (d,), or (2, d) for the sum of two rows."""
        first, *others = np.atleast_2d(np.asarray(x, dtype=np.float64))
        values = cls.of(first[:, None]).values
        for rest in others:
            values = values + Exact.of(np.append(rest, 0.0))
        return cls(values)

    def through(self, layer: Layer) -> ExactSignal:
        """The pre-activations of a layer."""
        return ExactSignal(exact_weights(layer).after(self.values))

    def past(self, unit_map: UnitMap) -> ExactSignal:
        """What leaves the units."""
        scaled = self.values.rows_scaled(np.append(unit_map.slope, 1.0))
        if not unit_map.units.size:
            return ExactSignal(scaled)
        changes, exponent = whole_numbers(unit_map.change)
        low = min(scaled.exponent, exponent)
        rows = scaled.aligned(low).tolist()
        for unit, column, change in zip(
            unit_map.units.tolist(), unit_map.columns.tolist(), changes, strict=True
        ):
            rows[unit][column] += change << (exponent - low)
        return ExactSignal(Exact(fmpz_mat(rows), low))


def pulled_back(rows: FloatArray, layers: Sequence[Layer], pattern: Sequence[BoolArray]) -> Exact:
    """Affine functions of the inputs, from rows of the last layer's pre-activations.

    Parameters
    ----------
    rows : ndarray, shape (k, n)
        ``rows @ z`` with z the pre-activations of the last of the layers.
    layers : sequence of Layer
    pattern : sequence of ndarray of bool
        Of all layers but the last.

    Returns
    -------
    Exact, shape (k, d + 1)
        Gradients, and the constants in the last column.
    """
    found = Exact.of(np.hstack([rows, np.zeros((len(rows), 1))]))
    found = exact_weights(layers[-1]).before(found)
    for layer, on in zip(reversed(layers[:-1]), reversed(pattern), strict=True):
        found = found.columns_scaled(np.append(layer.slopes(on), 1.0))
        found = exact_weights(layer).before(found)
    return found
