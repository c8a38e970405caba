"""Measures of patterns' Jacobians that are bounded on cells of a piecewise-linear network.

They are operator norms, and for the ranges of all entries over a box the largest *excess*: by how
much an entry, or its negative, exceeds its largest value known to be attained, in units of the
entry's tolerance.  A box is closed once no entry's excess is above a share of one.  Values at
points that exceed it count as attained from then on, for the remaining boxes.  A bound of the
excess remains valid, since attained values only grow.  So all entries share ranges of
pre-activations, patterns and tests of emptiness.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, lengths
from lipyomo.base.numerics.rounding import EQUAL, gamma
from lipyomo.problems.norms import L1Output
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets, targets_of
from lipyomo.relaxations.linear.derivative import gradient_sizes
from lipyomo.relaxations.linear.gradient import gradient_entries, gradient_norms
from lipyomo.relaxations.linear.layers import PhaseBatch


class Measure(ABC):
    """The quantity of a pattern's Jacobian that is bounded: a norm or a similar function."""

    problem: LipschitzProblem

    @property
    @abstractmethod
    def targets(self) -> Targets:
        """Functionals and directions."""

    @abstractmethod
    def sizes(self, jacobians: FloatArray) -> FloatArray:
        """Compute the measure (n,) of Jacobians (n, k, d), up to rounding."""

    @abstractmethod
    def errors(self, sizes: FloatArray, terms: int) -> FloatArray:
        """Bound the errors (n,) of `sizes`, for entries that are sums of `terms` terms.

        The sizes (n, k, d) are the sums of these terms' absolute values.
        """

    @abstractmethod
    def weak(self, values: FloatArray, errors: FloatArray) -> BoolArray:
        """Return for which values (n,) errors (n,) of this size would matter."""

    @abstractmethod
    def relaxed(self, phases: PhaseBatch, terms: int) -> FloatArray:
        """Bound the measure (n,) over all patterns in `phases` (n, N); sums have `terms` terms."""


@dataclass(frozen=True, eq=False)
class PatternNorms(Measure):
    """Operator norms from the input norm to the output norm."""

    problem: LipschitzProblem

    @cached_property
    def targets(self) -> Targets:
        """Functionals and directions."""
        return targets_of(self.problem)

    def able(self, most: int) -> bool:
        """Return whether they can be computed: linf to l2, by all signs, up to `most` inputs."""
        hard = self.targets.whole_ball and self.targets.norm == "linf"
        return not hard or self.problem.tangent_network.input_dim <= most

    def sizes(self, jacobians: FloatArray) -> FloatArray:
        """See `Measure`."""
        targets = self.targets
        if not targets.whole_ball or targets.by_column:
            return np.asarray(targets.interval(np.abs(jacobians)).max(axis=1))
        if targets.norm == "l2":
            return np.asarray(np.linalg.norm(jacobians, 2, axis=(1, 2)))
        signs = L1Output().vertices(jacobians.shape[2])
        assert signs is not None  # they are few: the problem is `able`
        return np.asarray(lengths(jacobians @ signs.T, axis=1).max(axis=1))

    def errors(self, sizes: FloatArray, terms: int) -> FloatArray:
        """See `Measure`; includes the errors of singular values."""
        terms += 4 * sizes[0].size
        return np.asarray(gamma(terms) * self.targets.interval(sizes).max(axis=1))

    def weak(self, values: FloatArray, errors: FloatArray) -> BoolArray:
        """See `Measure`."""
        return np.asarray(values * EQUAL < errors)

    def relaxed(self, phases: PhaseBatch, terms: int) -> FloatArray:
        """See `Measure`."""
        if not self.targets.whole_ball:
            network, norm = self.problem.tangent_network, self.problem.norm
            rows = self.targets.functionals
            each = (gradient_norms(network, phases, row, norm) for row in rows)
            return np.asarray(np.maximum.reduce(list(each)))
        rows = np.asarray(self.targets.functionals @ self.problem.network.head.weight)
        room = gamma(terms) * (
            np.abs(self.targets.functionals) @ np.asarray(self.problem.network.head.sizes)
        )
        layers = self.problem.tangent_network.hidden
        sizes = gradient_sizes(layers, phases, rows - room, rows + room)
        return np.asarray(self.targets.interval(sizes).max(axis=1))


@dataclass(frozen=True, eq=False)
class Excess(Measure):
    """The excess of the entries of a Jacobian, ``rows . J T``, as a `Measure`.

    Attributes
    ----------
    problem : LipschitzProblem
    rows : ndarray, shape (p, m)
        Functionals.
    attained : ndarray, shape (2, p, k)
        Largest attained values of the negatives of the entries, and of the entries.
    tolerance : ndarray, shape (p, k)
    enough : float
        Excess that closes a box, in tolerances.
    """

    problem: LipschitzProblem
    rows: FloatArray
    attained: FloatArray
    tolerance: FloatArray
    enough: float

    @cached_property
    def targets(self) -> Targets:
        """One target for each functional and each direction."""
        _, *_, m = self.problem.network.sizes
        return Targets.of(self.rows, m, self.problem.tangent_network.input_dim, "l1")

    def sizes(self, jacobians: FloatArray) -> FloatArray:
        """See `Measure`."""
        return self._excess(jacobians, jacobians)

    def errors(self, sizes: FloatArray, terms: int) -> FloatArray:
        """See `Measure`."""
        lost = gamma(terms) * (sizes / self.tolerance).max(axis=(1, 2))
        return np.asarray(lost + self._room(sizes))

    def weak(self, values: FloatArray, errors: FloatArray) -> BoolArray:
        """See `Measure`."""
        return np.asarray(errors > 0.25 * self.enough)

    def relaxed(self, phases: PhaseBatch, terms: int) -> FloatArray:
        """See `Measure`."""
        network = self.problem.tangent_network
        ranges = [gradient_entries(network, phases, row) for row in self.rows]
        low, high = (np.stack(ends, axis=1) for ends in zip(*ranges, strict=True))
        return self._excess(low, high) + self._room(np.maximum(np.abs(low), np.abs(high)))

    def _excess(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the largest excess (n,) of entries with ranges (n, p, k), in tolerances."""
        over = np.maximum(high - self.attained[1], -low - self.attained[0]) / self.tolerance
        return np.asarray(over.max(axis=(1, 2)))

    def _room(self, sizes: FloatArray) -> FloatArray:
        """Bound the rounding error (n,) of `_excess`, for entries of sizes (n, p, k)."""
        terms = (sizes + np.abs(self.attained).max(axis=0)) / self.tolerance
        return np.asarray(gamma(4) * terms.max(axis=(1, 2)))
