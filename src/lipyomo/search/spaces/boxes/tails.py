"""Networks that end with rows of quotients by roots: what their last layers are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.networks.normalised import Quotients, Roots
from lipyomo.search.spaces.boxes.closed_forms import Passed
from lipyomo.search.spaces.boxes.stacked import Quadratics
from lipyomo.search.spaces.boxes.stage import Stage


class RowsOfSignals(NamedTuple):
    """Sums of signals: those of one weight after the other, and a bias.

    Attributes
    ----------
    weights : tuple of ndarray
    bias : ndarray, shape (n,)
    reach : ndarray, shape (n,)
        Sizes of all that the bias is made of.
    """

    weights: tuple[FloatArray, ...]
    bias: FloatArray
    reach: FloatArray

    @classmethod
    def of(cls, stages: Sequence[Stage], first: FloatArray) -> RowsOfSignals:
        """The rows of the last of some layers, of which the others pass their rows on.

        The first of these has other weights.
        """
        bias = reach = np.zeros(first.shape[1])
        weights = (first, *(stage.weight for stage in stages[1:]))
        for weight, stage in zip(weights, stages, strict=True):
            bias = weight @ bias + stage.bias
            reach = np.abs(weight) @ reach + np.abs(stage.bias)
        return cls(weights, bias, reach)

    def take(self, which: IntArray) -> RowsOfSignals:
        """Some of them."""
        weights = (*self.weights[:-1], self.weights[-1][which])
        return RowsOfSignals(weights, self.bias[which], self.reach[which])

    def sums(self, signals: Quadratics) -> Quadratics:
        """The sums, without the bias."""
        for weight in self.weights:
            signals = signals.sums(weight)
        return signals

    def apart(self, low: FloatArray, high: FloatArray, unit: float) -> Ends:
        """Ranges of the signals from those of the sums (N, n), where one alone is in a sum."""
        weight = self.weights[0]
        ends = tuple(np.full((len(low), weight.shape[1]), end) for end in (-np.inf, np.inf))
        alone = np.flatnonzero((weight != 0.0).sum(axis=1) == 1)
        if len(self.weights) == 1:
            signal = np.abs(weight[alone]).argmax(axis=1)
            sides = [end[:, alone] / weight[alone, signal] for end in (low, high)]
            room = 4.0 * unit * np.maximum(*np.abs(sides))
            ends[0][:, signal], ends[1][:, signal] = (
                np.minimum(*sides) - room,
                np.maximum(*sides) + room,
            )
        return ends[0], ends[1]

    @property
    def whole(self) -> FloatArray:
        """All weights as one, but for rounding."""
        found = self.weights[0]
        for weight in self.weights[1:]:
            found = weight @ found
        return found

    @property
    def sizes(self) -> FloatArray:
        """Sums of absolute values of what its entries are made of."""
        found = np.abs(self.weights[0])
        for weight in self.weights[1:]:
            found = np.abs(weight) @ found
        return found


class Tail(NamedTuple):
    """The last layers of a network: squares, inverse roots, quotients, and units of sums of these.

    Attributes
    ----------
    start : int
        The stage with the squares.
    first : RowsOfSignals, optional
        The squares' arguments as sums of units of the first layer, if those between are none.
    roots : Roots
    rows : RowsOfSignals
        Of the last layer, of all s over their root.
    group : ndarray of int, shape (n,)
        The root of each row.
    """

    start: int
    first: RowsOfSignals | None
    roots: Roots
    rows: RowsOfSignals
    group: IntArray


def weights_of_signals(quotients: Quotients, weight: FloatArray, roots: Roots) -> FloatArray | None:
    """Weights of quotients, in the columns of a `weight`, as those of all s over their root.

    None where they are sums of three or more: those round more than once.
    """
    if np.bincount(quotients.squares).max() > 2:
        return None
    found = np.zeros((len(weight), roots.squares.size))
    np.add.at(found.T, quotients.squares, (weight * quotients.scale).T)
    return found


def tail_of(stages: tuple[Stage, ...]) -> Tail | None:
    """The tail of a network, if it has one, and each row of the last layer is by one root."""
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
    """Whether all that a stage has are rows that it passes on."""
    kinds = [isinstance(kind, Passed) for kind, _ in stage.kinds]
    return stage.products is None and bool(kinds) and all(kinds)
