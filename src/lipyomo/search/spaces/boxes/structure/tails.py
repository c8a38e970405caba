"""Recognising networks whose last layers are rows of quotients by roots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks.normalised import Quotients, Roots
from lipyomo.search.spaces.boxes.quadratics.stacked import Quadratics
from lipyomo.search.spaces.boxes.structure.closed_forms import Passed
from lipyomo.search.spaces.boxes.structure.stage import Stage


class RowsOfSignals(NamedTuple):
    """Sums of signals, given by a product of several weights, and a bias.

    Attributes
    ----------
    weights : tuple of ndarray
    bias : ndarray, shape (n,)
    reach : ndarray, shape (n,)
        Sums of the absolute values of the terms of the bias.
    """

    weights: tuple[FloatArray, ...]
    bias: FloatArray
    reach: FloatArray

    @classmethod
    def of(cls, stages: Sequence[Stage], first: FloatArray) -> RowsOfSignals:
        """Return the rows of the last of some layers, where the others pass their rows on.

        `first` replaces the weight of the first layer.
        """
        bias = reach = np.zeros(first.shape[1])
        weights = (first, *(stage.weight for stage in stages[1:]))
        for weight, stage in zip(weights, stages, strict=True):
            bias = weight @ bias + stage.bias
            reach = np.abs(weight) @ reach + np.abs(stage.bias)
        return cls(weights, bias, reach)

    def take(self, which: IntArray) -> RowsOfSignals:
        """Select some of the sums."""
        weights = (*self.weights[:-1], self.weights[-1][which])
        return RowsOfSignals(weights, self.bias[which], self.reach[which])

    def sums(self, signals: Quadratics) -> Quadratics:
        """Return the sums, without the bias."""
        for weight in self.weights:
            signals = signals.sums(weight)
        return signals

    @property
    def whole(self) -> FloatArray:
        """The product of all weights, up to rounding."""
        found = self.weights[0]
        for weight in self.weights[1:]:
            found = weight @ found
        return found

    @property
    def sizes(self) -> FloatArray:
        """Sums of the absolute values of the terms of its entries."""
        found = np.abs(self.weights[0])
        for weight in self.weights[1:]:
            found = np.abs(weight) @ found
        return found


class Tail(NamedTuple):
    """The last layers of a network: squares, inverse roots, quotients, and units of sums of these.

    Attributes
    ----------
    start : int
        The index of the stage with the squares.
    first : RowsOfSignals, optional
        The arguments of the squares as sums of units of the first layer, if the layers in between
        only pass rows on.
    roots : Roots
    rows : RowsOfSignals
        The rows of the last layer, as sums of all s over their root.
    group : ndarray of int, shape (n,)
        The root of each row.
    """

    start: int
    first: RowsOfSignals | None
    roots: Roots
    rows: RowsOfSignals
    group: IntArray


def weights_of_signals(quotients: Quotients, weight: FloatArray, roots: Roots) -> FloatArray | None:
    """Turn the columns of a `weight` on quotients into weights of all s over their root.

    Return None if some s occurs in three or more quotients: such sums are rounded more than once.
    """
    if np.bincount(quotients.squares).max() > 2:
        return None
    found = np.zeros((len(weight), roots.squares.size))
    np.add.at(found.T, quotients.squares, (weight * quotients.scale).T)
    return found


def tail_of(stages: tuple[Stage, ...]) -> Tail | None:
    """Return the tail of a network if it has one and each row of its last layer has one root."""
    place = len(stages) - 1
    while place > 0 and passes(stages[place - 1]):
        place -= 1
    if place < 3 or any(stage.broken.size for stage in stages):
        return None
    roots, products, after = stages[place - 2].roots, stages[place - 1].products, stages[place]
    quotients = stages[place - 1].quotients
    if roots is None or products is None or quotients is None or stages[-1].products is not None:
        return None
    if products.units or quotients.products.size < products.left.size:
        return None
    weight = weights_of_signals(quotients, after.weight[:, quotients.products], roots)
    if weight is None:
        return None
    rows, start = RowsOfSignals.of(stages[place:], weight), place - 3
    seen = rows.sizes @ roots.whole > 0.0
    if (seen.sum(axis=1) > 1).any():
        return None
    first = None
    exact = not any(stage.off.any() for stage in stages[1:])
    if start and exact and stages[0].products is None and all(map(passes, stages[1:start])):
        first = RowsOfSignals.of(stages[1 : start + 1], stages[1].weight).take(roots.squares)
    return Tail(start, first, roots, rows, seen.argmax(axis=1))


def passes(stage: Stage) -> bool:
    """Return whether a stage only passes rows on."""
    kinds = [isinstance(kind, Passed) for kind, _ in stage.kinds]
    return stage.products is None and bool(kinds) and all(kinds)
