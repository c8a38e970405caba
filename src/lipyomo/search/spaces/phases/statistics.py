"""What a search learns on the way: which steps pay, and what became of the units it split.

Everything here counts work and outcomes, never seconds, so that equal searches learn the same.
What is learnt is a value that adds up: it travels with the nodes to other processes, and what they
learn comes back as a difference.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

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
"""What is known of a unit before it is split on (`lipyomo.search.spaces.phases.score`).  The first
four are its average look-ahead, its layer, its look-ahead here, and how balanced its range is, all
compared with the node's other unstable units; the last two are the node's gap and its number of
open units."""

FEATURES, CONSTANT = len(NAMES), NAMES.index("constant")
"""How many there are, and the place of the constant."""

FIRST_WEIGHTS = np.array([0.5, 0.25, 0.0, -0.2, -1.9, -0.45, -0.15])
"""Weights of the features in the logarithm of a split's score before any was split: about what
searches of networks of several kinds end with."""

TRUST = np.array([50.0, 50.0, 50.0, 50.0, 1.0, 1.0, 1.0])
"""How many splits (of features of size one) these count as."""

COUNTERS = ("nodes", "semidefinite", "newton", "programs", "empty", "fixed", "unresolved")
"""What is counted for the report."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """Counts and sums; all of them add up.

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
        Nodes that semidefinite bounds closed.
    empty_by_program : int
        Nodes that linear programs found empty.
    pointless : int
        Nodes that hold no known point.
    ahead, looks : ndarray, shape (N,)
        Sums and numbers of each unit's look-aheads.
    products : ndarray, shape (FEATURES + 1, FEATURES + 1)
        Sums of products of splits' features, and the logarithm of their scores.
    splits : ndarray, shape (N, FEATURES + 1)
        Sums of those themselves, by the unit that was split on.
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
        """The beginning, for N units."""
        size = FEATURES + 1
        ahead, looks = np.zeros((2, units))
        return cls(ahead, looks, np.zeros((size, size)), np.zeros((units, size)))

    def __add__(self, other: Statistics) -> Statistics:
        names = [item.name for item in fields(self)]
        return Statistics(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def since(self, before: Statistics) -> Statistics:
        """What was learnt after `before`."""
        names = [item.name for item in fields(self)]
        return Statistics(**{name: getattr(self, name) - getattr(before, name) for name in names})

    @property
    def counters(self) -> dict[str, int]:
        """What is counted for the report."""
        return {name: int(getattr(self, name)) for name in COUNTERS}

    def counting(self, **more: int) -> Statistics:
        """With more of some counts."""
        return replace(self, **{name: getattr(self, name) + count for name, count in more.items()})

    def look(self, units: npt.NDArray[np.int64], ahead: FloatArray) -> Statistics:
        """With the look-aheads of a node's unstable units."""
        sums, looks = self.ahead.copy(), self.looks.copy()
        sums[units] += ahead
        looks[units] += 1
        return replace(self, ahead=sums, looks=looks)

    def learn(self, unit: int, features: FloatArray, score: float) -> Statistics:
        """With what a split on a unit scored."""
        row = np.append(features, np.log(score))
        splits = self.splits.copy()
        splits[unit] += row
        return replace(self, products=self.products + row[:, None] * row, splits=splits)

    @property
    def average_ahead(self) -> FloatArray:
        """Average look-ahead of each unit, shape (N,)."""
        return np.asarray(self.ahead / np.maximum(self.looks, 1.0))

    def weights(self) -> FloatArray:
        """Those of the features in the logarithm of a split's score.

        Fitted to all splits so far: least squares, with a few that were made up in front.
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
        """The logarithm of what splits on some units of a node are expected to score.

        A linear function of the features, and what splits on the unit scored more or less than
        that (a pseudo-cost).

        Parameters
        ----------
        units : ndarray of int, shape (k,)
        features : ndarray, shape (k, FEATURES)
        weights : ndarray, shape (FEATURES,)
            What `weights` gives: one call serves many nodes.
        unit_trust : float
            Splits on a unit after which half of that difference counts.
        """
        sums = self.splits[units]
        rest = sums[:, -1] - sums[:, :-1] @ weights
        return np.asarray(features @ weights + rest / (sums[:, CONSTANT] + unit_trust))
