"""What a search learns on the way: which tests pay, and what became of the units it split.

Everything here counts work and outcomes, never seconds, so that equal searches learn the same.
An `Experience` travels with the nodes to other processes, and what they learn comes back as the
difference.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from lipyomo.network import FloatArray

FEATURES = 7
"""What is known of a unit before it is split on (`Brancher.candidates`): its average look-ahead,
its layer, its look-ahead here, and how balanced its range is, all compared with the node's other
open units; a constant, the node's gap and its number of open units."""

CONSTANT = 4
"""The place of the constant."""

FIRST_WEIGHTS = np.array([0.5, 0.25, 0.0, -0.2, -1.9, -0.45, -0.15])
"""Weights of the features in the logarithm of a split's worth before any was split: about what
searches of networks of several kinds end with."""

TRUST = np.array([50.0, 50.0, 50.0, 50.0, 1.0, 1.0, 1.0])
"""How many splits (of features of size one) these are worth."""

UNIT_TRUST = 3.0
"""Splits on a unit after which half of what they were worth beyond their features is its own."""


@dataclass
class Experience:
    """Counts and sums; all of them add up.

    Attributes
    ----------
    bounds, closed_by_bound : int
        Semidefinite bounds, and nodes that they closed.
    programs, empty_by_program : int
        Linear programs, and nodes that they found empty.
    empty : int
        Nodes without interior.
    pointless : int
        Nodes that hold no known point.
    nodes : int
        Nodes that were split.
    probes : int
        Splits tried for the sake of knowledge.
    near, decided : int
        Pre-activation bounds that were near to deciding their units, and how many got there.
    promise, promises : ndarray, shape (N,)
        Sums and numbers of each unit's look-aheads.
    products : ndarray, shape (FEATURES + 1, FEATURES + 1)
        Sums of products of splits' features, and the logarithm of what they were worth.
    splits : ndarray, shape (N, FEATURES + 1)
        Sums of those themselves, by the unit that was split on.
    begun : ndarray, shape (N,)
        Numbers of splits on each unit, those under way included.
    """

    bounds: int
    closed_by_bound: int
    programs: int
    empty_by_program: int
    empty: int
    pointless: int
    nodes: int
    probes: int
    near: int
    decided: int
    promise: FloatArray
    promises: FloatArray
    products: FloatArray
    splits: FloatArray
    begun: FloatArray

    @classmethod
    def none(cls, units: int) -> Experience:
        """The beginning, for N units."""
        size = FEATURES + 1
        shapes = (units, units, (size, size), (units, size), units)
        return cls(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, *(np.zeros(shape) for shape in shapes))

    def copy(self) -> Experience:
        """An experience that grows by itself."""
        nothing = Experience.none(self.promise.size)
        nothing.add(self)
        return nothing

    def add(self, other: Experience, sign: int = 1) -> None:
        """Add what another search has learnt (or take it away)."""
        for item in fields(self):
            mine, more = getattr(self, item.name), getattr(other, item.name)
            setattr(self, item.name, mine + sign * more)

    def since(self, before: Experience) -> Experience:
        """What was learnt after `before`."""
        difference = self.copy()
        difference.add(before, -1)
        return difference

    def learn(self, unit: int, features: FloatArray, worth: float) -> None:
        """Note what a split on a unit was worth."""
        told = np.append(features, np.log(worth))
        self.products += told[:, None] * told
        self.splits[unit] += told

    def weights(self) -> FloatArray:
        """Those of the features in the logarithm of a split's worth.

        Fitted to all splits so far: least squares, with a few that were made up in front.
        """
        squares = self.products[:-1, :-1] + np.diag(TRUST)
        return np.linalg.solve(squares, self.products[:-1, -1] + TRUST * FIRST_WEIGHTS)

    def forecast(
        self,
        units: npt.NDArray[np.int64],
        features: FloatArray,
        weights: FloatArray | None = None,
    ) -> FloatArray:
        """The logarithm of what splits on some units of a node are expected to be worth.

        A linear function of the features, and what splits on the unit were worth more or less than
        that.

        Parameters
        ----------
        units : ndarray of int, shape (k,)
        features : ndarray, shape (k, FEATURES)
        weights : ndarray, shape (FEATURES,), optional
            What `weights` gives: one call serves many nodes.
        """
        if weights is None:
            weights = self.weights()
        sums = self.splits[units]
        rest = sums[:, -1] - sums[:, :-1] @ weights
        return np.asarray(features @ weights + rest / (sums[:, CONSTANT] + UNIT_TRUST))
