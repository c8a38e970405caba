"""The inequalities of a node in rational numbers, for proofs that its region is empty."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from lipyomo.bnb.form import FlatPhases, UnitSystem
from lipyomo.network import FloatArray
from lipyomo.numerics.dyadic import Dyadic, ObjectArray
from lipyomo.phases import OPEN, RIGHT
from lipyomo.regions.combination import Row


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
        self._layers: list[Dyadic] = []
        slopes = np.where(phases == RIGHT, system.right, system.left)
        signal = Dyadic.of(np.eye(d, self._width + 1))
        for i, weight in enumerate(system.weights):
            span = system.span(i)
            bias = np.zeros((len(weight), self._width + 1))
            bias[:, -1] = system.biases[i]
            z = Dyadic.of(weight) @ signal + Dyadic.of(bias)
            self._layers.append(z)
            right, left = (np.zeros(bias.shape) for _ in range(2))
            for unit in open_units[(open_units >= span.start) & (open_units < span.stop)]:
                right[unit - span.start, self._columns[int(unit)]] = system.right[unit]
                left[unit - span.start, self._columns[int(unit)]] = system.left[unit]
            jump = Dyadic.of(right) - Dyadic.of(left)
            signal = z * Dyadic.of(slopes[span, None]) + jump

    def _unit(self, unit: int) -> tuple[list[Fraction], Fraction]:
        """Coefficients and constant of a pre-activation."""
        layer = int(np.searchsorted(self._starts, unit, side="right")) - 1
        z = self._layers[layer]
        row: ObjectArray = z.digits[unit - self._starts[layer]]
        values = Dyadic(row, z.exponent).fractions()
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
