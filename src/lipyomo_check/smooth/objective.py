"""The objective of boxes, taken backwards through all layers as a whole (`bound`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lipyomo_check.smooth.backwards import rows_times
from lipyomo_check.smooth.balls import alike
from lipyomo_check.smooth.boxes import Ball, Rows
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.halfspaces import UNDERFLOW
from lipyomo_check.smooth.layers import Relaxed
from lipyomo_check.smooth.levels import Level
from lipyomo_check.smooth.planes import Planes, planes_above


class Collapsed(NamedTuple):
    """Affine functions above the objective on N boxes, their maxima, and what they are made of."""

    upper: Array
    x: Array
    v: Array
    planes: tuple[Planes, ...]

    def least(self, other: Collapsed) -> Collapsed:
        """Return for each box the function with the smaller maximum."""
        less = self.upper <= other.upper
        pairs = zip(self.planes, other.planes, strict=True)
        return Collapsed(
            np.where(less, self.upper, other.upper),
            np.where(less[:, None], self.x, other.x),
            np.where(less[:, None], self.v, other.v),
            tuple(one.where(less, two) for one, two in pairs),
        )


@dataclass(frozen=True, eq=False)
class Objective:
    """The objective: derivatives of functionals of the outputs, or their values.

    Attributes
    ----------
    levels : tuple of Level
    head : ndarray, shape (m, n)
    offset : ndarray, shape (m,), or None
        Of values.
    gamma : float
        What terms err by.
    """

    levels: Sequence[Level]
    head: Array
    offset: Array | None
    gamma: float

    def above(
        self,
        functionals: Array,
        layers: list[Relaxed],
        rows: list[tuple[Rows, Rows]],
        x: Ball,
        v: Ball,
        chosen: Sequence[Planes] | None = None,
    ) -> Collapsed:
        """Return the objective as affine functions on the whole boxes, once for each functional.

        The slopes and points of `chosen` planes are taken, if there are some.
        """
        found = self._whole(functionals, layers, x, v, None, chosen)
        if chosen is not None:
            return found
        if any(level.products is not None for level in self.levels):
            # planes that are low at one point are better on narrow boxes
            worst = tuple(
                middle + np.sign(row) * reach
                for row, (middle, reach) in ((found.x, x), (found.v, v))
            )
            there = [
                _at(pair, layer, x, v, worst) for pair, layer in zip(rows, layers, strict=True)
            ]
            found = found.least(self._whole(functionals, layers, x, v, there))
        return found

    def _whole(
        self,
        functionals: Array,
        layers: list[Relaxed],
        x: Ball,
        v: Ball,
        there: list[tuple[Array, Array]] | None,
        chosen: Sequence[Planes] | None = None,
    ) -> Collapsed:
        """Return the objective as an affine function over the whole boxes.

        Where `there` are z and u of each layer, planes above products are low at that point.
        """
        count = len(x[0])
        A = B = alike(np.zeros((count, self.head.shape[1])), self.head)
        constant, mass = np.zeros(count), np.zeros(count)
        if self.offset is not None:
            A = functionals @ self.head
            constant, mass = functionals @ self.offset, np.abs(functionals) @ np.abs(self.offset)
            middle, reach = layers[-1].outputs(self.levels[-1]) if layers else x
            outer = np.abs(middle) + reach
        else:
            B = functionals @ self.head
            outer = np.abs(v[0]) + v[1]
            if layers:
                level, top = self.levels[-1], layers[-1]
                outer = (np.abs(top.d) + top.d_reach) * level.own(top.tangent_size)
                outer = level.outputs_of(outer)
        # the first product rounds
        mass = mass + (np.abs(functionals) @ np.abs(self.head) * outer).sum(axis=1)
        found: list[Planes] = []
        for i in range(len(layers) - 1, -1, -1):
            layer, level = layers[i], self.levels[i]
            at = None if there is None else there[i]
            given = None if chosen is None else chosen[i]
            planes = planes_above(layer, level, A, B, at, given)
            constant = constant + planes.most.sum(axis=1)
            constant = constant + (planes.s * level.branch_bias).sum(axis=1)
            B = planes.rates
            sizes = np.abs(B) * level.own(layer.tangent_size)
            mass = mass + planes.size.sum(axis=1) + sizes.sum(axis=1)
            A, B = planes.s @ level.branch_weight, B @ level.branch_tangents
            found.append(planes)
        upper = constant
        for row, (middle, reach) in ((A, x), (B, v)):
            upper = upper + (row * middle).sum(axis=1) + (np.abs(row) * reach).sum(axis=1)
            mass = mass + (np.abs(row) * (np.abs(middle) + reach)).sum(axis=1)
        upper = upper + (self.gamma * mass + UNDERFLOW)
        return Collapsed(np.where(np.isnan(upper), np.inf, upper), A, B, tuple(reversed(found)))


def _at(
    rows: tuple[Rows, Rows], layer: Relaxed, x: Ball, v: Ball, point: tuple[Array, ...]
) -> tuple[Array, Array]:
    """Return pre-activations and tangents of a layer at a point, about, within their ranges."""
    (of_z, of_u), found = rows, []
    ends = layer.low, np.maximum(layer.low, layer.high)
    own = layer.m - layer.m_reach, layer.m + layer.m_reach
    for row, (low, high) in ((of_z, ends), (of_u, own)):
        value = row.low / 2.0 + row.high / 2.0 + rows_times(row.x, point[0] - x[0])
        if row.v is not None:
            value = value + rows_times(row.v, point[1] - v[0])
        found.append(np.minimum(np.maximum(value, low), high))
    return found[0], found[1]
