"""Interval arithmetic whose ends are affine in variables of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, Matrix
from lipyomo.blocks.switch import Triplets
from lipyomo.solvers.rows import Forms


@dataclass(frozen=True)
class Span:
    """n intervals whose ends are affine in variables of the model.

    Attributes
    ----------
    ends : Forms
        2 n forms: the lower ends, then the upper ones.
    least, most : ndarray, shape (n,)
        Numbers that hold for all values of the variables.
    """

    ends: Forms
    least: FloatArray
    most: FloatArray

    @classmethod
    def numbers(cls, values: FloatArray) -> Span:
        """Intervals of one number each."""
        return cls(Forms.numbers(np.tile(values, 2)), values, values)

    def map(self, weight: Matrix, bias: FloatArray | None = None) -> Span:
        """Interval arithmetic for ``weight @ h + bias``."""
        bias = np.zeros(weight.shape[0]) if bias is None else bias
        matrix = sp.csr_array(weight)
        plus, minus = matrix.maximum(0.0), matrix.minimum(0.0)
        both = sp.csr_array(sp.block_array([[plus, minus], [minus, plus]]))
        least = plus @ self.least + minus @ self.most + bias
        most = plus @ self.most + minus @ self.least + bias
        size = abs(matrix) @ np.maximum(np.abs(self.least), np.abs(self.most)) + np.abs(bias)
        slack = 2.0**-50 * (weight.shape[1] + 2) * size
        return Span(self.ends.map(both, np.tile(bias, 2)), least - slack, most + slack)

    def passed(
        self,
        slopes: Mapping[int, float],
        low: Mapping[int, Any],
        high: Mapping[int, Any],
        own: Mapping[int, tuple[Any, Any]],
    ) -> Span:
        """What units pass on, these intervals being the numbers that hold for it.

        Parameters
        ----------
        slopes : mapping
            By which stable units multiply; those of slope zero pass nothing.
        low, high : mapping
            Variables that are the ends of what arrives.
        own : mapping
            Variables that are the ends of what a unit passes on, where it has them; of other
            unstable units only the numbers are known.
        """
        n = self.least.size
        found, constant = Triplets(), np.zeros(2 * n)
        for k in low:
            factor, ends = slopes.get(k, 1.0), (low[k], high[k])
            if k not in slopes:
                if k not in own:
                    constant[k], constant[n + k] = self.least[k], self.most[k]
                    continue
                ends = own[k]
            found.add(k, factor, ends[0] if factor > 0 else ends[1])
            found.add(n + k, factor, ends[1] if factor > 0 else ends[0])
        dead = np.ones(n, dtype=bool)
        dead[list(low)] = False
        least, most = np.where(dead, 0.0, self.least), np.where(dead, 0.0, self.most)
        return Span(Forms(found.matrix(2 * n), constant, found.columns), least, most)
