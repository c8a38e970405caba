"""Affine signals in exact arithmetic, pulled-back maps of some rows, and the rows of nodes' LPs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import fmpq, fmpz_mat

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.numerics.exact import Exact, ExactWeights, exact, rational, whole_numbers
from lipyomo.networks.layer import remembered
from lipyomo.networks.network import Layer
from lipyomo.networks.phases import OPEN
from lipyomo.problems.affine.signal import UnitMap, carry
from lipyomo.problems.affine.system import FlatPhases, UnitSystem


@remembered
def exact_weights(layer: Layer) -> ExactWeights:
    """Return the exact weights of a layer, cached."""
    return ExactWeights(layer.weight, layer.bias)


@dataclass(frozen=True, eq=False)
class ExactSignal:
    """A signal in exact arithmetic.

    Attributes
    ----------
    values : Exact, shape (n + 1, w)
        The last row is the constant one, and the last column that of the constant.
    """

    values: Exact

    @classmethod
    def of(cls, start: FloatArray) -> ExactSignal:
        """Convert the float64 signal (d, w) of the inputs; the last column is the constant's."""
        constant = np.zeros((1, start.shape[1]))
        constant[0, -1] = 1.0
        return cls(Exact.of(np.concatenate([start, constant])))

    @classmethod
    def at(cls, x: FloatArray) -> ExactSignal:
        """Return the constant signal of a point (d,), or of the sum of rows (k, d)."""
        first, *others = np.atleast_2d(np.asarray(x, dtype=np.float64))
        values = cls.of(first[:, None]).values
        for rest in others:
            values = values + Exact.of(np.append(rest, 0.0))
        return cls(values)

    def through(self, layer: Layer) -> ExactSignal:
        """Return the pre-activations of a layer."""
        return ExactSignal(exact_weights(layer).after(self.values))

    def past(self, unit_map: UnitMap) -> ExactSignal:
        """Return the outputs of the units."""
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
    """Pull functionals of the last layer's pre-activations back to affine functions of the inputs.

    Parameters
    ----------
    rows : ndarray, shape (k, n)
        Functionals ``rows @ z`` of the pre-activations z of the last layer.
    layers : sequence of Layer
    pattern : sequence of ndarray of bool
        Pattern of all layers but the last.

    Returns
    -------
    Exact, shape (k, d + 1)
        Gradients, and the constants in the last column.
    """
    found = Exact.of(np.hstack([rows, np.zeros((len(rows), 1))]))
    found = exact_weights(layers[-1]).before(found)
    for layer, on in zip(reversed(layers[:-1]), reversed(pattern), strict=True):
        found = found.transposed().rows_scaled(np.append(layer.slopes(on), 1.0)).transposed()
        found = exact_weights(layer).before(found)
    return found


class ExactForm:
    """The maps of a `NodeForm` in exact arithmetic.

    Parameters
    ----------
    system : UnitSystem
    phases : ndarray of int8, shape (N,)
    """

    def __init__(self, system: UnitSystem, phases: FlatPhases) -> None:
        unstable_units = np.flatnonzero(phases == OPEN)
        self._system, self._phases = system, phases
        self._width = system.inputs + unstable_units.size
        self._columns = {int(unit): system.inputs + j for j, unit in enumerate(unstable_units)}

    @cached_property
    def _layers(self) -> list[ExactSignal]:
        system = self._system
        start = ExactSignal.of(np.eye(system.inputs, self._width + 1))
        return list(carry(start, system.network.hidden, system.unit_maps(self._phases)))

    def _unit(self, unit: int) -> tuple[list[fmpq], fmpq]:
        """Return the coefficients and the constant of a pre-activation."""
        layer = int(self._system.layer_of[unit])
        values, row = self._layers[layer].values, unit - self._system.starts[layer]
        entries = (values.matrix[row, j] for j in range(self._width + 1))
        *coefs, constant = (rational(entry, values.exponent) for entry in entries)
        return coefs, constant

    def sign_row(self, unit: int, on: bool) -> list[fmpq]:
        """Return ``(a, b)`` with ``a . w < b`` if and only if the unit is on (or off)."""
        coefs, constant = self._unit(unit)
        return [*(-a for a in coefs), constant] if on else [*coefs, -constant]

    def above_row(self, unit: int) -> list[fmpq]:
        """Return the row ``z - y <= 0`` of an unstable unit."""
        coefs, constant = self._unit(unit)
        coefs[self._columns[unit]] -= 1
        return [*coefs, -constant]

    def chord_row(self, unit: int, low: float, high: float) -> list[fmpq]:
        """Return the chord's row ``(high - low) y - high z <= -high low``, ``low <= z <= high``."""
        coefs, constant = self._unit(unit)
        least, most = exact(low), exact(high)
        row = [-most * a for a in coefs]
        row[self._columns[unit]] += most - least
        return [*row, most * constant - most * least]

    def face_row(self, normal: FloatArray, limit: float) -> list[fmpq]:
        """Return the row of a face of the domain."""
        row = [exact(float(a)) for a in normal]
        return [*row, *[fmpq(0)] * (self._width - len(row)), exact(float(limit))]
