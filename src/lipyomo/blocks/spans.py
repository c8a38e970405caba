"""Interval arithmetic whose ends are affine in variables of a model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from lipyomo.network import FloatArray
from lipyomo.phases import OPEN
from lipyomo.solvers.rows import Affine


@dataclass(frozen=True)
class Span:
    """Intervals whose ends are affine in variables of the model.

    Attributes
    ----------
    low, high : Affine
        Over the same columns.
    least, most : ndarray
        Numbers that hold for all values of the variables.
    """

    low: Affine
    high: Affine
    least: FloatArray
    most: FloatArray

    def map(self, weight: FloatArray, bias: FloatArray | float = 0.0) -> Span:
        """Interval arithmetic for ``weight @ h + bias``."""
        plus, minus = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
        low, high = self.low, self.high

        def mixed(first: Affine, second: Affine) -> Affine:
            matrix = plus @ first.matrix + minus @ second.matrix
            constant = plus @ first.constant + minus @ second.constant + bias
            return Affine(matrix, np.asarray(constant), first.columns)

        least = plus @ self.least + minus @ self.most + bias
        most = plus @ self.most + minus @ self.least + bias
        size = np.abs(weight) @ np.maximum(np.abs(self.least), np.abs(self.most)) + np.abs(bias)
        slack = 2.0**-50 * (weight.shape[1] + 2) * size
        return Span(mixed(low, high), mixed(high, low), least - slack, most + slack)


class Ends:
    """Ends of intervals, unit by unit, as multiples of variables."""

    def __init__(self, units: int) -> None:
        self.least, self.most = np.zeros(units), np.zeros(units)
        self._low: dict[int, tuple[float, Any]] = {}
        self._high: dict[int, tuple[float, Any]] = {}
        self._constant: list[int] = []

    @classmethod
    def passed(
        cls,
        phases: np.ndarray,
        slope: FloatArray,
        low: dict[int, Any],
        high: dict[int, Any],
        tracked: Collection[int],
        least: FloatArray,
        most: FloatArray,
    ) -> Ends:
        """What units pass on of intervals with the ends `low` and `high`, within numbers.

        Decided units multiply by their slope, tracked ones get their ends later, of others only
        the numbers are known.
        """
        found = cls(slope.size)
        for k in low:
            span = float(least[k]), float(most[k])
            if phases[k] != OPEN:
                ends = (low[k], high[k]) if slope[k] > 0 else (high[k], low[k])
                found.add(k, float(slope[k]), *ends, *span)
            elif k in tracked:
                found.add(k, 1.0, None, None, *span)
            else:
                found.constant(k, *span)
        return found

    def add(self, k: int, factor: float, low: Any, high: Any, least: float, most: float) -> None:
        """A unit whose ends are `factor` times two variables, within numbers."""
        self.least[k], self.most[k] = least, most
        self._low[k], self._high[k] = (factor, low), (factor, high)

    def constant(self, k: int, least: float, most: float) -> None:
        """A unit of which only numbers are known."""
        self.least[k], self.most[k] = least, most
        self._constant.append(k)

    def place(self, k: int, low: Any, high: Any) -> None:
        """Say which variables hold the ends of a unit that was added without."""
        self._low[k], self._high[k] = (1.0, low), (1.0, high)

    def span(self) -> Span:
        """All units, those without an entry being zero."""
        units = sorted(self._low)
        columns = [self._low[k][1] for k in units] + [self._high[k][1] for k in units]
        # A decided unit with a negative slope swaps ends, so that a variable may serve both sides.
        matrices = np.zeros((2, self.least.size, len(columns)))
        for place, k in enumerate(units):
            matrices[0, k, place] = self._low[k][0]
            matrices[1, k, len(units) + place] = self._high[k][0]
        lows, highs = np.zeros(self.least.size), np.zeros(self.least.size)
        lows[self._constant] = self.least[self._constant]
        highs[self._constant] = self.most[self._constant]
        low = Affine(matrices[0], lows, columns)
        return Span(low, Affine(matrices[1], highs, columns), self.least, self.most)
