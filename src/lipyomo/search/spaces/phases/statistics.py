"""Statistics that a search collects: which steps pay, and how splits on units have scored.

They count work and outcomes, never seconds, so that equal searches learn the same.  Statistics are
additive values: they are sent with the nodes to other processes, which return increments.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray

NAMES = (
    "average look-ahead",
    "layer",
    "look-ahead",
    "balance",
    "constant",
    "gap",
    "unstable units",
)
"""Features of a split on a unit of a node (`lipyomo.search.spaces.phases.score`).  The first four
are the unit's average look-ahead, its layer, its look-ahead in this node, and how balanced its
range is, each relative to the mean over the node's unstable units; the last two are the node's gap
and its number of unstable units."""

FEATURES, CONSTANT = len(NAMES), NAMES.index("constant")
"""Number of features, and the index of the constant."""

FIRST_WEIGHTS = np.array([0.5, 0.25, 0.0, -0.2, -1.9, -0.45, -0.15])
"""Initial weights of the features in the logarithm of a split's score, close to those with which
searches of networks of several kinds end."""

TRUST = np.array([50.0, 50.0, 50.0, 50.0, 1.0, 1.0, 1.0])
"""How many splits, with features of size one, the initial weights count as."""

COUNTERS = ("nodes", "semidefinite", "newton", "programs", "empty", "fixed", "unresolved")
"""Names of the counters that are reported."""


class Statistics(NamedTuple):
    """Counts and sums of a search; statistics of several searches can be added.

    Attributes
    ----------
    nodes : int
        Nodes that were split.
    semidefinite, newton : int
        Semidefinite bounds, and Newton steps in all of them.
    programs : int
        Linear programs.
    empty : int
        Nodes without interior.
    fixed : int
        Units decided because the other side cannot beat the incumbent.
    unresolved : int
        Regions of full patterns too thin to decide whether they have interior.
    closed_by_bound : int
        Nodes closed by semidefinite bounds.
    empty_by_program : int
        Nodes found empty by linear programs.
    pointless : int
        Nodes in which no point is known.
    ahead, looks : ndarray, shape (N,)
        Sum and number of each unit's look-aheads.
    products : ndarray, shape (FEATURES + 1, FEATURES + 1)
        Second moments: sums over splits of the outer products of (features, log score).
    splits : ndarray, shape (N, FEATURES + 1)
        Sums of (features, log score) themselves, by the unit that was split.
    """

    ahead: FloatArray
    looks: FloatArray
    products: FloatArray
    splits: FloatArray
    nodes: int = 0
    semidefinite: int = 0
    newton: int = 0
    programs: int = 0
    empty: int = 0
    fixed: int = 0
    unresolved: int = 0
    closed_by_bound: int = 0
    empty_by_program: int = 0
    pointless: int = 0

    @classmethod
    def nothing(cls, units: int) -> Statistics:
        """Return empty statistics for N units."""
        size = FEATURES + 1
        ahead, looks = np.zeros((2, units))
        return cls(ahead, looks, np.zeros((size, size)), np.zeros((units, size)))

    def plus(self, other: Statistics) -> Statistics:
        """Return the sum of both."""
        return Statistics(*map(operator.add, self, other))

    def since(self, before: Statistics) -> Statistics:
        """Return the increment since `before`."""
        return Statistics(*map(operator.sub, self, before))

    @property
    def counters(self) -> dict[str, int]:
        """The counters that are reported."""
        return {name: int(getattr(self, name)) for name in COUNTERS}

    def counting(self, **more: int) -> Statistics:
        """Return the statistics with some counts increased."""
        return self._replace(**{name: getattr(self, name) + count for name, count in more.items()})

    def observe(self, units: npt.NDArray[np.int64], ahead: FloatArray) -> Statistics:
        """Add the look-aheads of a node's unstable units."""
        sums, looks = self.ahead.copy(), self.looks.copy()
        sums[units] += ahead
        looks[units] += 1
        return self._replace(ahead=sums, looks=looks)

    def learn(self, unit: int, features: FloatArray, score: float) -> Statistics:
        """Add the score of a split on a unit."""
        row = np.append(features, np.log(score))
        splits = self.splits.copy()
        splits[unit] += row
        return self._replace(products=self.products + row[:, None] * row, splits=splits)

    @property
    def average_ahead(self) -> FloatArray:
        """Average look-ahead of each unit, shape (N,)."""
        return np.asarray(self.ahead / np.maximum(self.looks, 1.0))

    def weights(self) -> FloatArray:
        """Fit the weights of the features in the logarithm of a split's score.

        This is regularised least squares over all splits so far, centred at `FIRST_WEIGHTS`.
        """
        squares = self.products[:-1, :-1] + np.diag(TRUST)
        return np.linalg.solve(squares, self.products[:-1, -1] + TRUST * FIRST_WEIGHTS)

    def forecast(
        self,
        units: npt.NDArray[np.int64],
        features: FloatArray,
        weights: FloatArray,
        unit_trust: float,
    ) -> FloatArray:
        """Predict the logarithm of the score of splits on some units of a node.

        It is a linear function of the features, corrected by the mean residual of earlier splits
        on the unit (a pseudo-cost).

        Parameters
        ----------
        units : ndarray of int, shape (k,)
        features : ndarray, shape (k, FEATURES)
        weights : ndarray, shape (FEATURES,)
            The result of `weights`, which serves many nodes.
        unit_trust : float
            Number of splits on a unit at which its mean residual counts half.
        """
        sums = self.splits[units]
        rest = sums[:, -1] - sums[:, :-1] @ weights
        return np.asarray(features @ weights + rest / (sums[:, CONSTANT] + unit_trust))
