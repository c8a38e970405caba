"""The inequalities of a node in rational numbers, for proofs that its region is empty."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from flint import fmpq

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.exact import exact, rational
from lipyomo.networks.phases import OPEN
from lipyomo.problems.affine.exact import ExactSignal
from lipyomo.problems.affine.signal import carry
from lipyomo.problems.affine.system import FlatPhases, UnitSystem


class ExactForm:
    """The maps of a `NodeForm`, without rounding.

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
        """Coefficients and constant of a pre-activation."""
        layer = int(self._system.layer_of[unit])
        values, row = self._layers[layer].values, unit - self._system.starts[layer]
        entries = (values.matrix[row, j] for j in range(self._width + 1))
        *coefs, constant = (rational(entry, values.exponent) for entry in entries)
        return coefs, constant

    def sign_row(self, unit: int, on: bool) -> list[fmpq]:
        """``(a, b)`` of ``a . w < b``: the unit is on the side that was decided."""
        coefs, constant = self._unit(unit)
        return [*(-a for a in coefs), constant] if on else [*coefs, -constant]

    def above_row(self, unit: int) -> list[fmpq]:
        """``z - y <= 0`` for an unstable unit."""
        coefs, constant = self._unit(unit)
        coefs[self._columns[unit]] -= 1
        return [*coefs, -constant]

    def chord_row(self, unit: int, low: float, high: float) -> list[fmpq]:
        """``(high - low) y - high z <= -high low`` for unstable units in ``low <= z <= high``."""
        coefs, constant = self._unit(unit)
        least, most = exact(low), exact(high)
        row = [-most * a for a in coefs]
        row[self._columns[unit]] += most - least
        return [*row, most * constant - most * least]

    def face_row(self, normal: FloatArray, limit: float) -> list[fmpq]:
        """A face of the domain."""
        row = [exact(float(a)) for a in normal]
        return [*row, *[fmpq(0)] * (self._width - len(row)), exact(float(limit))]
