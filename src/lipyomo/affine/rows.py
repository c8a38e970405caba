"""The inequalities of a node in rational numbers, for proofs that its region is empty."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from lipyomo.affine.exact import ExactSignal
from lipyomo.affine.signal import carry
from lipyomo.affine.system import FlatPhases, UnitSystem
from lipyomo.network import FloatArray
from lipyomo.phases import OPEN

Row = Sequence[Fraction]


class ExactForm:
    """The maps of a `NodeForm`, without rounding.

    Parameters
    ----------
    system : UnitSystem
    phases : ndarray of int8, shape (N,)
    """

    def __init__(self, system: UnitSystem, phases: FlatPhases) -> None:
        open_units = np.flatnonzero(phases == OPEN)
        d = system.inputs
        self._width = d + open_units.size
        self._columns = {int(unit): d + j for j, unit in enumerate(open_units)}
        self._starts = system.starts
        start = ExactSignal.inputs(np.eye(d, self._width + 1))
        self._layers = list(carry(start, system.network.hidden, system.passings(phases)))

    def _unit(self, unit: int) -> tuple[list[Fraction], Fraction]:
        """Coefficients and constant of a pre-activation."""
        layer = int(np.searchsorted(self._starts, unit, side="right")) - 1
        row, exponent = self._layers[layer].row(unit - self._starts[layer])
        scale = Fraction(2) ** exponent
        values = [int(entry) * scale for entry in row]
        return values[:-1], values[-1]

    def sign_row(self, unit: int, on: bool) -> Row:
        """``(a, b)`` of ``a . w < b``: the unit is on the side that was decided."""
        coefs, constant = self._unit(unit)
        sign = -1 if on else 1
        return [*(sign * a for a in coefs), -sign * constant]

    def above_row(self, unit: int) -> Row:
        """``z - y <= 0`` for an open unit."""
        coefs, constant = self._unit(unit)
        coefs[self._columns[unit]] -= 1
        return [*coefs, -constant]

    def chord_row(self, unit: int, low: float, high: float) -> Row:
        """``(high - low) y - high z <= -high low`` for an open unit with ``low <= z <= high``."""
        coefs, constant = self._unit(unit)
        least, most = Fraction(low), Fraction(high)
        row = [-most * a for a in coefs]
        row[self._columns[unit]] += most - least
        return [*row, most * constant - most * least]

    def face_row(self, normal: FloatArray, limit: float) -> Row:
        """A face of the domain."""
        row = [Fraction(float(a)) for a in normal]
        return [*row, *[Fraction(0)] * (self._width - len(row)), Fraction(float(limit))]
